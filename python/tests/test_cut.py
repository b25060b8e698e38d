"""A workflow means the same on a real server, in one request or in parts."""

from __future__ import annotations

from typing import Any, Dict, List

import pytest

from baton import BatonError, Client, Run
from baton._workflows.parts import cut

from .conftest import PATIENCE

#: So many that those behind them are never in the first part.
PADS = 30

#: Bytes of a part that holds some of them.
SMALL = 1_500


def padded(name: str, file: Dict[str, Any]) -> Dict[str, Any]:
    """The workflow, with tasks before its own that fill the first part."""
    pads = {f"pad{number}": {"run": "true # " + "x" * 60} for number in range(PADS)}
    return {**file, "workflow": name, "tasks": {**pads, **file.get("tasks", {})}}


def submitted(
    client: Client,
    file: Dict[str, Any],
    params: Dict[str, Any],
    is_cut: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    with monkeypatch.context() as patch:
        if is_cut:
            patch.setattr("baton._workflows.parts.PART_BYTES_MAX", SMALL)
        run: Run = client.submit(file, params)
        return run


def said(run: Run, tasks: List[str]) -> Dict[str, List[str]]:
    """The output of each item of some tasks; asserts that none has failed."""
    run.wait(timeout=PATIENCE, progress=False)
    counts = {task.name: task.items.total for task in run.tasks()}
    return {task: [run.logs(task, item) for item in range(counts[task])] for task in tasks}


@pytest.mark.parametrize("is_cut", [False, True])
def test_what_tasks_take_from_the_head_is_the_same(
    is_cut: bool, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    file: Dict[str, Any] = {
        "tasks": {
            "typed": {"run": ["echo", "{{ params.n }} $x {{{{"], "when": "params.n == 7"},
            "given": {"run": "echo {{ params.day }} $BATON_PARAM_DAY"},
            "env": {"template": "shared", "env": {"C": "task"}},
            "processes": {"template": "shared", "processes": [{"name": "p", "run": "echo p"}]},
            "matrix": {"template": "mapped", "matrix": {"os": ["linux", "bsd"]}},
            "for_each": {"template": "mapped"},
            "zz": {"run": "echo zz", "after": "aa"},
            "aa": {"run": "echo aa", "after": {"task": "bb", "on": "end"}},
            "bb": {"run": "echo bb"},
        },
        "params": {"n": {"type": "int", "default": "007"}, "day": "monday"},
        "defaults": {"env": {name: "defaults" for name in "ABC"}, "max_concurrent": 5},
        "templates": {
            "shared": {"run": "echo $A $B $C", "env": {"B": "template"}},
            "mapped": {"run": "echo $BATON_ITEM", "for_each": ["x", "y"]},
        },
    }
    whole = padded("cut", file)
    assert cut(whole, {}, SMALL)[1] is not None
    run = submitted(client, whole, {"day": "{{ tuesday"}, is_cut, monkeypatch)
    assert said(run, list(file["tasks"])) == {
        "typed": ["7 $x {{\n"],
        "given": ["{{ tuesday {{ tuesday\n"],
        "env": ["defaults template task\n"],
        "processes": ["p\n"],
        "matrix": ['{"os":"linux"}\n', '{"os":"bsd"}\n'],
        "for_each": ["x\n", "y\n"],
        "zz": ["zz\n"],
        "aa": ["aa\n"],
        "bb": ["bb\n"],
    }


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"defaults": {"run": "true"}}, "run"),
        ({"defaults": {"rum": "true"}}, "rum"),
        ({"templates": {"unused": {"rum": "true"}}}, "rum"),
        ({"templates": {"unused": {"template": "other"}}}, "template"),
        ({"defaults": 5}, "defaults"),
        ({"params": {"n": {"type": "int", "default": "x"}}}, "not an integer"),
        ({"params": {"n": None}}, "has no value"),
        ({"params": {"x": "oops"}, "tasks": {"a": {"run": "x", "for_each": "{{ params.x }}"}}}, "x"),
        ({"tasks": {"a": {"run": "true", "rum": 5}}}, "rum"),
        ({"tasks": {"a": {"template": "missing"}}}, "missing"),
        ({"tasks": {"a": {"run": "true", "after": "missing"}}}, "missing"),
        ({"tasks": {"a": 5}}, "tasks.a"),
    ],
)
def test_what_is_refused_is_the_same(
    is_cut: bool,
    wrong: Dict[str, Any],
    word: str,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = f"refused-{is_cut}"
    with pytest.raises(BatonError) as caught:
        submitted(client, padded(name, wrong), {}, is_cut, monkeypatch)
    assert word in str(caught.value)
    assert all(run.ended for run in client.runs(name=name))
