"""One call of a function, as the command that a worker runs.

Arguments are JSON. A task among them, or an output of one, is what it has put out there, and an
edge. How that travels from function to function is in `boxes`; what a command has put out is read
as JSON where it is JSON, and as a text otherwise, since a reference to it looks the same for both.
"""

from __future__ import annotations

import inspect
import os
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Set, Tuple, Union

from . import items as _items
from . import values
from .boxes import BOX, BOXES, EACH, asked, boxed
from .errors import WorkflowError
from .places import located, own_roots
from .tasks import Output, Task, plain
from .workflow import Workflow

#: Bytes of the arguments of one call: the kernel takes no word of a command that has 128 KiB.
ARGUMENTS_BYTES_MAX = 120 * 1024

_MEND = "give numbers, texts, lists and mappings, or a path to a file"


class Item:
    """What a mapped function is called for, each in turn."""

    def __init__(self, items: Union[Iterable[Any], Task, Output]) -> None:
        self.for_each: Any
        self.asked: Optional[Tuple[Task, str]] = None
        self.upstream: Optional[Task] = None
        source = _source(items)
        if source is None:
            self._of_values(items)
            return
        task, key = source
        self.upstream = task
        if task.count == 0:
            # What nobody puts out cannot be referred to.
            self.kind, self.for_each = "json", []
        elif task.call is not None:
            what = asked(EACH if task.has_items else BOXES, key)
            self.kind, self.asked = "box", (task, what)
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
            except values.Unfit as error:
                raise WorkflowError(f"item {at} of a map is no JSON: {error}", _MEND) from error
        texts = sum(isinstance(item, str) for item in listed)
        if texts == len(listed):
            self.kind, self.for_each = "str", listed
        elif texts:
            self.kind, self.for_each = "box", [boxed(item) for item in listed]
        else:
            self.kind, self.for_each = "json", listed


def elements(items: Any) -> Iterable[Any]:
    """What a function is mapped over where that is known here."""
    if isinstance(items, Iterable) and not isinstance(items, (str, bytes, Mapping)):
        return items
    raise WorkflowError(
        f"{items!r} is nothing to map over", "give a list, a range, or another task"
    )


class Call:
    """One call of a function.

    The first argument of `baton.call` is the function, the second a JSON object with the arguments;
    `fill` has, for each word that follows, how it is read and where it belongs, since what it is
    filled in with may be no JSON.
    """

    def __init__(
        self, function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        self.function = function
        self.target, self.roots = located(function)
        _check_signature(function, args, kwargs)
        self.upstream: List[Task] = []
        self._asked: List[Tuple[Task, str]] = []
        self._fill: List[values.Path] = []
        self._words: List[str] = []
        #: What others want put out beside the result.
        self.gives: Set[str] = set()
        self._args = [self._taken(value, ("args", at)) for at, value in enumerate(args)]
        self._kwargs = {
            name: self._taken(value, ("kwargs", name)) for name, value in kwargs.items()
        }
        self._text({})

    def ask(self) -> None:
        """Asks the tasks before it for what it needs of them."""
        for task, what in self._asked:
            if task.call is not None:
                task.call.gives.add(what)

    def words(self, python: str) -> List[str]:
        """The command."""
        more = {"give": sorted(self.gives)} if self.gives else {}
        return [
            escaped(python),
            "-m",
            "baton.call",
            escaped(self.target),
            escaped(self._text(more)),
            *self._words,
        ]

    def env(self, workflow: Workflow) -> Dict[str, str]:
        """Where the interpreter finds this package and the module of the function; and that what
        is printed is seen at once.
        """
        roots = self.roots
        if workflow.pythonpath is not None:
            roots = list(dict.fromkeys([*workflow.pythonpath, *own_roots()]))
        known = {"PYTHONPATH": escaped(os.pathsep.join(roots))} if roots else {}
        return {**known, "PYTHONUNBUFFERED": "1"}

    def _text(self, more: Mapping[str, Any]) -> str:
        called = {"args": self._args, "kwargs": self._kwargs, **more}
        if self._fill:
            called["fill"] = self._fill
        text = values.write(called)
        size = len(text.encode())
        if size > ARGUMENTS_BYTES_MAX:
            raise WorkflowError(
                f"the arguments of {self.function.__qualname__} take {size} bytes, "
                f"and a call has {ARGUMENTS_BYTES_MAX}",
                "write them to a file, and give its path",
            )
        return text

    def _taken(self, value: Any, path: values.Path) -> Any:
        """The value as JSON, with nothing where a word will be filled in."""
        if isinstance(value, Item):
            if value.upstream is not None:
                self.upstream.append(value.upstream)
            if value.asked is not None:
                self._asked.append(value.asked)
            return self._filled(value.kind, path, "{{ item }}")
        source = _source(value)
        if source is not None:
            return self._of_task(*source, path)
        try:
            if len(path) > values.DEPTH_MAX:
                raise values.Unfit(f"more than {values.DEPTH_MAX} deep, or holds itself")
            if isinstance(value, Mapping):
                values.check(dict.fromkeys(value), path[2:])
                return {name: self._taken(each, (*path, name)) for name, each in value.items()}
            if isinstance(value, (list, tuple)):
                return [self._taken(each, (*path, at)) for at, each in enumerate(value)]
            values.check(value, path[2:])
        except values.Unfit as error:
            place = f"argument {path[1]} of {self.function.__qualname__}"
            raise WorkflowError(f"{place} is no JSON: {error}", _MEND) from error
        return value

    def _of_task(self, task: Task, key: str, path: values.Path) -> Any:
        self.upstream.append(task)
        if task.count == 0:
            # What nobody puts out cannot be referred to.
            return []
        if task.call is None:
            return self._filled("text", path, str(task.output(key)))
        what = asked(BOX, key)
        self._asked.append((task, what))
        return self._filled("boxes" if task.has_items else "box", path, str(task.output(what)))

    def _filled(self, kind: str, path: values.Path, word: str) -> None:
        self._fill.append((kind, *path))
        self._words.append(word)


def escaped(text: str) -> str:
    """A text that is no template."""
    return text.replace("{{", "{{{{")


def _source(value: Any) -> Optional[Tuple[Task, str]]:
    """The task that puts a value out, and under which name."""
    if isinstance(value, Task):
        return value, value.output().key
    return (value.task, value.key) if isinstance(value, Output) else None


def _check_signature(
    function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        # Some built-in functions do not tell.
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(function, "__qualname__", repr(function))
        raise WorkflowError(
            f"{name} cannot be called so: {error}", f"it is {name}{signature}"
        ) from error
