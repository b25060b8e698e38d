"""Two schedulers that share a PostgreSQL database: the pages of the one that follows, in a real browser."""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import BATON
from playwright.sync_api import expect
from test_pages import open_page, picture

WITH_POSTGRES = Path(__file__).parents[3] / "scripts" / "with-postgres.sh"


class Scheduler:
    """A scheduler of a database, with a data directory of its own."""

    def __init__(self, directory: Path, name: str, store: str, *options: str):
        self.directory = directory
        self.log = directory / f"{name}.log"
        command = [BATON, "scheduler", "--name", name, "--store", store, "--data", str(directory / name)]
        command += ["--listen", "127.0.0.1:0", "--worker-listen", "127.0.0.1:0", *options]
        self.process = subprocess.Popen(command, stdout=self.log.open("wb"), stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 60
        while not (ready := re.search(r"ready: (http:[^,\s]*)", self.log.read_text())):
            assert self.process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)
        self.url = ready[1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def database():
    """The URL of an empty database."""
    script = 'echo "$BATON_TEST_POSTGRES"; read -r line'
    command = [WITH_POSTGRES, "bash", "-c", script]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    socket = server.stdout.readline().strip()
    assert socket, "PostgreSQL does not start"
    yield f"postgres:///postgres?host={socket}&user=baton"
    server.communicate("end\n")


def test_a_follower_serves_pages_whose_forms_act_and_shows_a_takeover(page, database, tmp_path):
    token = subprocess.run(
        [BATON, "token", "create", "--role", "operator", "--store", database],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    first = Scheduler(tmp_path, "first", database, "--require-tokens")
    second = Scheduler(tmp_path, "second", database, "--require-tokens")
    try:
        page.goto(second.url + "/schedulers/")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        rows = page.locator("#list tbody tr")
        expect(rows).to_have_count(2, timeout=30_000)
        expect(rows.filter(has_text="first").locator(".state")).to_have_text("leader")
        follower = rows.filter(has_text="second")
        expect(follower.locator(".state")).to_have_text("follower")
        expect(follower).to_contain_text("serves this page")
        # The browser reports the status of the form for signing in.
        page.problems.clear()
        assert page.get_by_text("Add a second scheduler").count() == 0
        result = Axe().run(page)
        assert result.violations_count == 0, result.generate_report()
        picture(page, "schedulers-two")
        submitted = subprocess.run(
            [BATON, "--url", second.url, "submit", "--name", "waits", "--", "true"],
            env={**os.environ, "BATON_TOKEN": token}, cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip
        assert submitted.returncode == 0, submitted.stderr
        open_page(page, second, f"/instances/{submitted.stdout.strip()}")
        page.locator("summary", has_text="Cancel").click()
        page.get_by_role("button", name="Cancel", exact=True).click()
        expect(page.locator("h1")).to_contain_text("HALTED", timeout=30_000)
        # The page hears of the takeover by itself.
        open_page(page, second, "/schedulers/")
        first.kill()
        expect(follower.locator(".state")).to_have_text("leader", timeout=60_000)
        expect(page.locator(".timeline")).to_contain_text("leads, epoch", timeout=60_000)
        assert page.problems == []
    finally:
        first.kill()
        second.kill()
