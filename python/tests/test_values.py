"""What JSON keeps, and what is refused since it would not."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from pathlib import Path
from types import MappingProxyType
from typing import Any, Dict, List

import pytest

from baton import Workflow, WorkflowError
from baton.call import put_out
from baton.parts import cut, values_of
from baton.values import Unfit, check, write

from . import functions

CIRCLE: List[Any] = []
CIRCLE.append(CIRCLE)

#: Each with the words that say why.
UNFIT = [
    (1 << 64, "more than 64 bits"),
    (-(1 << 63) - 1, "more than 64 bits"),
    (math.nan, "the number nan"),
    (-math.inf, "the number -inf"),
    ("a\udc80", "half a character"),
    ({"\udc80": 1}, "half a character"),
    ({1: 2}, "JSON has texts only"),
    ({None: 2}, "JSON has texts only"),
    ({1, 2}, "of the type set"),
    (b"bytes", "of the type bytes"),
    (CIRCLE, "holds itself"),
]


def test_values_are_counted_and_written_as_they_are() -> None:
    value: Dict[str, Any] = {"a": [1, -(1 << 63), (1 << 64) - 1, 0.5, None, True]}
    value["ü"] = ("x", OrderedDict(b={}))
    assert check(value) == 12
    assert json.loads(write(value)) == {**value, "ü": ["x", {"b": {}}]}
    assert write(MappingProxyType({"a": "ü"})) == '{"a":"ü"}'


@pytest.mark.parametrize(("value", "why"), UNFIT)
def test_what_json_would_not_keep_is_refused_with_its_place(value: Any, why: str) -> None:
    with pytest.raises(Unfit, match=f"^it is .*{why}|^\\[0\\].*{why}"):
        check(value)
    with pytest.raises(Unfit, match="^tasks.a\\[1\\]"):
        check({"tasks": {"a": [1, value]}})


@pytest.mark.parametrize(("value", "why"), UNFIT)
def test_it_is_refused_in_arguments_items_parameters_and_workflows(value: Any, why: str) -> None:
    with Workflow("unfit") as wf:
        with pytest.raises(WorkflowError, match="argument 0 of double is no JSON") as caught:
            functions.double(value)
        assert why in str(caught.value)
        with pytest.raises(WorkflowError, match="argument more of kinds is no JSON"):
            functions.kinds([], more={"deep": [value]})
        with pytest.raises(WorkflowError, match="item 1 of a map is no JSON|holds itself"):
            functions.double.map(["a", value])
        assert not wf.tasks
    with pytest.raises(WorkflowError, match="the parameter 'p' is no JSON"):
        values_of({"p": value})
    with pytest.raises(WorkflowError, match="the parameter 1 is no JSON"):
        values_of({1: "x"})  # type: ignore[dict-item]
    wf.for_each("each", "true", items=[value])
    with pytest.raises(WorkflowError, match="no JSON: tasks.each.for_each|holds itself"):
        cut(wf.to_dict(), {})


@pytest.mark.parametrize(("value", "why"), UNFIT)
def test_a_result_is_held_to_the_same(
    value: Any,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("BATON_OUTPUT", str(tmp_path / "out"))
    put_out(value, ["_box.rows"], "m:f")
    told = capsys.readouterr().err
    assert "what m:f has returned is no JSON" in told and why in told
    assert not (tmp_path / "out").exists()
    with pytest.raises(TypeError, match="another task wants it"):
        put_out(value, ["_box"], "m:f")
