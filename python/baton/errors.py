"""Exceptions. Every one is a `BatonError` with a hint.

They can be pickled, since process pools pass them between processes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, List, Mapping, Optional, Sequence, Tuple, Type

if TYPE_CHECKING:
    from ._handles.arrays import Array
    from ._handles.instances import Handle, Instance
    from ._handles.run import Run
    from ._records.views import ErrorGroup

__all__ = [
    "BatonError",
    "ConnectionFailed",
    "FieldError",
    "InstanceFailed",
    "Problem",
    "RemoteTraceback",
    "RunConflict",
    "RunFailed",
    "WaitTimeout",
    "WorkflowError",
]

# Characters shown of a body that is no problem document.
_SHOWN_CHARS_MAX = 200

# Groups of failures that an error names one by one.
_GROUPS_MAX = 5

# Lines of stderr that an error shows.
_LINES_MAX = 10

_TRACEBACK = "Traceback (most recent call last):"

# The lines by which Python joins the tracebacks of chained exceptions.
_CHAINED = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)


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
        self, url: str, reason: str, *, may_have_happened: bool = False, may_pass: bool = True
    ) -> None:
        detail = (
            f"{reason}; start it with `baton up` or `with baton.up():`, or name it with "
            "Client(url=...) or BATON_URL"
        )
        if may_have_happened:
            detail = (
                f"{reason}; the change may or may not have happened: check before you repeat it"
            )
        elif not may_pass:
            detail = reason
        super().__init__(Problem(title=f"cannot reach the scheduler at {url}", detail=detail))
        self.url = url
        self.reason = reason
        #: The request may have arrived.
        self.may_have_happened = may_have_happened
        #: A retry may succeed.
        self.may_pass = may_pass


class WorkflowError(BatonError, ValueError):
    """An invalid workflow definition. No request was sent."""

    def __init__(self, title: str, hint: str = "") -> None:
        super().__init__(Problem(title=title, detail=hint))


class WaitTimeout(BatonError, TimeoutError):
    """An instance, an array or a run did not end in time. It continues."""

    def __init__(self, handle: Handle, seconds: float, reason: str = "") -> None:
        finder = "run" if handle.kind == "run" else "instance"
        what = f"{handle.kind} {handle.id} ({handle.name})"
        detail = f'it continues; wait again, or find it later with client.{finder}("{handle.id}")'
        title = f"{what} is {handle.state} after {seconds:g} seconds"
        if reason:
            title = f"{what} was {handle.state} when last refreshed, "
            title += f"and {seconds:g} seconds have passed"
            detail = f"{reason}; {detail}"
        super().__init__(Problem(title=title, detail=detail))
        #: What was waited for.
        self.handle = handle

    @property
    def run(self) -> Any:
        """The run that was waited for."""
        return self.handle


class RemoteTraceback(Exception):
    """The traceback of an exception on a worker, as text. It is the cause of the local exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"


class InstanceFailed(BatonError):
    """An instance has ended, and is not DONE.

    If a Python exception has ended it, its traceback is the cause of this one.
    """

    def __init__(self, instance: Instance, stderr: str = "", array: Optional[Array] = None) -> None:
        trace = traceback_in(stderr)
        title = f"instance {instance.id} ({instance.name}) is {instance.state}"
        if array is not None:
            others = ", ".join(f"{count} {state}" for state, count in sorted(array.counts.items()))
            title = f"array {array.id} ({array.name}) has {others}; {title}"
        if instance.end_text:
            title += f": {instance.end_text}"
        title += f": {trace.splitlines()[-1]}" if trace else _quoted(stderr)
        super().__init__(Problem(title=title))
        self.instance = instance
        self.array = array
        self.state = instance.state
        #: The last lines of stderr, or empty.
        self.stderr = stderr
        #: The traceback of the remote exception, or None.
        self.remote_traceback = trace
        if trace:
            self.__cause__ = RemoteTraceback(trace)


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
    """A run has ended, and is not DONE.

    If Python exceptions have ended items of it, the traceback of one is the cause of this one.
    """

    def __init__(self, run: Run, groups: Sequence[ErrorGroup]) -> None:
        super().__init__(Problem(title=_failed(run, groups)))
        self.run = run
        self.state = run.state
        self._groups = list(groups)
        traces = (traceback_in(group.stderr or "") for group in groups)
        #: The traceback of one remote exception, or None.
        self.remote_traceback = next((trace for trace in traces if trace), None)
        if self.remote_traceback:
            self.__cause__ = RemoteTraceback(self.remote_traceback)

    @property
    def errors(self) -> Sequence[ErrorGroup]:
        """Groups of equal failures, the most frequent first."""
        return self._groups


def traceback_in(stderr: str) -> Optional[str]:
    """The traceback of Python at the end of a log, with the exceptions that it was raised from."""
    start = stderr.rfind(_TRACEBACK)
    # The exception itself follows its frames, without an indent.
    if start < 0 or not any(
        line[:1].strip() for line in stderr[start + len(_TRACEBACK) :].splitlines()
    ):
        return None
    while True:
        before = stderr.rfind(_TRACEBACK, 0, start)
        between = stderr[before:start].rstrip() if before >= 0 else ""
        if not between.endswith(_CHAINED):
            return stderr[start:].rstrip()
        start = before


def _quoted(stderr: str) -> str:
    lines = stderr.rstrip().splitlines()[-_LINES_MAX:]
    return "".join(f"\n    {_printable(line)}" for line in lines)


def _printable(line: str) -> str:
    # Output is untrusted, and may have terminal escapes.
    return "".join(each if each.isprintable() or each == "\t" else "?" for each in line)


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
        text = f"  {group.task}: {group.end_text}{times}, such as {group.example}"
        lines.append(text + _quoted(group.stderr or ""))
    if len(groups) > _GROUPS_MAX:
        lines.append(f"  ... and {len(groups) - _GROUPS_MAX} more kinds; errors() has them all")
    lines += [f"  {each.task}[{each.item}]: {each.text}" for each in run.problems[:_GROUPS_MAX]]
    return "\n".join(lines)
