"""Every form that changes something: it is clicked, and its effect is on the page and in the API.

Launching an entry is tested in `test_entry.py`, beginning a backfill and signing in and out in `test_pages.py`.
"""

import json
import re
import subprocess
import urllib.request
from pathlib import Path

import pytest
from conftest import BATON, Server
from playwright.sync_api import expect
from test_pages import open_page

SLEEPER = """
task: {name}
owner: ann
run: sleep 1000
resources: {{ cpu: 0.01 }}
retry: {{ attempts: {attempts}, backoff: 10ms }}
"""


def test_no_action_is_without_a_test():
    crates = Path(__file__).parents[2]
    pages = [it for it in crates.glob("web/src/pages/*.rs") if it.name != "components.rs"]
    pages += crates.glob("server/src/http/pages/*.rs")
    labels = {label for it in pages for label in re.findall(r'Action::new\("(.+?)"', it.read_text())}
    labels |= {label for it in pages for label in re.findall(r'\("(?:cancel|kill|retry)", "(.+?)"\)', it.read_text())}
    for template in crates.glob("web/templates/*.html"):
        labels |= set(re.findall(r'<button type="submit"[^>]*>([^<{]+)</button>', template.read_text()))
    assert {"Cancel", "Kill the attempt", "Launch", "Sign in"} <= labels
    tests = "".join(it.read_text() for it in Path(__file__).parent.glob("test_*.py"))
    clicked = set(re.findall(r'(?:answer\(page, |"button", name=)"(.+?)"', tests))
    assert labels <= clicked, f"without a test: {sorted(labels - clicked)}"


def submit(server: Server, name: str, attempts: int = 1) -> str:
    """Submits a task that runs until it is killed; returns its id when it runs."""
    file = server.directory / f"{name}.yaml"
    file.write_text(SLEEPER.format(name=name, attempts=attempts))
    id = server.baton("submit", file.name)
    server.until(f"/instances/{id}", "state", "RUNNING")
    return id


def answer(page, label):
    """Opens the question of an action, and confirms it."""
    page.locator("summary", has_text=f"{label}…").click()
    page.locator("details[open]").get_by_role("button", name=label, exact=True).click()


def state(page):
    return page.locator("h1 .state").first


@pytest.fixture
def quiet(page):
    """A page that reports no error in the whole test."""
    yield page
    assert page.problems == []


def test_an_instance_is_killed_cancelled_and_retried(quiet, server):
    page, id = quiet, submit(server, "one", attempts=2)
    open_page(page, server, f"/instances/{id}")
    answer(page, "Kill the attempt")
    expect(page.locator(".attempts li").last).to_contain_text("killed by an operator", timeout=20_000)
    expect(page.locator("#attempt-2")).to_contain_text("RUNNING", timeout=20_000)
    answer(page, "Cancel")
    expect(state(page)).to_have_text("HALTED", timeout=20_000)
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("#attempt-3")).to_contain_text("RUNNING", timeout=20_000)
    server.baton("cancel", id)


def test_selected_rows_are_cancelled_killed_and_retried(quiet, server):
    page, ids = quiet, [submit(server, "rows") for _ in range(3)]
    rows = page.locator("#list tbody tr")
    open_page(page, server, "/arena/?name=rows")
    expect(rows).to_have_count(3)
    for id in ids[:2]:
        page.get_by_label(f"Select {id}").check()
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(rows).to_have_count(1, timeout=20_000)
    page.get_by_label(f"Select {ids[2]}").check()
    page.get_by_role("button", name="Kill the attempt").click()
    expect(page.locator("main")).to_contain_text("No instance matches the filters.", timeout=20_000)
    open_page(page, server, "/history/?name=rows")
    expect(page.locator(f"#row-{ids[0]} .state")).to_have_text("HALTED")
    expect(page.locator(f"#row-{ids[2]} .state")).to_have_text("FAILED")
    for id in (ids[0], ids[2]):
        page.get_by_label(f"Select {id}").check()
    page.get_by_role("button", name="Retry").click()
    expect(rows).to_have_count(1, timeout=20_000)
    for id in (ids[0], ids[2]):
        server.until(f"/instances/{id}", "state", "RUNNING")
        server.baton("cancel", id)


def test_rows_that_cannot_be_changed_are_told(page, server):
    id = submit(server, "brief")
    open_page(page, server, "/arena/?name=brief")
    page.get_by_label(f"Select {id}").check()
    server.baton("cancel", id)
    server.until(f"/instances/{id}", "state", "HALTED")
    page.get_by_role("button", name="Kill the attempt").click()
    expect(page.locator(".reason")).to_contain_text("kill failed for 1 of 1 rows")
    expect(page.locator("main li")).to_contain_text(id)
    page.get_by_role("link", name="Back", exact=True).click()
    expect(page).to_have_url(re.compile(r"/arena/?\?name=brief$"))


def test_a_range_is_cancelled(quiet, server):
    page = quiet
    submitted = server.baton("submit", "--name", "range", "--cpu", "1000", "--array", "1-3", "--", "true")
    open_page(page, server, f"/instances/{submitted.split()[0]}")
    answer(page, "Cancel")
    expect(page.locator(".cells .s-HALTED")).to_have_count(3, timeout=20_000)
    expect(page.locator("main")).to_contain_text("3 of 3 have ended")


WORKFLOW = """
workflow: {name}
owner: ann
tasks:
  first: {{ run: 'until [ -e {release} ]; do sleep 0.05; done', resources: {{ cpu: 0.01 }} }}
  second: {{ run: '[ -e {fixed} ]', after: [first], resources: {{ cpu: 0.01 }} }}
  third: {{ run: 'true', after: [second], resources: {{ cpu: 0.01 }} }}
"""


def test_a_run_is_halted_resumed_and_run_again_from_a_task(quiet, server):
    page = quiet
    release, fixed = server.directory / "release-run", server.directory / "fixed-run"
    file = server.directory / "acts.yaml"
    file.write_text(WORKFLOW.format(name="acts", release=release, fixed=fixed))
    run = server.baton("submit", file.name)
    open_page(page, server, f"/runs/{run}")
    answer(page, "Halt")
    expect(page.locator("h1")).to_contain_text("halting", timeout=20_000)
    release.touch()
    expect(state(page)).to_have_text("HALTED", timeout=20_000)
    page.get_by_role("button", name="Resume").click()
    expect(state(page)).to_have_text("FAILED", timeout=20_000)
    # The dry run comes first: what is kept, and what runs.
    again = page.locator("tr", has=page.get_by_role("link", name="second", exact=True))
    again.get_by_role("link", name="from here").click()
    expect(page.locator("h1")).to_contain_text(f"Run second of {run} again, and what follows it?")
    rows = page.locator("tbody tr")
    expect(rows.filter(has_text="second")).to_contain_text("asked for")
    expect(rows.filter(has_text="third")).to_have_count(1)
    before = server.get(f"/runs/{run}")
    assert before["state"] == "FAILED", "a dry run has run something"
    fixed.touch()
    page.get_by_role("button", name="Run again").click()
    expect(page).to_have_url(f"{server.url}/runs/{run}")
    expect(state(page)).to_have_text("DONE", timeout=20_000)
    assert server.get(f"/runs/{run}")["generation"] == before["generation"] + 1


def test_an_open_run_is_started(quiet, server):
    page = quiet
    body = {"file": {"workflow": "open", "owner": "ann", "tasks": {"a": {"run": "true", "resources": {"cpu": 0.01}}}}, "open": True}
    request = urllib.request.Request(
        server.url + "/runs/", json.dumps(body).encode(), {"content-type": "application/json"}
    )
    with urllib.request.urlopen(request) as reply:
        run = json.load(reply)["id"]
    open_page(page, server, f"/runs/{run}")
    expect(state(page)).to_have_text("REGISTERING")
    page.get_by_role("button", name="Start").click()
    expect(state(page)).to_have_text("DONE", timeout=20_000)


SCHEDULED = """
task: {name}
owner: ann
run: 'until [ -e {release} ]; do sleep 0.05; done'
resources: {{ cpu: 0.01 }}
trigger: {{ schedule: every day at 9:00 }}
"""


def scheduled(server: Server, name: str):
    """Stores an entry; each launch ends when the file exists."""
    release = server.directory / f"release-{name}"
    file = server.directory / f"{name}.yaml"
    file.write_text(SCHEDULED.format(name=name, release=release))
    server.baton("library", "put", file.name)
    return release


def test_an_entry_is_paused_and_unpaused(quiet, server):
    page = quiet
    scheduled(server, "pausable")
    open_page(page, server, "/ann/tasks/pausable")
    answer(page, "Pause")
    expect(page.locator(".reason")).to_contain_text("PAUSED")
    expect(page).to_have_url(server.url + "/ann/tasks/pausable")
    assert server.get("/ann/tasks/pausable")["pausedAt"]
    page.get_by_role("button", name="End the pause").click()
    expect(page.locator("summary", has_text="Pause…")).to_be_visible()
    assert "pausedAt" not in server.get("/ann/tasks/pausable")


def test_a_backfill_is_halted_resumed_and_cancelled(quiet, server):
    page = quiet
    release = scheduled(server, "filled")
    interval = ["--from", "2026-01-01", "--to", "2026-01-04", "--max-concurrent", "1"]
    found = re.search(r"\bb\d+\b", server.baton("backfill", "ann/filled", *interval))
    backfill = found[0]
    open_page(page, server, f"/backfills/{backfill}")
    page.get_by_role("button", name="Halt").click()
    expect(state(page)).to_have_text("HALTED")
    page.get_by_role("button", name="Resume").click()
    expect(state(page)).to_have_text("RUNNING")
    answer(page, "Cancel")
    expect(state(page)).to_have_text("CANCELLED")
    assert server.get(f"/backfills/{backfill}")["state"] == "CANCELLED"
    release.touch()


def test_a_worker_is_drained_undrained_and_forgotten(quiet, server):
    page = quiet
    log = (server.directory / "server.log").read_text()
    address = re.search(r"workers at (\S+)", log)[1]
    command = [BATON, "worker", "--scheduler", address, "--name", "second", "--state", str(server.directory / "second")]
    worker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        open_page(page, server, "/workers/")
        expect(page.locator("#row-second")).to_contain_text("HEALTHY", timeout=20_000)
        open_page(page, server, "/workers/second")
        answer(page, "Drain")
        expect(page.locator("h1")).to_contain_text("DRAINED")
        assert server.get("/workers/second")["drained"] is True
        page.get_by_role("button", name="End the drain").click()
        expect(page.locator("h1")).not_to_contain_text("DRAINED")
        assert server.get("/workers/second")["drained"] is False
    finally:
        worker.kill()
        worker.wait()
    answer(page, "Forget")
    page.wait_for_url("**/workers/")
    expect(page.locator("#row-second")).to_have_count(0)
