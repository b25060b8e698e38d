"""Python functions as tasks.

Calling a decorated function within a workflow adds a task that calls it on a worker, in a fresh
interpreter: `baton.call` imports the module of the function, or loads its file where that is the
script itself. Arguments are JSON. A task among them is its result there, and an edge.

How a result travels: a reference fills in a text as it is and anything else as JSON, so the text
`5` and the number 5 could not be told apart. Whoever hands a result to Python therefore asks its
task for the value in a box, `{"value": 5}`, which is always filled in as JSON, and `baton.call`
takes it out again. `result` stays what the function returned, for shells and `when`.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import sysconfig
from pathlib import Path
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Set,
    Tuple,
    Union,
    overload,
)

from .errors import WorkflowError
from .items import for_each
from .tasks import Output, Task, listed, plain
from .workflow import Workflow, current

#: Bytes of the arguments of one call: the kernel takes no word of a command that has 128 KiB.
ARGUMENTS_BYTES_MAX = 120 * 1024

#: What one function may want another to put out: its result in a box; a list of boxes with the
#: elements of its result, to have items of; a list with the one box, which are put together where
#: the other has several items.
BOX, BOXES, EACH = "_box", "_boxes", "_each"

# "" where workflows are defined; "loading" and then "running" where a worker calls a function.
_phase = ""


def phase() -> str:
    """How far a worker is that calls a function."""
    return _phase


def enter(phase: str) -> None:
    """For `baton.call` alone."""
    global _phase
    _phase = phase


class TaskFunction:
    """A function whose calls are tasks: of the workflow it was decorated for, or of the one whose
    `with` block is open.

    Called where there is no workflow, it is the function.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        fields: Optional[Mapping[str, Any]] = None,
        workflow: Optional[Workflow] = None,
        name: Optional[str] = None,
    ) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.fields = dict(fields or {})
        self.workflow = workflow
        self.name = name

    def __repr__(self) -> str:
        return f"<task function {self.function.__qualname__}>"

    def options(self, name: Optional[str] = None, **fields: Any) -> TaskFunction:
        """The same function, as tasks with another name or other fields."""
        return TaskFunction(
            self.function, {**self.fields, **fields}, self.workflow, name or self.name
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Adds a task that calls the function, and returns it; without a workflow, calls the
        function.
        """
        workflow = self._target()
        if workflow is None:
            return self.function(*args, **kwargs)
        return self._add(workflow, Call(self.function, args, kwargs), {})

    def map(self, items: Union[Iterable[Any], Task, Output], *args: Any, **kwargs: Any) -> Any:
        """Adds a task that calls the function for each item, as its first argument; the others are
        the same for all.

        `items` may be a task: each element of the list it returns, or each of its results if it has
        several.
        """
        workflow = self._target()
        if workflow is None:
            if isinstance(items, (Task, Output)):
                raise WorkflowError(
                    "there is no workflow to map in", "open one: `with Workflow(...) as wf:`"
                )
            return [self.function(item, *args, **kwargs) for item in items]
        item = Item(items)
        return self._add(
            workflow, Call(self.function, (item, *args), kwargs), {"for_each": item.for_each}
        )

    def _target(self) -> Optional[Workflow]:
        """Where calls go. A function that runs on a worker calls others as they are."""
        return current() or (None if _phase == "running" else self.workflow)

    def _add(self, workflow: Workflow, call: Call, more: Dict[str, Any]) -> Task:
        fields = {**self.fields, **more}
        after = fields.pop("after", ())
        name = workflow.unique(self.name or self.function.__name__.strip("<>"))
        for upstream in call.upstream:
            workflow.name_of(upstream)
        call.ask()
        task = workflow.add(Task(workflow, name, fields, call))
        task.after(*listed(after))
        for upstream in call.upstream:
            task.needs(upstream)
        return task


@overload
def task(function: Callable[..., Any]) -> TaskFunction: ...


@overload
def task(function: None = None, **fields: Any) -> Callable[[Callable[..., Any]], TaskFunction]: ...


def task(function: Optional[Callable[..., Any]] = None, **fields: Any) -> Any:
    """Makes a function one whose calls are tasks: `@task`, or `@task(retry={"attempts": 3})` with
    fields of a task.
    """
    if function is not None:
        return TaskFunction(function)
    return lambda decorated: TaskFunction(decorated, fields)


def boxed(value: Any) -> Dict[str, Any]:
    """The value in a box."""
    return {"value": value}


class Item:
    """What a mapped function is called for, each in turn."""

    def __init__(self, items: Union[Iterable[Any], Task, Output]) -> None:
        self.for_each: Any
        self.asked: Optional[Tuple[Task, str]] = None
        self.upstream: Optional[Task] = None
        if isinstance(items, Task) and items.count == 0:
            # What nobody puts out cannot be referred to.
            self.kind, self.upstream, self.for_each = "json", items, []
        elif isinstance(items, Task) and items.call is not None:
            self.kind, self.upstream = "box", items
            self.asked = (items, EACH if items.has_items else BOXES)
            self.for_each = str(items.output(self.asked[1]))
        elif isinstance(items, (Task, Output)):
            output = items.output() if isinstance(items, Task) else items
            self.kind, self.upstream, self.for_each = "text", output.task, str(output)
        elif isinstance(items, range):
            self.kind, self.for_each = "json", for_each(items)
        else:
            self.kind, self.for_each = _told_apart([plain(item) for item in items])


def _told_apart(items: List[Any]) -> Tuple[str, List[Any]]:
    texts = sum(isinstance(item, str) for item in items)
    if texts == len(items):
        return "str", items
    return ("box", [boxed(item) for item in items]) if texts else ("json", items)


class Call:
    """One call of a function, as the command that a worker runs.

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
        self._fill: List[List[Union[str, int]]] = []
        self._words: List[str] = []
        #: What others want put out beside the result.
        self.gives: Set[str] = set()
        self._args = [self._taken(value, ["args", at]) for at, value in enumerate(args)]
        self._kwargs = {
            name: self._taken(value, ["kwargs", name]) for name, value in kwargs.items()
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
        """Where the interpreter finds this package, and the module of the function."""
        roots = self.roots if workflow.pythonpath is None else workflow.pythonpath
        return {"PYTHONPATH": escaped(os.pathsep.join(roots))} if roots else {}

    def _text(self, more: Mapping[str, Any]) -> str:
        called = {"args": self._args, "kwargs": self._kwargs, **more}
        if self._fill:
            called["fill"] = self._fill
        text = json.dumps(called, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        size = len(text.encode())
        if size > ARGUMENTS_BYTES_MAX:
            raise WorkflowError(
                f"the arguments of {self.function.__qualname__} take {size} bytes, "
                f"and a call has {ARGUMENTS_BYTES_MAX}",
                "write them to a file, and give its path",
            )
        return text

    def _taken(self, value: Any, path: List[Union[str, int]]) -> Any:
        """The value as JSON, with nothing where a word will be filled in."""
        if isinstance(value, Item):
            if value.upstream is not None:
                self.upstream.append(value.upstream)
            if value.asked is not None:
                self._asked.append(value.asked)
            return self._filled(value.kind, path, "{{ item }}")
        if isinstance(value, Task) and value.count == 0:
            # What nobody puts out cannot be referred to.
            self.upstream.append(value)
            return []
        if isinstance(value, Task) and value.call is not None:
            self.upstream.append(value)
            self._asked.append((value, BOX))
            return self._filled("boxes" if value.has_items else "box", path, str(value.output(BOX)))
        if isinstance(value, (Task, Output)):
            output = value.output() if isinstance(value, Task) else value
            self.upstream.append(output.task)
            return self._filled("text", path, str(output))
        if isinstance(value, Mapping):
            for name in value:
                if not isinstance(name, str):
                    raise self._unfit(path, f"a mapping with the key {name!r}; JSON has texts only")
            return {name: self._taken(each, [*path, name]) for name, each in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._taken(each, [*path, at]) for at, each in enumerate(value)]
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise self._unfit(path, str(error)) from error
        return value

    def _filled(self, kind: str, path: List[Union[str, int]], word: str) -> None:
        self._fill.append([kind, *path])
        self._words.append(word)

    def _unfit(self, path: List[Union[str, int]], why: str) -> WorkflowError:
        place = f"argument {path[1]} of {self.function.__qualname__}"
        return WorkflowError(
            f"{place} is no JSON: {why}",
            "give numbers, texts, lists and mappings, or a path to a file",
        )


def escaped(text: str) -> str:
    """A text that is no template."""
    return text.replace("{{", "{{{{")


def located(function: Callable[..., Any]) -> Tuple[str, List[str]]:
    """How `baton.call` finds a function, and which directories Python must know for that."""
    name = getattr(function, "__qualname__", repr(function))
    if "<" in name:
        raise WorkflowError(
            f"the function {name} cannot be found by a worker, since it is made within another",
            "define it with `def` at the level of a module",
        )
    package = str(Path(__file__).resolve().parent.parent)
    module = sys.modules.get(function.__module__)
    known = function.__module__
    if known == "__main__":
        known = getattr(getattr(module, "__spec__", None), "name", "") or ""
    file = getattr(module, "__file__", None)
    if file is None:
        if not known:
            raise WorkflowError(
                f"the function {name} was typed in, and no worker can find it",
                "put it into a file, and import it",
            )
        return f"{known}:{name}", _beyond_python([package])
    path = Path(file).resolve()
    root = _root(path, known) if known else None
    if root is None:
        return f"{path}:{name}", _beyond_python([package])
    return f"{known}:{name}", _beyond_python([package, str(root)])


def _root(path: Path, module: str) -> Optional[Path]:
    """The directory below which a file is this module, if there is one."""
    parts = module.split(".")
    whole = path.parent.parts if path.stem == "__init__" else (*path.parent.parts, path.stem)
    if list(whole[-len(parts) :]) != parts:
        return None
    return Path(*whole[: -len(parts)])


def _beyond_python(roots: List[str]) -> List[str]:
    """Without what the interpreter looks through anyway."""
    own = {str(Path(path).resolve()) for path in sysconfig.get_paths().values()}
    return [root for root in dict.fromkeys(roots) if root not in own]


def _check_signature(
    function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Mapping[str, Any]
) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:
        # Some built-in functions do not tell.
        return
    signature.bind(*args, **kwargs)
