"""Long lists: they follow what changes, and tell how far they have looked."""

import json
import urllib.request

import pytest
from conftest import Server

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
