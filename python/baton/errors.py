"""Exceptions. Every one is a `BatonError` with a hint.

They can be pickled, since process pools pass them between processes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, List, Mapping, Sequence, Tuple, Type

if TYPE_CHECKING:
    from .run import Run
    from .views import ErrorGroup

# Characters shown of a body that is no problem document.
_SHOWN_CHARS_MAX = 200

# Groups of failures that an error names one by one.
_GROUPS_MAX = 5


@dataclass(frozen=True)
class FieldError:
    """One error of the input: its field, message and hint."""

    field: str
    message: str
    hint: str


@dataclass(frozen=True)
class Problem:
    """The problem document of a refused request."""

    title: str
    detail: str = ""
    #: The status code; 0 if no request was sent.
    status: int = 0
    #: A constant for programs to compare.
    kind: str = ""
    errors: List[FieldError] = field(default_factory=list)

    @classmethod
    def read(cls, status: int, reason: str, body: bytes) -> Problem:
        """The problem of a response; also of one that does not come from Baton."""
        try:
            data = json.loads(body.decode("utf-8", "replace"))
        except ValueError:
            data = None
        if isinstance(data, dict) and isinstance(data.get("title"), str):
            return cls(
                title=data["title"],
                detail=str(data.get("detail", "")),
                status=status,
                kind=str(data.get("type", "")),
                errors=_field_errors(data.get("errors")),
            )
        text = " ".join(body.decode("utf-8", "replace").split())
        return cls(
            title=f"{status} {reason}".strip(), detail=text[:_SHOWN_CHARS_MAX], status=status
        )


def _field_errors(data: Any) -> List[FieldError]:
    listed = data if isinstance(data, list) else []
    return [
        FieldError(*(str(each.get(name, "")) for name in ("field", "message", "hint")))
        for each in listed
        if isinstance(each, Mapping)
    ]


class BatonError(Exception):
    """An error; `problem` has the details."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem

    @property
    def title(self) -> str:
        """A short summary."""
        return self.problem.title

    @property
    def detail(self) -> str:
        """The details of this case, and a hint."""
        return self.problem.detail

    @property
    def status(self) -> int:
        """The status code of the response; 0 if there was none."""
        return self.problem.status

    @property
    def errors(self) -> Sequence[Any]:
        """The errors of the input, one by one."""
        return self.problem.errors

    def __reduce__(self) -> Tuple[Any, ...]:
        # Subclasses have other constructor arguments than `Exception.args`.
        return _unpickled, (type(self), self.args), self.__dict__

    def __str__(self) -> str:
        problem = self.problem
        text = problem.title
        if problem.detail and problem.detail != problem.title:
            text += f": {problem.detail}"
        for error in problem.errors:
            place = f"{error.field}\n" if error.field else ""
            text += f"\n\n{place}  {error.message}\n  hint: {error.hint}"
        return text


def _unpickled(kind: Type[BatonError], args: Tuple[Any, ...]) -> BatonError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class ConnectionFailed(BatonError):
    """No scheduler answers at the URL, or the connection broke."""

    def __init__(
        self, url: str, why: str, *, may_have_happened: bool = False, may_pass: bool = True
    ) -> None:
        detail = f"{why}; start it with `baton up`, or name it with Client(url=...) or BATON_URL"
        if may_have_happened:
            detail = (
                f"{why}; the change may or may not have happened: check before you repeat it"
            )
        elif not may_pass:
            detail = why
        super().__init__(Problem(title=f"cannot reach the scheduler at {url}", detail=detail))
        self.url = url
        self.why = why
        #: The request may have arrived.
        self.may_have_happened = may_have_happened
        #: A retry may succeed.
        self.may_pass = may_pass


class WorkflowError(BatonError, ValueError):
    """An invalid workflow definition. No request was sent."""

    def __init__(self, title: str, hint: str = "") -> None:
        super().__init__(Problem(title=title, detail=hint))


class WaitTimeout(BatonError, TimeoutError):
    """A run did not end in time. It continues."""

    def __init__(self, run: Run, seconds: float, why: str = "") -> None:
        detail = f'it continues; wait again, or find it later with client.run("{run.id}")'
        title = f"run {run.id} ({run.name}) is {run.state} after {seconds:g} seconds"
        if why:
            title = f"run {run.id} ({run.name}) was {run.state} when last refreshed, "
            title += f"and {seconds:g} seconds have passed"
            detail = f"{why}; {detail}"
        super().__init__(Problem(title=title, detail=detail))
        self.run = run


class RunConflict(BatonError):
    """The run's state does not allow the change, or another client was faster. Nothing was
    changed.
    """

    def __init__(self, run: Run, problem: Problem) -> None:
        detail = problem.detail
        if problem.kind == "generation":
            detail = (
                f"{detail or problem.title}; this object has generation {run.generation}: call "
                "refresh(), and repeat the change if it still applies"
            )
        data = Problem(problem.title, detail, problem.status, problem.kind, problem.errors)
        super().__init__(data)
        self.run = run


class RunFailed(BatonError):
    """A run has ended, and is not DONE."""

    def __init__(self, run: Run, groups: Sequence[ErrorGroup]) -> None:
        super().__init__(Problem(title=_failed(run, groups)))
        self.run = run
        self.state = run.state
        self._groups = list(groups)

    @property
    def errors(self) -> Sequence[ErrorGroup]:
        """Groups of equal failures, the most frequent first."""
        return self._groups


def _failed(run: Run, groups: Sequence[ErrorGroup]) -> str:
    counts = run.counts
    lines = [f"run {run.id} ({run.name}) is {run.state}"]
    if run.timed_out:
        lines[0] += ": its timeout has expired"
    if counts is not None:
        others = [("failed", counts.failed), ("halted", counts.halted), ("blocked", counts.blocked)]
        data = ", ".join(f"{number} {word}" for word, number in others if number)
        lines[0] += f"; {counts.done} of {counts.total} items are done" + (
            f", {data}" if data else ""
        )
    for group in groups[:_GROUPS_MAX]:
        times = f" ({group.count} times)" if group.count > 1 else ""
        lines.append(f"  {group.task}: {group.end_text}{times}, such as {group.example}")
    if len(groups) > _GROUPS_MAX:
        lines.append(f"  ... and {len(groups) - _GROUPS_MAX} more kinds; errors() has them all")
    lines += [f"  {each.task}[{each.item}]: {each.text}" for each in run.problems[:_GROUPS_MAX]]
    return "\n".join(lines)
