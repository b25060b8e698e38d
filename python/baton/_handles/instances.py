"""Instances: state, wait, cancel, retry, output.

They live on the server. An object here is the last known state; `client.instance(id)` finds it again.
Many that were submitted together are in `arrays`.
"""

from __future__ import annotations

import json
import math
from copy import copy
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterator,
    List,
    Literal,
    Mapping,
    Optional,
    Tuple,
    TypeVar,
    Union,
    overload,
)

from .._functions.boxes import is_box
from .._records import logs as _logs
from .._records.views import ENDED, InstanceProgress, ItemCounts, Process, Submitter
from .._transport.transport import may_pass
from ..errors import BatonError, InstanceFailed, Problem, WaitTimeout
from .progress import Progress, View

if TYPE_CHECKING:
    from .._client.client import Client

# The server waits 60 seconds at most.
_WAIT_SECONDS = 25

_Handle = TypeVar("_Handle", bound="Handle")


class Handle:
    """What can be waited for: an instance, an array, a run."""

    #: The noun for messages.
    kind = "handle"

    def __init__(self, client: Client, data: Mapping[str, Any]) -> None:
        self.client = client
        #: The last response of the server about it.
        self.info: Dict[str, Any] = dict(data)

    @property
    def id(self) -> str:
        """The id."""
        return str(self.info["id"])

    @property
    def name(self) -> str:
        """The name of the task or workflow."""
        return str(self.info.get("name", ""))

    @property
    def owner(self) -> str:
        """The owner."""
        return str(self.info.get("owner", ""))

    @property
    def state(self) -> str:
        """The last known state."""
        return str(self.info.get("state", ""))

    @property
    def ended(self) -> bool:
        """True if it has ended; it may be retried."""
        return self.state in ENDED

    @property
    def item_counts(self) -> Optional[ItemCounts]:
        """The last known number of its parts by state, if it has any."""
        return None

    def _repr_html_(self) -> str:
        return View(self, None)._repr_html_()

    def refresh(self: _Handle, wait: int = 0, until: Optional[float] = None) -> _Handle:
        """Fetches its state; with `wait`, when it has ended or after so many seconds.

        `until` is the deadline, by the clock of the transport; infinity for none.
        """
        path = self._at()
        query = {"wait": wait} if wait else None
        data = self.client.transport.get_json(path, query, wait=wait, until=until)
        with self.client.transport.decoding(path):
            self._read(data)
        return self

    def at(self: _Handle, client: Client) -> _Handle:
        """The same handle with another client."""
        twin = copy(self)
        twin.client, twin.info = client, dict(self.info)
        return twin

    def raise_failure(self) -> None:
        """Raises the failure of a handle that has ended."""
        raise NotImplementedError

    def wait_end(self, timeout: Optional[float] = None, progress: bool = False) -> None:
        """Waits until it has ended, in whichever state."""
        seconds = seconds_of(timeout)
        transport = self.client.transport
        until = transport.now() + seconds
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
                    return
                if transport.now() >= until:
                    raise WaitTimeout(self, seconds)

    def _wait_once(self, until: float, seconds: int) -> None:
        left = until - self.client.transport.now()
        if left >= 1:
            self.refresh(wait=math.floor(min(left, seconds)), until=until)
            return
        # The server counts in whole seconds.
        self.client.transport.sleep(max(0.0, min(left, 0.2)))
        self.refresh(until=until)

    def _read(self, data: Dict[str, Any]) -> None:
        _, _ = data["id"], data["state"]
        self.info = data

    def _at(self, *names: str, end: str = "") -> str:
        return self.client.transport.at("instances", self.id, *names, end=end)


class Instance(Handle):
    """One execution of one task, with its last known state."""

    kind = "instance"

    def __repr__(self) -> str:
        return f"<instance {self.id} of {self.name}: {self.state}>"

    @property
    def number(self) -> int:
        """The number in its id."""
        return int(self.id.lstrip("i"))

    @property
    def array_index(self) -> Optional[int]:
        """The index within its array, if it is an element of one."""
        found = self.info.get("arrayIndex")
        return None if found is None else int(found)

    @property
    def item(self) -> Optional[str]:
        """The text in `BATON_ITEM`, for an element of an array of items, or an item of a run."""
        found = self.info.get("item")
        return None if found is None else str(found)

    @property
    def attempts(self) -> int:
        """Attempts so far, including a running one."""
        return int(self.info.get("attempts", 0))

    @property
    def worker(self) -> Optional[str]:
        """The worker that has it, or had it last."""
        return self.info.get("worker")

    @property
    def end_text(self) -> Optional[str]:
        """A description of how its last attempt has ended."""
        return self.info.get("endText")

    @property
    def progress(self) -> Optional[InstanceProgress]:
        """How far its attempt had come, as the attempt itself has last reported; of one that has ended,
        at its end. None if it has reported nothing. `refresh` fetches it again.
        """
        found = self.info.get("progress")
        return None if found is None else InstanceProgress.read(found)

    @property
    def submitted_by(self) -> Optional[Submitter]:
        """The client that has submitted or triggered it, or its run.

        None if that is not known, if a schedule has launched it, or before `refresh` of an entry
        of a list or a new submission.
        """
        found = self.info.get("details", {}).get("origin", {}).get("submittedBy")
        return None if found is None else Submitter.read(found)

    def wait(self, timeout: Optional[float] = None, progress: bool = False) -> Instance:
        """Waits until it is DONE.

        Raises `InstanceFailed` with the last lines of stderr if it ends otherwise, `WaitTimeout`
        (a `TimeoutError`) after `timeout` seconds. An unreachable scheduler is retried until then.
        """
        self.wait_end(timeout, progress)
        self.raise_failure()
        return self

    def raise_failure(self) -> None:
        """Raises the failure, if it is not DONE."""
        if self.state != "DONE":
            raise self.failure()

    def failure(self) -> InstanceFailed:
        """The exception for its end, with the last lines of stderr."""
        return InstanceFailed(self, self.stderr_tail())

    def stderr_tail(self) -> str:
        """The last lines of stderr of its last attempt; empty if they cannot be read."""
        return _logs.tail(self.client.transport, self.id, self.info.get("stderrTail"))

    def cancel(self, now: bool = False) -> bool:
        """Ends it: it is halted if it waits, and killed if it runs. With `now`, all its processes
        are killed at once. False if it had ended before.
        """
        return sum(cancel(self.client, self.id, now)) > 0

    def kill(self, attempt: Optional[int] = None, now: bool = False) -> int:
        """Kills the running attempt, as if it had ended by itself: see `Client.kill`."""
        return self.client.kill(self.id, attempt, now)

    def retry(self) -> Instance:
        """Queues it again, if it is FAILED or HALTED; its budget of retries starts anew."""
        path = self._at("retry")
        data = self.client.transport.change("POST", path)
        with self.client.transport.decoding(path):
            self._read(data)
        return self

    @overload
    def logs(
        self,
        follow: Literal[False] = False,
        stderr: bool = False,
        attempt: Optional[int] = None,
        process: Optional[str] = None,
    ) -> str: ...

    @overload
    def logs(
        self,
        follow: Literal[True],
        stderr: bool = False,
        attempt: Optional[int] = None,
        process: Optional[str] = None,
    ) -> Iterator[str]: ...

    def logs(
        self,
        follow: bool = False,
        stderr: bool = False,
        attempt: Optional[int] = None,
        process: Optional[str] = None,
    ) -> Union[str, Iterator[str]]:
        """What its last attempt has written so far.

        With `follow`, an iterator of lines as they are written, across attempts and restarts of the
        scheduler, until it has ended.
        """
        selector = _logs.Selector(self.id, stderr, attempt, process)
        if follow:
            return _logs.follow(self, selector)
        return _logs.read(self.client.transport, selector)

    def outputs(self) -> Dict[str, Any]:
        """The outputs of its successful attempt, without the boxes between functions."""
        if not self.ended:
            self.refresh()
        found = self.info.get("outputs")
        if found is None and self.state == "DONE":
            found = self._recorded_outputs()
        put = json.loads(found) if isinstance(found, str) else dict(found or {})
        return {key: value for key, value in put.items() if not is_box(key)}

    def explain(self) -> str:
        """What it waits for, or how it has ended, as a sentence."""
        path = self._at("explain")
        data = self.client.transport.get_json(path)
        with self.client.transport.decoding(path):
            return str(data["text"])

    def processes(self) -> List[Process]:
        """The processes of its last attempt, asked from its worker."""
        path = self._at("processes")
        found = self.client.transport.get_json(path)
        with self.client.transport.decoding(path):
            return [Process.read(each) for each in found["processes"]]

    def _recorded_outputs(self) -> Optional[str]:
        path = self._at("timeline")
        found: Optional[str] = None
        for entry in self.client.pages(path, {"limit": 1000}):
            with self.client.transport.decoding(path):
                ended = entry["fact"].get("attempt-ended") or {}
            found = ended.get("outputs") or found
        return found


def cancel(client: Client, id: str, now: bool) -> Tuple[int, int]:
    """Ends instances: the numbers of those that waited, and of those that ran."""
    path = client.transport.at("instances", id)
    data = client.transport.change("DELETE", path, query={"now": "true" if now else None})
    with client.transport.decoding(path):
        return int(data["halted"]), int(data["stopping"])


def seconds_of(timeout: Optional[float]) -> float:
    """A timeout in seconds; infinity for None."""
    if timeout is None:
        return math.inf
    if not isinstance(timeout, (int, float)) or math.isnan(timeout):
        raise BatonError(
            Problem(f"timeout={timeout!r} is not a number of seconds", "pass one such as 1.5")
        )
    return float(timeout)
