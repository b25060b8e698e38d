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
    for attempts in (1, 3, 50, 120):
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
    # The latest one is the page itself, so that it goes on with the next.
    page.get_by_role("link", name="Attempt 3").click()
    expect(page.locator("#h-output")).to_have_text("Output of attempt 3")
    assert "attempt=" not in page.url
    assert page.problems == []


def test_many_attempts_keep_the_page_small(page, server, flaky):
    open_page(page, server, f"/instances/{flaky[120]}")
    expect(page.locator(".attempts li")).to_have_count(50)
    expect(page.locator(".attempts li").first).to_contain_text("Attempt 120")
    expect(page.locator("main")).to_contain_text("70 earlier attempts are in the timeline.")
    expect(page.locator(".timeline li")).to_have_count(200)
    expect(page.locator(".timeline li").last).to_contain_text("attempt 120 ended: exit 3; failed for good")
    page.locator("summary", has_text="Definition").click()
    expect(page.locator("details pre")).to_contain_text("flaky")
    page.get_by_role("link", name="earlier events").click()
    expect(page.locator("pre.json")).to_contain_text("attempt 1 was started")
    assert page.problems == []


def test_an_attempt_that_waits_is_a_row(page, server):
    open_page(page, server, f"/instances/{server.waiting}")
    row = page.locator(".attempts li")
    expect(row).to_contain_text("Attempt 1 QUEUED")
    expect(row).to_contain_text("has waited")
    expect(row.get_by_role("link")).to_have_count(0)
    assert page.problems == []


CHATTER = """
head -c 100000 /dev/zero | tr '\\0' x | fold -w 80
seq 1 200 >&2
until [ -e {release} ]; do printf '%02000d\\n' 7; echo more >&2; sleep 0.2; done
"""

AT_END = """id => {
  const log = document.getElementById(id);
  return log.scrollHeight > log.clientHeight && log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
}"""


def test_a_switch_follows_the_end_of_each_output(page, server):
    release = server.directory / "release-chatter"
    id = server.baton("submit", "--name", "chatter", "--", "sh", "-c", CHATTER.format(release=release))
    server.until(f"/instances/{id}", "state", "RUNNING")
    try:
        open_page(page, server, f"/instances/{id}")
        out, err = page.locator("#log-stdout"), page.locator("#log-stderr")
        follow_out = page.get_by_role("button", name="Follow stdout")
        follow_err = page.get_by_role("button", name="Follow stderr")
        expect(follow_out).to_have_attribute("aria-pressed", "true")
        grows(page, "log-stderr")
        page.wait_for_function(AT_END, arg="log-stdout")
        page.wait_for_function(AT_END, arg="log-stderr")
        assert Axe().run(page).violations_count == 0
        picture(page, "follow")
        # Scrolling up ends it, and what is read stays, although the page has only the end of a long output.
        out.hover()
        page.mouse.wheel(0, -300)
        expect(follow_out).to_have_attribute("aria-pressed", "false")
        expect(follow_err).to_have_attribute("aria-pressed", "true")
        text, top = out.inner_text(), out.evaluate("log => log.scrollTop")
        grows(page, "log-stderr")
        page.wait_for_function(AT_END, arg="log-stderr")
        assert (out.inner_text(), out.evaluate("log => log.scrollTop")) == (text, top)
        # Of the short output, what is new is below.
        err.press("Home")
        expect(follow_err).to_have_attribute("aria-pressed", "false")
        grows(page, "log-stderr")
        assert err.evaluate("log => log.scrollTop") == 0
        # The end switches it on, and so does the switch.
        err.press("End")
        expect(follow_err).to_have_attribute("aria-pressed", "true")
        follow_out.click()
        expect(follow_out).to_have_attribute("aria-pressed", "true")
        page.wait_for_function("text => document.getElementById('log-stdout').innerText !== text", arg=text)
        page.wait_for_function(AT_END, arg="log-stdout")
        follow_err.click()
        expect(follow_err).to_have_attribute("aria-pressed", "false")
        # A search stays while the output grows.
        page.locator("[data-find=log-stderr]").fill("more")
        expect(err).not_to_contain_text("200")
        grows(page, "log-stderr")
        expect(err).not_to_contain_text("200")
        page.locator("[data-find=log-stderr]").fill("")
        expect(err).to_contain_text("200")
        assert page.problems == []
    finally:
        release.touch()


def grows(page, id):
    """Waits until an output has grown."""
    length = page.locator(f"#{id}").evaluate("log => log.textContent.length")
    page.wait_for_function(
        "([id, length]) => document.getElementById(id).textContent.length > length", arg=[id, length], timeout=60_000
    )
