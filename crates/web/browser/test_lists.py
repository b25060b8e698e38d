"""Long lists: they follow what changes, and tell how far they have looked."""

import json
import re
import urllib.request

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import Server
from playwright.sync_api import expect

# More than a list changes in one frame.
COUNT = 45


@pytest.fixture
def lists(tmp_path):
    server = Server(tmp_path)
    yield server
    server.stop()


def request(server: Server, method: str, path: str, body: dict | None = None) -> None:
    data = json.dumps(body).encode() if body else None
    headers = {"content-type": "application/json"}
    urllib.request.urlopen(urllib.request.Request(server.url + path, data, headers, method=method)).close()


def submit(server: Server, count: int) -> None:
    file = {"task": "waits", "run": "true", "resources": {"cpu": 1000}}
    for _ in range(count):
        request(server, "POST", "/instances/", {"file": file})


def is_shown(page, server: Server, path: str) -> None:
    """The rows of the page become those of the API, each once and in order."""
    ids = [it["id"] for it in server.get(path)["items"]]
    shown = "ids => [...document.querySelectorAll('#list tbody tr')].map((row) => row.id.slice(4)).join() === ids.join()"
    page.wait_for_function(shown, arg=ids)


def test_a_long_list_follows_what_is_added_and_what_is_gone(page, lists):
    submit(lists, COUNT)
    page.goto(lists.url + "/bullpen/")
    is_shown(page, lists, "/bullpen")
    page.evaluate("globalThis.kept = document.getElementById('row-i40')")
    submit(lists, COUNT)
    is_shown(page, lists, "/bullpen")
    for gone in (1, 2, 30, 60, 90):
        request(lists, "DELETE", f"/instances/i{gone}")
    is_shown(page, lists, "/bullpen")
    assert page.evaluate("kept === document.getElementById('row-i40')")
    page.goto(lists.url + "/history/?limit=30")
    is_shown(page, lists, "/history?limit=30")
    for gone in range(3, 30):
        request(lists, "DELETE", f"/instances/i{gone}")
    is_shown(page, lists, "/history?limit=30")
    assert page.problems == []


def test_a_selection_holds_a_list_back_until_it_is_gone(page, lists):
    submit(lists, 3)
    page.goto(lists.url + "/bullpen/")
    page.get_by_text("live", exact=True).wait_for()
    first = page.locator("#list input[name=id]").first
    first.check()
    submit(lists, 1)
    page.get_by_text("paused", exact=True).wait_for()
    assert page.locator("#list tbody tr").count() == 3
    first.uncheck()
    is_shown(page, lists, "/bullpen")


def test_a_list_that_matches_few_looks_further_by_itself(page, lists):
    """The server looks at thousands of rows for a page; here its answers are shortened."""
    submit(lists, 4)
    steps = []

    def shorten(route):
        text = route.fetch().text()
        if "cursor=" in route.request.url:
            steps.append(route.request.url)
        if len(steps) < 2:
            # As if the rows had not matched.
            begin, rest = text.split("<tbody>", 1)
            text = begin + "<tbody></tbody>" + rest.split("</tbody>", 1)[1]
            place = '<span id="none">No match so far.</span> <span class="faint">Looked up to then.</span> <a id="more" '
            text = text.replace('<a id="more" ', place)
        route.fulfill(body=text, content_type="text/html; charset=utf-8")

    page.route("**/bullpen/?limit=1*", shorten)
    page.goto(lists.url + "/bullpen/?limit=1")
    page.wait_for_function("document.querySelectorAll('#list tbody tr').length === 2")
    # The end was reached: nothing is left to look for.
    page.wait_for_function("document.getElementById('more') === null && document.getElementById('none') === null")
    assert len(steps) >= 2
    assert page.problems == []


def test_columns_are_hidden_by_the_address(page, lists):
    submit(lists, 3)
    page.goto(lists.url + "/bullpen/?sort=-submitted")
    visible = page.locator("#list th:visible")
    expect(visible).to_have_count(10)
    page.locator("summary", has_text="Columns").click()
    page.get_by_role("checkbox", name="Hide Owner").check()
    page.get_by_role("checkbox", name="Hide Worker").check()
    page.get_by_role("button", name="Filter").click()
    expect(page).to_have_url(re.compile("hide=Owner&hide=Worker"))
    expect(visible).to_have_count(8)
    expect(page.get_by_role("columnheader", name="Owner")).to_be_hidden()
    expect(page.locator("#list tbody tr").first.locator("td:visible")).to_have_count(8)
    # The other order and the next page have the same columns.
    assert "hide=Owner" in page.get_by_role("link", name="Submitted").get_attribute("href")
    page.goto(lists.url + "/bullpen/?limit=2&hide=Owner")
    # As it was sent: a script follows the link at once.
    sent = page.request.get(page.url, headers={"accept": "text/html"}).text()
    assert "hide=Owner" in re.search(r'<a [^>]*id="more"[^>]*>', sent)[0]
    is_shown(page, lists, "/bullpen")
    # An update keeps them hidden.
    submit(lists, 1)
    page.goto(lists.url + "/bullpen/?hide=Owner")
    submit(lists, 1)
    is_shown(page, lists, "/bullpen")
    expect(page.get_by_role("columnheader", name="Owner")).to_be_hidden()
    assert page.problems == []


def test_filters_are_saved_in_the_browser(page, lists):
    submit(lists, 1)
    page.goto(lists.url + "/bullpen/")
    expect(page.locator("#saved")).to_be_hidden()
    page.keyboard.press("f")
    expect(page.locator("select[name=state]")).to_be_focused()
    page.get_by_label("Name", exact=True).fill("wai*")
    page.get_by_role("button", name="Filter").click()
    page.locator("#saved summary").click()
    page.get_by_label("Save this filter as").fill("mine")
    page.get_by_role("button", name="Save", exact=True).click()
    link = page.locator("#saved").get_by_role("link", name="mine")
    expect(link).to_have_attribute("aria-current", "true")
    assert Axe().run(page).violations_count == 0
    # An update of the page leaves them.
    submit(lists, 1)
    is_shown(page, lists, "/bullpen?name=wai*")
    expect(link).to_be_visible()
    page.goto(lists.url + "/history/")
    expect(page.locator("#saved")).to_be_hidden()
    page.goto(lists.url + "/bullpen/")
    link.click()
    expect(page.get_by_label("Name", exact=True)).to_have_value("wai*")
    page.locator("body").press("s")
    page.get_by_role("button", name="Remove the filter mine").click()
    expect(link).to_have_count(0)
    page.reload()
    expect(link).to_have_count(0)
    assert page.problems == []
