"""Definitions of workflows.

A `Workflow` writes a workflow file: `to_dict` is that file, and the server validates it. Only errors
that the server could not see, or would report misleadingly, are refused here. Tasks are in `tasks`.
"""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar, Token
from datetime import timedelta
from types import TracebackType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Type,
    Union,
    overload,
)

from ..errors import WorkflowError
from . import items as _items
from .items import Edges
from .tasks import Afters, Before, Command, Output, Task, Template, listed, plain

if TYPE_CHECKING:
    from .._client.client import Client
    from .._functions.functions import P, TaskFunction
    from .._handles.run import Run

_current: ContextVar[Optional[Workflow]] = ContextVar("baton_workflow", default=None)


class Workflow:
    """A workflow: tasks, dependencies, and limits.

    `params` are parameters with their defaults. `defaults` are fields of every task that does not
    override them. `python` is the interpreter that workers run functions with (default: this one),
    `pythonpath` its module directories (default: those of the functions); that of this package is
    added. Within `with Workflow(...) as wf:`, calls of functions with `@task` are added to it.
    """

    def __init__(
        self,
        name: str,
        owner: Optional[str] = None,
        params: Optional[Mapping[str, Any]] = None,
        max_concurrent: Optional[int] = None,
        fail_fast: bool = False,
        timeout: Union[str, timedelta, None] = None,
        defaults: Optional[Mapping[str, Any]] = None,
        python: Union[str, os.PathLike[str], None] = None,
        pythonpath: Optional[Sequence[Union[str, os.PathLike[str]]]] = None,
    ) -> None:
        self.name = name
        self.owner = owner
        self.params = _fields("params", params)
        self.max_concurrent = max_concurrent
        self.fail_fast = fail_fast
        self.timeout = timeout
        self.defaults = _fields("defaults", defaults)
        self.python = _path("python", python or sys.executable)
        self.pythonpath = None if pythonpath is None else _paths("pythonpath", pythonpath)
        self.templates: Dict[str, Template] = {}
        self.tasks: Dict[str, Task] = {}
        self._numbers: Dict[str, int] = {}
        self._tokens: List[Token[Optional[Workflow]]] = []

    def __repr__(self) -> str:
        return f"<workflow {self.name} of {len(self.tasks)} tasks>"

    def __enter__(self) -> Workflow:
        self._tokens.append(_current.set(self))
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        _current.reset(self._tokens.pop())

    @overload
    def task(self, name: Callable[P, Any]) -> TaskFunction[P]: ...

    @overload
    def task(
        self, name: str, run: Optional[Command] = None, after: Afters = (), **fields: Any
    ) -> Task: ...

    @overload
    def task(
        self, name: None = None, **fields: Any
    ) -> Callable[[Callable[P, Any]], TaskFunction[P]]: ...

    def task(
        self,
        name: Union[str, Callable[..., Any], None] = None,
        run: Optional[Command] = None,
        after: Afters = (),
        **fields: Any,
    ) -> Any:
        """Adds a task: `wf.task("extract", run="./extract", after=[...], retry={"attempts": 3})`.

        The fields are those of workflow files. As a decorator, `@wf.task` or
        `@wf.task(resources=...)`, it decorates a function whose calls are tasks of this workflow.
        """
        if isinstance(name, str):
            return self._add(name, run, after, fields)
        from .._functions.functions import TaskFunction

        if name is not None:
            return TaskFunction(name, workflow=self)
        if run is not None or after:
            raise WorkflowError(
                "a task with a command needs a name", 'write wf.task("name", run=...)'
            )
        return lambda function: TaskFunction(function, fields, workflow=self)

    def for_each(
        self,
        name: str,
        run: Optional[Command] = None,
        items: Any = (),
        after: Afters = (),
        **fields: Any,
    ) -> Task:
        """Adds a task with an instance for each item: `{{ item }}` in its fields, or `{{ item.KEY
        }}`.

        `items` is a list, a range, a mapping of names to lists (every combination), or an output of
        another task.
        """
        upstream = items.output() if isinstance(items, Task) else items
        values = str(upstream) if isinstance(upstream, Output) else _items.for_each(upstream)
        task = self._add(name, run, after, {**fields, "for_each": values})
        if isinstance(upstream, Output):
            task.needs(upstream.task)
        return task

    def array(
        self,
        name: str,
        run: Optional[Command] = None,
        items: Any = None,
        count: Optional[int] = None,
        upstream: Union[Tuple[Before, Edges], Sequence[Tuple[Before, Edges]], None] = None,
        after: Afters = (),
        **fields: Any,
    ) -> Task:
        """Adds a task with many items, with explicit edges between items.

        It has `count` items 0, 1, 2, ..., or `items`. `upstream` is a task and, for each item of
        this one, the list of its upstream items; or several such pairs. Use `template=` for a
        template in place of a command.
        """
        if (items is None) == (count is None):
            raise WorkflowError(f"the array {name} needs either count or items", "pass one of them")
        task = self.for_each(
            name, run, range(count) if count is not None else items, after, **fields
        )
        for other, edges in _pairs(upstream):
            task.after(other, items=edges)
        return task

    def template(self, name: str, run: Optional[Command] = None, **fields: Any) -> Template:
        """Adds a template; tasks use it with `template=`."""
        if name in self.templates:
            raise WorkflowError(f"there are two templates {name}", "rename one of them")
        self.templates[name] = Template(name, fields if run is None else {"run": run, **fields})
        return self.templates[name]

    def unique(self, name: str) -> str:
        """The name, with a number appended if it is taken."""
        number, taken = self._numbers.get(name, 1), name
        while taken in self.tasks:
            number += 1
            taken = f"{name}-{number}"
        # A function may be called very often: the search continues where it ended.
        self._numbers[name] = number
        return taken

    def add(self, task: Task) -> Task:
        """Adds a task of this workflow."""
        if task.name in self.tasks:
            raise WorkflowError(f"there are two tasks {task.name}", "rename one of them")
        self.tasks[task.name] = task
        return task

    def name_of(self, other: Union[Task, str]) -> str:
        """The name of a task of this workflow."""
        if isinstance(other, str):
            return other
        if not isinstance(other, Task):
            raise WorkflowError(f"{other!r} is not a task", "pass a task, or the name of one")
        if other.workflow is not self:
            raise WorkflowError(
                f"{other!r} belongs to another workflow than {self.name}",
                "a task depends on tasks of its own workflow",
            )
        return other.name

    def to_dict(self) -> Dict[str, Any]:
        """The workflow in the schema of workflow files."""
        data: Dict[str, Any] = {"workflow": self.name}
        limits = {
            "owner": self.owner,
            "max_concurrent": self.max_concurrent,
            "timeout": plain(self.timeout),
        }
        data.update({name: value for name, value in limits.items() if value is not None})
        if self.fail_fast:
            data["fail_fast"] = True
        if self.params:
            data["params"] = self.params
        if self.defaults:
            data["defaults"] = plain(self.defaults)
        if self.templates:
            data["templates"] = {each.name: plain(each.fields) for each in self.templates.values()}
        data["tasks"] = {task.name: task.to_dict() for task in self.tasks.values()}
        return data

    def run(
        self, client: Optional[Client] = None, params: Optional[Mapping[str, Any]] = None
    ) -> Run:
        """Submits it, and returns its run once that is durable. `params` are values of its
        parameters.
        """
        from .._client.client import Client
        from .._functions.functions import phase

        if phase() == "loading":
            raise WorkflowError(
                f"the workflow {self.name} would be run again by a worker that only loads its file",
                'put the line with run() below `if __name__ == "__main__":`',
            )
        return (client or Client()).submit(self, params)

    def _add(
        self, name: str, run: Optional[Command], after: Afters, fields: Dict[str, Any]
    ) -> Task:
        known = fields if run is None else {**fields, "run": run}
        before = listed(after)
        task = self.add(Task(self, name, known))
        task.after(*before)
        for word in run if isinstance(run, (list, tuple)) else ():
            if isinstance(word, Output):
                task.needs(word.task)
        return task


def file_of(workflow: Union[Workflow, Mapping[str, Any]]) -> Dict[str, Any]:
    """The workflow file of a workflow, or of a mapping."""
    if isinstance(workflow, Workflow):
        return workflow.to_dict()
    if isinstance(workflow, Mapping):
        return dict(workflow)
    raise WorkflowError(
        f"{workflow!r} is not a workflow",
        "pass a Workflow, or a mapping in the schema of workflow files; "
        "the name of a file goes to `baton submit`",
    )


def current() -> Optional[Workflow]:
    """The workflow of the innermost open `with` block."""
    return _current.get()


def _fields(word: str, value: Any) -> Dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise WorkflowError(f"{word} is {value!r}", "pass a mapping")
    return dict(value or {})


def _paths(word: str, value: Any) -> List[str]:
    # A string is an iterable of letters.
    if isinstance(value, (str, bytes, os.PathLike)) or not isinstance(value, Iterable):
        raise WorkflowError(f"{word} is {value!r}", f"pass a list: {word}=[...]")
    return [_path(word, each) for each in value]


def _path(word: str, value: Any) -> str:
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(path, str):
        raise WorkflowError(f"{word} is {value!r}", "pass a path")
    return path


def _pairs(upstream: Any) -> List[Tuple[Before, Edges]]:
    if upstream is None:
        return []
    if (
        isinstance(upstream, tuple)
        and len(upstream) == 2
        and isinstance(upstream[0], (Task, str, Mapping))
    ):
        return [upstream]
    pairs = list(upstream) if isinstance(upstream, Iterable) else [upstream]
    for pair in pairs:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise WorkflowError(
                f"{pair!r} is not an upstream task", "pass a task with its edges, or several such pairs"
            )
    return pairs
