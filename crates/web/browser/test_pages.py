"""Every page, its actions and its live updates in a real browser."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import Server, picture
from playwright.sync_api import expect

PAGES = {
    "overview": "/",
    "running": "/arena/",
    "waiting": "/bullpen/",
    "history": "/history/",
    "filtered": "/history/?state=FAILED&name=nothing",
    "runs": "/runs/",
    "run": "/runs/r1",
    "items": "/runs/r1/items/",
    "alarms": "/alarms/",
    "limits": "/limits/",
    "secrets": "/secrets/",
    "notifications": "/notifications/",
    "library": "/library/",
    "entry": "/ann/tasks/nightly",
    "backfills": "/backfills/",
    "workers": "/workers/",
    "worker": "/workers/local",
    "fleets": "/fleets/",
    "schedulers": "/schedulers/",
    "usage": "/usage/",
    "events": "/events",
    "edit": "/-/edit?entry=ann/nightly",
    "add": "/-/edit",
    "keys": "/-/keys",
    "components": "/-/components",
    "instance": "/instances/i1",
    "hostile": "/instances/i2",
    "ticks": "/history/ticks/",
}


def open_page(page, server, path):
    page.goto(server.url + path, wait_until="load")
    # Its times are shown in the zone of the viewer: the script has run.
    page.wait_for_function("!document.querySelector('time[data-at]:not([title])')")


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_every_page_is_accessible_fits_and_reports_no_error(page, server):
    found = {}
    for name, path in {**PAGES, "live": f"/instances/{server.running}"}.items():
        open_page(page, server, path)
        result = Axe().run(page)
        if result.violations_count:
            found[name] = result.generate_report()
        assert page.title().endswith("· Baton"), name
        picture(page, name)
    assert not found, "\n".join(f"{name}: {report}" for name, report in found.items())
    assert page.problems == []


def test_every_page_can_be_read_on_a_telephone(browser, server):
    context = browser.new_context(viewport={"width": 360, "height": 740})
    page = context.new_page()
    for name, path in PAGES.items():
        open_page(page, server, path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
        picture(page, f"{name}-small")
    context.close()


def test_pages_can_be_read_without_scripts(browser, server):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(server.url + "/instances/i1")
    expect(page.locator("pre.output").first).to_have_text("hello\n")
    page.goto(server.url + "/runs/r1")
    expect(page.locator("svg.graph a")).to_have_count(3)
    context.close()


def test_hostile_names_and_output_stay_text(page, server):
    open_page(page, server, "/instances/i2")
    expect(page).to_have_title("i2 <b>hostile&\"' FAILED · Baton")
    output = page.locator("#log-stdout")
    expect(output).to_contain_text('<script>document.title="taken"</script>')
    expect(output).to_contain_text("end")
    expect(page.locator("#log-stderr")).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator("main img, main script").count() == 0
    open_page(page, server, "/history/")
    expect(page.locator("table")).to_contain_text("<b>hostile&\"'")
    assert page.problems == []


def test_a_run_shows_its_graph_its_failures_and_what_a_retry_would_run(page, server):
    open_page(page, server, "/runs/r1")
    expect(page.locator("svg.graph .s-FAILED")).to_have_count(1)
    expect(page.locator(".failures")).to_contain_text("check: exit 4")
    expect(page.locator("svg.gantt a")).to_have_count(4)
    page.get_by_role("button", name="Zoom in").click()
    row = page.locator("tr", has_text="check").first
    row.get_by_role("link", name="from here").click()
    expect(page.locator("h1")).to_contain_text("Run check of r1 again")
    expect(page.locator("tr", has_text="check")).to_contain_text("asked for")
    assert page.problems == []


def test_every_item_of_a_run_is_a_link(page, server):
    open_page(page, server, "/runs/r1")
    cells = page.locator(".cells a")
    expect(cells).to_have_count(4)
    cells.first.focus()
    page.keyboard.press("ArrowRight")
    expect(cells.nth(1)).to_be_focused()
    name = cells.nth(1).get_attribute("aria-label")
    assert name == "fetch[1] DONE"
    href = cells.nth(1).get_attribute("href")
    page.keyboard.press("Enter")
    expect(page).to_have_url(server.url + href)
    open_page(page, server, "/runs/r1/items/?limit=2&task=fetch")
    expect(cells).to_have_count(2)
    page.get_by_role("link", name="Next items").click()
    expect(page.get_by_role("group", name="Items").locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("link", name="Next items")).to_have_count(0)
    page.get_by_label("Item", exact=True).fill("1")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("group", name="Items").locator(f"a[href='{href}']")).to_be_visible()
    assert page.problems == []


def test_live_updates_survive_a_restart_and_actions_work(page, tmp_path):
    server = Server(tmp_path)
    try:
        open_page(page, server, "/bullpen/")
        expect(page.locator("#live")).to_have_text("live")
        waiting = server.baton("submit", "--name", "later", "--cpu", "1000", "--", "true")
        row = page.locator("tr", has_text="later")
        expect(row).to_be_visible(timeout=30_000)
        server.restart()
        second = server.baton("submit", "--name", "after-restart", "--cpu", "1000", "--", "true")
        expect(page.locator("tr", has_text="after-restart")).to_be_visible(timeout=60_000)
        open_page(page, server, f"/instances/{waiting}")
        expect(page.locator(".reason")).to_contain_text("1000 cores", timeout=60_000)
        page.locator("summary", has_text="Cancel").click()
        page.get_by_role("button", name="Cancel", exact=True).click()
        expect(page.locator("h1")).to_contain_text("HALTED", timeout=30_000)
        open_page(page, server, "/bullpen/")
        page.get_by_label(f"Select {second}").check()
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator("main")).to_contain_text("Nothing waits.", timeout=30_000)
    finally:
        server.stop()


def test_output_grows_while_it_is_looked_at(page, server):
    open_page(page, server, f"/instances/{server.running}")
    log = page.locator("#log-stdout")
    lines = len(log.inner_text().splitlines())
    page.wait_for_function(
        "lines => document.getElementById('log-stdout').innerText.split('\\n').length > lines + 3",
        arg=lines,
        timeout=60_000,
    )
    page.locator("[data-find=log-stdout]").fill("line 1")
    expect(log).not_to_contain_text("line 2\n")
    assert page.problems == []


def test_an_event_leads_to_its_instance(page, server):
    page.goto(server.url + "/events")
    href = page.locator("#events li a[href^='/instances/i']").first.get_attribute("href")
    # Others may have come before it meanwhile.
    page.locator(f"#events li a[href='{href}']").first.click()
    expect(page.locator("h1")).to_contain_text(href.removeprefix("/instances/"))
    assert page.problems == []


def test_an_entry_is_launched_by_its_form(page, server):
    open_page(page, server, "/ann/tasks/nightly")
    page.locator("summary", has_text="Launch").click()
    page.get_by_label("day").fill("2026-11-16")
    page.get_by_role("button", name="Launch").click()
    expect(page.locator("h1")).to_contain_text("nightly")
    expect(page.locator("#log-stdout")).to_contain_text("2026-11-16", timeout=60_000)
    assert page.problems == []


def test_an_entry_shows_changes_a_grid_and_begins_a_backfill(page, server):
    workflow = "workflow: nights\nowner: ann\ntasks: { a: { run: 'true' }, b: { run: 'true', after: [a] } }\n"
    trigger = "trigger: { schedule: 'every day at 9:00' }\n"
    (server.directory / "nights.yaml").write_text(workflow + trigger)
    server.baton("library", "put", "nights.yaml")
    (server.directory / "nights.yaml").write_text(workflow.replace("a: { run: 'true' }", "a: { run: 'exit 0' }") + trigger)
    server.baton("library", "put", "nights.yaml")
    run = server.baton("trigger", "ann/nights")
    server.until(f"/runs/{run}", "state", "DONE")
    open_page(page, server, "/ann/tasks/nights")
    expect(page.locator(".diff .ins")).to_contain_text("exit 0")
    expect(page.locator(".grid .cell.s-DONE")).to_have_count(2)
    assert Axe().run(page).violations_count == 0
    page.locator("summary", has_text="Backfill").click()
    page.get_by_label("From (UTC)").fill("2026-01-01")
    page.get_by_label("To, not included").fill("2026-01-03")
    page.get_by_role("button", name="Launch what is missing").click()
    expect(page.locator("h1")).to_contain_text("ann/nights")
    expect(page.locator("dl")).to_contain_text("2, ")
    again = server.baton("trigger", "ann/nights")
    server.until(f"/runs/{again}", "state", "DONE")
    open_page(page, server, f"/runs/{again}")
    expect(page.locator("#h-compare")).to_contain_text("Compared with r")
    expect(page.get_by_role("group", name="Comparison").locator("tbody tr")).to_have_count(2)
    expect(page.get_by_role("group", name="Comparison")).to_contain_text(" %)")
    assert Axe().run(page).violations_count == 0
    picture(page, "compared")
    assert page.problems == []


def test_orders_and_filters_are_in_the_address(page, server):
    server.baton("submit", "--name", "order", "--array", "1-3", "--wait", "--", "true")
    open_page(page, server, "/history/?name=order")
    ids = page.locator("#list tbody tr td:nth-child(2) a")
    newest = ids.all_inner_texts()
    assert len(newest) == 3
    heading = page.locator("th[aria-sort]")
    expect(heading).to_have_attribute("aria-sort", "descending")
    heading.get_by_role("link", name="End").click()
    expect(page).to_have_url(server.url + "/history/?name=order&sort=ended")
    expect(heading).to_have_attribute("aria-sort", "ascending")
    expect(ids).to_have_text(newest[::-1])
    page.get_by_label("Worker", exact=True).fill("local")
    page.get_by_label("Since", exact=True).fill("1h")
    page.get_by_role("button", name="Filter").click()
    page.wait_for_url("**/history/?*worker=local&since=1h*sort=ended")
    page.reload()
    expect(page.get_by_label("Since", exact=True)).to_have_value("1h")
    expect(heading).to_have_attribute("aria-sort", "ascending")
    expect(ids).to_have_text(newest[::-1])
    page.get_by_label("Worker", exact=True).fill("elsewhere")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator(".empty")).to_have_text("No instance matches the filters.")
    assert page.problems == []


def test_keys_lead_through_a_list(page, server):
    # Rows that no other test changes meanwhile.
    server.baton("submit", "--name", "keys", "--array", "1-3", "--wait", "--", "true")
    open_page(page, server, "/history/?name=keys")
    page.evaluate("document.querySelector('#list').kept = true")
    page.keyboard.press("j")
    expect(page.locator("#list tbody tr").nth(0)).to_have_class("at")
    page.keyboard.press("j")
    expect(page.locator("#list tbody tr").nth(1)).to_have_class("at")
    # An update of the page changes the list in place.
    server.baton("submit", "--name", "keys", "--wait", "--", "true")
    expect(page.locator("#list tbody tr")).to_have_count(4, timeout=30_000)
    expect(page.locator("#list tbody tr").nth(2)).to_have_class("at")
    assert page.evaluate("document.querySelector('#list').kept"), "the list was replaced"
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text("i")
    page.keyboard.press("/")
    page.keyboard.type("r1")
    page.keyboard.press("Enter")
    expect(page).to_have_url(server.url + "/runs/r1")
    page.keyboard.press("?")
    expect(page).to_have_url(server.url + "/-/keys")
    assert page.problems == []


def test_a_token_opens_the_pages_and_its_role_decides_what_they_offer(page, tmp_path):
    server = Server(tmp_path)
    viewer = server.baton("token", "create", "--role", "viewer", "--data", str(tmp_path / "data"))
    server.stop()
    server = Server(tmp_path, "--require-tokens")
    try:
        page.goto(server.url + "/workers/local")
        page.get_by_label("Token").fill("baton_wrong")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("that is no token")
        page.get_by_label("Token").fill(viewer)
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("h1")).to_contain_text("local")
        assert page.get_by_text("Drain…").count() == 0
        cookies = page.context.cookies()
        assert [(it["httpOnly"], it["sameSite"]) for it in cookies] == [(True, "Strict")]
        page.get_by_role("button", name="Sign out").click()
        expect(page.locator("h1")).to_have_text("Sign in")
    finally:
        server.stop()
