"""Usage by owner over time."""

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from test_pages import open_page, picture


def test_usage_is_drawn_by_owner_and_period(page, server):
    burn = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"
    for owner in ("bea", "<i>cy"):
        server.baton("submit", "--wait", "--owner", owner, "--cpu", "0.01", "--", "sh", "-c", burn)
    open_page(page, server, "/usage/")
    chart = page.get_by_role("img", name=re.compile("^CPU time by owner, highest "))
    expect(chart.locator("g", has_text=re.compile(r":00:00Z.* bea \d"))).to_have_count(1)
    bars = chart.locator("g").count()
    assert bars == 25, "a bar for each hour of a day, and for the current one"
    legend = page.locator(".legend li")
    expect(legend.filter(has_text="<i>cy")).to_have_count(1)
    page.get_by_role("link", name="Week").click()
    expect(page.locator("#h-chart")).to_have_text("CPU time by day (UTC)")
    expect(page.get_by_role("navigation", name="Period").locator("[aria-current]")).to_have_text("Week")
    expect(chart.locator("g")).to_have_count(8)
    page.get_by_role("textbox", name="Owner").fill("bea")
    page.get_by_role("button", name="Filter").click()
    expect(legend).to_have_count(1)
    expect(legend).to_contain_text("bea")
    expect(page.locator("#list tbody tr")).to_have_count(1)
    assert "from=" in page.url, "the period stays"
    assert Axe().run(page).violations_count == 0
    picture(page, "usage-owner")
    assert page.problems == []
