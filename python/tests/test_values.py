"""Values that JSON can carry, and the refusal of others."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from pathlib import Path
from types import MappingProxyType
from typing import Any, Dict, List

import pytest

from baton import Workflow, WorkflowError
from baton._functions.remote import report_outputs
from baton._workflows.parts import cut, values_of
from baton._values import NotJson, check, write

from . import functions

CIRCLE: List[Any] = []
CIRCLE.append(CIRCLE)

#: Each with the words that say why.
UNFIT = [
    (1 << 64, "more than 64 bits"),
    (-(1 << 63) - 1, "more than 64 bits"),
    (math.nan, "the number nan"),
    (-math.inf, "the number -inf"),
    ("a\udc80", "lone surrogate"),
    ({"\udc80": 1}, "lone surrogate"),
    ({1: 2}, "JSON has string keys only"),
    ({None: 2}, "JSON has string keys only"),
    ({1, 2}, "of the type set"),
    (b"bytes", "of the type bytes"),
    (CIRCLE, "contains itself"),
]


def test_values_are_counted_and_written_as_they_are() -> None:
    value: Dict[str, Any] = {"a": [1, -(1 << 63), (1 << 64) - 1, 0.5, None, True]}
    value["ü"] = ("x", OrderedDict(b={}))
    assert check(value) == 12
    assert json.loads(write(value)) == {**value, "ü": ["x", {"b": {}}]}
    assert write(MappingProxyType({"a": "ü"})) == '{"a":"ü"}'


@pytest.mark.parametrize(("value", "reason"), UNFIT)
def test_what_json_would_not_keep_is_refused_with_its_place(value: Any, reason: str) -> None:
    with pytest.raises(NotJson, match=f"^it is .*{reason}|^\\[0\\].*{reason}"):
        check(value)
    with pytest.raises(NotJson, match="^tasks.a\\[1\\]"):
        check({"tasks": {"a": [1, value]}})


@pytest.mark.parametrize(("value", "reason"), UNFIT)
def test_it_is_refused_in_arguments_items_parameters_and_workflows(value: Any, reason: str) -> None:
    with Workflow("unfit") as wf:
        with pytest.raises(WorkflowError, match="argument 0 of double is not JSON") as caught:
            functions.double(value)
        assert reason in str(caught.value)
        with pytest.raises(WorkflowError, match="argument more of kinds is not JSON"):
            functions.kinds([], more={"deep": [value]})
        with pytest.raises(WorkflowError, match="item 1 of a map is not JSON|contains itself"):
            functions.double.map(["a", value])
        assert not wf.tasks
    with pytest.raises(WorkflowError, match="the parameter 'p' is not JSON"):
        values_of({"p": value})
    with pytest.raises(WorkflowError, match="the parameter 1 is not JSON"):
        values_of({1: "x"})  # type: ignore[dict-item]
    wf.for_each("each", "true", items=[value])
    with pytest.raises(WorkflowError, match="not JSON: tasks.each.for_each|contains itself"):
        cut(wf.to_dict(), {})


@pytest.mark.parametrize(("value", "reason"), UNFIT)
def test_a_result_is_held_to_the_same(
    value: Any,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("BATON_OUTPUT", str(tmp_path / "out"))
    report_outputs(value, ["_box.rows"], "m:f")
    data = capsys.readouterr().err
    assert "the return value of m:f is not JSON" in data and reason in data
    assert not (tmp_path / "out").exists()
    with pytest.raises(TypeError, match="another task refers to it"):
        report_outputs(value, ["_box"], "m:f")
