"""The body of a submission: a command or a task file, with options, and indices of an array."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from .. import _values as values
from .._workflows.tasks import plain
from ..errors import WorkflowError
from . import conditions
from .conditions import After

#: A string runs in a shell, a list without one.
Words = Union[str, Sequence[Union[str, "os.PathLike[str]"]]]

#: The number of elements, a range of indices, a list of them, or text such as `1-100`, `0-9:2,20` or,
#: with at most 20 at the same time, `1-1000%20`.
Indices = Union[int, range, str, Sequence[int]]

_PART = r"\d+(-\d+(:\d+)?)?"
_TEXT = re.compile(rf"{_PART}(,{_PART})*", re.ASCII)
_RANGE = re.compile(r"(\d+)-(\d+)", re.ASCII)

# Fields of a workflow file that no task file has.
_OF_WORKFLOWS = ("workflow", "tasks")


def is_workflow(what: Any) -> bool:
    """True if a mapping is a workflow file."""
    return isinstance(what, Mapping) and any(name in what for name in _OF_WORKFLOWS)


def task_file(what: Any, fields: Mapping[str, Any]) -> Dict[str, Any]:
    """The task file of a command, or of a task file with other fields."""
    given = {name: plain(value) for name, value in fields.items() if value is not None}
    if isinstance(what, Mapping):
        # Environment and resources are merged by name, as templates of workflows are.
        merged = {
            name: {**what[name], **given[name]}
            for name in ("env", "resources")
            if isinstance(what.get(name), Mapping) and isinstance(given.get(name), Mapping)
        }
        return {**what, **given, **merged}
    if isinstance(what, str):
        run: Union[str, List[str]] = what
        first = what.split()[0] if what.split() else ""
    elif isinstance(what, Sequence) and not isinstance(what, (bytes, bytearray)):
        run = [_word(each) for each in what]
        first = run[0] if run else ""
    else:
        raise WorkflowError(
            f"{what!r} cannot be submitted",
            "pass a command (a string for a shell, or a list), a task, or a Workflow; functions "
            "go to an Executor",
        )
    if isinstance(what, str) and re.fullmatch(r"\S+\.(ya?ml|toml|json)", what):
        raise WorkflowError(
            f"{what!r} is the name of a file, and not a command",
            "`baton submit` takes files; pass its contents as a mapping",
        )
    if not first:
        raise WorkflowError("the command is empty", 'pass one such as "make -j4"')
    return {"task": _name(first), "run": run, **given}


def body(
    file: Mapping[str, Any],
    params: Mapping[str, str],
    array: Optional[Indices],
    items: Optional[Iterable[Any]] = None,
    after: Optional[After] = None,
    max_concurrent: Optional[int] = None,
    max_fails: Optional[int] = None,
) -> bytes:
    """The request that submits a task."""
    data: Dict[str, Any] = {"file": file, "params": params}
    if array is not None and items is not None:
        raise WorkflowError("array= and items= exclude each other", "pass one of them")
    if array is not None:
        array, limit = conditions.split_limit(array)
        if limit is not None and max_concurrent is not None:
            raise WorkflowError("array= and max_concurrent= have a limit each", "pass one of them")
        max_concurrent = limit if limit is not None else max_concurrent
        found = indices(array)
        data["indices" if isinstance(found, str) else "array"] = found
    if items is not None:
        data["items"] = _items(items)
    if after is not None:
        data["after"] = conditions.after_of(after)
    is_array = array is not None or items is not None
    data.update(conditions.limits(max_concurrent, max_fails, is_array))
    try:
        values.check(data)
    except values.NotJson as error:
        raise WorkflowError("the task is not JSON", str(error)) from error
    return values.write(data).encode()


def _items(items: Iterable[Any]) -> List[Any]:
    if isinstance(items, (str, bytes, Mapping)):
        raise WorkflowError("items= is no list", "pass a list of items, one for each instance")
    found = [plain(item) for item in items]
    if not found:
        raise WorkflowError("items= is empty", "pass at least one item")
    return found


def indices(array: Indices) -> Union[Dict[str, int], str]:
    """The indices of an array, as the API takes them.

    >>> indices(3)
    {'from': 0, 'to': 2}
    >>> indices(range(1, 11))
    {'from': 1, 'to': 10}
    >>> indices("1-10")
    {'from': 1, 'to': 10}
    >>> indices("0-9:2,20")
    '0-9:2,20'
    >>> indices(range(0, 9, 2)), indices([5, 1])
    ('0,2,4,6,8', '5,1')
    """
    if isinstance(array, (range, str)) or not isinstance(array, Sequence):
        found = _bounds(array)
    else:
        found = _listed(array)
    if isinstance(found, str):
        return found
    first, last = found
    if last < first:
        raise WorkflowError(f"array={array!r} has no elements", _HINT)
    if first < 0:
        raise WorkflowError(f"array={array!r} has negative indices", _HINT)
    return {"from": first, "to": last}


_HINT = "pass a number of elements, range(1, 11), a list of indices, or text such as 1-10 or 0-9:2"


def _bounds(array: Any) -> Union[Tuple[int, int], str]:
    if isinstance(array, int) and not isinstance(array, bool):
        return 0, array - 1
    if isinstance(array, range):
        return (array.start, array.stop - 1) if array.step == 1 else _listed(array)
    text = array.replace(" ", "") if isinstance(array, str) else ""
    found = _RANGE.fullmatch(text)
    if found is not None:
        return int(found.group(1)), int(found.group(2))
    if _TEXT.fullmatch(text) is None:
        raise WorkflowError(f"array={array!r} is not understood", _HINT)
    return text


def _listed(array: Any) -> str:
    whole = all(isinstance(each, int) and not isinstance(each, bool) for each in array)
    if not whole or not array or min(array) < 0:
        raise WorkflowError(f"array={array!r} is no list of indices", _HINT)
    return ",".join(map(str, array))


def _word(word: Any) -> str:
    if isinstance(word, (str, os.PathLike)):
        return str(os.fspath(word))
    raise WorkflowError(f"{word!r} is not a word of a command", "pass strings: str(...)")


def _name(word: str) -> str:
    """A name for a command: its program."""
    base = os.path.basename(word.rstrip("/"))
    return re.sub(r"[^A-Za-z0-9._-]", "", base).lstrip(".")[:100] or "command"
