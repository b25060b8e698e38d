"""The body of a submission: a command or a task file, with options, and indices of an array."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import values
from .errors import WorkflowError
from .tasks import plain

#: A string runs in a shell, a list without one.
Words = Union[str, Sequence[Union[str, "os.PathLike[str]"]]]

#: The number of elements, a range of indices, or text such as `1-100`.
Indices = Union[int, range, str]

_TEXT = re.compile(r"(\d+)-(\d+)", re.ASCII)

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


def body(file: Mapping[str, Any], params: Mapping[str, str], array: Optional[Indices]) -> bytes:
    """The request that submits a task."""
    data: Dict[str, Any] = {"file": file, "params": params}
    if array is not None:
        data["array"] = indices(array)
    try:
        values.check(data)
    except values.NotJson as error:
        raise WorkflowError("the task is not JSON", str(error)) from error
    return values.write(data).encode()


def indices(array: Indices) -> Any:
    """The indices of an array, as the API takes them.

    >>> indices(3)
    {'from': 0, 'to': 2}
    >>> indices(range(1, 11))
    {'from': 1, 'to': 10}
    >>> indices("1-10")
    {'from': 1, 'to': 10}
    """
    first, last = _bounds(array)
    if last < first:
        raise WorkflowError(f"array={array!r} has no elements", _HINT)
    if first < 0:
        raise WorkflowError(f"array={array!r} has negative indices", _HINT)
    return {"from": first, "to": last}


_HINT = "pass a number of elements, range(1, 11), or text such as 1-10"


def _bounds(array: Any) -> Tuple[int, int]:
    if isinstance(array, int) and not isinstance(array, bool):
        return 0, array - 1
    if isinstance(array, range) and array.step == 1:
        return array.start, array.stop - 1
    found = _TEXT.fullmatch(array.strip()) if isinstance(array, str) else None
    if found is None:
        raise WorkflowError(f"array={array!r} is not understood", _HINT)
    return int(found.group(1)), int(found.group(2))


def _word(word: Any) -> str:
    if isinstance(word, (str, os.PathLike)):
        return str(os.fspath(word))
    raise WorkflowError(f"{word!r} is not a word of a command", "pass strings: str(...)")


def _name(word: str) -> str:
    """A name for a command: its program."""
    base = os.path.basename(word.rstrip("/"))
    return re.sub(r"[^A-Za-z0-9._-]", "", base).lstrip(".")[:100] or "command"
