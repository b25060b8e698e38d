"""The command that calls a function on a worker.

Arguments are JSON. A task among them, or an output of one, stands for its value on the worker, and
is an edge. Outputs of functions travel in `boxes`; an output of a command is read as JSON where it
is JSON, and as a string otherwise, since a reference to it looks the same for both.
"""

from __future__ import annotations

import inspect
import os
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Set, Tuple, Union

from .. import _values as values
from .._workflows import items as _items
from .._workflows.tasks import Output, Task, plain
from .._workflows.workflow import Workflow
from ..errors import WorkflowError
from .boxes import BOX, BOXES, EACH, boxed, boxed_key
from .locations import locate, own_roots

#: Bytes of the arguments of one call: the kernel refuses an argument of 128 KiB.
ARGUMENTS_BYTES_MAX = 120 * 1024

_HINT = "pass numbers, strings, lists and mappings, or the path of a file"


class Item:
    """The items of a mapped function.

    With `by_place`, those of a mapped function's task are its own items: each waits for the result
    of the same item, and not for all of them.
    """

    #: The argument of the command line.
    word = "{{ item }}"
    #: The task whose items are the same, if it is joined with it item by item.
    joined: Optional[Task] = None

    def __init__(
        self, items: Union[Iterable[Any], Task, Output], by_place: bool = False
    ) -> None:
        self.for_each: Any
        self.requested: Optional[Tuple[Task, str]] = None
        self.upstream: Optional[Task] = None
        source = _source(items)
        if source is None:
            self._of_values(items)
            return
        task, key = source
        self.upstream = task
        if task.count == 0:
            # A task without items has no outputs to refer to.
            self.kind, self.for_each = "json", []
        elif by_place and items is task and task.call is not None and "for_each" in task.fields:
            what = boxed_key(BOX, key)
            self.kind, self.requested = "box", (task, what)
            self.for_each, self.word = task.fields["for_each"], str(task.output(what))
            self.joined = task
        elif task.call is not None:
            what = boxed_key(EACH if task.has_items else BOXES, key)
            self.kind, self.requested = "box", (task, what)
            self.for_each = str(task.output(what))
        else:
            self.kind, self.for_each = "text", str(task.output(key))

    def _of_values(self, items: Any) -> None:
        if isinstance(items, range):
            self.kind, self.for_each = "json", _items.for_each(items)
            return
        listed = [plain(item) for item in elements(items)]
        for at, item in enumerate(listed):
            try:
                values.check(item)
            except values.NotJson as error:
                raise WorkflowError(f"item {at} of a map is not JSON: {error}", _HINT) from error
        texts = sum(isinstance(item, str) for item in listed)
        if texts == len(listed):
            self.kind, self.for_each = "str", listed
        elif texts:
            self.kind, self.for_each = "box", [boxed(item) for item in listed]
        else:
            self.kind, self.for_each = "json", listed


class Texts(Item):
    """Items of a map as JSON texts. Unlike other items they may have template braces."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.kind, self.requested, self.upstream = "json", None, None
        self.for_each = [_json_text(at, item) for at, item in enumerate(items)]


def _json_text(at: int, item: Any) -> str:
    try:
        values.check(item)
    except values.NotJson as error:
        raise WorkflowError(f"item {at} of a map is not JSON: {error}", _HINT) from error
    # Two braces in a row can only be within a string.
    text = values.write(item).replace("{{", "{\\u007b")
    size = len(text.encode())
    if size > ARGUMENTS_BYTES_MAX:
        raise WorkflowError(
            f"item {at} of a map takes {size} bytes, and a call has {ARGUMENTS_BYTES_MAX}",
            "write it to a file, and pass its path",
        )
    return text


def elements(items: Any) -> Iterable[Any]:
    """The values of a map over a literal iterable."""
    if isinstance(items, Iterable) and not isinstance(items, (str, bytes, Mapping)):
        return items
    raise WorkflowError(
        f"{items!r} cannot be mapped over", "pass a list, a range, or another task"
    )


class Call:
    """One call of a function.

    The first argument of `baton.call` is the function, the second a JSON object with the arguments;
    `fill` has, for each following argument, its encoding and its position, since the inserted text
    may be no JSON.
    """

    def __init__(
        self, function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self.function = function
        self.target, self.roots = locate(function)
        _check_signature(function, args, kwargs)
        self.upstream: List[Task] = []
        self._requested: List[Tuple[Task, str]] = []
        self._fill: List[values.Path] = []
        self._words: List[str] = []
        #: Further keys of the call: see `call`.
        self.more: Dict[str, Any] = {}
        #: The boxes that downstream functions request beside the result.
        self.requested_keys: Set[str] = set()
        self._args = [self._encode(value, ("args", at)) for at, value in enumerate(args)]
        self._kwargs = {
            name: self._encode(value, ("kwargs", name)) for name, value in kwargs.items()
        }
        self._text({})

    def with_item(self, item: Item, spread: str) -> Call:
        """The same call, with all its arguments from an item: see `call`."""
        self._args, self._kwargs, self._fill, self._words = [], {}, [], []
        self._args = [self._encode(item, ("args", 0))]
        self.more["spread"] = spread
        return self

    def request_outputs(self) -> None:
        """Requests the outputs that it needs from its upstream tasks."""
        for task, what in self._requested:
            if task.call is not None:
                task.call.requested_keys.add(what)

    def words(self, python: str) -> List[str]:
        """The command line."""
        more = {"give": sorted(self.requested_keys)} if self.requested_keys else {}
        return [
            escaped(python),
            "-m",
            "baton.call",
            escaped(self.target),
            escaped(self._text(more)),
            *self._words,
        ]

    def env(self, workflow: Workflow) -> Dict[str, str]:
        """The module path of the interpreter, and unbuffered output."""
        roots = self.roots
        if workflow.pythonpath is not None:
            roots = list(dict.fromkeys([*workflow.pythonpath, *own_roots()]))
        known = {"PYTHONPATH": escaped(os.pathsep.join(roots))} if roots else {}
        return {**known, "PYTHONUNBUFFERED": "1"}

    def _text(self, more: Mapping[str, Any]) -> str:
        called = {"args": self._args, "kwargs": self._kwargs, **self.more, **more}
        if self._fill:
            called["fill"] = self._fill
        text = values.write(called)
        size = len(text.encode())
        if size > ARGUMENTS_BYTES_MAX:
            raise WorkflowError(
                f"the arguments of {self.function.__qualname__} take {size} bytes, "
                f"and a call has {ARGUMENTS_BYTES_MAX}",
                "write them to a file, and pass its path",
            )
        return text

    def _encode(self, value: Any, path: values.Path) -> Any:
        """The value as JSON, with None where an argument is inserted."""
        if isinstance(value, Item):
            if value.upstream is not None:
                self.upstream.append(value.upstream)
            if value.requested is not None:
                self._requested.append(value.requested)
            return self._add_argument(value.kind, path, value.word)
        source = _source(value)
        if source is not None:
            return self._encode_task(*source, path)
        try:
            if len(path) > values.DEPTH_MAX:
                raise values.NotJson(f"more than {values.DEPTH_MAX} deep, or contains itself")
            if isinstance(value, Mapping):
                values.check(dict.fromkeys(value), path[2:])
                return {name: self._encode(each, (*path, name)) for name, each in value.items()}
            if isinstance(value, (list, tuple)):
                return [self._encode(each, (*path, at)) for at, each in enumerate(value)]
            values.check(value, path[2:])
        except values.NotJson as error:
            place = f"argument {path[1]} of {self.function.__qualname__}"
            raise WorkflowError(f"{place} is not JSON: {error}", _HINT) from error
        return value

    def _encode_task(self, task: Task, key: str, path: values.Path) -> Any:
        self.upstream.append(task)
        if task.count == 0:
            # A task without items has no outputs to refer to.
            return []
        if task.call is None:
            return self._add_argument("text", path, str(task.output(key)))
        what = boxed_key(BOX, key)
        self._requested.append((task, what))
        return self._add_argument("boxes" if task.has_items else "box", path, str(task.output(what)))

    def _add_argument(self, kind: str, path: values.Path, word: str) -> None:
        self._fill.append((kind, *path))
        self._words.append(word)


def escaped(text: str) -> str:
    """Escapes template braces."""
    return text.replace("{{", "{{{{")


def _source(value: Any) -> Optional[Tuple[Task, str]]:
    """The task and the key of an output."""
    if isinstance(value, Task):
        return value, value.output().key
    return (value.task, value.key) if isinstance(value, Output) else None


def _check_signature(
    function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # Some built-in functions have no signature.
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(function, "__qualname__", repr(function))
        raise WorkflowError(
            f"{name} cannot be called with these arguments: {error}", f"its signature is {name}{signature}"
        ) from error
