"""A run: looking, waiting, stopping, going on.

A run lives on the server. An object here is what was last heard of it; losing it loses nothing, and
`client.run(id)` finds the run again.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Literal,
    Mapping,
    Optional,
    TypeVar,
    Union,
    overload,
)

from .boxes import is_box
from .errors import BatonError, Problem, RunFailed, WaitTimeout
from .parts import values_of
from .progress import Progress
from .shapes import ENDED, ErrorGroup, ItemCounts, RunItem, RunProblem, RunTask
from .tasks import Task
from .transport import may_pass
from .workflow import Workflow, file_of

if TYPE_CHECKING:
    from .client import Client

# The server waits 30 seconds at most.
_WAIT_SECONDS = 25

_PAGE = 1000

_PIECE_BYTES = 1 << 20

_Shape = TypeVar("_Shape")


class Run:
    """One run of a workflow, as it was last heard of."""

    def __init__(self, client: Client, told: Mapping[str, Any]) -> None:
        self.client = client
        #: What the server told of it.
        self.info: Dict[str, Any] = dict(told)

    def __repr__(self) -> str:
        return f"<run {self.id} of {self.name}: {self.state}>"

    @property
    def id(self) -> str:
        """Such as `r12`."""
        return str(self.info["id"])

    @property
    def name(self) -> str:
        """The workflow's name."""
        return str(self.info.get("name", ""))

    @property
    def owner(self) -> str:
        """Whose it is."""
        return str(self.info.get("owner", ""))

    @property
    def state(self) -> str:
        """REGISTERING, QUEUED, LAUNCHED, RUNNING, DONE, FAILED, HALTED or ABORTED."""
        return str(self.info.get("state", ""))

    @property
    def ended(self) -> bool:
        """True if it is over, unless somebody resumes it."""
        return self.state in ENDED

    @property
    def generation(self) -> int:
        """How often it was begun."""
        return int(self.info.get("generation", 0))

    @property
    def timed_out(self) -> bool:
        """True if it took longer than it may."""
        return bool(self.info.get("timedOut", False))

    @property
    def counts(self) -> Optional[ItemCounts]:
        """How many items are where; nothing in a list, before `refresh`."""
        told = self.info.get("items")
        return None if told is None else ItemCounts.read(told)

    @property
    def problems(self) -> List[RunProblem]:
        """Items that could not begin for a reason of their own."""
        return [RunProblem.read(each) for each in self.info.get("problems", [])]

    def refresh(self, wait: int = 0, until: Optional[float] = None) -> Run:
        """Asks how it stands; with `wait`, when it has ended or after so many seconds.

        `until` is when to give up, by the clock of the transport; infinity for never.
        """
        query = {"wait": wait} if wait else None
        path = self._at()
        told = self.client.transport.get_json(path, query, wait=wait, until=until)
        with self.client.transport.understood(path):
            _, _ = told["id"], told["state"]
        self.info = told
        return self

    def accepted(self, told: Mapping[str, Any]) -> Run:
        """The server has taken it, for the first time or again."""
        with self.client.transport.understood(self._at()):
            self.info.update(state="QUEUED", generation=told["generation"])
        return self._look()

    def wait(self, timeout: Optional[float] = None, progress: bool = True) -> Run:
        """Waits until it is DONE. The run goes on also if nobody waits.

        Raises `RunFailed` if it ends otherwise, `WaitTimeout` (a `TimeoutError`) after `timeout`
        seconds. A scheduler that cannot be reached is waited for just as long. `progress` shows
        how far it is, on a terminal or in a notebook; elsewhere nothing is shown.
        """
        seconds = _seconds(timeout)
        now = self.client.transport.now
        until = now() + seconds
        with Progress.suitable(progress) as shown:
            while True:
                try:
                    self._wait_once(until, 1 if shown.is_seen else _WAIT_SECONDS)
                except BatonError as error:
                    if not may_pass(error):
                        raise
                    raise WaitTimeout(self, seconds, str(error)) from error
                shown.show(self)
                if self.ended:
                    break
                if now() >= until:
                    raise WaitTimeout(self, seconds)
        if self.state == "DONE":
            return self
        raise RunFailed(self, self._errors_if_told())

    def halt(self, kill: bool = False) -> Run:
        """Lets nothing more begin. What runs may end by itself, or with `kill` is killed."""
        self.client.ask(self, "halt", {"how": "kill" if kill else "drain"})
        return self._look()

    @overload
    def resume(
        self,
        workflow: Union[Workflow, Mapping[str, Any], None] = None,
        dry_run: Literal[False] = False,
        params: Optional[Mapping[str, Any]] = None,
    ) -> Run: ...

    @overload
    def resume(
        self,
        workflow: Union[Workflow, Mapping[str, Any], None] = None,
        *,
        dry_run: Literal[True],
        params: Optional[Mapping[str, Any]] = None,
    ) -> Dict[str, Any]: ...

    @overload
    def resume(
        self,
        workflow: Union[Workflow, Mapping[str, Any], None] = None,
        dry_run: bool = False,
        params: Optional[Mapping[str, Any]] = None,
    ) -> Union[Run, Dict[str, Any]]: ...

    def resume(
        self,
        workflow: Union[Workflow, Mapping[str, Any], None] = None,
        dry_run: bool = False,
        params: Optional[Mapping[str, Any]] = None,
    ) -> Union[Run, Dict[str, Any]]:
        """Goes on with a run that is HALTED or FAILED: what is DONE stays it.

        With a changed `workflow`, what has changed and what comes after it runs again. `dry_run`
        returns what would happen and changes nothing; otherwise the run itself is returned.
        Raises `RunConflict` if the run does not stand still, or is no more what was last heard of
        it here; so do `halt` and `retry`.
        """
        body: Dict[str, Any] = {}
        if workflow is not None:
            body["file"] = file_of(workflow)
        if params:
            body["params"] = values_of(params)
        return self._again("resume", body, dry_run)

    @overload
    def retry(
        self,
        task: Union[Task, str, None] = None,
        downstream: bool = False,
        dry_run: Literal[False] = False,
    ) -> Run: ...

    @overload
    def retry(
        self,
        task: Union[Task, str, None] = None,
        downstream: bool = False,
        *,
        dry_run: Literal[True],
    ) -> Dict[str, Any]: ...

    @overload
    def retry(
        self, task: Union[Task, str, None] = None, downstream: bool = False, dry_run: bool = False
    ) -> Union[Run, Dict[str, Any]]: ...

    def retry(
        self, task: Union[Task, str, None] = None, downstream: bool = False, dry_run: bool = False
    ) -> Union[Run, Dict[str, Any]]:
        """Runs a task again, also what is DONE of it, and with `downstream` all that comes after
        it.

        Without a task, everything that is not DONE. The answers are those of `resume`.
        """
        body: Dict[str, Any] = {"downstream": True} if downstream else {}
        if task is not None:
            body["task"] = _name(task)
        return self._again("retry", body, dry_run)

    def tasks(self) -> List[RunTask]:
        """Its tasks, each behind those that it comes after."""
        return list(self._listed(RunTask.read, self._at("tasks", end="/"), {"limit": _PAGE}))

    def items(
        self, state: Optional[str] = None, task: Union[Task, str, None] = None
    ) -> Iterator[RunItem]:
        """Items whose instance has ended or is on its way, read page by page."""
        query = {"state": state, "task": None if task is None else _name(task), "limit": _PAGE}
        return self._listed(RunItem.read, self._at("items", end="/"), query)

    def item(self, task: Union[Task, str], item: int = 0) -> RunItem:
        """One item of a task."""
        if not isinstance(item, int) or item < 0:
            raise BatonError(Problem(f"item={item!r} is no item", "give its place, from 0"))
        query = {"task": _name(task), "item": item, "limit": 1}
        for each in self._listed(RunItem.read, self._at("items", end="/"), query):
            return each
        title = (
            f"item {item} of task {_name(task)} in run {self.id} has not begun, or does not exist"
        )
        raise BatonError(
            Problem(title, "tasks() says what it waits for", status=404, kind="not-found")
        )

    def errors(self) -> List[ErrorGroup]:
        """Failures that are alike, the most frequent first."""
        return list(self._listed(ErrorGroup.read, self._at("errors"), {}))

    def logs(self, task: Union[Task, str], item: int = 0, stderr: bool = False) -> str:
        """What the last attempt of an item has printed so far."""
        instance = self.item(task, item).instance
        transport = self.client.transport
        path = transport.at("instances", instance, "logs", "stderr" if stderr else "stdout")
        pieces: List[bytes] = []
        offset = 0
        while True:
            answer = transport.get(path, {"offset": offset, "limit": _PIECE_BYTES}, media="*/*")
            pieces.append(answer.body)
            offset += len(answer.body)
            if not answer.body or answer.headers.get("baton-end") == "true":
                return b"".join(pieces).decode("utf-8", "replace")

    def outputs(self, task: Union[Task, str], item: int = 0) -> Dict[str, Any]:
        """What an item has put out, without what functions hand to each other."""
        put = self.item(task, item).outputs or {}
        return {key: value for key, value in put.items() if not is_box(key)}

    def result(self, task: Union[Task, str], item: int = 0) -> Any:
        """What the function of a task has returned."""
        outputs = self.outputs(task, item)
        if "result" not in outputs:
            title = f"item {item} of task {_name(task)} in run {self.id} has put out no result"
            raise BatonError(
                Problem(title, "it has not ended, or what its function returned is no JSON")
            )
        return outputs["result"]

    def _wait_once(self, until: float, seconds: int) -> None:
        left = until - self.client.transport.now()
        if left >= 1:
            self.refresh(wait=math.floor(min(left, seconds)), until=until)
            return
        # Less than the server counts in.
        self.client.transport.sleep(max(0.0, min(left, 0.2)))
        self.refresh(until=until)

    def _again(
        self, what: str, body: Mapping[str, Any], dry_run: bool
    ) -> Union[Run, Dict[str, Any]]:
        told: Dict[str, Any] = self.client.ask(self, what, body, dry_run)
        return told if dry_run else self.accepted(told)

    def _listed(
        self, read: Callable[[Mapping[str, Any]], _Shape], path: str, query: Mapping[str, Any]
    ) -> Iterator[_Shape]:
        for each in self.client.pages(path, query):
            with self.client.transport.understood(path):
                shape = read(each)
            yield shape

    def _look(self) -> Run:
        # What was asked for has happened: an error now would say otherwise, and lose the run.
        with suppress(BatonError):
            self.refresh()
        return self

    def _errors_if_told(self) -> List[ErrorGroup]:
        try:
            return self.errors()
        except BatonError:
            # That the run has failed is worth more than why it cannot be said in detail.
            return []

    def _at(self, *names: str, end: str = "") -> str:
        return self.client.transport.at("runs", self.id, *names, end=end)


def _name(task: Union[Task, str]) -> str:
    if isinstance(task, Task):
        return task.name
    if isinstance(task, str):
        return task
    raise BatonError(Problem(f"{task!r} is no task", "give a task, or the name of one"))


def _seconds(timeout: Optional[float]) -> float:
    if timeout is None:
        return math.inf
    if not isinstance(timeout, (int, float)) or math.isnan(timeout):
        raise BatonError(
            Problem(f"timeout={timeout!r} is no number of seconds", "write one such as 1.5")
        )
    return float(timeout)
