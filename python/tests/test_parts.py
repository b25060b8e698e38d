"""Large workflows are split into requests."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Set, Tuple

import pytest

from baton import Workflow, WorkflowError
from baton._workflows.parts import PART_BYTES_MAX, cut, ordered, values_of
from baton._values import check


def layers(count: int) -> Dict[str, Any]:
    wf = Workflow("parts", owner="demo")
    # Backwards, so that the order of definition is the wrong one.
    names = [f"t{number}" for number in range(count)]
    for number in reversed(range(count)):
        wf.task(names[number], run="true", after=names[max(0, number - 2) : number])
    return wf.to_dict()


def test_a_small_workflow_is_one_request() -> None:
    first, rest = cut(layers(3), {"day": "today"})
    data = json.loads(first)
    assert rest is None and data == {"file": layers(3), "params": {"day": "today"}, "open": False}


def test_parts_are_within_the_limit_and_hold_every_task_behind_those_before_it() -> None:
    file = layers(300)
    most = 2_000
    first, rest = cut(file, {}, most)
    assert rest is not None
    parts = [first, *rest]
    assert all(len(part) <= most for part in parts) and len(parts) > 5
    data = [json.loads(part) for part in parts]
    assert data[0]["open"] is True and data[0]["file"]["owner"] == "demo"
    tasks = [data[0]["file"]["tasks"], *(part["tasks"] for part in data[1:])]
    assert {name: task for part in tasks for name, task in part.items()} == file["tasks"]
    known: Set[str] = set()
    for part in tasks:
        known |= set(part)
        for task in part.values():
            assert known.issuperset(task.get("after", []))


def test_limits_count_bytes_and_not_letters() -> None:
    wf = Workflow("bytes")
    for number in range(20):
        wf.task(f"ü{number}", run="ü" * 50)
    first, rest = cut(wf.to_dict(), {}, 500)
    assert rest is not None and all(len(part) <= 500 for part in [first, *rest])


def test_a_task_too_large_for_any_request_is_named() -> None:
    wf = Workflow("large")
    wf.task("small", run="true")
    wf.for_each("huge", "true", items=["x" * 3_000])
    with pytest.raises(WorkflowError, match="the task huge alone takes"):
        cut(wf.to_dict(), {}, 2_000)


def test_a_cycle_is_reported_with_its_path() -> None:
    tasks: Dict[str, Any] = {
        "a": {"after": ["c"]},
        "b": {"after": ["a"]},
        "c": {"after": [{"task": "b"}]},
    }
    with pytest.raises(WorkflowError, match="a -> b -> c -> a"):
        ordered(tasks)


def test_what_a_task_is_mapped_over_comes_before_it_and_long_chains_are_fine() -> None:
    mapped: Dict[str, Any] = {
        "m": {"for_each": " {{tasks.list.a.outputs.files}} "},
        "n": {"after": "m", "for_each": "0..3"},
        "list.a": {"after": {"task": "zz"}},
        "zz": {},
    }
    assert ordered(mapped) == ["zz", "list.a", "m", "n"]
    chain = {f"t{number}": {"after": [f"t{number + 1}"]} for number in range(5_000)}
    assert len(ordered(chain)) == 5_000


def test_values_of_parameters_are_texts() -> None:
    assert values_of({"day": "1.10", "n": 5, "fast": True, "x": 0.5}) == {
        "day": "1.10",
        "n": "5",
        "fast": "true",
        "x": "0.5",
    }
    assert values_of(None) == {}


def test_what_is_no_json_is_refused() -> None:
    wf = Workflow("odd")
    wf.task("a", run="true", env={"A": {1, 2}})
    with pytest.raises(WorkflowError, match="not JSON"):
        cut(wf.to_dict(), {})
    lists: List[Any] = [float("nan")]
    wf = Workflow("odd")
    wf.for_each("a", "true", items=lists)
    with pytest.raises(WorkflowError, match="not JSON"):
        cut(wf.to_dict(), {})


def requests_of(wf: Workflow, params: Dict[str, str], most: int = 2_000) -> Tuple[Any, Dict[str, Any]]:
    """The first request, and the tasks of the others."""
    first, rest = cut(wf.to_dict(), params, most)
    assert rest is not None
    later: Dict[str, Any] = {}
    for part in rest:
        later |= json.loads(part)["tasks"]
    return json.loads(first), later


def padded(wf: Workflow) -> Workflow:
    """Tasks that fill the first part, and come before all others in the file."""
    for number in range(60):
        wf.task(f"pad{number}", run="true # " + "x" * 50)
    return wf


def test_the_first_part_is_written_as_it_was_and_the_others_stand_without_its_head() -> None:
    wf = Workflow(
        "alone",
        params={"day": "today", "n": {"type": "int", "default": "007"}},
        defaults={"env": {"A": "defaults", "B": "defaults"}, "timeout": "1m", "max_concurrent": 7},
    )
    wf.template("plain", run="echo {{ params.day }}", env={"B": "template"}, timeout="2m")
    padded(wf)
    wf.task("made", template="plain", env={"C": "task {{ params.n }}"}, when="params.n > 1")
    file = wf.to_dict()
    data, later = requests_of(wf, {"day": "{{ now }}"})
    assert data["params"] == {"day": "{{ now }}"}
    for field in ("params", "defaults", "templates"):
        assert data["file"][field] == file[field]
    assert data["file"]["tasks"]["pad0"] == file["tasks"]["pad0"]
    # Parameters are filled in by the server, which knows how they are spelled.
    assert later["made"] == {
        "run": "echo {{ params.day }}",
        "env": {"A": "defaults", "B": "template", "C": "task {{ params.n }}"},
        "timeout": "2m",
        "max_concurrent": 7,
        "when": "params.n > 1",
    }


def test_a_task_takes_no_command_and_no_items_where_it_has_its_own() -> None:
    wf = Workflow("layers")
    wf.template("t", run="template", order=[["a", "b"]], for_each=[1, 2], when="true", after="pad0")
    padded(wf)
    processes = [{"name": "a", "run": "a"}, {"name": "b", "run": "b"}]
    wf.task("own", template="t", processes=processes, matrix={"os": ["linux"]})
    wf.task("taken", template="t", after=[])
    wf.task("fake", template="t", env=None)
    _, later = requests_of(wf, {})
    assert later["own"] == {
        "processes": processes,
        "matrix": {"os": ["linux"]},
        "when": "true",
        "after": "pad0",
    }
    assert later["taken"] == {
        "run": "template",
        "order": [["a", "b"]],
        "for_each": [1, 2],
        "when": "true",
        "after": "pad0",
    }
    assert later["fake"]["env"] is None


def test_tasks_that_share_a_limit_come_first_with_what_they_come_after() -> None:
    wf = Workflow("pool", defaults={"timeout": "1m", "max_concurrent": 3})
    wf.template("pool", run="pool", max_concurrent=5)
    wf.task("last", run="true", after=["pad40"])
    padded(wf)
    wf.task("pooled", template="pool", after="last")
    data, later = requests_of(wf, {})
    assert list(data["file"]["tasks"])[:3] == ["pad40", "last", "pooled"]
    assert data["file"]["tasks"]["pooled"] == {"template": "pool", "after": ["last"]}
    assert "pooled" not in later and "pad59" in later


def test_what_cannot_be_filled_in_is_refused() -> None:
    wf = padded(Workflow("unknown"))
    wf.task("a", template="missing")
    with pytest.raises(WorkflowError, match="uses 'missing', and there is no such template"):
        cut(wf.to_dict(), {}, 2_000)
    wf = padded(Workflow("head", defaults={"env": {"A": "x" * 3_000}}))
    with pytest.raises(WorkflowError, match="pad0 with all other fields takes"):
        cut(wf.to_dict(), {}, 2_000)


def test_what_is_wrong_with_a_large_file_is_left_for_the_server_to_tell() -> None:
    wrong: List[Any] = [5, ["x" * 3_000], None, "x" * 3_000]
    for tasks in wrong:
        first, rest = cut({"workflow": "w", "tasks": tasks}, {}, 2_000)
        assert rest is None and json.loads(first)["file"]["tasks"] == tasks
    tasks = {f"t{number}": {"run": "true", "after": 5} for number in range(100)}
    fake: Dict[str, Any] = {**tasks, "fake": 5, "none": {"after": [{"on": "end"}, 7]}}
    first, rest = cut({"tasks": fake, "defaults": 5, "templates": {"t": 5}}, {}, 2_000)
    assert rest is not None
    sent = json.loads(first)["file"]["tasks"]
    for part in rest:
        sent |= json.loads(part)["tasks"]
    assert sent == fake


def test_an_array_of_a_million_items_with_edges_is_one_request() -> None:
    wf = Workflow("million")
    first = wf.array("first", run="true", count=1_000_000)
    edges = [[number, (number + 1) % 1_000_000] for number in range(1_000_000)]
    wf.array("second", run="true", count=1_000_000, upstream=(first, edges))
    request, rest = cut(wf.to_dict(), {})
    assert rest is None and 8 << 20 < len(request) <= PART_BYTES_MAX < 64 << 20


def test_parts_are_within_the_limit_of_values_too() -> None:
    wf = Workflow("values")
    for number in range(50):
        wf.for_each(f"t{number}", "true", items=[1] * 30)
    first, rest = cut(wf.to_dict(), {}, None, 200)
    assert rest is not None
    data = [json.loads(first)["file"], *(json.loads(part) for part in rest)]
    assert sum(len(part["tasks"]) for part in data) == 50 and len(data) > 5
    assert all(check(part) <= 200 for part in data)
    wf.for_each("huge", "true", items=[1] * 300)
    with pytest.raises(WorkflowError, match="the task huge alone takes"):
        cut(wf.to_dict(), {}, None, 200)


def test_tasks_that_share_a_limit_and_do_not_fit_are_refused() -> None:
    wf = Workflow("pool")
    wf.template("pool", run="true", max_concurrent=5)
    for number in range(100):
        wf.task(f"t{number}", template="pool")
    with pytest.raises(WorkflowError, match="has a max_concurrent"):
        cut(wf.to_dict(), {}, 2_000)
