"""The conditions of a submission: what it starts after, and the limits of an array."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple, Union

from ..errors import WorkflowError

#: What a submission starts after: a handle or an id, several of them, or a mapping from them to
#: `ok` (DONE), `fail` or `any`. An id is `i12`, `i1..i9` or `r3`, or with its word `i12:any`.
After = Union[Any, Iterable[Any], Mapping[Any, str]]

_WORDS = ("ok", "fail", "any")
_ID = re.compile(r"(i\d+(\.\.i\d+)?|r\d+)(:(ok|fail|any))?", re.ASCII)
_HINT = 'pass a handle, an id such as "i12", "i1..i9" or "r3:any", or {handle: "fail"}'


def after_of(after: After) -> List[str]:
    """The conditions, as the API takes them.

    >>> after_of("i12"), after_of(["i1..i9:any", "r3"])
    (['i12'], ['i1..i9:any', 'r3'])
    >>> after_of({"i12": "fail"})
    ['i12:fail']
    """
    if isinstance(after, Mapping):
        return [_condition(each, word) for each, word in after.items()]
    # An array is a sequence of its elements, and one condition.
    if isinstance(after, str) or hasattr(after, "id") or not isinstance(after, Iterable):
        return [_condition(after)]
    return [_condition(each) for each in after]


def _condition(each: Any, word: Optional[str] = None) -> str:
    text = str(getattr(each, "id", each))
    if word is not None:
        if word not in _WORDS:
            raise WorkflowError(f"after= has the word {word!r}", "write ok, fail or any")
        text = f"{text}:{word}"
    if _ID.fullmatch(text) is None:
        raise WorkflowError(f"after={each!r} is no id", _HINT)
    return text


def split_limit(array: Any) -> Tuple[Any, Optional[int]]:
    """Indices without their limit, and the limit.

    >>> split_limit("1-1000%20")
    ('1-1000', 20)
    >>> split_limit(range(3))
    (range(0, 3), None)
    """
    if not isinstance(array, str) or "%" not in array:
        return array, None
    indices, _, text = array.partition("%")
    if re.fullmatch(r"\d+", text.strip(), re.ASCII) is None:
        raise WorkflowError(f"array={array!r} is not understood", "write a limit as in 1-1000%20")
    return indices, int(text)


def limits(
    max_concurrent: Optional[int], max_fails: Optional[int], is_array: bool
) -> Dict[str, int]:
    """The limits of an array, as the API takes them."""
    found = {}
    given = (
        ("max_concurrent", "maxConcurrent", max_concurrent),
        ("max_fails", "maxFails", max_fails),
    )
    for name, field, value in given:
        if value is None:
            continue
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise WorkflowError(f"{name}={value!r} is no limit", "pass a number from 1")
        if not is_array:
            raise WorkflowError(
                f"{name}= limits the elements of an array, and there is none",
                "pass array= or items=, or leave it out",
            )
        found[field] = value
    return found
