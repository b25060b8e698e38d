"""What open pages cost: the server, and the browser.

    BATON_BIN=target/release/baton target/tools/pages/bin/python crates/web/browser/live.py events
    BATON_BIN=target/release/baton target/tools/pages/bin/python crates/web/browser/live.py throughput

`events` changes the history at RATE events a second (1,000), for SECONDS (60) with no page open, with
one, and with ten in Chromium, ROUNDS times (2) in turn. It prints the CPU time of the server, and for each
page the frames that came late (more than 50 ms after the one before), long tasks of the main thread, the
growth of its memory and of its elements, and bytes a second. `/-/keys` is never updated: its late frames
are those of the machine. `throughput` runs COUNT (2,000) processes without and with ten readers, ROUNDS
times in turn; a reader does what a page does, without a browser, which belongs to another machine.

A script, not a test: its numbers are those of the machine. `scripts/pages.sh` installs Playwright.
"""

import http.client
import json
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from conftest import FLAGS, Server
from playwright.sync_api import Browser, Page, sync_playwright

RATE = float(os.environ.get("RATE", 1_000))
SECONDS = float(os.environ.get("SECONDS", 60))
ROUNDS = int(os.environ.get("ROUNDS", 2))
COUNT = int(os.environ.get("COUNT", 2_000))

# Instances that are submitted and cancelled at once, and clients that do so.
BATCH = 50
CLIENTS = 4
# The graph of the run that a page shows.
WIDTH = 20

PAGES = ["/", "/arena/", "/bullpen/", "/history/", "/runs/r1", "/events", "{instance}", "/workers/", "/usage/", "/runs/"]
STILL = "/-/keys"

# Counts what the main thread of a page could not do in time.
COUNTERS = """
globalThis.counted = { late: 0, worst: 0, frames: 0, tasks: 0, busy: 0 };
let before = performance.now();
const frame = (now) => {
  const gap = now - before;
  before = now;
  counted.frames += 1;
  if (gap > 50) counted.late += 1;
  counted.worst = Math.max(counted.worst, gap);
  requestAnimationFrame(frame);
};
requestAnimationFrame(frame);
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) { counted.tasks += 1; counted.busy += entry.duration; }
}).observe({ type: "longtask" });
"""


def cpu(server: Server) -> float:
    """CPU seconds of the server so far."""
    fields = Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def last_event(server: Server) -> int:
    """The number of the last event."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    connection.request("GET", "/events?follow=false", headers={"accept": "text/event-stream"})
    for line in connection.getresponse():
        if line.startswith(b"id: "):
            connection.close()
            return int(line[4:])
    raise AssertionError("the stream has no position")


class Load:
    """Submits and cancels instances, so that the history grows at a rate."""

    def __init__(self, server: Server):
        self.host = server.url.removeprefix("http://")
        self.stop = threading.Event()
        before = last_event(server)
        self.batch(http.client.HTTPConnection(self.host))
        # A batch may be one event or many, as the server records it.
        self.events = max(1, last_event(server) - before)
        self.threads = [threading.Thread(target=self.run) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def call(connection: http.client.HTTPConnection, method: str, path: str, body: dict | None = None) -> dict:
        headers = {"content-type": "application/json"} if body else {}
        connection.request(method, path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        text = answer.read()
        assert answer.status < 300, (answer.status, text)
        return json.loads(text) if text else {}

    def batch(self, connection: http.client.HTTPConnection) -> None:
        file = {"task": "live", "run": "true", "resources": {"cpu": 1000}}
        made = self.call(connection, "POST", "/instances/", {"file": file, "items": list(range(BATCH))})
        self.call(connection, "DELETE", made["links"]["control"])

    def run(self) -> None:
        connection = http.client.HTTPConnection(self.host)
        began, batches = time.monotonic(), 0
        while not self.stop.is_set():
            self.batch(connection)
            batches += CLIENTS
            ahead = began + batches * self.events / RATE - time.monotonic()
            if ahead > 0:
                self.stop.wait(ahead)
        connection.close()

    def end(self) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()


@dataclass
class Watched:
    """An open page, and what it has cost."""

    path: str
    page: Page
    received: int = 0
    before: dict = field(default_factory=dict)

    @classmethod
    def open(cls, browser: Browser, server: Server, path: str) -> "Watched":
        # A context has connections of its own, as another viewer has.
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        page.add_init_script(COUNTERS)
        watched = cls(path, page)
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.send("Performance.enable")
        session.on("Network.dataReceived", watched.add)
        watched.session = session
        page.goto(server.url + path, wait_until="load")
        return watched

    def add(self, event: dict) -> None:
        self.received += event["encodedDataLength"] or event["dataLength"]

    def memory(self) -> dict:
        self.session.send("HeapProfiler.collectGarbage")
        metrics = self.session.send("Performance.getMetrics")["metrics"]
        return {it["name"]: it["value"] for it in metrics}

    def begin(self) -> None:
        self.before = self.memory()
        self.received = 0
        self.page.evaluate("Object.assign(counted, { late: 0, worst: 0, frames: 0, tasks: 0, busy: 0 })")

    def row(self, took: float) -> str:
        counted = self.page.evaluate("counted")
        after = self.memory()
        grown = (after["JSHeapUsedSize"] - self.before["JSHeapUsedSize"]) / 1e6
        nodes = after["Nodes"] - self.before["Nodes"]
        return (
            f"| `{self.path}` | {counted['late']} of {counted['frames']} | {counted['worst']:.0f} ms | {counted['tasks']} "
            f"| {counted['busy'] / took / 10:.1f} % | {grown:+.2f} MB | {nodes:+.0f} | {self.received / took / 1e3:.0f} kB/s |"
        )

    def close(self) -> None:
        self.page.context.close()


def prepare(server: Server) -> str:
    """A run that does not end and an instance with output; returns the address of the instance."""
    tasks = [f"  t{at}: {{ run: 'true' }}" for at in range(WIDTH)]
    after = ", ".join(f"t{at}" for at in range(WIDTH))
    # They must leave the worker to others.
    tasks.append(f"  last: {{ run: 'sleep 100000', after: [{after}], resources: {{ cpu: 0.01 }} }}")
    (server.directory / "w.yaml").write_text("workflow: live\ntasks:\n" + "\n".join(tasks) + "\n")
    server.baton("submit", "w.yaml")
    loop = 'i=0; while true; do i=$((i+1)); echo "line $i"; sleep 0.2; done'
    instance = server.baton("submit", "--name", "endless", "--cpu", "0.01", "--", "sh", "-c", loop)
    server.until(f"/instances/{instance}", "state", "RUNNING")
    return f"/instances/{instance}"


def events(server: Server, browser: Browser) -> None:
    instance = prepare(server)
    paths = [path.format(instance=instance) for path in PAGES]
    used: dict[int, list[float]] = {0: [], 1: [], len(paths): []}
    pump = browser.new_page()
    for _ in range(ROUNDS):
        for number in used:
            opened = [Watched.open(browser, server, path) for path in [*paths[:number], STILL]]
            load = Load(server)
            pump.wait_for_timeout(3_000)
            for it in opened:
                it.begin()
            first, began, spent = last_event(server), time.monotonic(), cpu(server)
            while time.monotonic() < began + SECONDS:
                pump.wait_for_timeout(500)
            took, spent = time.monotonic() - began, cpu(server) - spent
            rate = (last_event(server) - first) / took
            load.end()
            used[number].append(spent / took * 100)
            print(f"\n{number} pages, {rate:.0f} events/s, server {spent / took * 100:.1f} % of a core\n")
            print("| page | late frames | longest gap | long tasks | of the time | memory | elements | received |")
            print("|---|---|---|---|---|---|---|---|")
            for it in opened:
                print(it.row(took), flush=True)
                it.close()
    alone = statistics.median(used[0])
    for number, values in used.items():
        median = statistics.median(values)
        print(f"{number} pages: server {median:.1f} % of a core, {median - alone:+.1f} % for the pages")


class Reader(threading.Thread):
    """Does what an open page does: loads the page again when the stream tells of a change."""

    def __init__(self, server: Server, path: str):
        super().__init__()
        self.host = server.url.removeprefix("http://")
        self.path = path
        self.stream = http.client.HTTPConnection(self.host)
        self.stream.request("GET", "/-/changes", headers={"accept": "text/event-stream"})
        self.lines = self.stream.getresponse()
        self.start()

    def run(self) -> None:
        while line := self.lines.readline():
            if line.startswith(b"data: "):
                page = http.client.HTTPConnection(self.host)
                headers = {"accept": "text/html", "baton-change": line.decode().removeprefix("data: ").strip()}
                page.request("GET", self.path, headers=headers)
                page.getresponse().read()
                page.close()

    def end(self) -> None:
        self.stream.sock.shutdown(socket.SHUT_RDWR)
        self.join()
        self.stream.close()


def throughput(server: Server) -> None:
    instance = prepare(server)
    paths = [path.format(instance=instance) for path in PAGES]
    rates: dict[int, list[float]] = {0: [], len(paths): []}
    server.baton("submit", "--wait", "--array", f"1-{COUNT}", "--", "/bin/true")
    for at in range(ROUNDS):
        # In turn, so that a machine that becomes slower favours neither.
        for readers in sorted(rates, reverse=at % 2 == 1):
            opened = [Reader(server, path) for path in paths[:readers]]
            began = time.monotonic()
            server.baton("submit", "--wait", "--array", f"1-{COUNT}", "--", "/bin/true")
            rates[readers].append(COUNT / (time.monotonic() - began))
            for reader in opened:
                reader.end()
            print(f"{readers} readers: {rates[readers][-1]:.0f} processes/s", flush=True)
    medians = {readers: statistics.median(values) for readers, values in rates.items()}
    ratio = medians[len(paths)] / medians[0]
    print(f"median {medians[0]:.0f} without, {medians[len(paths)]:.0f} with {len(paths)} readers: ratio {ratio:.3f}")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        server = Server(Path(directory))
        try:
            if sys.argv[1:] == ["throughput"]:
                throughput(server)
                return
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
                events(server, browser)
                browser.close()
        finally:
            server.stop()


if __name__ == "__main__":
    main()
