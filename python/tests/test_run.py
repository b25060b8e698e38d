"""Commands on a run, and the bounds of waiting."""

from __future__ import annotations

import json
import socket
from typing import Any, Callable, List, Tuple

import pytest

from baton import BatonError, Client, Run, RunConflict, RunItem, WaitTimeout

from .fake_server import Clock, FakeServer, Reply, silent_port, transport

CONFLICT = json.dumps(
    {
        "type": "generation",
        "title": "Conflict",
        "status": 409,
        "detail": "r1 is at generation 3 by now",
    }
).encode()


def run_at(url: str) -> Tuple[Run, Clock]:
    """A run of generation 2 that was RUNNING, on a clock that advances with `sleep`."""
    client = Client(url)
    client.transport, clock = transport(url)
    return Run(client, {"id": "r1", "name": "etl", "state": "RUNNING", "generation": 2}), clock


CHANGES: List[Callable[[Run], Any]] = [
    lambda run: run.halt(),
    lambda run: run.resume(),
    lambda run: run.resume(dry_run=True),
    lambda run: run.retry("a"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_of_the_generation_that_is_known(
    change: Callable[[Run], Any], fake: FakeServer
) -> None:
    run, _ = run_at(fake.url)
    fake.replies = [(409, CONFLICT)]
    with pytest.raises(RunConflict) as caught:
        change(run)
    [(_, _, sent)] = fake.seen
    assert sent["generation"] == 2 and caught.value.status == 409 and caught.value.run is run
    assert "at generation 3" in str(caught.value) and "refresh()" in str(caught.value)
    assert "object has generation 2" in str(caught.value)


def test_a_conflict_of_another_kind_says_what_the_server_says(fake: FakeServer) -> None:
    run, _ = run_at(fake.url)
    fake.replies = [(409, b'{"type":"state","title":"Conflict","detail":"r1 is DONE"}')]
    with pytest.raises(RunConflict, match="^Conflict: r1 is DONE$"):
        run.resume()


def test_a_run_of_which_nothing_is_known_is_changed_as_it_is(fake: FakeServer) -> None:
    fake.replies = [(202, b"{}"), (200, b'{"id":"r1","state":"RUNNING","generation":4}')]
    run = Run(Client(fake.url), {"id": "r1"}).halt()
    assert fake.seen[0][2] == {"mode": "drain"} and run.generation == 4


def test_a_halt_may_kill_and_kill_at_once(fake: FakeServer) -> None:
    fake.replies = [(202, b"{}"), (500, b"")] * 2
    run = Run(Client(fake.url), {"id": "r1"})
    run.halt(kill=True)
    run.halt(now=True)
    assert [body["mode"] for _, _, body in fake.seen if body] == ["kill", "kill-now"]


def test_one_attempt_is_killed(fake: FakeServer) -> None:
    fake.replies = [(202, b'{"id":"i7","attempt":2,"links":{}}')] * 2
    client = Client(fake.url)
    assert client.kill("i7") == 2 and client.kill("i7", attempt=2, now=True) == 2
    assert [path for _, path, _ in fake.seen] == [
        "/instances/i7/kill",
        "/instances/i7/kill?attempt=2&now=true",
    ]


def test_a_preview_is_told_and_a_run_goes_on_each_with_its_type(fake: FakeServer) -> None:
    run, _ = run_at(fake.url)
    fake.replies = [(200, b'{"tasks":[],"removed":[]}')] * 2
    resumed, retried = run.resume(dry_run=True), run.retry(dry_run=True)
    assert resumed["tasks"] == retried["removed"] == []
    with pytest.raises(AttributeError):
        resumed.generation  # type: ignore[attr-defined]
    assert all("?dryRun=true" in path for _, path, _ in fake.seen)
    accepted = b'{"id":"r1","generation":3,"links":{}}'
    fake.replies = [(200, accepted), (500, b""), (200, accepted), (500, b"")]
    assert run.resume().retry("a").generation == 3
    with pytest.raises(TypeError):
        run["tasks"]  # type: ignore[index]


def test_one_item_is_asked_for_by_its_place(fake: FakeServer) -> None:
    data = {"task": "a", "item": 7, "instance": "i9", "state": "DONE", "generation": 1}
    put = {"rows": 5, "result": 1, "_box": {}, "_boxes": [], "_each": [], "_box.rows": {}}
    data |= {"value": "eu", "outputs": json.dumps(put)}
    page = json.dumps({"items": [data], "links": {}}).encode()
    run, _ = run_at(fake.url)
    fake.replies = [(200, page)] * 3
    assert run.item("a b", 7).value == "eu"
    # Boxes between functions are hidden.
    assert run.outputs("a", 7) == {"rows": 5, "result": 1} and run.result("a", 7) == 1
    assert [path for _, path, _ in fake.seen] == [
        "/runs/r1/items/?task=a+b&item=7&limit=1",
        *["/runs/r1/items/?task=a&item=7&limit=1"] * 2,
    ]
    fake.replies = [(200, b'{"items": [], "links": {}}')]
    with pytest.raises(BatonError, match="item 8 of task a in run r1 has not started"):
        run.logs("a", 8)


def test_the_processes_of_an_item_are_asked_for_by_its_instance(fake: FakeServer) -> None:
    item = {"task": "a", "item": 0, "instance": "i9", "state": "RUNNING", "generation": 1}
    sample = {"at": 5, "cpuSeconds": 0.5, "memoryBytes": 9}
    process = {"name": "p", "state": "RUNNING", "runs": 2, "failures": 1, "pid": 7}
    process |= {"usage": [sample], "later": True}
    run, _ = run_at(fake.url)
    fake.replies = [
        (200, json.dumps({"items": [item], "links": {}}).encode()),
        (200, json.dumps({"processes": [process]}).encode()),
    ]
    [found] = run.processes("a")
    assert (found.name, found.pid, found.failures, found.usage) == ("p", 7, 1, [sample])
    assert fake.seen[-1][1] == "/instances/i9/processes"


@pytest.mark.parametrize("value", ["eu", "5", 5, None, {"name": "a"}, ["x"], True])
def test_the_value_of_an_item_is_what_was_told(value: Any) -> None:
    data = {"task": "a", "item": 0, "instance": "i1", "state": "DONE", "generation": 1}
    assert RunItem.read({**data, "value": value}).value == value


def test_waiting_without_a_bound_outlasts_a_scheduler_that_restarts(fake: FakeServer) -> None:
    busy: List[Reply] = [None, (503, b"{}"), (502, b"<html>")]
    fake.replies = [
        *busy * 30,
        (200, b'{"id":"r1","state":"RUNNING"}'),
        *busy * 30,
        (200, b'{"id":"r1","state":"DONE"}'),
    ]
    run, clock = run_at(fake.url)
    assert run.wait(progress=False).state == "DONE"
    # Far longer than anything else is tried for.
    assert clock.at > 100


@pytest.mark.parametrize("timeout", [0, 0.5, 3, 60])
def test_waiting_ends_at_its_bound_without_a_server(timeout: float) -> None:
    held, url = silent_port()
    with held:
        run, clock = run_at(url)
        with pytest.raises(WaitTimeout) as caught:
            run.wait(timeout=timeout, progress=False)
    assert clock.at == pytest.approx(timeout) and isinstance(caught.value, TimeoutError)
    data = f"run r1 (etl) was RUNNING when last refreshed, and {timeout:g} seconds have passed"
    assert str(caught.value).startswith(f"{data}: cannot reach the scheduler at {url}")


def test_waiting_ends_at_its_bound_where_a_server_takes_requests_and_says_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, clock = run_at("http://127.0.0.1:1")

    class Mute:
        """A connection that never responds."""

        def __init__(self, host: str, port: int, timeout: float) -> None:
            self.sock = self
            self.seconds = timeout

        def settimeout(self, seconds: float) -> None:
            self.seconds = seconds

        def getresponse(self) -> None:
            clock.sleep(self.seconds)
            raise socket.timeout("timed out")

        def connect(self, *_: Any, **__: Any) -> None: ...

        request = close = connect

    monkeypatch.setattr("http.client.HTTPConnection", Mute)
    with pytest.raises(WaitTimeout, match="no response in time"):
        run.wait(timeout=10, progress=False)
    assert clock.at == pytest.approx(10)


def test_waiting_does_not_outlast_what_will_not_pass(fake: FakeServer) -> None:
    run, clock = run_at(fake.url)
    fake.replies = [(404, b'{"title":"there is no run r1"}')]
    with pytest.raises(BatonError, match="there is no run r1") as caught:
        run.wait(timeout=60, progress=False)
    assert not isinstance(caught.value, WaitTimeout) and clock.at == 0
