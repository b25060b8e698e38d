"""A run: state, wait, halt, resume, retry.

A run lives on the server. An object here is its last known state; dropping it loses nothing, and
`client.run(id)` finds the run again.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import replace
from typing import (
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

from .._functions.boxes import is_box
from .._records import logs as _logs
from .._records.views import (
    ErrorGroup,
    ItemCounts,
    Process,
    RunItem,
    RunProblem,
    RunTask,
    Submitter,
)
from .._workflows.parts import values_of
from .._workflows.tasks import Task
from .._workflows.workflow import Workflow, file_of
from ..errors import BatonError, Problem, RunFailed
from .instances import Handle, Instance

_PAGE = 1000

# Groups of failures of which an error has the last lines of stderr.
_TAILS_MAX = 3

_NOT_FOUND = 404

_View = TypeVar("_View")


class Run(Handle):
    """One run of a workflow, with its last known state."""

    kind = "run"

    def __repr__(self) -> str:
        return f"<run {self.id} of {self.name}: {self.state}>"

    @property
    def number(self) -> int:
        """The number in its id."""
        return int(self.id.lstrip("r"))

    @property
    def generation(self) -> int:
        """The current generation."""
        return int(self.info.get("generation", 0))

    @property
    def submitted_by(self) -> Optional[Submitter]:
        """The client that has submitted or triggered it.

        None if that is not known, if a schedule has launched it, or before `refresh` of a new
        submission.
        """
        found = self.info.get("submittedBy")
        return None if found is None else Submitter.read(found)

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
    def item_counts(self) -> Optional[ItemCounts]:
        """The same as `counts`."""
        return self.counts

    @property
    def problems(self) -> List[RunProblem]:
        """Items that could not start, with the reason."""
        return [RunProblem.read(each) for each in self.info.get("problems", [])]

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
        self.wait_end(timeout, progress)
        self.raise_failure()
        return self

    def raise_failure(self) -> None:
        """Raises the failure, if it is not DONE."""
        if self.state != "DONE":
            raise RunFailed(self, self._errors_or_none())

    def halt(self, kill: bool = False, now: bool = False) -> Run:
        """Halts it: no item starts. Instances in flight finish, or with `kill` are killed: their
        tasks run their final processes. With `now` all their processes are killed at once."""
        mode = "kill-now" if now else "kill" if kill else "drain"
        self.client.command(self, "halt", {"mode": mode})
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

        With a changed `workflow`, changed tasks and their downstream tasks run again; with other
        values of `params`, the tasks that refer to them. `dry_run`
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
        params: Optional[Mapping[str, Any]] = None,
    ) -> Run: ...

    @overload
    def retry(
        self,
        task: Union[Task, str, None] = None,
        downstream: bool = False,
        *,
        dry_run: Literal[True],
        params: Optional[Mapping[str, Any]] = None,
    ) -> Dict[str, Any]: ...

    @overload
    def retry(
        self,
        task: Union[Task, str, None] = None,
        downstream: bool = False,
        dry_run: bool = False,
        params: Optional[Mapping[str, Any]] = None,
    ) -> Union[Run, Dict[str, Any]]: ...

    def retry(
        self,
        task: Union[Task, str, None] = None,
        downstream: bool = False,
        dry_run: bool = False,
        params: Optional[Mapping[str, Any]] = None,
    ) -> Union[Run, Dict[str, Any]]:
        """Runs a task again, its DONE items included, and with `downstream` its downstream tasks,
        also of a run that is DONE. Other values of `params` run the tasks again that refer to them.

        Without a task, everything that is not DONE. Returns the same as `resume`.
        """
        body: Dict[str, Any] = {"downstream": True} if downstream else {}
        if task is not None:
            body["task"] = _name(task)
        if params:
            body["params"] = values_of(params)
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

    @overload
    def logs(
        self,
        task: Union[Task, str],
        item: int = 0,
        stderr: bool = False,
        follow: Literal[False] = False,
    ) -> str: ...

    @overload
    def logs(
        self, task: Union[Task, str], item: int = 0, stderr: bool = False, *, follow: Literal[True]
    ) -> Iterator[str]: ...

    def logs(
        self, task: Union[Task, str], item: int = 0, stderr: bool = False, follow: bool = False
    ) -> Union[str, Iterator[str]]:
        """The output of the last attempt of an item so far.

        With `follow`, an iterator of lines as they are written, until the item has ended; it waits
        for the start of the item.
        """
        if follow:
            return self._follow(task, item, stderr)
        return self._instance(task, item).logs(stderr=stderr)

    def _follow(self, task: Union[Task, str], item: int, stderr: bool) -> Iterator[str]:
        while True:
            try:
                found = self._instance(task, item)
                break
            except BatonError as error:
                if error.status != _NOT_FOUND or self.ended:
                    raise
            self.refresh(wait=1, until=math.inf)
        yield from found.logs(follow=True, stderr=stderr)

    def _instance(self, task: Union[Task, str], item: int) -> Instance:
        return Instance(self.client, {"id": self.item(task, item).instance})

    def processes(self, task: Union[Task, str], item: int = 0) -> List[Process]:
        """The processes of the last attempt of an item, asked from its worker."""
        return self._instance(task, item).processes()

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
            groups = self.errors()
        except BatonError:
            # `RunFailed` matters more than the error of fetching its details.
            return []
        transport = self.client.transport
        for at, group in enumerate(groups[:_TAILS_MAX]):
            tail = _logs.tail(transport, group.example, group.stderr)
            groups[at] = replace(group, stderr=tail)
        return groups

    def _at(self, *names: str, end: str = "") -> str:
        return self.client.transport.at("runs", self.id, *names, end=end)


def _name(task: Union[Task, str]) -> str:
    if isinstance(task, Task):
        return task.name
    if isinstance(task, str):
        return task
    raise BatonError(Problem(f"{task!r} is not a task", "pass a task, or the name of one"))
