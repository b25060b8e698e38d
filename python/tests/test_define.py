"""The file of a workflow, and definitions that are refused without a server."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from baton import Workflow, WorkflowError


def tasks_of(wf: Workflow) -> Any:
    return wf.to_dict()["tasks"]


def test_a_workflow_is_written_as_its_file() -> None:
    wf = Workflow(
        "etl",
        owner="demo",
        params={"day": "2026-11-14"},
        max_concurrent=20,
        fail_fast=True,
        timeout=timedelta(hours=6),
    )
    heavy = wf.template("heavy", run="./go {{ item }}", resources={"cpu": 4}, max_concurrent=10)
    a = wf.task("a", run="true", retry={"attempts": 3})
    b = wf.task(
        "b", template=heavy, for_each=[1, 2], after=[a, "elsewhere", {"task": "x", "on": "end"}]
    )
    assert wf.to_dict() == {
        "workflow": "etl",
        "owner": "demo",
        "params": {"day": "2026-11-14"},
        "max_concurrent": 20,
        "fail_fast": True,
        "timeout": "21600000ms",
        "templates": {
            "heavy": {"run": "./go {{ item }}", "resources": {"cpu": 4}, "max_concurrent": 10}
        },
        "tasks": {
            "a": {"run": "true", "retry": {"attempts": 3}},
            "b": {
                "template": "heavy",
                "for_each": [1, 2],
                "after": ["a", "elsewhere", {"task": "x", "on": "end"}],
            },
        },
    }
    assert b.has_items and b.count == 2 and not a.has_items and a.count == 1


def test_unset_fields_are_not_written() -> None:
    wf = Workflow("small")
    wf.task("a", run="true")
    assert wf.to_dict() == {"workflow": "small", "tasks": {"a": {"run": "true"}}}


def test_arrows_and_after_are_edges_and_the_same_edge_is_one() -> None:
    wf = Workflow("edges")
    a, b, c, d, e = (wf.task(name, run="true") for name in "abcde")
    a >> [b, c] >> d >> e
    d.after(b)
    e << a
    e.after(b, on="failure").after(c, each=True)
    data = tasks_of(wf)
    assert data["b"]["after"] == data["c"]["after"] == ["a"]
    assert data["d"]["after"] == ["b", "c"]
    assert data["e"]["after"] == [
        "d",
        "a",
        {"task": "b", "on": "failure"},
        {"task": "c", "each": True},
    ]
    assert "after" not in data["a"]


def test_one_task_needs_no_list_in_after() -> None:
    wf = Workflow("one")
    a = wf.task("a", run="true")
    wf.task("b", run="true", after=a)
    wf.task("c", run="true", after="b")
    assert tasks_of(wf)["b"]["after"] == ["a"] and tasks_of(wf)["c"]["after"] == ["b"]


def test_items_are_lists_ranges_combinations_and_outputs() -> None:
    wf = Workflow("items")
    listing = wf.task("list", run="./list")
    wf.for_each("values", "x", items=("eu", "us"))
    wf.for_each("numbers", "x", items=range(1000))
    wf.for_each("steps", "x", items=range(0, 1000, 5))
    wf.for_each("down", "x", items=range(3, 0, -1))
    wf.for_each("none", "x", items=range(0))
    product = wf.for_each("product", "x", items={"a": [1, 2], "b": range(3)})
    wf.for_each("mapped", "x", items=listing.output("files"))
    wf.for_each("results", "x", items=listing)
    data = tasks_of(wf)
    assert data["values"]["for_each"] == ["eu", "us"]
    assert data["numbers"]["for_each"] == {"range": [0, 1000]}
    assert data["steps"]["for_each"] == {"range": [0, 1000, 5]}
    assert data["down"]["for_each"] == [3, 2, 1]
    counts: Any = {
        5: {"product": {"a": "0..5"}},
        6: {"range": [0, 10, 0]},
        7: {"product": 5},
        8: {},
        9: "0..5",
    }
    for number, fake in counts.items():
        # What is not counted here is left for the server to count, or to refuse.
        assert wf.task(f"fake-{number}", run="x", for_each=fake).count is None
    assert data["none"]["for_each"] == []
    assert data["product"]["for_each"] == {"product": {"a": [1, 2], "b": {"range": [0, 3]}}}
    assert product.count == 6
    assert data["mapped"] == {
        "run": "x",
        "for_each": "{{ tasks.list.outputs.files }}",
        "after": ["list"],
    }
    assert data["results"]["for_each"] == "{{ tasks.list.outputs.result }}"
    for wrong in (5, {"a": "text"}, {"a": 5}):
        with pytest.raises(WorkflowError):
            wf.for_each("wrong", "x", items=wrong)


def test_an_array_has_edges_for_each_of_its_items() -> None:
    wf = Workflow("layers")
    first = wf.array("layer-0", run="true", count=3)
    second = wf.array("layer-1", run="true", count=4, upstream=(first, [[0, 1], [1], [], [2, 0]]))
    wf.array(
        "layer-2", run="true", items=["a", "b"], upstream=[(first, [[0], [1]]), (second, "3;0,1")]
    )
    data = tasks_of(wf)
    assert data["layer-0"] == {"run": "true", "for_each": {"range": [0, 3]}}
    assert data["layer-1"]["after"] == [{"task": "layer-0", "items": "0,1;1;;2,0"}]
    assert data["layer-2"]["for_each"] == ["a", "b"]
    assert [each["items"] for each in data["layer-2"]["after"]] == ["0;1", "3;0,1"]
    with pytest.raises(WorkflowError, match="2 lists of edges for 3 items"):
        wf.array("short", run="true", count=3, upstream=(first, [[0], [1]]))
    with pytest.raises(WorkflowError, match="either count or items"):
        wf.array("neither", run="true")


def test_outputs_among_words_are_references_and_edges() -> None:
    wf = Workflow("outputs")
    a = wf.task("a", run="./a")
    b = wf.task("b", run="./b")
    wf.task("c", run=["echo", a.output("rows"), b.output()], after=[{"task": "b", "on": "end"}])
    wf.task("d", run=f"echo {a.output('rows')}", after=[a])
    data = tasks_of(wf)
    assert data["c"]["run"] == [
        "echo",
        "{{ tasks.a.outputs.rows }}",
        "{{ tasks.b.outputs.result }}",
    ]
    # An explicit edge stays.
    assert data["c"]["after"] == [{"task": "b", "on": "end"}, "a"]
    assert data["d"] == {"run": "echo {{ tasks.a.outputs.rows }}", "after": ["a"]}


def test_what_cannot_be_meant_is_refused() -> None:
    wf, other = Workflow("one"), Workflow("other")
    a, stranger = wf.task("a", run="true"), other.task("a", run="true")
    with pytest.raises(WorkflowError, match="two tasks a"):
        wf.task("a", run="true")
    with pytest.raises(WorkflowError, match="to another workflow"):
        a.after(stranger)
    with pytest.raises(WorkflowError, match="on='done' is unknown"):
        a.after("b", on="done")
    with pytest.raises(WorkflowError, match="exclude each other"):
        a.after("b", each=True, items=[[0]])
    with pytest.raises(WorkflowError, match="is not a task"):
        a.after(5)  # type: ignore[arg-type]
    with pytest.raises(WorkflowError, match="needs a name"):
        wf.task(run="true")
    with pytest.raises(TypeError):
        a >> 5
    with pytest.raises(WorkflowError, match="two templates t"):
        wf.template("t", run="x")
        wf.template("t", run="x")
