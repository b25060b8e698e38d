"""The client for asyncio on a real server."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any, Coroutine, List

import pytest

from baton import (
    AsyncClient,
    BatonError,
    Executor,
    InstanceFailed,
    RunFailed,
    WaitTimeout,
    Workflow,
)

from . import functions
from .conftest import PATIENCE, Server, until

SMALL = {"cpu": 0.1}


def opened(gate: Path) -> str:
    return f"until test -e {gate}; do sleep 0.05; done"


def run(program: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(program, 2 * PATIENCE))


def idle() -> bool:
    """No request is in flight in a thread that was closed."""
    return not any(each.name.startswith("baton-async") for each in threading.enumerate())


def test_many_are_submitted_and_waited_for_at_once(server: Server) -> None:
    async def program() -> None:
        async with AsyncClient(server.url) as client:
            several = await asyncio.gather(
                *(client.submit(f"echo {n}", resources=SMALL, name="many") for n in range(40))
            )
            await asyncio.gather(*(each.wait(PATIENCE) for each in several))
            assert [await each.logs() for each in several] == [f"{n}\n" for n in range(40)]
            found = [each async for each in client.instances(name="many", state="DONE")]
            assert len(found) == 40 and (await client.instance(several[0].id)).state == "DONE"

    run(program())
    until("its threads have ended", idle)


def test_handles_complete_in_their_order(server: Server, tmp_path: Path) -> None:
    async def program() -> None:
        async with AsyncClient(server.url) as client:
            gates = [tmp_path / str(n) for n in range(3)]
            several = [await client.submit(opened(gate), resources=SMALL) for gate in gates]
            assert await client.wait(several, timeout=0.1) == ([], several)
            gates[1].touch()
            done, others = await client.wait(several, PATIENCE, any=True)
            assert done == [several[1]] and len(others) == 2
            with pytest.raises(WaitTimeout):
                await several[0].wait(timeout=0.1)
            gates[2].touch()
            order = client.as_completed(several, PATIENCE)
            first = [await order.__anext__(), await order.__anext__()]
            assert set(map(id, first)) == {id(several[1]), id(several[2])}
            assert await several[0].cancel()
            assert [each async for each in order] == [several[0]]
            assert several[0].state == "HALTED"
            assert (await client.wait(several)).not_done == []
            with pytest.raises(BatonError, match="cannot be waited for"):
                await client.wait(["i1"])  # type: ignore[list-item]

    run(program())


def test_arrays_runs_and_failures(server: Server) -> None:
    async def program() -> None:
        async with AsyncClient(server.url) as client:
            array = await client.submit("test $BATON_ARRAY_INDEX != 2", array=4, resources=SMALL)
            with pytest.raises(InstanceFailed, match="3 DONE, 1 FAILED"):
                await array.wait(PATIENCE)
            assert len(array) == 4 and (await array[2].refresh()).state == "FAILED"
            workflow = Workflow("async")
            workflow.task("a", run="echo one; echo rows=5 > $BATON_OUTPUT")
            done = await client.submit(workflow)
            assert (await done.wait(PATIENCE)).state == "DONE"
            assert await done.outputs("a") == {"rows": 5} and await done.logs("a") == "one\n"
            assert [line async for line in done.logs("a", follow=True)] == ["one\n"]
            assert [item.task async for item in done.items()] == ["a"]
            assert done.id in [each.id async for each in client.runs(name="async")]
            workflow.task("b", run="echo broken >&2; exit 3")
            with pytest.raises(RunFailed, match="broken"):
                await (await client.submit(workflow)).wait(PATIENCE)
            put = client.client.library.put
            await client.call(put, {"task": "t", "owner": "async", "run": "true"})
            launched = [await client.trigger("async/t", idempotency_key="k") for _ in range(2)]
            assert launched[0].id == launched[1].id

    run(program())


def test_several_are_changed_at_once_and_start_after_others(server: Server) -> None:
    async def program() -> None:
        async with AsyncClient(server.url) as client:
            never = await client.submit("true", array="0-2%1", resources={"cpu": 900})
            then = await client.submit("true", after={never[0]: "any"}, resources=SMALL)
            assert await client.cancel_all(never[0], never[2].id) == (2, 0)
            assert (await then.wait(PATIENCE)).state == "DONE"
            assert await client.retry_all(never, state="HALTED") == (2, 1)
            assert await client.kill_all(never) == (0, 3)
            assert await client.cancel_all(never, then) == (3, 0)

    run(program())


def test_lines_and_events_are_followed_until_the_task_is_cancelled(
    server: Server, tmp_path: Path
) -> None:
    async def program() -> None:
        async with AsyncClient(server.url) as client:
            gate = tmp_path / "gate"
            instance = await client.submit(f"echo one; {opened(gate)}; echo two")
            lines: List[str] = []

            async def read() -> None:
                async for line in client.logs(instance.id, follow=True):
                    lines.append(line)

            reader, other = asyncio.create_task(read()), asyncio.create_task(read())
            while len(lines) < 2:
                await asyncio.sleep(0.02)
            other.cancel()
            with pytest.raises(asyncio.CancelledError):
                await other
            gate.touch()
            await reader
            assert lines == ["one\n", "one\n", "two\n"]
            async for event in client.events(after=0, instance=instance):
                if event.ended:
                    break

            async def listen() -> None:
                async for _ in client.events(owner="silent"):
                    pass

            listener = asyncio.create_task(listen())
            await asyncio.sleep(0)
            listener.cancel()
            with pytest.raises(asyncio.CancelledError):
                await listener

    run(program())
    until("its threads have ended", idle)


def test_an_executor_is_awaited(server: Server) -> None:
    async def program() -> None:
        async with AsyncClient(server.url) as client:
            executor = Executor(client.client, resources=SMALL)
            futures = executor.submit_all(functions.square, [1, 2, 3])
            assert await asyncio.gather(*map(asyncio.wrap_future, futures)) == [1, 4, 9]

    run(program())
