"""The page of one instance: its attempts over time, and its output."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from test_pages import open_page, picture

FLAKY = """
task: flaky
owner: ann
run: 'echo "output of attempt $BATON_ATTEMPT"; exit 3'
retry: {{ attempts: {attempts}, backoff: 10ms }}
"""


@pytest.fixture(scope="module")
def flaky(server):
    """Instances that have failed, by their number of attempts."""
    ids = {}
    for attempts in (1, 3, 50):
        file = server.directory / f"flaky{attempts}.yaml"
        file.write_text(FLAKY.format(attempts=attempts))
        ids[attempts] = server.baton("submit", file.name)
    for id in ids.values():
        server.until(f"/instances/{id}", "state", "FAILED")
    return ids


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
@pytest.mark.parametrize("attempts", [1, 3, 50])
def test_attempts_are_bars_with_their_times_and_ends(page, server, flaky, attempts):
    open_page(page, server, f"/instances/{flaky[attempts]}")
    rows = page.locator(".attempts li")
    expect(rows).to_have_count(attempts)
    first = rows.first
    expect(first).to_contain_text(f"Attempt {attempts}")
    expect(first).to_contain_text("FAILED")
    expect(first).to_contain_text("local")
    expect(first).to_contain_text(": exit 3")
    starts = [row.locator("rect.s-FAILED").get_attribute("x") for row in rows.all()]
    assert [float(x) for x in starts] == sorted((float(x) for x in starts), reverse=True)
    assert Axe().run(page).violations_count == 0
    picture(page, f"attempts-{attempts}")
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    bar = first.locator("svg").bounding_box()
    assert bar["width"] > 250, bar
    picture(page, f"attempts-{attempts}-small")
    page.emulate_media(media="print")
    assert page.evaluate("document.querySelector('.many').clientHeight >= document.querySelector('.attempts').clientHeight")
    assert page.problems == []


def test_an_attempt_leads_to_its_output(page, server, flaky):
    open_page(page, server, f"/instances/{flaky[3]}")
    expect(page.locator("#log-stdout")).to_contain_text("output of attempt 3")
    page.get_by_role("link", name="Attempt 2").click()
    expect(page.locator("#h-output")).to_have_text("Output of attempt 2")
    expect(page.locator("#log-stdout")).to_have_text("output of attempt 2\n")
    expect(page.locator(".attempts [aria-current]")).to_have_text("Attempt 2")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").first.click()
    assert download.value.path().read_text() == "output of attempt 2\n"
    assert page.problems == []


def test_an_attempt_that_waits_is_a_row(page, server):
    open_page(page, server, f"/instances/{server.waiting}")
    row = page.locator(".attempts li")
    expect(row).to_contain_text("Attempt 1 QUEUED")
    expect(row).to_contain_text("has waited")
    expect(row.get_by_role("link")).to_have_count(0)
    assert page.problems == []
