"""The pages of `baton local observe` in a real browser."""

import subprocess
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import BATON, HOSTILE
from playwright.sync_api import expect
from test_pages import picture

TASK = """
task: "<b>hostile&"
processes:
- { name: load, run: 'i=0; until [ -e release ]; do i=$((i+1)); echo "line $i"; sleep 0.1; done' }
- { name: report, run: 'true', after: [load] }
"""


class Observer:
    """A root with an ended and a running task, and its observer."""

    def __init__(self, directory: Path):
        self.root = directory / "root"
        (directory / "hostile.sh").write_text(HOSTILE)
        (directory / "task.yaml").write_text(TASK)
        self.local("simplerun", "--task-id", "ended", "--", "sh", str(directory / "hostile.sh")).wait()
        self.runner = self.local("run", str(directory / "task.yaml"), "--task-id", "running")
        self.process = self.local("observe", "--port", "0", stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().split("ready: ")[1].strip()

    def local(self, *arguments: str, stdout=subprocess.DEVNULL, **options) -> subprocess.Popen:
        command = [BATON, "local", "--root", str(self.root), *arguments]
        return subprocess.Popen(command, stdout=stdout, stderr=subprocess.DEVNULL, **options)

    def stop(self) -> None:
        (self.root / "sandboxes" / "running" / "release").touch()
        self.runner.wait()
        self.process.terminate()
        self.process.wait()


@pytest.fixture(scope="module")
def observer(tmp_path_factory):
    observer = Observer(tmp_path_factory.mktemp("observer"))
    yield observer
    observer.stop()


@pytest.mark.parametrize("page", ["light", "dark"], indirect=True)
def test_tasks_and_processes_are_accessible_and_live(page, observer):
    page.goto(observer.url)
    assert "key=" not in page.url
    expect(page.locator("#list tbody tr")).to_have_count(2)
    check(page, "observer")
    page.get_by_role("link", name="running").click()
    expect(page.locator("h1")).to_contain_text("<b>hostile&")
    expect(page.locator("table")).to_contain_text("waits until load has succeeded")
    check(page, "observer-task")
    page.get_by_role("link", name="load").click()
    log = page.locator("#log-stdout")
    expect(log).to_contain_text("line 1")
    lines = len(log.inner_text().splitlines())
    page.wait_for_function(
        "lines => document.getElementById('log-stdout').innerText.split('\\n').length > lines + 5",
        arg=lines,
        timeout=60_000,
    )
    expect(page.locator("#live")).to_have_text("live")
    check(page, "observer-process")
    assert page.problems == []


def test_hostile_output_stays_text_and_small_screens_can_read_it(browser, observer):
    context = browser.new_context(viewport={"width": 360, "height": 740})
    page = context.new_page()
    page.goto(observer.url)
    page.get_by_role("link", name="ended").click()
    expect(page.locator("#log-stdout")).to_contain_text('<script>document.title="taken"</script>')
    expect(page).to_have_title("ended FAILED · Baton")
    assert page.locator("main img, main script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    picture(page, "observer-task-small")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").first.click()
    assert download.value.suggested_filename == "ended.0.stdout.txt"
    context.close()


def check(page, name):
    result = Axe().run(page)
    assert result.violations_count == 0, f"{name}: {result.generate_report()}"
    picture(page, name)
