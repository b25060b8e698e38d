"""The page of a run: failures first, the critical path, and columns that say something."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import picture
from playwright.sync_api import expect
from test_pages import open_page


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_failures_come_first_with_their_output(page, server):
    open_page(page, server, "/runs/r1")
    expect(page.locator("section").first).to_have_attribute("aria-labelledby", "h-failures")
    expect(page.locator(".failures li")).to_have_count(1)
    expect(page.locator(".failures")).to_contain_text("1× check: exit 4")
    expect(page.locator(".failures pre")).to_have_text("broken")
    counts = page.get_by_role("link", name="1 FAILED", exact=True)
    counts.click()
    expect(page).to_have_url(server.url + "/runs/r1/items/?state=FAILED")
    expect(page.get_by_role("group", name="Items").locator("tbody tr")).to_have_count(1)
    assert Axe().run(page).violations_count == 0
    assert page.problems == []


def test_an_ended_run_has_no_empty_columns(page, server):
    open_page(page, server, "/runs/r1")
    headings = page.get_by_role("group", name="Tasks").locator("th")
    assert headings.all_inner_texts() == ["Task", "State", "Done", "Failed", "Mean", "After", "Again"]
    assert page.locator("main progress").count() == 0
    # The outputs of fetch are shown, and no item has gone without a value of its own.
    items = page.get_by_role("group", name="Items", exact=True).locator("th:visible")
    assert items.all_inner_texts() == ["Item", "Instance", "Value", "State", "Worker", "End", "Outputs"]
    assert page.problems == []


def test_the_critical_path_is_outlined_and_leads_to_its_items(page, server):
    open_page(page, server, "/runs/r1")
    critical = page.locator("svg.gantt a.critical")
    expect(critical).to_have_count(2)
    expect(page.locator("section", has=page.locator("#h-gantt"))).to_contain_text("The critical path is outlined: fetch[")
    expect(page.locator("section", has=page.locator("#h-gantt"))).to_contain_text("→ check")
    # The longest bar and its duration lie within the picture.
    inside = """all => all.every((it) => {
      const box = it.getBoundingClientRect(), whole = it.ownerSVGElement.getBoundingClientRect();
      return box.right <= whole.right - 10;
    })"""
    assert page.locator("svg.gantt .span-bar, svg.gantt text").evaluate_all(inside)
    picture(page, "run-failed")
    critical.last.click()
    expect(page.locator("h1")).to_contain_text("check")
    assert page.problems == []
