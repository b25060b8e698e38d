"""Values that survive JSON unchanged.

Python writes more than JSON can carry: integers beyond 64 bits would come back as other numbers,
NaN is no JSON, and keys of other types would become strings. `check` refuses them, with their path.
"""

from __future__ import annotations

import json
import math
from typing import Any, Iterable, List, Mapping, Tuple, Union

#: Nesting of lists and mappings: a server accepts 64. A cyclic value would be infinite.
DEPTH_MAX = 60

# For a cyclic value the beginning of its path is enough.
_STEPS_SHOWN_MAX = 8

_INT_MIN, _INT_MAX = -(1 << 63), (1 << 64) - 1

#: The path of a value: keys, and indices in lists.
Path = Tuple[Union[str, int], ...]


class NotJson(ValueError):
    """A value that JSON cannot carry, with its path and the reason."""

    def __init__(self, reason: str, path: Path = ()) -> None:
        super().__init__(reason, path)
        self.reason = reason
        #: Extended by each caller.
        self.path = path

    def __str__(self) -> str:
        return f"{shown(self.path) or 'it'} is {self.reason}"


def check(value: Any, path: Path = ()) -> int:
    """Counts the values within a value, itself included; raises `NotJson`.

    `path` is its own path.
    """
    try:
        return _count(value, DEPTH_MAX)
    except NotJson as error:
        error.path = (*path, *error.path)
        raise


def write(value: Any) -> str:
    """Writes a checked value as JSON."""
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_of_mapping
    )


def _of_mapping(value: Any) -> Any:
    # `json` writes only `dict`, not every mapping.
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def _count(value: Any, levels: int) -> int:
    # Large workflows have millions of values: the path is built only for an error.
    if isinstance(value, str):
        if not value.isascii():
            _check_text(value)
        return 1
    if value is None or isinstance(value, bool):
        return 1
    if isinstance(value, int):
        if not _INT_MIN <= value <= _INT_MAX:
            raise NotJson("an integer of more than 64 bits, which would arrive as another number")
        return 1
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotJson(f"the number {value}, which JSON does not have")
        return 1
    if levels == 0:
        raise NotJson(f"more than {DEPTH_MAX} deep, or contains itself")
    if isinstance(value, (list, tuple)):
        return _count_entries(enumerate(value), levels - 1)
    if isinstance(value, (dict, Mapping)):
        for name in value:
            if not isinstance(name, str):
                raise NotJson(f"a mapping with the key {name!r}; JSON has string keys only")
            _check_text(name)
        return _count_entries(value.items(), levels - 1)
    raise NotJson(f"of the type {type(value).__name__}")


def _count_entries(entries: Iterable[Tuple[Any, Any]], levels: int) -> int:
    total = 1
    for step, value in entries:
        try:
            total += _count(value, levels)
        except NotJson as error:
            error.path = (step, *error.path)
            raise
    return total


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise NotJson(f"the string {text[:40]!r} with a lone surrogate") from error


def shown(path: Path) -> str:
    """Formats a path: `tasks.a.env[3]`."""
    pieces: List[str] = []
    for step in path[:_STEPS_SHOWN_MAX]:
        if isinstance(step, int):
            pieces.append(f"[{step}]")
        else:
            pieces.append(f".{step}" if pieces else step)
    # The path itself may have a lone surrogate.
    return "".join(pieces).encode("utf-8", "backslashreplace").decode()
