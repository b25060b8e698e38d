"""Time to the first byte and size of every page, over a store with a million instances and a run of
100,000 items; and the CPU time of the server while ten pages are open and events arrive.

    cargo run -p baton-store --example fill -- target/tmp/large/data 1000000
    BATON_BIN=target/debug/baton python3 crates/web/browser/measure.py target/tmp/large

It needs about 3 GB on disk. A page is loaded five times, and the slowest of the last four counts: the
first one fills caches. The CPU time is that of the server, the mean of those four.

    BATON_BIN=target/debug/baton python3 crates/web/browser/measure.py target/tmp/ended ended

The first load of an ended run of 100,000 items after a restart, in an empty directory.
"""

import http.client
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

BATON = os.path.abspath(os.environ.get("BATON_BIN", "target/debug/baton"))
INSTANCES = int(os.environ.get("INSTANCES", 1_000_000))
ITEMS = int(os.environ.get("ITEMS", 100_000))
LOADS = int(os.environ.get("LOADS", 4))
PAGES = [
    "/",
    "/arena/",
    "/bullpen/",
    "/history/",
    "/history/?state=FAILED",
    "/history/?name=shard-7",
    "/instances/i1",
    f"/instances/i1..i{INSTANCES}",
    "/runs/",
    "/runs/r1",
    "/runs/r2",
    "/runs/r1/items/",
    "/library/",
    "/backfills/",
    "/workers/",
    "/schedulers/",
    "/usage/",
    "/events",
    "/-/components",
]


class Server:
    """A scheduler without workers, in a directory."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.log = directory / "log"
        command = [BATON, "scheduler", "--data", str(directory / "data"), "--listen", "127.0.0.1:0"]
        command += ["--worker-listen", "127.0.0.1:0", "--keep-max", str(10 * INSTANCES)]
        self.process = subprocess.Popen(command, stdout=self.log.open("wb"), stderr=subprocess.STDOUT)
        while not (ready := re.search(r"ready: (http:[^,]*),", self.log.read_text())):
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)
        self.url = ready[1]
        self.host = urlsplit(self.url).netloc

    def baton(self, *arguments: str) -> str:
        command = [BATON, "--url", self.url, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.directory)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def load(self, path: str, change: str | None = None) -> tuple[float, int]:
        """Seconds to the first byte, and bytes; for a change, as the script of a page does."""
        connection = http.client.HTTPConnection(self.host)
        began = time.monotonic()
        headers = {"accept": "text/html"} | ({"baton-change": change} if change else {})
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        answer.read(1)
        first = time.monotonic() - began
        size = 1 + len(answer.read())
        assert answer.status == 200, (path, answer.status)
        connection.close()
        return first, size

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()

    def cpu(self) -> float:
        """CPU seconds so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def fill(server: Server) -> None:
    began = time.monotonic()
    items = json.dumps(list(range(ITEMS)))
    tasks = f"tasks:\n  each: {{ for_each: {items}, run: 'true' }}\n  last: {{ run: 'true', after: [each] }}\n"
    (server.directory / "w.yaml").write_text("workflow: large\n" + tasks)
    for _ in range(2):
        server.baton("submit", "w.yaml")
    print(f"filled in {time.monotonic() - began:.0f} s", file=sys.stderr)


def pages(server: Server) -> None:
    print("| page | first byte | CPU | size |\n|---|---|---|---|")
    for path in PAGES:
        server.load(path)
        cpu, loads = server.cpu(), [server.load(path) for _ in range(LOADS)]
        # Unlike the time, it does not depend on what else the machine does.
        cpu = (server.cpu() - cpu) / LOADS
        slowest = max(first for first, _ in loads)
        print(f"| `{path}` | {slowest * 1e3:.0f} ms | {cpu * 1e3:.0f} ms | {loads[-1][1] / 1e3:.0f} kB |", flush=True)


def ended(directory: Path) -> None:
    """The first load of an ended run, with empty caches."""
    directory.mkdir(parents=True, exist_ok=True)
    server = Server(directory)
    try:
        items = json.dumps(list(range(ITEMS)))
        (directory / "w.yaml").write_text(f"workflow: large\ntasks:\n  each: {{ for_each: {items}, run: 'true' }}\n")
        run = server.baton("submit", "w.yaml").split()[0]
        server.baton("halt", run, "--kill", "--wait")
    finally:
        server.stop()
    finish_items(directory / "data" / "baton.db")
    server = Server(directory)
    try:
        # Everything else that a first request costs.
        server.load("/runs/")
        cpu = server.cpu()
        first, size = server.load(f"/runs/{run}")
        cpu = server.cpu() - cpu
        print(f"| `/runs/{run}`, first load | {first * 1e3:.0f} ms | {cpu * 1e3:.0f} ms | {size / 1e3:.0f} kB |")
    finally:
        server.stop()


def finish_items(path: Path) -> None:
    """Some thousand items were in flight; the others end here, as if workers had run them."""
    store = sqlite3.connect(path)
    with store:
        store.execute(
            "WITH RECURSIVE every(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM every WHERE n + 1 < ?) "
            "INSERT OR IGNORE INTO item SELECT run, plan, task, n, generation, 'done', instance, NULL "
            "FROM every, (SELECT * FROM item LIMIT 1)",
            (ITEMS,),
        )
    store.close()


def live(server: Server, seconds: int = 15) -> None:
    """CPU time of the server at 1,000 events/s, without and with open pages."""
    for readers in (0, 10):
        stop = threading.Event()
        counts = [0] * 4
        threads = [threading.Thread(target=read, args=(server, stop)) for _ in range(readers)]
        threads += [threading.Thread(target=submit, args=(server, stop, counts, at)) for at in range(len(counts))]
        for thread in threads:
            thread.start()
        cpu, began, before = server.cpu(), time.monotonic(), sum(counts)
        time.sleep(seconds)
        took, used, events = time.monotonic() - began, server.cpu() - cpu, sum(counts) - before
        stop.set()
        for thread in threads:
            thread.join()
        print(f"{readers} open pages: {events / took:.0f} events/s, {used / took * 100:.0f} % of a core")


def submit(server: Server, stop: threading.Event, counts: list[int], at: int) -> None:
    """Submits 250 instances a second; each is an event."""
    connection = http.client.HTTPConnection(server.host)
    body = json.dumps({"file": {"task": "live", "run": "true", "resources": {"cpu": 1000}}})
    began = time.monotonic()
    while not stop.is_set():
        connection.request("POST", "/instances/", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        assert answer.status < 300, answer.status
        counts[at] += 1
        time.sleep(max(0.0, began + counts[at] / 250 - time.monotonic()))
    connection.close()


def read(server: Server, stop: threading.Event) -> None:
    """An open page: loads again when the stream tells of a change."""
    connection = http.client.HTTPConnection(server.host, timeout=5)
    connection.request("GET", "/-/changes", headers={"accept": "text/event-stream"})
    stream = connection.getresponse()
    while not stop.is_set():
        try:
            line = stream.readline().decode()
            if line.startswith("data: "):
                server.load("/", line.removeprefix("data: ").strip())
        except TimeoutError:
            return
    connection.close()


def main() -> None:
    directory = Path(sys.argv[1])
    if sys.argv[2:] == ["ended"]:
        ended(directory)
        return
    server = Server(directory)
    try:
        fill(server)
        pages(server)
        live(server)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
