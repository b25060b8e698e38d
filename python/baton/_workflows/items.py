"""Items of a task, and edges between items."""

from __future__ import annotations

import math
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from ..errors import WorkflowError

#: For each item its upstream items, also as `0,1;1,2`.
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
        f"{items!r} has no items",
        "pass a list, a range, a mapping of names to lists (every combination), "
        "or another task's output",
    )


def count(items: Any) -> Optional[int]:
    """The number of items of a `for_each`; None if only the run determines it."""
    if isinstance(items, list):
        return len(items)
    if not isinstance(items, Mapping):
        return None
    try:
        if "range" in items:
            return len(range(*items["range"]))
        counts = [count(axis) for axis in items["product"].values()]
    except (AttributeError, KeyError, TypeError, ValueError):
        # The server reports what is wrong with it.
        return None
    known = [each for each in counts if each is not None]
    return math.prod(known) if len(known) == len(counts) else None


def edges(edges: Edges, items: Optional[int]) -> str:
    """Edges as one string, one list for each item."""
    if isinstance(edges, str):
        text, lists = edges, edges.count(";") + 1
    else:
        try:
            data = [",".join(map(str, each)) for each in edges]
        except TypeError as error:
            raise WorkflowError(
                f"these are not edges: {error}", "pass a list of numbers for each item"
            ) from error
        text, lists = ";".join(data), len(data)
    if items is not None and lists != items:
        raise WorkflowError(
            f"there are {lists} lists of edges for {items} items",
            "pass one list for each item; it may be empty",
        )
    return text


def _range(items: range) -> Union[Dict[str, List[int]], List[int]]:
    # A range of a file counts upwards, and is not empty.
    if items.step < 0 or not items:
        return list(items)
    steps = [items.step] if items.step != 1 else []
    return {"range": [items.start, items.stop, *steps]}


def _axis(name: Any, values: Any) -> Any:
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        raise WorkflowError(f"the values of {name!r} are not a list", "pass a list or a range")
    return _range(values) if isinstance(values, range) else list(values)
