"""What a task has one instance for each of, and edges item by item."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from .errors import WorkflowError

#: For each item the items of the other task that it waits for, also as `0,1;1,2`.
Edges = Union[str, Sequence[Sequence[int]]]


def for_each(items: Any) -> Any:
    """`items` as `for_each` of a workflow file takes it."""
    if isinstance(items, range):
        return _range(items)
    if isinstance(items, Mapping):
        return {"product": {str(name): _axis(name, values) for name, values in items.items()}}
    if isinstance(items, str):
        return items
    if isinstance(items, Iterable) and not isinstance(items, bytes):
        return list(items)
    raise WorkflowError(
        f"{items!r} is nothing to have items of",
        "give a list, a range, a mapping of names to lists (every combination), "
        "or another task's output",
    )


def count(items: Any) -> Optional[int]:
    """How many items a `for_each` of a file has; nothing where that is known only later."""
    if isinstance(items, list):
        return len(items)
    if not isinstance(items, Mapping):
        return None
    try:
        if "range" in items:
            return len(range(*items["range"]))
        counts = [count(axis) for axis in items["product"].values()]
    except (AttributeError, KeyError, TypeError, ValueError):
        # The server says what is wrong with it.
        return None
    known = [each for each in counts if each is not None]
    return math.prod(known) if len(known) == len(counts) else None


def edges(given: Edges, items: Optional[int]) -> str:
    """Edges in the short form, one list for each item."""
    if isinstance(given, str):
        text, lists = given, given.count(";") + 1
    else:
        try:
            told = [",".join(map(str, each)) for each in given]
        except TypeError as error:
            raise WorkflowError(
                f"these are no edges: {error}", "give for each item a list of numbers"
            ) from error
        text, lists = ";".join(told), len(told)
    if items is not None and lists != items:
        raise WorkflowError(
            f"there are {lists} lists of edges for {items} items",
            "give one list for each item; it may be empty",
        )
    return text


def _range(items: range) -> Union[Dict[str, List[int]], List[int]]:
    # Files count upwards only, and know no range of nothing.
    if items.step < 0 or not items:
        return list(items)
    steps = [items.step] if items.step != 1 else []
    return {"range": [items.start, items.stop, *steps]}


def _axis(name: Any, values: Any) -> Any:
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        raise WorkflowError(f"the values of {name!r} are no list", "give a list or a range")
    return _range(values) if isinstance(values, range) else list(values)
