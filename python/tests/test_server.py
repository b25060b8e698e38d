"""Workflows on a real server."""

from __future__ import annotations

import re
import subprocess
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Dict, List

import pytest

from baton import BatonError, Client, Run, RunConflict, RunFailed, WaitTimeout, Workflow

from . import functions
from .conftest import PATIENCE, PYTHON, Server, binary, environment, script, until

#: Fails at first.
FLAKY = 'test "$BATON_ATTEMPT" -ge 2 || { echo "not this time" >&2; exit 75; }'

AGAIN = {"attempts": 3, "backoff": "100ms..200ms"}


def done(run: Run) -> Run:
    return run.wait(timeout=PATIENCE, progress=False)


def failed(run: Run) -> RunFailed:
    with pytest.raises(RunFailed) as caught:
        done(run)
    return caught.value


def opened(gate: Path) -> str:
    """A command that ends when a file is there."""
    return f"until test -e {gate}; do sleep 0.05; done"


def test_the_example_of_the_readme_runs_as_it_is_written(server: Server, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (PYTHON / "README.md").read_text(), re.S)
    example = tmp_path / "etl.py"
    example.write_text(blocks[0])
    assert script(example, BATON_URL=server.url) == ["800 rows: 800", ""]


def test_a_submission_that_is_sent_again_makes_one_run(client: Client) -> None:
    body = b'{"file": {"workflow": "once", "tasks": {"a": {"run": "true"}}}}'
    sent = [client.transport.change("POST", "/runs/", body, key=key) for key in ["k1", "k1", "k2"]]
    ids = [answer["id"] for answer in sent]
    assert ids[0] == ids[1] != ids[2]
    assert len([run for run in client.runs(name="once")]) == 2


def test_a_fork_joins_after_a_failure_that_is_tried_again(client: Client) -> None:
    wf = Workflow("diamond")
    start = wf.task("start", run="echo begin")
    left = wf.task("left", run=FLAKY, retry=AGAIN)
    right = wf.task("right", run="true")
    join = wf.task("join", run="echo joined")
    start >> [left, right] >> join
    run = wf.run(client)
    assert done(run) is run and run.state == "DONE"
    counts = run.counts
    assert counts is not None and (counts.done, counts.total) == (4, 4)
    data = {task.name: task for task in run.tasks()}
    assert [edge.task for edge in data["join"].after] == ["left", "right"]
    assert data["left"].items.done == 1
    attempts = {item.task: item.attempts for item in run.items()}
    assert attempts["left"] > 1 and attempts["right"] == 1, attempts
    assert run.logs(join) == "joined\n" and "not this time" not in run.logs("left", stderr=True)


def test_a_run_that_fails_raises_with_its_errors(client: Client) -> None:
    wf = Workflow("broken")
    bad = wf.for_each("bad", "echo wrong {{ item }} >&2; exit 3", items=range(3))
    wf.task("after", run="true", after=[bad])
    cleanup = wf.task("cleanup", run="echo cleaned").after(bad, on="end")
    error = failed(wf.run(client))
    assert error.state == "FAILED" and [(each.task, each.count) for each in error.errors] == [
        ("bad", 3)
    ]
    assert "bad: " in str(error) and "(3 times)" in str(error)
    items = list(error.run.items(state="FAILED"))
    assert [(each.task, each.item, each.value) for each in items] == [
        ("bad", number, number) for number in range(3)
    ]
    assert error.run.logs(bad, item=1, stderr=True) == "wrong 1\n"
    assert error.run.logs(cleanup) == "cleaned\n"
    counts = error.run.counts
    assert counts is not None and (counts.failed, counts.blocked, counts.done) == (3, 1, 1)
    with pytest.raises(BatonError, match="item 0 of task after"):
        error.run.logs("after")


@pytest.mark.parametrize(
    ("fields", "word"), [({"rum": "x"}, "rum"), ({"after": ["missing"]}, "missing")]
)
def test_a_workflow_with_a_mistake_is_refused_with_its_place(
    client: Client, fields: Dict[str, Any], word: str
) -> None:
    wf = Workflow("mistake")
    wf.task("a", run="true", **fields)
    with pytest.raises(BatonError) as caught:
        wf.run(client)
    [error] = caught.value.errors
    assert caught.value.status == 422 and error.field.startswith("tasks.a") and error.hint
    assert word in error.message


def test_a_halted_run_goes_on_where_it_was(client: Client, tmp_path: Path) -> None:
    gate, begun = tmp_path / "gate", tmp_path / "begun"
    wf = Workflow("halting")
    first = wf.task("first", run=f"echo once >> {tmp_path}/first")
    slow = wf.task("slow", run=f"touch {begun}; {opened(gate)}", after=[first])
    wf.task("last", run="true", after=[slow])
    run = wf.run(client)
    until("the second task has begun", begun.exists)
    with pytest.raises(WaitTimeout):
        run.wait(timeout=0.1, progress=False)
    run.halt(kill=True)
    assert failed(run).state == "HALTED"
    preview = {each["name"]: each for each in run.resume(dry_run=True)["tasks"]}
    assert preview["first"]["kept"] == 1 and preview["slow"]["kept"] == 0
    assert run.refresh().state == "HALTED"
    gate.touch()
    assert run.resume() is run and run.generation == 2
    assert done(run).state == "DONE"
    assert (tmp_path / "first").read_text() == "once\n"


def test_what_runs_may_end_when_a_run_is_drained(client: Client, tmp_path: Path) -> None:
    gate, begun = tmp_path / "gate", tmp_path / "begun"
    wf = Workflow("draining")
    slow = wf.task("slow", run=f"touch {begun}; {opened(gate)}")
    wf.task("last", run="true", after=[slow])
    run = wf.run(client)
    until("the first task has begun", begun.exists)
    assert not run.halt().ended
    gate.touch()
    error = failed(run)
    counts = error.run.counts
    assert error.state == "HALTED" and counts is not None and counts.done == 1


def test_a_changed_workflow_runs_again_what_has_changed(client: Client) -> None:
    def made(command: str) -> Workflow:
        wf = Workflow("fixed")
        (
            wf.task("good", run="echo good")
            >> wf.task("bad", run=command)
            >> wf.task("last", run="true")
        )
        return wf

    run = made("false").run(client)
    failed(run)
    run.retry("good", downstream=True)
    failed(run)
    assert run.generation == 2
    preview = run.resume(made("true"), dry_run=True)
    assert {each["name"]: each["kept"] for each in preview["tasks"]}["good"] == 1
    run.resume(made("true"))
    assert done(run).generation == 3
    run.retry("bad")
    assert done(run).generation == 4


def test_an_old_run_object_changes_no_newer_generation(client: Client) -> None:
    wf = Workflow("stale")
    wf.task("bad", run="false")
    run = wf.run(client)
    failed(run)
    stale = client.run(run.id)
    run.retry()
    failed(run)
    for change in (stale.halt, stale.resume, stale.retry):
        with pytest.raises(RunConflict, match="generation 2 now.* object has generation 1"):
            change()
    assert stale.refresh().generation == 2
    assert stale.retry().generation == 3
    failed(stale)


def test_items_that_are_texts_are_read_as_they_are(client: Client) -> None:
    items = ["eu", "5", "null", 5, None, {"name": "x"}, [1, "2"]]
    wf = Workflow("texts")
    each = wf.for_each("each", "echo {{ item }}", items=items)
    run = done(wf.run(client))
    assert [item.value for item in run.items(task=each)] == items


def test_one_item_is_found_by_its_place(client: Client) -> None:
    wf = Workflow("place")
    each = wf.for_each("each", "echo {{ item }}", items=["a", "b", "c", "d", "e", "f", "g"])
    run = done(wf.run(client))
    assert run.item(each, 3).item == 3 and run.logs(each, 6) == "g\n"
    with pytest.raises(BatonError, match="item 7 of task each"):
        run.item(each, 7)


def test_what_a_function_prints_is_seen_while_it_runs(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with Workflow("prints") as wf:
        made = functions.says(str(gate))
    run = wf.run(client)
    until("it has begun", lambda: bool(list(run.items(task=made, state="RUNNING"))))
    until("its words are seen", lambda: run.logs(made) == "begun\n")
    gate.touch()
    done(run)


def test_outputs_of_functions_keep_their_types_and_boxes_are_not_shown(client: Client) -> None:
    with Workflow("outputs") as wf:
        first = functions.writes('{"rows": "5", "files": ["6", 6]}')
        rows = functions.kind(first.output("rows"))
        each = functions.kind.map(first.output("files"))
        several = functions.writes.map(["rows=7", "rows=x"])
        together = functions.kinds(several.output("rows"))
        # What a command puts out is read as JSON where it is JSON.
        shell = wf.task("shell", run=["sh", "-c", "echo rows='\"5\"' > $BATON_OUTPUT"])
        guessed = functions.kind(shell.output("rows"))
    run = done(wf.run(client))
    assert run.outputs(first) == {"rows": "5", "files": ["6", 6], "result": None}
    assert run.result(rows) == "str '5'" and run.result(guessed) == "int 5"
    assert [run.result(each, item) for item in (0, 1)] == ["str '6'", "int 6"]
    assert run.result(together) == ["int", "str", "NoneType"]


def test_functions_hand_their_results_on(client: Client) -> None:
    with Workflow("functions") as wf:
        three = functions.add(1, right=2)
        six = functions.double(three)
        shell = wf.task(
            "shell", run=["sh", "-c", 'echo "rows=$1" > "$BATON_OUTPUT"', "sh", six.output()]
        )
        seven = functions.add(shell.output("rows"), right=1)
    run = done(wf.run(client))
    assert run.result(three) == 3 and run.result("double") == 6
    assert run.outputs(shell) == {"rows": 6} and run.result(seven) == 7
    with pytest.raises(BatonError, match="no output `result`"):
        run.result(shell)


def test_maps_keep_the_kind_of_every_value(client: Client) -> None:
    with Workflow("maps") as wf:
        listed = functions.texts()
        each = functions.kind.map(listed)
        values = functions.pair.map(["5", 5])
        again = functions.kind.map(values)
        nothing = functions.kinds(functions.kind.map([]))
        single = functions.double.map(["5"])
        together = functions.kinds(functions.double.map(["5", 6]), more=single)
    run = done(wf.run(client))
    expected: List[object] = ["5", 5, "null", None, "{{ item }}", ["6"]]
    assert run.result(listed) == expected
    wanted = [f"{type(value).__name__} {value!r}" for value in expected]
    assert [run.result(each, item) for item in range(len(wanted))] == wanted
    assert [run.result(values, item) for item in range(2)] == [{"value": "5"}, {"value": 5}]
    assert [run.result(again, item) for item in range(2)] == [
        "dict {'value': '5'}",
        "dict {'value': 5}",
    ]
    assert run.result(nothing) == ["NoneType"]
    # One item is still a list of results to others.
    assert run.result(together) == ["str", "int", "list"]


def test_a_function_that_fails_shows_its_traceback(client: Client) -> None:
    with Workflow("traceback") as wf:
        made = functions.fails("no luck")
    error = failed(wf.run(client))
    assert "ValueError: no luck" in error.run.logs(made, stderr=True)


def test_an_array_of_2000_items_follows_its_edges(client: Client, tmp_path: Path) -> None:
    width = 1_000
    wf = Workflow("layers")
    first = wf.array("layer-0", run=f"touch {tmp_path}/{{{{ item }}}}", count=width)
    edges = [[number, (number + 1) % width] for number in range(width)]
    command = (
        f"test -e {tmp_path}/{{{{ item }}}} -a -e {tmp_path}/$(( ({{{{ item }}}} + 1) % {width} ))"
    )
    wf.array("layer-1", run=command, count=width, upstream=(first, edges))
    # A debug server on a busy machine runs some hundred a second.
    run = wf.run(client).wait(timeout=4 * PATIENCE, progress=False)
    counts = run.counts
    assert counts is not None and (counts.done, counts.total) == (2 * width, 2 * width)
    second = run.tasks()[1]
    assert second.after[0].task == "layer-0" and second.after[0].by_item
    assert sum(1 for _ in run.items(task="layer-1")) == width


def test_a_run_goes_on_without_the_program_that_began_it(server: Server, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    program = tmp_path / "begin.py"
    program.write_text(
        "from baton import Workflow\n"
        "wf = Workflow('detached', owner='away', params={'word': 'none'})\n"
        f"wf.task('slow', run='{opened(gate)}; echo {{{{ params.word }}}}')\n"
        "print(wf.run(params={'word': 'kept'}).id)\n"
    )
    [id] = script(program, BATON_URL=server.url)
    client = Client(server.url)
    run = client.run(id)
    assert (run.name, run.owner, run.ended) == ("detached", "away", False)
    assert id in [each.id for each in client.runs(owner="away", name="detached")]
    assert [each.id for each in client.runs(limit=1)] == [id]
    gate.touch()
    assert done(run).logs("slow") == "kept\n"


def test_a_large_workflow_is_registered_in_parts(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton._workflows.parts.PART_BYTES_MAX", 4_000)
    wf = Workflow("parts")
    previous = wf.task("t0", run="true")
    for number in range(1, 120):
        task = wf.task(f"t{number}", run="true")
        previous = task.after(previous) if number % 10 == 0 else task
    run = done(wf.run(client))
    assert len(run.tasks()) == 120 and run.counts is not None and run.counts.done == 120


def test_a_workflow_of_more_than_a_request_holds_is_taken(client: Client) -> None:
    wf = Workflow("large", params={"go": "no"})
    for number in range(30):
        wf.for_each(f"t{number}", "true", items=["x" * 1_000] * 300, when="params.go == 'yes'")
    assert len(str(wf.to_dict())) > 8 << 20
    run = done(wf.run(client))
    assert run.counts is not None and run.counts.skipped == 30 * 300


def test_a_part_that_is_refused_leaves_no_run_behind(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton._workflows.parts.PART_BYTES_MAX", 500)
    wf = Workflow("half")
    for number in range(20):
        wf.task(f"t{number}", run="true")
    wf.task("wrong", run="true", rum="x")
    with pytest.raises(BatonError, match="rum"):
        wf.run(client)
    assert [run.ended for run in client.runs(name="half")] == [True]


def test_a_token_is_shown_where_one_is_demanded(tmp_path: Path) -> None:
    command = [binary(), "token", "create", "--role", "operator", "--data", str(tmp_path / "data")]
    created = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    server = Server(tmp_path, "--require-tokens")
    try:
        with pytest.raises(BatonError) as caught:
            list(Client(server.url).runs())
        assert caught.value.status == 401
        wf = Workflow("token")
        wf.task("a", run="echo known")
        run = done(wf.run(Client(server.url, token=created.stdout)))
        assert run.logs("a") == "known\n"
    finally:
        server.stop()


def test_an_entry_of_the_library_is_paused_and_backfilled(client: Client) -> None:
    body = (
        b'{"workflow": "hourly", "owner": "py", "tasks": {"a": {"run": "true"}}, '
        b'"trigger": {"schedule": "0 * * * *"}}'
    )
    client.transport.change("POST", "/py/tasks/", body)
    client.pause("py/hourly", reason="repairs")
    shown = client.transport.get_json("/py/tasks/hourly")
    assert shown["pauseReason"] == "repairs"
    start = datetime(2026, 3, 1, tzinfo=timezone.utc)
    end = start + timedelta(hours=3)
    backfill = client.backfill("py/hourly", start, end, max_concurrent=3)
    assert backfill is not None and backfill.startswith("b")

    def state() -> Any:
        return next(each for each in client.backfills() if each["id"] == backfill)["state"]

    until("the backfill is DONE", lambda: state() == "DONE")
    assert len(list(client.runs(name="hourly"))) == 3
    assert client.backfill("py/hourly", start, end) is None
    with pytest.raises(BatonError):
        client.halt_backfill(backfill)
    client.unpause("py/hourly")
    assert "pausedAt" not in client.transport.get_json("/py/tasks/hourly")
