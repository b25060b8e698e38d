"""The page of a range of instances: its map, its failures, and what is done with a part of it."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import picture
from playwright.sync_api import expect

SOME_FAIL = """
[ $((BATON_ARRAY_INDEX % 3)) != 0 ] || [ -e {fixed} ] || {{ echo "no rates for $BATON_ARRAY_INDEX" >&2; exit 4; }}
"""


@pytest.fixture(scope="module")
def array(server, tmp_path_factory):
    """An array of 12 elements of which every third has failed; and the file that mends them."""
    fixed = tmp_path_factory.mktemp("array") / "fixed"
    command = SOME_FAIL.format(fixed=fixed).strip()
    submit = ["submit", "--name", "thirds", "--array", "1-12", "--wait", "--", "sh", "-c", command]
    server.baton(*submit, check=False)
    (row,) = [it for it in server.get("/history/?name=thirds&state=FAILED&limit=1")["items"]]
    last = int(row["id"].removeprefix("i"))
    return last - 11, last, fixed


def open_range(page, server, first, last):
    page.goto(f"{server.url}/instances/i{first}..i{last}")


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_a_range_shows_a_map_and_its_failures(page, server, array):
    first, last, _ = array
    open_range(page, server, first, last)
    cells = page.locator(".cells a")
    expect(cells).to_have_count(12)
    expect(page.locator(".cells .s-FAILED")).to_have_count(4)
    assert cells.nth(2).get_attribute("aria-label") == f"i{first + 2}: FAILED"
    failures = page.locator(".failures")
    expect(failures).to_contain_text("4× thirds: exit 4")
    expect(failures).to_contain_text("no rates for 3")
    expect(page.locator("main")).to_contain_text("12 of 12 have ended")
    assert Axe().run(page).violations_count == 0
    picture(page, "range")
    cells.nth(2).click()
    expect(page.locator("h1")).to_contain_text(f"i{first + 2}")
    assert page.problems == []


def test_a_part_of_a_range_is_retried(page, server, array):
    first, _, fixed = array
    fixed.touch()
    open_range(page, server, first, first + 5)
    page.locator("summary", has_text="Retry what has failed").click()
    page.get_by_role("button", name="Retry what has failed").click()
    expect(page.locator(".cells .s-DONE")).to_have_count(6, timeout=30_000)
    expect(page.locator("#h-failures")).to_have_count(0)
    # The others are as they were.
    open_range(page, server, first + 6, first + 11)
    expect(page.locator(".cells .s-FAILED")).to_have_count(2)
    assert page.problems == []
