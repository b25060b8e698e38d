"""The executor on a real server."""

from __future__ import annotations

import concurrent.futures
import threading
from pathlib import Path
from typing import Any, List, cast

import pytest

from baton import BatonError, Client, Executor, InstanceFailed, RemoteTraceback, Run, WorkflowError
from baton._executor.futures import Batch

from . import functions
from .conftest import PATIENCE, Server, script, until

SMALL = {"cpu": 0.2}


@pytest.fixture
def executor(client: Client) -> Executor:
    return Executor(client, owner="exec", resources=SMALL)


def threads() -> List[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "baton-executor"]


def test_a_map_of_200_with_failures(executor: Executor) -> None:
    several = executor.submit_all(functions.square, range(200))
    assert len({future.run.id for future in several}) == 1
    assert len(threads()) == 1
    done, not_done = concurrent.futures.wait(several, timeout=4 * PATIENCE)
    assert len(done) == 200 and not not_done
    for value, future in enumerate(several):
        error = future.exception()
        if value % 10 != 7:
            assert error is None and future.result() == value * value
            continue
        assert isinstance(error, InstanceFailed)
        assert str(error).endswith(f"ValueError: {value} is unlucky")
        assert isinstance(error.__cause__, RemoteTraceback)
        assert 'raise ValueError(f"{value} is unlucky")' in error.__cause__.text
    until("its thread has ended", lambda: not threads())


def test_results_of_a_map_come_in_order_and_keep_their_types(executor: Executor) -> None:
    items: List[Any] = ["a{{ b }}", "5", 5, None, {"k": [1.5, "{{{{"]}, ["x"], True]
    with executor:
        assert list(executor.map(functions.echoed, items)) == items
        words = executor.map(functions.joined, ["a", "b"], [1, "{{"], timeout=PATIENCE)
        assert list(words) == ["a-1", "b-{{"]
        chunks = executor.map(functions.joined, "abcde", range(5), chunksize=2)
        assert list(chunks) == ["a-0", "b-1", "c-2", "d-3", "e-4"]
        assert list(executor.map(functions.echoed, [])) == []
        assert executor.submit(functions.joined, "{{ a", right=1, sep="+").result() == "{{ a+1"
        assert executor.submit(functions.double, 4).result(PATIENCE) == 8
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(functions.echoed, 1)


def test_a_failure_in_a_map_is_raised_in_its_place_and_cancels_the_rest(
    executor: Executor, tmp_path: Path
) -> None:
    results = executor.map(functions.square, [1, 2, 7, 3])
    assert [next(results), next(results)] == [1, 4]
    with pytest.raises(InstanceFailed, match="7 is unlucky"):
        next(results)
    gate = str(tmp_path / "never")
    with pytest.raises((TimeoutError, concurrent.futures.TimeoutError)):
        list(executor.map(functions.gated, [gate], ["late"], timeout=0.5))
    until("it is cancelled", lambda: all(run.ended for run in executor.client.runs(owner="exec")))


def test_futures_are_waited_for_and_cancelled(executor: Executor, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    several = [executor.submit(functions.gated, str(gate), name) for name in "abc"]
    until("all have begun", lambda: all((tmp_path / f"gate.{name}").exists() for name in "abc"))
    until("one is known to run", several[0].running)
    called: List[Any] = []
    several[1].add_done_callback(called.append)
    assert several[1].cancel() and several[1].cancelled() and called == [several[1]]
    instance = several[1].instance
    assert instance is not None
    assert instance.refresh(wait=30).state == "HALTED"
    with pytest.raises(concurrent.futures.CancelledError):
        several[1].result()
    gate.touch()
    order = list(concurrent.futures.as_completed(several, timeout=PATIENCE))
    assert order[0] is several[1] and {future.result() for future in order[1:]} == {"a", "c"}
    assert not several[0].cancel()


def test_calls_that_wait_are_cancelled_at_shutdown(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    executor = Executor(client, owner="exec", resources=SMALL, max_concurrent=1)
    running = executor.submit_all(functions.gated, [str(gate)] * 5, "abcde")
    stuck = Executor(client, owner="exec", resources={"cpu": 900})
    never = stuck.submit(functions.echoed, 1)
    stuck.shutdown(cancel_futures=True)
    assert never.cancelled()
    until("one runs", lambda: any(each.running() for each in running))
    executor.shutdown(wait=False, cancel_futures=True)
    [left] = [future for future in running if not future.cancelled()]
    gate.touch()
    assert left.result(PATIENCE) in "abcde"
    until("the run has ended", lambda: running[0].run.refresh().ended)
    counts = client.run(running[0].run.id).counts
    assert counts is not None and counts.done == 1
    assert client.run(never.run.id).refresh(wait=30).ended


def test_a_cancelled_future_is_notified_once(caplog: pytest.LogCaptureFixture) -> None:
    """The watcher learns of the end of a call that this program has cancelled."""
    batch = Batch(threading.RLock(), cast(Run, None), "call", [1, 1], chunked=False)
    cancelled, pending = batch.futures
    assert cancelled.settle_cancelled() and cancelled.settle_cancelled()
    done, left = concurrent.futures.wait([cancelled, pending], timeout=0)
    assert (done, left) == ({cancelled}, {pending})
    assert not caplog.records


def test_a_call_that_another_client_cancels_fails(executor: Executor, tmp_path: Path) -> None:
    future = executor.submit(functions.gated, str(tmp_path / "gate"), "x")
    until("it runs", future.running)
    future.run.halt(now=True)
    with pytest.raises(InstanceFailed, match="HALTED"):
        future.result(PATIENCE)
    blocked = Executor(executor.client, owner="exec", resources={"cpu": 900}, max_concurrent=1)
    several = blocked.submit_all(functions.echoed, [1, 2, 3])
    several[0].run.halt(kill=True)
    for future in several:
        with pytest.raises(BatonError, match="HALTED"):
            future.result(PATIENCE)


def test_results_arrive_across_a_restart(tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        gate = tmp_path / "gate"
        with Executor(Client(server.url), resources=SMALL) as executor:
            future = executor.submit(functions.gated, str(gate), "x")
            until("it has begun", (tmp_path / "gate.x").exists)
            server.kill()
            server.start_again()
            later = executor.submit(functions.echoed, 2)
            gate.touch()
            assert (future.result(2 * PATIENCE), later.result(2 * PATIENCE)) == ("x", 2)
    finally:
        server.stop()


def test_what_cannot_be_sent_or_returned_is_told(executor: Executor) -> None:
    with pytest.raises(WorkflowError, match="argument 0 of echoed is not JSON"):
        executor.submit(functions.echoed, object())
    with pytest.raises(WorkflowError, match="item 1 of a map is not JSON"):
        executor.map(functions.echoed, [1, {1: 2}])
    with pytest.raises(WorkflowError, match="cannot find the function"):
        executor.submit(lambda: 1)
    with pytest.raises(WorkflowError, match="cannot be called with these arguments"):
        executor.map(functions.echoed, [1], [2])
    with pytest.raises(WorkflowError, match="takes 130002 bytes"):
        executor.map(functions.echoed, ["x" * 130_000])
    with pytest.raises(WorkflowError, match="cannot be mapped over"):
        executor.map(functions.echoed, 5)  # type: ignore[arg-type]
    with pytest.raises(WorkflowError, match="chunksize"):
        executor.map(functions.echoed, [1], chunksize=0)
    with pytest.raises(BatonError, match="rum"):
        Executor(executor.client, rum=1).submit(functions.echoed, 1)
    with pytest.raises(InstanceFailed, match="takes 70013 bytes .* write it to a file"):
        executor.submit(functions.large, 70_000).result(PATIENCE)
    with pytest.raises(InstanceFailed, match="not JSON .* write it to a file"):
        executor.submit(functions.object_of).result(PATIENCE)
    with pytest.raises(InstanceFailed, match="SystemExit|exit 5"):
        executor.submit(functions.leaves, 5).result(PATIENCE)
    with pytest.raises(InstanceFailed, match=r"leaves has ended with SystemExit\(0\)"):
        executor.submit(functions.leaves, 0).result(PATIENCE)


def test_functions_of_a_script_are_called(server: Server, tmp_path: Path) -> None:
    program = tmp_path / "script.py"
    program.write_text(
        "from baton import Executor\n"
        "def add(a, b):\n"
        "    return a + b\n"
        "if __name__ == '__main__':\n"
        "    with Executor() as executor:\n"
        "        print(sum(executor.map(add, [1, 2, 3], [10, 20, 30])))\n"
    )
    assert script(program, BATON_URL=server.url) == ["66"]
