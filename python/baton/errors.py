"""What can go wrong. Every error is a `BatonError`, with words that say what to do.

They may be pickled, since a process of a pool hands its errors to another.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, List, Mapping, Sequence, Tuple, Type

if TYPE_CHECKING:
    from .run import Run
    from .shapes import ErrorGroup

# Of a text that is no problem, how much is repeated.
_SHOWN_CHARS_MAX = 200

# Groups of failures that an error names one by one.
_GROUPS_MAX = 5


@dataclass(frozen=True)
class FieldError:
    """One thing that is wrong with the input: where, what, and what to do."""

    field: str
    message: str
    hint: str


@dataclass(frozen=True)
class Problem:
    """What a server says about a request that it refuses."""

    title: str
    detail: str = ""
    #: The status code; 0 if no server was asked.
    status: int = 0
    #: A word that programs can compare.
    kind: str = ""
    errors: List[FieldError] = field(default_factory=list)

    @classmethod
    def read(cls, status: int, reason: str, body: bytes) -> Problem:
        """The problem of an answer; also of one that does not come from a Baton."""
        try:
            told = json.loads(body.decode("utf-8", "replace"))
        except ValueError:
            told = None
        if isinstance(told, dict) and isinstance(told.get("title"), str):
            return cls(
                title=told["title"],
                detail=str(told.get("detail", "")),
                status=status,
                kind=str(told.get("type", "")),
                errors=_field_errors(told.get("errors")),
            )
        text = " ".join(body.decode("utf-8", "replace").split())
        return cls(
            title=f"{status} {reason}".strip(), detail=text[:_SHOWN_CHARS_MAX], status=status
        )


def _field_errors(told: Any) -> List[FieldError]:
    listed = told if isinstance(told, list) else []
    return [
        FieldError(*(str(each.get(name, "")) for name in ("field", "message", "hint")))
        for each in listed
        if isinstance(each, Mapping)
    ]


class BatonError(Exception):
    """Something went wrong; `problem` says what."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self.problem = problem

    @property
    def title(self) -> str:
        """What is wrong, in a few words."""
        return self.problem.title

    @property
    def detail(self) -> str:
        """What is wrong in this case, and what to do about it."""
        return self.problem.detail

    @property
    def status(self) -> int:
        """The status code of the answer; 0 if there was none."""
        return self.problem.status

    @property
    def errors(self) -> Sequence[Any]:
        """Each thing that is wrong with the input."""
        return self.problem.errors

    def __reduce__(self) -> Tuple[Any, ...]:
        # Each has arguments of its own, and they are not what an exception keeps.
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
    """Nobody answers at the URL, or not to the end."""

    def __init__(
        self, url: str, why: str, *, may_have_happened: bool = False, may_pass: bool = True
    ) -> None:
        detail = f"{why}; start it with `baton up`, or name it with Client(url=...) or BATON_URL"
        if may_have_happened:
            detail = (
                f"{why}; what was asked for may or may not have happened: look before you ask again"
            )
        elif not may_pass:
            detail = why
        super().__init__(Problem(title=f"cannot reach the scheduler at {url}", detail=detail))
        self.url = url
        self.why = why
        #: The same may well be answered in a while.
        self.may_pass = may_pass


class WorkflowError(BatonError, ValueError):
    """A workflow is defined in a way that cannot be meant. No server was asked."""

    def __init__(self, title: str, hint: str = "") -> None:
        super().__init__(Problem(title=title, detail=hint))


class WaitTimeout(BatonError, TimeoutError):
    """A run did not end in time. It goes on."""

    def __init__(self, run: Run, seconds: float, why: str = "") -> None:
        detail = f'it goes on; wait again, or find it later with client.run("{run.id}")'
        title = f"run {run.id} ({run.name}) is {run.state} after {seconds:g} seconds"
        if why:
            title = f"run {run.id} ({run.name}) was {run.state} when it was last heard of, "
            title += f"and {seconds:g} seconds are over"
            detail = f"{why}; {detail}"
        super().__init__(Problem(title=title, detail=detail))
        self.run = run


class RunConflict(BatonError):
    """A run is not where it could be changed so, or somebody else was faster. Nothing was
    changed.
    """

    def __init__(self, run: Run, problem: Problem) -> None:
        detail = problem.detail
        if problem.kind == "generation":
            detail = (
                f"{detail or problem.title}; here generation {run.generation} is known: look with "
                "refresh() at what became of it, and ask again if it is still wanted"
            )
        told = Problem(problem.title, detail, problem.status, problem.kind, problem.errors)
        super().__init__(told)
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
        """Failures that are alike, the most frequent first."""
        return self._groups


def _failed(run: Run, groups: Sequence[ErrorGroup]) -> str:
    counts = run.counts
    lines = [f"run {run.id} ({run.name}) is {run.state}"]
    if run.timed_out:
        lines[0] += ": it took longer than it may"
    if counts is not None:
        others = [("failed", counts.failed), ("halted", counts.halted), ("blocked", counts.blocked)]
        told = ", ".join(f"{number} {word}" for word, number in others if number)
        lines[0] += f"; {counts.done} of {counts.total} items are done" + (
            f", {told}" if told else ""
        )
    for group in groups[:_GROUPS_MAX]:
        times = f" ({group.count} times)" if group.count > 1 else ""
        lines.append(f"  {group.task}: {group.end_text}{times}, such as {group.example}")
    if len(groups) > _GROUPS_MAX:
        lines.append(f"  ... and {len(groups) - _GROUPS_MAX} more kinds; errors() has them all")
    lines += [f"  {each.task}[{each.item}]: {each.text}" for each in run.problems[:_GROUPS_MAX]]
    return "\n".join(lines)
