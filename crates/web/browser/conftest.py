"""A real server with work in every state, and a real Chromium."""

import json
import os
import re
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

BATON = os.path.abspath(os.environ["BATON_BIN"])

# The browser loads nothing from elsewhere, and asks for nothing by itself.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

WORKFLOW = """
workflow: pictures
owner: ann
tasks:
  fetch: { for_each: [eu, us, apac], run: 'echo rows=3 > "$BATON_OUTPUT"' }
  check: { after: [fetch], run: "echo broken >&2; exit 4" }
  report: { after: [check], run: "true" }
"""

ENTRY = """
task: nightly
owner: ann
run: echo "$BATON_PARAM_DAY"
params: { day: today }
trigger: { schedule: every day at 9:00 }
"""

HOSTILE = r"""
head -c 1000000 /dev/zero | tr '\0' x
printf '\n\033[31m<script>document.title="taken"</script>\033[0m\n'
printf '\342\200\256right to left\n'
printf '\001\002 end\n'
echo '<img src=x onerror=alert(1)>' >&2
exit 3
"""


class Server:
    """`baton up` in a directory of its own, on a port of its own."""

    def __init__(self, directory: Path, *options: str, listen: str = "127.0.0.1:0"):
        self.directory = directory
        self.options = options
        self.process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.start(listen)

    def start(self, listen: str) -> None:
        log = self.directory / "server.log"
        log.write_text("")
        command = [BATON, "up", "--data", str(self.directory / "data"), "--listen", listen]
        command += ["--worker-listen", "127.0.0.1:0", *self.options]
        self.process = subprocess.Popen(command, stdout=log.open("ab"), stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            ready = re.search(r"^baton scheduler ready: (http:[^,]*),", log.read_text(), re.M)
            if ready:
                self.url = ready[1]
                return
            assert self.process.poll() is None, log.read_text()
            time.sleep(0.05)
        raise AssertionError(log.read_text())

    def restart(self) -> None:
        """Kills the server, and starts it again on the same port."""
        self.process.kill()
        self.process.wait()
        self.start(self.url.removeprefix("http://"))

    def baton(self, *arguments: str, check: bool = True) -> str:
        command = [BATON, "--url", self.url, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.directory)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.strip()

    def get(self, path: str) -> dict:
        with urllib.request.urlopen(self.url + path) as answer:
            return json.load(answer)

    def until(self, path: str, field: str, value: str) -> None:
        deadline = time.monotonic() + 60
        while self.get(path).get(field) != value:
            assert time.monotonic() < deadline, self.get(path)
            time.sleep(0.05)

    def count(self, path: str, number: int) -> None:
        """Waits until a list has so many entries."""
        deadline = time.monotonic() + 60
        while len(self.get(path)["items"]) != number:
            assert time.monotonic() < deadline, self.get(path)
            time.sleep(0.05)

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def picture(page, name):
    """Writes a picture, if pictures are wanted."""
    directory = os.environ.get("BATON_SCREENSHOTS")
    if directory:
        Path(directory).mkdir(parents=True, exist_ok=True)
        scheme = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches ? '-dark' : ''")
        page.screenshot(path=f"{directory}/{name}{scheme}.png", full_page=True)


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A server with something in every state."""
    directory = tmp_path_factory.mktemp("server")
    server = Server(directory)
    (directory / "w.yaml").write_text(WORKFLOW)
    (directory / "entry.yaml").write_text(ENTRY)
    (directory / "hostile.json").write_text(
        json.dumps({"task": "<b>hostile&\"'", "owner": "<i>", "run": HOSTILE})
    )
    server.baton("submit", "--wait", "--", "echo", "hello")
    server.baton("submit", "--wait", "hostile.json", check=False)
    server.baton("submit", "w.yaml")
    server.until("/runs/r1", "state", "FAILED")
    server.baton("library", "put", "entry.yaml")
    server.baton("limits", "set", "db/orders", "4")
    server.baton("secret", "set", "ann/db-password", "--file", "entry.yaml")
    release = directory / "release"
    loop = f'i=0; until [ -e {release} ]; do i=$((i+1)); echo "line $i"; sleep 0.2; done'
    server.running = server.baton("submit", "--name", "endless", "--", "sh", "-c", loop)
    server.until(f"/instances/{server.running}", "state", "RUNNING")
    server.waiting = server.baton("submit", "--name", "waits", "--cpu", "1000", "--", "true")
    yield server
    release.touch()
    server.stop()


@pytest.fixture(scope="session")
def browser():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(browser, request):
    """A page that must not report an error."""
    scheme = getattr(request, "param", "light")
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.problems = []
    page.on("console", lambda message: message.type == "error" and page.problems.append(message.text))
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("dialog", lambda dialog: (page.problems.append(dialog.message), dialog.dismiss()))
    yield page
    context.close()
