"""Python functions as tasks.

Calling a decorated function within a workflow adds a task that calls it on a worker, in a fresh
interpreter. `commands` builds its command, `locations` finds its module, and `call` is its entry
point on the worker.
"""

from __future__ import annotations

import functools
import inspect
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Generic,
    Iterable,
    Mapping,
    Optional,
    TypeVar,
    Union,
    overload,
)

from .._workflows.tasks import Output, Task, listed
from .._workflows.workflow import Workflow, current
from ..errors import WorkflowError
from .commands import Call, Item, elements

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")
else:
    # Python 3.9 has no ParamSpec, and only type checkers use it.
    P = TypeVar("P")

# "" where workflows are defined; "loading" and then "running" where a worker calls a function.
_phase = ""


def phase() -> str:
    """The phase of a function call on a worker."""
    return _phase


def enter(phase: str) -> None:
    """Sets the phase; only `baton.call` does."""
    global _phase
    _phase = phase


class TaskFunction(Generic[P]):
    """A function whose calls are tasks: of the workflow it was decorated for, or of the one whose
    `with` block is open.

    Outside a workflow, calling it calls the function. It keeps the signature, also for type
    checkers; a call returns a task or a result, so its type is Any.
    """

    def __init__(
        self,
        function: Callable[P, Any],
        fields: Optional[Mapping[str, Any]] = None,
        workflow: Optional[Workflow] = None,
        name: Optional[str] = None,
    ) -> None:
        _check_body(function)
        functools.update_wrapper(self, function)
        self.function = function
        self.fields = dict(fields or {})
        self.workflow = workflow
        self.name = name

    def __repr__(self) -> str:
        return f"<task function {_name(self.function)}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Binds it as a method, which can be called and is no task."""
        return self if instance is None else MethodType(self, instance)

    def options(self, name: Optional[str] = None, **fields: Any) -> TaskFunction[P]:
        """The same function, with another task name or other fields."""
        return TaskFunction(
            self.function, {**self.fields, **fields}, self.workflow, name or self.name
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Adds a task that calls the function, and returns it; without a workflow, calls the
        function.
        """
        workflow = self._target()
        if workflow is None:
            return self.function(*args, **kwargs)
        return self.add_to(workflow, Call(self.function, args, kwargs), {})

    def map(self, items: Union[Iterable[Any], Task, Output], *args: Any, **kwargs: Any) -> Any:
        """Adds a task that calls the function for each item, as its first argument; the others are
        the same for all.

        `items` may be a task: each element of the list it returns, or each of its results if it has
        several. In the latter case a call starts when the one whose result it takes is DONE.
        """
        workflow = self._target()
        if workflow is None:
            if isinstance(items, (Task, Output)):
                raise WorkflowError(
                    "there is no workflow to map in", "open one: `with Workflow(...) as wf:`"
                )
            called: Callable[..., Any] = self.function
            return [called(item, *args, **kwargs) for item in elements(items)]
        item = Item(items, by_place=True)
        call = Call(self.function, (item, *args), kwargs)
        if item.joined is not None and call.upstream.count(item.joined) > 1:
            # Another argument is all its results.
            item = Item(items)
            call = Call(self.function, (item, *args), kwargs)
        more: Dict[str, Any] = {"for_each": item.for_each}
        if item.joined is not None:
            more["joined"] = item.joined
        return self.add_to(workflow, call, more)

    def _target(self) -> Optional[Workflow]:
        """The workflow that calls are added to; None on a worker, where functions call each other."""
        return current() or (None if _phase == "running" else self.workflow)

    def add_to(self, workflow: Workflow, call: Call, more: Dict[str, Any]) -> Task:
        """Adds the task of a call."""
        fields = {**self.fields, **more}
        after = listed(fields.pop("after", ()))
        joined = fields.pop("joined", None)
        name = workflow.unique(self.name or _name(self.function))
        named = [each for each in after if not isinstance(each, Mapping)]
        for upstream in (*call.upstream, *named):
            workflow.name_of(upstream)
        call.request_outputs()
        task = workflow.add(Task(workflow, name, fields, call))
        task.after(*after)
        if joined is not None:
            task.after(joined, each=True)
        for upstream in call.upstream:
            task.needs(upstream)
        return task


@overload
def task(function: Callable[P, Any]) -> TaskFunction[P]: ...


@overload
def task(function: None = None, **fields: Any) -> Callable[[Callable[P, Any]], TaskFunction[P]]: ...


def task(function: Optional[Callable[..., Any]] = None, **fields: Any) -> Any:
    """Decorates a function whose calls are tasks: `@task`, or `@task(retry={"attempts": 3})` with
    fields of a task.
    """
    if function is not None:
        return TaskFunction(function)
    return lambda decorated: TaskFunction(decorated, fields)


def _name(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", repr(function)))


def _check_body(function: Callable[..., Any]) -> None:
    """Refuses functions that a call does not run to their end."""
    if not callable(function):
        raise WorkflowError(f"{function!r} is not a function", "decorate a `def` with @task")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise WorkflowError(
            f"{_name(function)} is `async`, and a call of it would run nothing",
            "make it a plain function, with asyncio.run(...) in it",
        )
    if inspect.isgeneratorfunction(function):
        raise WorkflowError(
            f"{_name(function)} has a `yield`, and a call of it would run nothing",
            "collect what it yields in a list, and return that",
        )
