"""Instances, arrays and waiting on a real server."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any, List

import pytest

from baton import (
    Array,
    BatonError,
    Client,
    Instance,
    InstanceFailed,
    Percentiles,
    Submitter,
    TaskUsage,
    WaitTimeout,
    Workflow,
    WorkflowError,
    as_completed,
    wait,
)
from baton._client.submission import body, indices, task_file

from .conftest import PATIENCE, Server, until

#: Small enough for many at once.
SMALL = {"cpu": 0.1}


def opened(gate: Path) -> str:
    """A command that ends when a file is there."""
    return f"until test -e {gate}; do sleep 0.05; done"


def test_a_command_is_submitted_waited_for_and_read(client: Client) -> None:
    instance = client.submit('echo "$GREETING {{ params.who }}"', {"who": 5}, env={"GREETING": "hi"})
    assert isinstance(instance, Instance) and instance.name == "echo"
    assert instance.wait(PATIENCE) is instance and instance.ended and instance.attempts == 1
    assert instance.logs() == "hi 5\n" == client.logs(instance.id)
    assert client.instance(instance.id).state == "DONE"
    words = client.submit(["sh", "-c", "echo rows=7 > $BATON_OUTPUT"], name="words", owner="py")
    assert words.wait(PATIENCE).outputs() == {"rows": 7}
    assert (words.name, words.owner) == ("words", "py")


def test_the_submitter_of_an_instance_and_a_run_is_known(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER", "ann")
    ann = Submitter("unauthenticated", "ann (not authenticated)", name="ann")
    instance = client.submit("true").wait(PATIENCE)
    assert instance.refresh().submitted_by == ann
    workflow = Workflow("w")
    workflow.task("a", "true")
    run = client.submit(workflow).wait(PATIENCE)
    assert run.refresh().submitted_by == ann
    item = next(iter(run.items()))
    assert client.instance(item.instance).submitted_by == ann
    monkeypatch.delenv("USER")
    unknown = client.submit("true")
    assert unknown.submitted_by is None and unknown.refresh().submitted_by is None


def test_a_worker_has_what_is_claimed_and_what_is_measured(client: Client) -> None:
    busy = client.submit("while :; do :; done", resources={"cpu": 0.25})

    def measured() -> bool:
        uses = [each.measured for each in client.workers()]
        return any(each is not None and each.cpu_milli > 250 for each in uses)

    until("the worker measures its use", measured)
    (worker,) = client.workers()
    assert worker.capacity["cpu_milli"] == 32_000 and worker.used["cpu_milli"] >= 250
    assert busy.cancel(now=True)


def test_requests_are_compared_with_the_use(client: Client) -> None:
    resources = {"cpu": 1, "memory": "1GiB"}
    client.submit("true", name="small", owner="sizing", resources=resources, array=range(6)).wait(PATIENCE)
    (use,) = client.task_usage("sizing", workflow="", task="small")
    assert isinstance(use, TaskUsage) and use.workflow is None and (use.attempts, use.succeeded) == (6, 6)
    assert (use.cpus, use.memory_requested) == (1.0, 1 << 30)
    assert isinstance(use.memory, Percentiles) and 0 < use.memory.p50 <= use.memory.p95 <= use.memory.max
    assert any(line.startswith("resources: {") for line in use.lines), use
    assert any("memory: 1GiB is too much" in reason for reason in use.reasons), use
    assert list(client.task_usage("sizing", workflow="other")) == []


def test_what_is_late_has_an_alarm_until_it_ends(client: Client) -> None:
    late = client.submit({"task": "tardy", "run": "sleep 600", "deadline": "1s"})
    until("it is late", lambda: any(each.subject == late.id for each in client.alarms()))
    owner = late.refresh().owner
    (alarm,) = [each for each in client.alarms(owner) if each.subject == late.id]
    assert (alarm.kind, alarm.owner, alarm.name) == ("late", owner, "tardy")
    assert alarm.raised_at > 0 and alarm.reason
    assert client.alarms("nobody") == []
    assert late.cancel(now=True)
    until("it ends", lambda: all(each.subject != late.id for each in client.alarms()))


def test_what_waits_is_counted_by_its_reason(client: Client) -> None:
    waiting = client.submit("true", name="huge", owner="patient", resources={"cpu": 90_000})
    (group,) = client.wait_groups("patient")
    assert (group.count, group.first, group.reason) == (1, waiting.id, "never-fits")
    assert "90000 cores" in group.text
    assert waiting.cancel()
    assert client.wait_groups("patient") == []


def test_a_task_file_takes_other_fields(client: Client) -> None:
    file = {"task": "file", "run": "echo $A $B", "env": {"A": "a", "B": "b"}}
    instance = client.submit(file, env={"B": "changed"}, name="renamed")
    assert instance.wait(PATIENCE).logs() == "a changed\n" and instance.name == "renamed"
    with pytest.raises(BatonError, match="rum") as caught:
        client.submit("true", rum=1)
    assert caught.value.status == 422


def test_a_failure_has_the_last_lines_of_stderr(client: Client) -> None:
    instance = client.submit("for i in $(seq 20); do echo line $i >&2; done; exit 3")
    with pytest.raises(InstanceFailed) as caught:
        instance.wait(PATIENCE)
    text = str(caught.value)
    assert text.startswith(f"instance {instance.id} (for) is FAILED: exit 3\n")
    assert "line 11\n" in text and text.endswith("line 20") and "line 10\n" not in text
    assert caught.value.__cause__ is None and caught.value.state == "FAILED"


def test_an_array_of_100_has_one_failure(client: Client) -> None:
    command = "echo $BATON_ARRAY_INDEX; test $BATON_ARRAY_INDEX != 57"
    array = client.submit(command, array=range(1, 101), resources=SMALL, name="hundred")
    assert isinstance(array, Array) and len(array) == 100
    with pytest.raises(InstanceFailed) as caught:
        array.wait(2 * PATIENCE)
    assert array.counts == {"DONE": 99, "FAILED": 1} and caught.value.array is array
    assert "99 DONE, 1 FAILED" in str(caught.value)
    [bad] = array.failed()
    assert bad.array_index == 57 and bad.id == array[56].id
    assert array[2].refresh().array_index == 3 and array[2].logs() == "3\n"
    [again] = array.retry()
    assert again.id == bad.id
    until("it has failed again", lambda: again.refresh().attempts == 2 and again.ended)


def test_many_handles_are_waited_for(client: Client, tmp_path: Path) -> None:
    gates = [tmp_path / str(number) for number in range(3)]
    several: List[Any] = [client.submit(opened(gate)) for gate in gates]
    workflow = Workflow("waited")
    workflow.task("a", run=opened(gates[2]))
    several.append(workflow.run(client))
    assert wait(several, timeout=0.1) == ([], several)
    assert client.wait(several, timeout=0.1, any=True) == ([], several)
    gates[1].touch()
    assert wait(several, PATIENCE, any=True) == ([several[1]], [several[0], *several[2:]])
    order = as_completed(several, PATIENCE)
    assert next(order) is several[1]
    gates[2].touch()
    assert {id(next(order)), id(next(order))} == {id(several[2]), id(several[3])}
    with pytest.raises(WaitTimeout, match=several[0].id):
        list(as_completed(several, timeout=0.2))
    gates[0].touch()
    assert list(order) == [several[0]]
    assert wait(several, PATIENCE) == (several, [])
    assert wait([]) == ([], []) and list(as_completed([])) == []


def test_an_array_has_one_element_for_each_item_or_index(client: Client) -> None:
    each = client.submit(["echo", "{{ item.n }} {{ item }}"], items=[{"n": "a b"}, {"n": 2}])
    each.wait(PATIENCE)
    assert isinstance(each, Array) and [one.logs() for one in each] == [
        'a b {"n":"a b"}\n',
        '2 {"n":2}\n',
    ]
    assert each[1].refresh().item == '{"n":2}' and each[1].array_index == 1
    listed = client.submit("echo $BATON_ARRAY_INDEX", array=range(1, 9, 3), resources=SMALL)
    assert [one.logs() for one in listed.wait(PATIENCE)] == ["1\n", "4\n", "7\n"]
    refused: Any = ({"items": []}, {"items": "ab"}, {"items": ["a"], "array": 3})
    for wrong in refused:
        with pytest.raises(WorkflowError, match="items="):
            client.submit("true", **wrong)


def test_several_instances_are_changed_at_once(client: Client) -> None:
    array = client.submit("test $BATON_ARRAY_INDEX != 2", array=4, resources=SMALL)
    never = client.submit("true", array=3, resources={"cpu": 900})
    wait([array], PATIENCE)
    assert client.retry_all(array, never[0]) == (1, 4)
    assert client.cancel_all(never) == (3, 0)
    assert client.retry_all(never.id, state="HALTED") == (3, 0)
    assert client.cancel_all(never[0], never[2].id) == (2, 0)
    assert client.kill_all(never) == (0, 3) and client.cancel_all(never[1]) == (1, 0)
    with pytest.raises(BatonError, match="no instance is named"):
        client.cancel_all()


def test_a_submission_starts_after_others(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    first = client.submit(opened(gate), resources=SMALL)
    several = client.submit("exit 3", array=2, resources=SMALL)
    then = client.submit("true", after=[first, f"{several.id}:any"], resources=SMALL)
    bad = client.submit("true", after={several: "fail"}, resources=SMALL)
    bad.wait(PATIENCE)
    assert several.refresh().counts == {"FAILED": 2} and then.refresh().state == "QUEUED"
    assert first.id in then.explain()
    gate.touch()
    then.wait(PATIENCE)
    with pytest.raises(BatonError, match="it would never start"):
        client.submit("true", after=several)


def test_an_array_has_limits(client: Client) -> None:
    array = client.submit("exit 3", array="1-40%1", max_fails=2, resources=SMALL)
    wait([array], PATIENCE)
    assert array.refresh().counts == {"FAILED": 2, "HALTED": 38}
    listed = client.submit("true", items=["a", "b"], max_concurrent=1, resources=SMALL)
    assert listed.wait(PATIENCE).counts == {"DONE": 2}


@pytest.mark.parametrize(
    "wrong",
    [
        {"after": "x"},
        {"after": {"i1": "ended"}},
        {"after": 5},
        {"after": ["i1:no"]},
        {"max_fails": 1},
        {"array": 3, "max_fails": 0},
        {"array": 3, "max_concurrent": True},
        {"array": "1-3%x"},
        {"array": "1-3%2", "max_concurrent": 2},
    ],
)
def test_conditions_that_are_none_are_refused(wrong: Any) -> None:
    array, items = wrong.pop("array", None), wrong.pop("items", None)
    with pytest.raises(WorkflowError, match="after=|max_fails=|max_concurrent=|array="):
        body({"task": "t", "run": "true"}, {}, array, items, **wrong)


def test_elements_of_an_array_complete_one_by_one(client: Client, tmp_path: Path) -> None:
    command = f"until test -e {tmp_path}/$BATON_ARRAY_INDEX; do sleep 0.05; done"
    array = client.submit(command, array=12, resources=SMALL)
    other = client.submit(opened(tmp_path / "other"), array=3, resources=SMALL)
    whole = as_completed([other], PATIENCE)
    order = as_completed(array, PATIENCE)
    for index in (7, 2, 11):
        (tmp_path / str(index)).touch()
        found = next(order)
        assert isinstance(found, Instance) and found.array_index == index
    halted, stopping = array.cancel()
    assert halted + stopping == 9
    assert {each.state for each in order} == {"HALTED"}
    (tmp_path / "other").touch()
    assert list(whole) == [other] and other.state == "DONE"


def test_cancel_kill_and_retry(client: Client, tmp_path: Path) -> None:
    slow = client.submit(f"touch {tmp_path}/begun; {opened(tmp_path / 'gate')}")
    until("it has begun", (tmp_path / "begun").exists)
    assert slow.kill(now=True) == 1
    with pytest.raises(InstanceFailed):
        slow.wait(PATIENCE)
    assert not slow.retry().ended
    assert slow.cancel() and slow.refresh(wait=30).state == "HALTED"
    assert not slow.cancel()
    (tmp_path / "gate").touch()
    assert client.retry(slow.id).wait(PATIENCE).attempts >= 2
    with pytest.raises(BatonError, match="DONE"):
        client.retry(slow)


def test_lists_are_filtered_and_lazy(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    array = client.submit(opened(gate), array=5, name="listed", owner="lists", resources=SMALL)
    failing = client.submit("false", name="listed", owner="lists")
    with pytest.raises(InstanceFailed):
        failing.wait(PATIENCE)
    never = client.submit("true", name="never", owner="lists", array=4, resources={"cpu": 900})
    found = list(client.instances(owner="lists", name="listed"))
    assert sorted(each.number for each in found) == [*range(array.first, array.last + 1), failing.number]
    assert [each.id for each in client.instances(state="failed", owner="lists")] == [failing.id]
    waiting = list(client.instances(name="never"))
    assert sorted(each.number for each in waiting) == list(range(never.first, never.last + 1))
    assert {each.state for each in waiting} == {"QUEUED"}
    assert "900" in waiting[0].explain()
    assert len(list(client.instances(owner="lists", limit=3))) == 3
    assert [each.id for each in client.instances(state="failed", owner="lists", since="1h")] == [failing.id]
    assert not list(client.instances(owner="lists", until="1h"))
    assert not list(client.instances(owner="lists", worker="nowhere"))
    tagged = client.submit("true", name="tagged", owner="lists", tags=["nightly"])
    assert [each.id for each in client.instances(tag="nightly")] == [tagged.id]
    assert not list(client.instances(tag="weekly"))
    assert client.cancel(never) == (4, 0)
    gate.touch()
    array.wait(PATIENCE)


def test_a_key_submits_once(client: Client) -> None:
    first, again = [client.submit("true", idempotency_key="py-once") for _ in range(2)]
    assert first.id == again.id
    arrays = [client.submit("true", array=3, idempotency_key="py-array") for _ in range(2)]
    assert arrays[0].id == arrays[1].id
    with pytest.raises(BatonError) as caught:
        client.submit("false", idempotency_key="py-once")
    assert caught.value.status == 422


def test_lines_are_followed_across_a_restart_and_a_retry(tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        client = Client(server.url)
        gate = tmp_path / "gate"
        command = f"echo begun $BATON_ATTEMPT; {opened(gate)}; echo end; test $BATON_ATTEMPT = 2"
        retry = {"attempts": 2, "backoff": "100ms"}
        instance = client.submit(command, retry=retry)
        lines: List[str] = []

        def read() -> None:
            for line in instance.logs(follow=True):
                lines.append(line)

        reader = threading.Thread(target=read)
        reader.start()
        until("its first line is read", lambda: lines == ["begun 1\n"])
        server.kill()
        server.start_again()
        gate.touch()
        reader.join(2 * PATIENCE)
        assert not reader.is_alive()
        assert lines == ["begun 1\n", "end\n", "begun 2\n", "end\n"]
        assert Client(server.url).instance(instance.id).attempts == 2
    finally:
        server.stop()


def test_an_item_of_a_run_is_followed_from_before_its_start(client: Client, tmp_path: Path) -> None:
    workflow = Workflow("followed")
    first = workflow.task("first", run=opened(tmp_path / "gate"))
    workflow.task("second", run="echo one; printf two", after=[first])
    run = workflow.run(client)
    lines = run.logs("second", follow=True)
    (tmp_path / "gate").touch()
    assert list(lines) == ["one\n", "two"]
    with pytest.raises(BatonError, match="no task .missing."):
        list(run.logs("missing", follow=True))


def test_events_are_read_and_continue_after_their_number(client: Client) -> None:
    with client.events(owner="evented") as events:
        start = events.locate()
        instance = client.submit("true", owner="evented")
        seen = []
        for event in events:
            seen.append(event)
            if event.ended:
                break
    assert [seen[0].kind, seen[-1].kind] == ["instances-submitted", "attempt-ended"]
    assert all(event.seq > start for event in seen)
    assert seen[-1].ended == (instance.number, instance.number)
    again = client.events(after=seen[0].seq, owner="evented")
    first = again.read()
    assert first is not None and first.seq == seen[1].seq
    assert again.read(client.transport.now() + PATIENCE) is not None
    again.close()
    assert again.read() is None


@pytest.mark.parametrize("array", [0, -1, range(0), range(9, 0, 2), "5-1", "x", "1-", True, 1.5, range(-3, 2), [], [1, -1], ["1"]])
def test_indices_that_are_none_are_refused(array: Any) -> None:
    with pytest.raises(WorkflowError, match="array="):
        indices(array)


@pytest.mark.parametrize("what", ["", "  ", [], 5, b"x", ["a", 5], "etl.yaml", print])
def test_what_is_no_command_is_refused(what: Any) -> None:
    with pytest.raises(WorkflowError):
        task_file(what, {})


def test_a_workflow_takes_no_fields_of_tasks(client: Client) -> None:
    with pytest.raises(WorkflowError, match="array= does not apply"):
        client.submit({"workflow": "w", "tasks": {}}, array=3)
    with pytest.raises(WorkflowError, match="after= does not apply"):
        client.submit({"workflow": "w", "tasks": {}}, after="i1")
    with pytest.raises(BatonError, match="cannot be waited for"):
        wait(["i1"])  # type: ignore[list-item]
