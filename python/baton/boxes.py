"""How what a function puts out travels to another function.

A reference fills in a text as it is and anything else as JSON, so the text `5` and the number 5
could not be told apart. Whoever hands an output to Python therefore asks its task for the value in
a box, `{"value": 5}`, which is always filled in as JSON, and `baton.call` takes it out again. The
output itself stays what it is, for shells and `when`.

What is asked for is an output with a name of its own: `_box` is the box of `result`, `_box.rows`
that of `rows`.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from .values import Unfit

#: What one function may want another to put out: an output in a box; a list of boxes with the
#: elements of it, to have items of; a list with the one box, which are put together where the
#: other has several items.
BOX, BOXES, EACH = "_box", "_boxes", "_each"

#: What a function returns is put out under this name.
RESULT = "result"


def asked(kind: str, key: str) -> str:
    """The output that holds another in boxes."""
    return kind if key == RESULT else f"{kind}.{key}"


def is_box(key: str) -> bool:
    """True for outputs that are only there for other functions."""
    return _read(key)[0] in (BOX, BOXES, EACH)


def is_of_result(name: str) -> bool:
    """True if what is asked for is what a function returns."""
    return _read(name)[1] == RESULT


def boxed(value: Any) -> Dict[str, Any]:
    """The value in a box."""
    return {"value": value}


def given(outputs: Mapping[str, Any], give: List[str]) -> Dict[str, Any]:
    """What others have asked for, of outputs that are there."""
    put: Dict[str, Any] = {}
    for name in give:
        kind, key = _read(name)
        if key not in outputs:
            # The server tells whoever wants it that it is not there.
            continue
        value = outputs[key]
        if kind == BOX:
            put[name] = boxed(value)
        elif kind == EACH:
            put[name] = [boxed(value)]
        elif isinstance(value, (list, tuple)):
            put[name] = [boxed(each) for each in value]
        else:
            raise Unfit(f"`{key}` must be a list, and not {type(value).__name__}")
    return put


def _read(name: str) -> Tuple[str, str]:
    kind, _, key = name.partition(".")
    return kind, key or RESULT
