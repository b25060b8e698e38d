"""Workers: the list fits, and tells why one gets no work and what it holds."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import Server, picture
from playwright.sync_api import expect
from test_pages import open_page


@pytest.fixture
def drained(tmp_path):
    server = Server(tmp_path)
    server.baton("submit", "--name", "before", "--wait", "--", "true")
    server.baton("submit", "--name", "endless", "--", "sleep", "600")
    server.until("/instances/i2", "state", "RUNNING")
    server.baton("drain", "local")
    yield server
    server.stop()


def test_a_worker_tells_why_it_gets_no_work_and_what_it_has_done(page, drained):
    open_page(page, drained, "/workers/")
    row = page.locator("#row-local")
    expect(row).to_contain_text("DRAINED")
    expect(row).to_contain_text("gets nothing new until the drain is ended")
    expect(row.get_by_role("link", name="i2")).to_be_visible()
    expect(row).to_contain_text("endless")
    fits = "it => it.scrollWidth <= it.clientWidth"
    assert page.get_by_role("group", name="Workers").evaluate(fits)
    assert Axe().run(page).violations_count == 0
    picture(page, "workers-drained")
    row.get_by_role("link", name="1 attempts of local").click()
    expect(page.locator("#list tbody tr")).to_have_count(1)
    open_page(page, drained, "/workers/local")
    expect(page.locator(".reason")).to_contain_text("gets nothing new")
    expect(page.get_by_role("group", name="Instances").locator("tbody tr")).to_contain_text("endless")
    expect(page.get_by_role("group", name="Ended here last").locator("tbody tr")).to_contain_text("before")
    assert Axe().run(page).violations_count == 0
    assert page.problems == []
