"""Tasks of a workflow, their outputs, and templates.

`to_dict` is evaluated late, since downstream functions may still request outputs of a task.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from .._values import DEPTH_MAX
from ..errors import WorkflowError
from . import items as _items
from .items import Edges

if TYPE_CHECKING:
    from .._functions.commands import Call
    from .workflow import Workflow

#: A string runs in a shell, a list without one. A list may have outputs of other tasks.
Command = Union[str, Sequence[Union[str, "Output"]]]

#: An upstream task: a task, its name, or an entry of `after` as in workflow files.
Before = Union["Task", str, Mapping[str, Any]]

#: One of these, or several.
Afters = Union[Before, Sequence[Before]]

_CONDITIONS = ("success", "failure", "end")


class Output:
    """An output of a task. As a string it is the reference to it: f"./load
    {extract.output('rows')}".
    """

    def __init__(self, task: Task, key: str) -> None:
        self.task = task
        self.key = key

    def __str__(self) -> str:
        return f"{{{{ tasks.{self.task.name}.outputs.{self.key} }}}}"

    def __repr__(self) -> str:
        return f"<output {self.key} of task {self.task.name}>"


class Template:
    """A named partial task. All tasks that use it share its `max_concurrent`."""

    def __init__(self, name: str, fields: Dict[str, Any]) -> None:
        self.name = name
        self.fields = fields

    def __repr__(self) -> str:
        return f"<template {self.name}>"


class Task:
    """One task of a workflow, created by `Workflow.task`, `for_each`, `array` or a function.

    `a >> b` makes b depend on a; both sides may be lists.
    """

    def __init__(
        self, workflow: Workflow, name: str, fields: Dict[str, Any], call: Optional[Call] = None
    ) -> None:
        self.workflow = workflow
        self.name = name
        of = fields.get("template")
        self.fields = {**fields, "template": of.name} if isinstance(of, Template) else fields
        #: The function call, if it is one.
        self.call = call
        self._after: List[Dict[str, Any]] = []

    def __repr__(self) -> str:
        return f"<task {self.name} of workflow {self.workflow.name}>"

    @property
    def has_items(self) -> bool:
        """True if it has `for_each` or `matrix`."""
        of = self.fields.get("template")
        template = self.workflow.templates.get(of) if isinstance(of, str) else None
        known = {*self.fields, *(template.fields if template else ())}
        return not known.isdisjoint(("for_each", "matrix"))

    @property
    def count(self) -> Optional[int]:
        """The number of its items; None if only the run determines it."""
        if "for_each" in self.fields:
            return _items.count(self.fields["for_each"])
        return None if self.has_items else 1

    def output(self, key: str = "result") -> Any:
        """The output with this key, as an `Output`.

        Its type is Any for type checkers: it stands for the later value.
        """
        return Output(self, key)

    def after(
        self,
        *others: Before,
        on: str = "success",
        each: bool = False,
        items: Optional[Edges] = None,
    ) -> Task:
        """Depends on these tasks: starts when they are DONE, or with `on` "failure" or "end".

        With `each` an item waits only for the item with the same index; with `items` for those in
        its list.
        """
        if on not in _CONDITIONS:
            raise WorkflowError(f"on={on!r} is unknown", f"use one of {', '.join(_CONDITIONS)}")
        if each and items is not None:
            raise WorkflowError("each and items exclude each other", "remove one of them")
        for other in others:
            if isinstance(other, Mapping):
                edge = dict(other)
            else:
                edge = {"task": self.workflow.name_of(other)}
                if on != "success":
                    edge["on"] = on
                if each:
                    edge["each"] = True
                if items is not None:
                    edge["items"] = _items.edges(items, self.count)
            if edge not in self._after:
                self._after.append(edge)
        return self

    def needs(self, other: Task) -> None:
        """Adds a dependency on a task whose output it uses, unless there is one."""
        if all(edge.get("task") != other.name for edge in self._after):
            self.after(other)

    def __rshift__(self, other: Any) -> Any:
        if isinstance(other, Task):
            return other.after(self)
        if not isinstance(other, (list, tuple)):
            return NotImplemented
        for each in other:
            if not isinstance(each, Task):
                raise WorkflowError(f"{each!r} is not a task", "use tasks on both sides of >>")
            each.after(self)
        return other

    def __rrshift__(self, others: Any) -> Any:
        return self.after(*others) if isinstance(others, (list, tuple)) else NotImplemented

    def __lshift__(self, other: Any) -> Any:
        self.after(*(other if isinstance(other, (list, tuple)) else (other,)))
        return other

    def to_dict(self) -> Dict[str, Any]:
        """The task in the schema of workflow files."""
        data = {name: plain(value) for name, value in self.fields.items()}
        if self.call is not None:
            data["run"] = self.call.words(self.workflow.python)
            env = self.call.env(self.workflow)
            if env:
                data["env"] = {**env, **data.get("env", {})}
        if self._after:
            data["after"] = [
                edge["task"] if set(edge) == {"task"} else edge for edge in self._after
            ]
        return data


def listed(after: Afters) -> Sequence[Before]:
    """The upstream tasks as a list."""
    if isinstance(after, (str, Task, Mapping)):
        return [after]
    if isinstance(after, Iterable):
        return list(after)
    # None is most often a forgotten `return`.
    raise WorkflowError(f"after is {after!r}", "pass a task, the name of one, or a list of them")


def plain(value: Any, levels: int = DEPTH_MAX) -> Any:
    """A field value as JSON."""
    # Most are strings and numbers, and a large workflow has millions.
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, timedelta):
        return f"{round(value.total_seconds() * 1000)}ms"
    if isinstance(value, (Output, os.PathLike)):
        return str(value)
    if isinstance(value, Mapping):
        return {name: plain(each, _less(levels)) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each, _less(levels)) for each in value]
    return value


def _less(levels: int) -> int:
    if levels == 0:
        raise WorkflowError(
            f"a value of a workflow is nested more than {DEPTH_MAX} deep, or contains itself",
            "flatten it, or write it to a file, and pass its path",
        )
    return levels - 1
