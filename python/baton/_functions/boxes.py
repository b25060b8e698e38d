"""Typed outputs between functions.

A reference inserts a string as it is and any other value as JSON, so the string `5` and the number 5
would look alike. A function that takes an output therefore requests it in a box, `{"value": 5}`,
which is always inserted as JSON, and `baton.call` unboxes it. The output itself keeps its form, for
shells and `when`.

A box is an output with a name of its own: `_box` is the box of `result`, `_box.rows` that of `rows`.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from .._values import NotJson

#: The kinds of boxes: an output in a box; a list of boxes with its elements, for a map over it; a
#: list with one box, which the server concatenates if the upstream task has several items.
BOX, BOXES, EACH = "_box", "_boxes", "_each"

#: The output with the return value of a function.
RESULT = "result"


def boxed_key(kind: str, key: str) -> str:
    """The name of the output that holds `key` in boxes."""
    return kind if key == RESULT else f"{kind}.{key}"


def is_box(key: str) -> bool:
    """True for outputs that only other functions read."""
    return _read(key)[0] in (BOX, BOXES, EACH)


def is_of_result(name: str) -> bool:
    """True if the box is that of the return value."""
    return _read(name)[1] == RESULT


def boxed(value: Any) -> Dict[str, Any]:
    """Puts a value into a box."""
    return {"value": value}


def requested(outputs: Mapping[str, Any], give: List[str]) -> Dict[str, Any]:
    """The boxes that downstream functions have requested, of existing outputs."""
    put: Dict[str, Any] = {}
    for name in give:
        kind, key = _read(name)
        if key not in outputs:
            # The server reports the missing output to the task that refers to it.
            continue
        value = outputs[key]
        if kind == BOX:
            put[name] = boxed(value)
        elif kind == EACH:
            put[name] = [boxed(value)]
        elif isinstance(value, (list, tuple)):
            put[name] = [boxed(each) for each in value]
        else:
            raise NotJson(f"`{key}` must be a list, and not {type(value).__name__}")
    return put


def _read(name: str) -> Tuple[str, str]:
    kind, _, key = name.partition(".")
    return kind, key or RESULT
