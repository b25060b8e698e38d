"""Large workflows are cut into requests."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Set

import pytest

from baton import Workflow, WorkflowError
from baton.parts import cut, ordered, values_of


def layers(count: int) -> Dict[str, Any]:
    wf = Workflow("parts", owner="demo")
    # Backwards, so that the order of definition is the wrong one.
    names = [f"t{number}" for number in range(count)]
    for number in reversed(range(count)):
        wf.task(names[number], run="true", after=names[max(0, number - 2) : number])
    return wf.to_dict()


def test_a_small_workflow_is_one_request() -> None:
    first, rest = cut(layers(3), {"day": "today"})
    told = json.loads(first)
    assert rest is None and told == {"file": layers(3), "params": {"day": "today"}, "open": False}


def test_parts_are_within_the_limit_and_hold_every_task_behind_those_before_it() -> None:
    file = layers(300)
    most = 2_000
    first, rest = cut(file, {}, most)
    assert rest is not None
    parts = [first, *rest]
    assert all(len(part) <= most for part in parts) and len(parts) > 5
    told = [json.loads(part) for part in parts]
    assert told[0]["open"] is True and told[0]["file"]["owner"] == "demo"
    tasks = [told[0]["file"]["tasks"], *(part["tasks"] for part in told[1:])]
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
    wf.for_each("huge", "true", items=["x" * 3_000])
    with pytest.raises(WorkflowError, match="the task huge alone takes"):
        cut(wf.to_dict(), {}, 2_000)


def test_a_circle_is_told_with_its_path() -> None:
    tasks: Dict[str, Any] = {
        "a": {"after": ["c"]},
        "b": {"after": ["a"]},
        "c": {"after": [{"task": "b"}]},
    }
    with pytest.raises(WorkflowError, match="a -> b -> c -> a"):
        ordered(tasks)


def test_what_a_task_is_mapped_over_comes_before_it_and_long_chains_are_fine() -> None:
    mapped: Dict[str, Any] = {"m": {"for_each": "{{ tasks.list.outputs.files }}"}, "list": {}}
    assert ordered(mapped) == ["list", "m"]
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
    with pytest.raises(WorkflowError, match="no JSON"):
        cut(wf.to_dict(), {})
    lists: List[Any] = [float("nan")]
    wf = Workflow("odd")
    wf.for_each("a", "true", items=lists)
    with pytest.raises(WorkflowError, match="no JSON"):
        cut(wf.to_dict(), {})


def test_parts_stand_without_defaults_templates_and_parameters() -> None:
    wf = Workflow(
        "alone",
        params={"day": "today", "n": {"type": "int", "default": 3}, "must": None},
        defaults={"env": {"A": "defaults", "B": "defaults"}, "timeout": "1m", "priority": 1},
    )
    wf.template("plain", run="echo {{ params.day }}", env={"B": "template"}, timeout="2m")
    wf.template("pool", run="pool", env={"B": "template"}, timeout="2m", max_concurrent=5)
    wf.task("last", run="true", after=["p0"])
    for number in range(40):
        wf.task(f"p{number}", template="plain", env={"C": "task {{ params.n }}"})
    text = "{{{{ params.day }} {{ params.must }} {{ params.other }}"
    wf.task("text", run=text, when="params.n > 1")
    wf.task("pooled", template="pool", timeout="3m", after=["last"])
    first, rest = cut(wf.to_dict(), {"day": "{{ now }}"}, 2_000)
    assert rest is not None
    told = json.loads(first)
    tasks = {**told["file"]["tasks"]}
    for part in rest:
        tasks |= json.loads(part)["tasks"]
    assert "defaults" not in told["file"] and told["params"] == {"day": "{{ now }}"}
    assert told["file"]["templates"] == {"pool": {"max_concurrent": 5}}
    assert tasks["p7"] == {
        "run": "echo {{{{ now }}",
        "env": {"A": "defaults", "B": "template", "C": "task 3"},
        "timeout": "2m",
        "priority": 1,
    }
    assert (tasks["text"]["run"], tasks["text"]["when"]) == (text, "params.n > 1")
    # It shares a limit, so it comes first, and with it what it comes after.
    assert list(told["file"]["tasks"])[:3] == ["p0", "last", "pooled"]
    assert tasks["pooled"] == {
        "template": "pool",
        "run": "pool",
        "env": {"A": "defaults", "B": "template"},
        "timeout": "3m",
        "priority": 1,
        "after": ["last"],
    }


def test_tasks_that_share_a_limit_and_do_not_fit_are_refused() -> None:
    wf = Workflow("pool")
    wf.template("pool", run="true", max_concurrent=5)
    for number in range(100):
        wf.task(f"t{number}", template="pool")
    with pytest.raises(WorkflowError, match="has a max_concurrent"):
        cut(wf.to_dict(), {}, 2_000)
