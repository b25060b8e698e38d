"""The pages of fleets: plans, reasons, logs and actions, with a cluster manager of three commands."""

import re
import time
import urllib.request

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import Server
from playwright.sync_api import expect
from test_pages import open_page, picture

# `cpu` has a manager that keeps every job in its queue; that of `gpu` refuses all.
FLEETS = """
fleets:
  cpu:
    backend: command
    start: 'echo "$BATON_JOB_NAME" >>{directory}/jobs; wc -l <{directory}/jobs'
    list: 'n=0; while read -r name; do n=$((n+1)); echo "$n $name queued Priority"; done <{directory}/jobs'
    stop: "true"
    cpus: 2000
    memory: 4TiB
    max: 2
    time_limit: 2h
    labels: {{ zone: eu }}
  gpu:
    backend: command
    start: "echo the partition gpu is down >&2; exit 1"
    list: "true"
    stop: "true"
    cpus: 16
    memory: 64GiB
    gpus: 4
    min: 1
    max: 16
    before: |
      module load cuda
      ulimit -n 4096
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A server whose fleets come from a file, with work that waits for them."""
    directory = tmp_path_factory.mktemp("fleets")
    (directory / "jobs").write_text("")
    file = directory / "fleets.yaml"
    file.write_text(FLEETS.format(directory=directory))
    server = Server(directory, "--fleets", str(file))
    server.file = file
    server.waiting = server.baton("submit", "--sandbox", "--cpu", "1000", "--", "true")
    # A new leader requests nothing for half a minute.
    deadline = time.monotonic() + 90
    while not (jobs(server, "cpu", "state") and jobs(server, "gpu", "end")):
        assert time.monotonic() < deadline, server.get("/fleets/")
        time.sleep(0.1)
    yield server
    server.stop()


def jobs(server: Server, fleet: str, field: str) -> list:
    """The jobs of a fleet that have a field."""
    return [job for job in server.get(f"/fleets/{fleet}/jobs/")["items"] if field in job]


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_pages_of_fleets_are_accessible_and_fit(page, cluster):
    paths = {"fleets": "/fleets/", "cpu": "/fleets/cpu", "gpu": "/fleets/gpu", "overview": "/"}
    for name, path in paths.items():
        for width in [1280, 360]:
            page.set_viewport_size({"width": width, "height": 900})
            open_page(page, cluster, path)
            result = Axe().run(page)
            assert not result.violations_count, result.generate_report()
            assert page.evaluate("document.documentElement.scrollWidth") <= width, name
            picture(page, f"fleet-{name}-{width}")
    assert page.problems == []


def test_a_fleet_shows_its_plan_its_jobs_and_its_alarms(page, cluster):
    open_page(page, cluster, "/fleets/")
    row = page.locator("#row-gpu")
    expect(row).to_contain_text("in trouble")
    expect(row).to_contain_text("the partition gpu is down")
    page.get_by_role("link", name="cpu", exact=True).click()
    expect(page.locator("h1")).to_contain_text("cpu")
    expect(page.locator("#list")).to_contain_text("queued (Priority)")
    expect(page.locator("dl").last).to_contain_text("zone=eu")
    expect(page.locator("main")).to_contain_text(f"Defined by the file {cluster.file}")
    page.locator("#list").get_by_role("link", name="Log of p", exact=False).first.click()
    expect(page.locator("#h-log")).to_contain_text("Log of p")
    assert page.problems == []


def test_the_overview_and_an_instance_tell_of_fleets(page, cluster):
    open_page(page, cluster, "/")
    trouble = page.locator("section", has=page.locator("#h-attention"))
    expect(trouble).to_contain_text("the partition gpu is down")
    trouble.get_by_role("link", name="gpu").click()
    expect(page.locator("#h-alarms")).to_be_visible()
    open_page(page, cluster, f"/instances/{cluster.waiting}")
    expect(page.locator("main")).to_contain_text("1 job of fleet cpu is queued (Priority)")
    expect(page.locator("main")).to_contain_text("fleet gpu cannot run it")
    assert page.problems == []


def test_a_fleet_is_paused_and_resumed_by_forms(page, cluster):
    open_page(page, cluster, "/fleets/gpu")
    # A file defines it: it is removed there.
    expect(page.locator("summary", has_text="Remove")).to_have_count(0)
    page.locator("summary", has_text="Pause").click()
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator("h1")).to_contain_text("paused")
    assert cluster.get("/fleets/gpu")["paused"] is True
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("h1")).not_to_contain_text("paused")
    assert cluster.get("/fleets/gpu")["paused"] is False
    assert page.problems == []


def test_errors_of_the_file_are_shown_and_a_fleet_of_a_command_is_removed(page, cluster):
    before = cluster.file.read_text()
    cluster.file.write_text(before.replace("gpus: 4", "gpu: 4"))
    open_page(page, cluster, "/fleets/")
    expect(page.locator(".reason")).to_contain_text("did you mean `gpus`?")
    cluster.file.write_text(before)
    shape = ["--backend", "local", "--cpus", "1", "--memory", "1GiB", "--max", "1"]
    cluster.baton("fleet", "add", "here", *shape)
    open_page(page, cluster, "/fleets/here")
    page.locator("summary", has_text="Drain and remove").click()
    page.get_by_role("button", name="Drain and remove").click()
    page.wait_for_url("**/fleets/")
    expect(page.locator("#row-here")).to_have_count(0)
    cluster.baton("fleet", "add", "there", *shape)
    open_page(page, cluster, "/fleets/there")
    page.locator("summary", has_text="Remove").last.click()
    page.get_by_role("button", name="Remove", exact=True).click()
    page.wait_for_url("**/fleets/")
    expect(page.locator("#row-there")).to_have_count(0)
    # The page of the fleet may have been loaded again just before it was left.
    assert all("404" in problem for problem in page.problems)


def test_metrics_events_and_usage_tell_of_fleets(page, cluster):
    with urllib.request.urlopen(cluster.url + "/metrics") as answer:
        metrics = answer.read().decode().splitlines()
    assert 'baton_fleet_workers{fleet="cpu",amount="max"} 2' in metrics
    assert 'baton_fleet_jobs{fleet="cpu",state="queued"} 1' in metrics
    assert any(re.match(r'baton_fleet_failures\{fleet="gpu"\} [1-9]', line) for line in metrics)
    assert any(line.startswith('baton_fleet_list_age_seconds{fleet="cpu"} ') for line in metrics)
    with urllib.request.urlopen(cluster.url + "/events?follow=false&after=0") as answer:
        events = answer.read().decode()
    assert '"links":{"fleet":"/fleets/gpu"}' in events
    assert "fleet cpu was defined by" in events
    assert cluster.get("/usage/fleets/")["items"] == [], "no job has started"
    open_page(page, cluster, "/events")
    expect(page.locator("#events, main").last).to_contain_text("fleet gpu")
    page.locator("main").get_by_role("link", name="gpu").first.click()
    expect(page.locator("h1")).to_contain_text("gpu")
    assert page.problems == []
