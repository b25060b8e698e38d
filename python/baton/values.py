"""Values that travel as JSON and come back as they were.

JSON as Python writes it is wider than what arrives: integers beyond 64 bits would come back as
other numbers, NaN is no JSON at all, and keys that are no texts would become texts. All that is
refused here, with the place where it stands.
"""

from __future__ import annotations

import json
import math
from typing import Any, Iterable, List, Mapping, Tuple, Union

#: Lists and mappings within each other: a server takes 64. What holds itself has no end.
DEPTH_MAX = 60

# Of what holds itself, the beginning says enough.
_STEPS_SHOWN_MAX = 8

_INT_MIN, _INT_MAX = -(1 << 63), (1 << 64) - 1

#: The way to a value: keys, and places in lists.
Path = Tuple[Union[str, int], ...]


class Unfit(ValueError):
    """A value that JSON would not keep; the words say where and why."""

    def __init__(self, why: str, path: Path = ()) -> None:
        super().__init__(why, path)
        self.why = why
        #: It grows on the way out.
        self.path = path

    def __str__(self) -> str:
        return f"{shown(self.path) or 'it'} is {self.why}"


def check(value: Any, path: Path = ()) -> int:
    """How many values there are in one, itself included; raises `Unfit` if JSON would not keep it.

    `path` is where it stands.
    """
    try:
        return _count(value, DEPTH_MAX)
    except Unfit as error:
        error.path = (*path, *error.path)
        raise


def write(value: Any) -> str:
    """A value that was checked, as JSON."""
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_of_mapping
    )


def _of_mapping(value: Any) -> Any:
    # What JSON is written of is `dict`, and not every mapping.
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def _count(value: Any, levels: int) -> int:
    # Large workflows have millions of them: the way to one is put together only where it is told.
    if isinstance(value, str):
        if not value.isascii():
            _check_text(value)
        return 1
    if value is None or isinstance(value, bool):
        return 1
    if isinstance(value, int):
        if not _INT_MIN <= value <= _INT_MAX:
            raise Unfit("an integer of more than 64 bits, which would arrive as another")
        return 1
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Unfit(f"the number {value}, which JSON does not have")
        return 1
    if levels == 0:
        raise Unfit(f"more than {DEPTH_MAX} deep, or holds itself")
    if isinstance(value, (list, tuple)):
        return _count_entries(enumerate(value), levels - 1)
    if isinstance(value, (dict, Mapping)):
        for name in value:
            if not isinstance(name, str):
                raise Unfit(f"a mapping with the key {name!r}; JSON has texts only")
            _check_text(name)
        return _count_entries(value.items(), levels - 1)
    raise Unfit(f"of the type {type(value).__name__}")


def _count_entries(entries: Iterable[Tuple[Any, Any]], levels: int) -> int:
    total = 1
    for step, value in entries:
        try:
            total += _count(value, levels)
        except Unfit as error:
            error.path = (step, *error.path)
            raise
    return total


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Unfit(f"the text {text[:40]!r} with half a character in it") from error


def shown(path: Path) -> str:
    """The way to a value, as people write it: `tasks.a.env[3]`."""
    pieces: List[str] = []
    for step in path[:_STEPS_SHOWN_MAX]:
        if isinstance(step, int):
            pieces.append(f"[{step}]")
        else:
            pieces.append(f".{step}" if pieces else step)
    # It may be what is wrong.
    return "".join(pieces).encode("utf-8", "backslashreplace").decode()
