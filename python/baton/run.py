"""A run: state, wait, halt, resume, retry.

A run lives on the server. An object here is its last known state; dropping it loses nothing, and
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
from .views import ENDED, ErrorGroup, ItemCounts, Process, RunItem, RunProblem, RunTask
from .tasks import Task
from .transport import may_pass
from .workflow import Workflow, file_of

if TYPE_CHECKING:
    from .client import Client

# The server waits 30 seconds at most.
_WAIT_SECONDS = 25

_PAGE = 1000

_PIECE_BYTES = 1 << 20

_View = TypeVar("_View")


class Run:
    """One run of a workflow, with its last known state."""

    def __init__(self, client: Client, data: Mapping[str, Any]) -> None:
        self.client = client
        #: The last response of the server about it.
        self.info: Dict[str, Any] = dict(data)

    def __repr__(self) -> str:
        return f"<run {self.id} of {self.name}: {self.state}>"

    @property
    def id(self) -> str:
        """The id, such as `r12`."""
        return str(self.info["id"])

    @property
    def name(self) -> str:
        """The workflow's name."""
        return str(self.info.get("name", ""))

    @property
    def owner(self) -> str:
        """The owner."""
        return str(self.info.get("owner", ""))

    @property
    def state(self) -> str:
        """REGISTERING, QUEUED, LAUNCHED, RUNNING, DONE, FAILED, HALTED or ABORTED."""
        return str(self.info.get("state", ""))

    @property
    def ended(self) -> bool:
        """True if it has ended; it may be resumed."""
        return self.state in ENDED

    @property
    def generation(self) -> int:
        """The current generation."""
        return int(self.info.get("generation", 0))

    @property
    def timed_out(self) -> bool:
        """True if its timeout has expired."""
        return bool(self.info.get("timedOut", False))

    @property
    def counts(self) -> Optional[ItemCounts]:
        """The number of items by state; None for an entry of a list, before `refresh`."""
        data = self.info.get("items")
        return None if data is None else ItemCounts.read(data)

    @property
    def problems(self) -> List[RunProblem]:
        """Items that could not start, with the reason."""
        return [RunProblem.read(each) for each in self.info.get("problems", [])]

    def refresh(self, wait: int = 0, until: Optional[float] = None) -> Run:
        """Fetches its state; with `wait`, when it has ended or after so many seconds.

        `until` is the deadline, by the clock of the transport; infinity for none.
        """
        query = {"wait": wait} if wait else None
        path = self._at()
        data = self.client.transport.get_json(path, query, wait=wait, until=until)
        with self.client.transport.decoding(path):
            _, _ = data["id"], data["state"]
        self.info = data
        return self

    def accepted(self, data: Mapping[str, Any]) -> Run:
        """Records that the server has accepted a submission or a resume."""
        with self.client.transport.decoding(self._at()):
            self.info.update(state="QUEUED", generation=data["generation"])
        return self._refresh_or_ignore()

    def wait(self, timeout: Optional[float] = None, progress: bool = True) -> Run:
        """Waits until it is DONE. The run continues also without a waiting client.

        Raises `RunFailed` if it ends otherwise, `WaitTimeout` (a `TimeoutError`) after `timeout`
        seconds. An unreachable scheduler is retried until then. `progress` shows
        the progress on a terminal or in a notebook.
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
        raise RunFailed(self, self._errors_or_none())

    def halt(self, kill: bool = False, now: bool = False) -> Run:
        """Halts it: no item starts. Instances in flight finish, or with `kill` are killed: their
        tasks run their final processes. With `now` all their processes are killed at once."""
        how = "kill-now" if now else "kill" if kill else "drain"
        self.client.command(self, "halt", {"how": how})
        return self._refresh_or_ignore()

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
        """Resumes a run that is HALTED or FAILED: DONE items stay DONE.

        With a changed `workflow`, changed tasks and their downstream tasks run again. `dry_run`
        returns what would happen and changes nothing; otherwise the run itself is returned.
        Raises `RunConflict` if the run is active, or has another generation than this object;
        so do `halt` and `retry`.
        """
        body: Dict[str, Any] = {}
        if workflow is not None:
            body["file"] = file_of(workflow)
        if params:
            body["params"] = values_of(params)
        return self._rerun("resume", body, dry_run)

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
        """Runs a task again, its DONE items included, and with `downstream` its downstream tasks.

        Without a task, everything that is not DONE. Returns the same as `resume`.
        """
        body: Dict[str, Any] = {"downstream": True} if downstream else {}
        if task is not None:
            body["task"] = _name(task)
        return self._rerun("retry", body, dry_run)

    def tasks(self) -> List[RunTask]:
        """Its tasks in dependency order."""
        return list(self._listed(RunTask.read, self._at("tasks", end="/"), {"limit": _PAGE}))

    def items(
        self, state: Optional[str] = None, task: Union[Task, str, None] = None
    ) -> Iterator[RunItem]:
        """Items whose instance has ended or is in flight, read page by page."""
        query = {"state": state, "task": None if task is None else _name(task), "limit": _PAGE}
        return self._listed(RunItem.read, self._at("items", end="/"), query)

    def item(self, task: Union[Task, str], item: int = 0) -> RunItem:
        """One item of a task."""
        if not isinstance(item, int) or item < 0:
            raise BatonError(Problem(f"item={item!r} is not an item", "pass its index, from 0"))
        query = {"task": _name(task), "item": item, "limit": 1}
        for each in self._listed(RunItem.read, self._at("items", end="/"), query):
            return each
        title = (
            f"item {item} of task {_name(task)} in run {self.id} has not started, or does not exist"
        )
        raise BatonError(
            Problem(title, "tasks() has the reason why it waits", status=404, kind="not-found")
        )

    def errors(self) -> List[ErrorGroup]:
        """Groups of equal failures, the most frequent first."""
        return list(self._listed(ErrorGroup.read, self._at("errors"), {}))

    def logs(self, task: Union[Task, str], item: int = 0, stderr: bool = False) -> str:
        """The output of the last attempt of an item so far."""
        instance = self.item(task, item).instance
        transport = self.client.transport
        path = transport.at("instances", instance, "logs", "stderr" if stderr else "stdout")
        pieces: List[bytes] = []
        cursor = None
        while True:
            answer = transport.get(path, {"cursor": cursor, "limit": _PIECE_BYTES}, media="*/*")
            pieces.append(answer.body)
            cursor = answer.headers.get("baton-cursor")
            if not answer.body or answer.headers.get("baton-end") == "true":
                return b"".join(pieces).decode("utf-8", "replace")

    def processes(self, task: Union[Task, str], item: int = 0) -> List[Process]:
        """The processes of the last attempt of an item, asked from its worker."""
        transport = self.client.transport
        path = transport.at("instances", self.item(task, item).instance, "processes")
        found = transport.get_json(path)
        with transport.decoding(path):
            return [Process.read(each) for each in found["processes"]]

    def outputs(self, task: Union[Task, str], item: int = 0) -> Dict[str, Any]:
        """The outputs of an item, without the boxes between functions."""
        put = self.item(task, item).outputs or {}
        return {key: value for key, value in put.items() if not is_box(key)}

    def result(self, task: Union[Task, str], item: int = 0) -> Any:
        """The return value of a task's function."""
        outputs = self.outputs(task, item)
        if "result" not in outputs:
            title = f"item {item} of task {_name(task)} in run {self.id} has no output `result`"
            raise BatonError(
                Problem(title, "it has not ended, or the return value of its function is not JSON")
            )
        return outputs["result"]

    def _wait_once(self, until: float, seconds: int) -> None:
        left = until - self.client.transport.now()
        if left >= 1:
            self.refresh(wait=math.floor(min(left, seconds)), until=until)
            return
        # The server counts in whole seconds.
        self.client.transport.sleep(max(0.0, min(left, 0.2)))
        self.refresh(until=until)

    def _rerun(
        self, what: str, body: Mapping[str, Any], dry_run: bool
    ) -> Union[Run, Dict[str, Any]]:
        data: Dict[str, Any] = self.client.command(self, what, body, dry_run)
        return data if dry_run else self.accepted(data)

    def _listed(
        self, read: Callable[[Mapping[str, Any]], _View], path: str, query: Mapping[str, Any]
    ) -> Iterator[_View]:
        for each in self.client.pages(path, query):
            with self.client.transport.decoding(path):
                shape = read(each)
            yield shape

    def _refresh_or_ignore(self) -> Run:
        # The command has succeeded: an error now would hide that, and lose the run.
        with suppress(BatonError):
            self.refresh()
        return self

    def _errors_or_none(self) -> List[ErrorGroup]:
        try:
            return self.errors()
        except BatonError:
            # `RunFailed` matters more than the error of fetching its details.
            return []

    def _at(self, *names: str, end: str = "") -> str:
        return self.client.transport.at("runs", self.id, *names, end=end)


def _name(task: Union[Task, str]) -> str:
    if isinstance(task, Task):
        return task.name
    if isinstance(task, str):
        return task
    raise BatonError(Problem(f"{task!r} is not a task", "pass a task, or the name of one"))


def _seconds(timeout: Optional[float]) -> float:
    if timeout is None:
        return math.inf
    if not isinstance(timeout, (int, float)) or math.isnan(timeout):
        raise BatonError(
            Problem(f"timeout={timeout!r} is not a number of seconds", "pass one such as 1.5")
        )
    return float(timeout)
