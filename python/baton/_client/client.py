"""Client of one scheduler: finds, lists and changes instances and runs. Submissions are in `submit`."""

from __future__ import annotations

import base64
import os
from datetime import datetime
from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Literal,
    Mapping,
    Optional,
    Tuple,
    Union,
    overload,
)

from .. import _values as values
from .._handles import waiting
from .._handles.arrays import Array
from .._handles.instances import Handle, Instance
from .._handles.run import Run
from .._handles.several import Several
from .._handles.waiting import Waited
from .._records.events import EventStream
from .._records.views import (
    ENDED,
    Alarm,
    ArrayLimit,
    Fleet,
    FleetJob,
    Limit,
    Secret,
    Share,
    TaskUsage,
    WaitGroup,
    Worker,
)
from .._transport.settings import Cert
from .._transport.transport import Transport
from ..errors import BatonError, Problem, RunConflict, WorkflowError
from .library import Library
from .submit import Submitter

_PAGE = 1000

_CONFLICT = 409

#: An instance, or its id.
Target = Union[Instance, str]


class Client(Submitter, Several):
    """A client of one scheduler, or of several that share a store: their URLs, separated by commas.

    Nothing is sent before the first request.

    A missing URL is that of the server that `up` has started. Other missing arguments come from the
    environment, as in the command line: `BATON_URL` (or http://127.0.0.1:8080), `BATON_TOKEN` (or
    the file that `BATON_TOKEN_FILE` names), and for https `BATON_CA`, `BATON_CERT` and `BATON_KEY`.
    `cert` is a file with certificate and key, or a pair of files.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        ca: Union[str, os.PathLike[str], None] = None,
        cert: Optional[Cert] = None,
    ) -> None:
        self.transport = Transport(url, token, ca, cert)

    @property
    def url(self) -> str:
        """The URL of the scheduler."""
        return self.transport.url

    @property
    def library(self) -> Library:
        """The stored tasks and workflows."""
        return Library(self)

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def instance(self, id: str) -> Any:
        """The instance of this id, such as `i12`, as an `Instance`; or of `i12..i20` as an
        `Array`.
        """
        first, dots, last = str(id).partition("..")
        if not dots:
            return Instance(self, {"id": first}).refresh()
        try:
            array = Array(self, int(first.lstrip("i")), int(last.lstrip("i")))
        except ValueError as error:
            raise BatonError(Problem(f"{id!r} is no id", "pass `i12` or `i12..i20`")) from error
        return array.refresh()

    def instances(
        self,
        state: Optional[str] = None,
        name: Optional[str] = None,
        owner: Optional[str] = None,
        limit: Optional[int] = None,
        worker: Optional[str] = None,
        since: Optional[str] = None,
        until: Optional[str] = None,
        tag: Optional[str] = None,
    ) -> Iterator[Instance]:
        """Instances with their state, read page by page: those that run, those that wait, then
        those that have ended, the newest first; at most `limit`, if given.

        `since` and `until` limit the time of the last change (submission, start or end): how long
        ago, such as `2h`, or a date and time, in UTC if it names no zone.
        """
        page = _page(limit)
        wanted = None if state is None else state.upper()
        query = {"state": wanted, "name": name, "owner": owner, "limit": page}
        query.update({"worker": worker, "since": since, "until": until, "tag": tag})
        lists = ["arena", "bullpen", "history"]
        if wanted is not None:
            lists = ["history"] if wanted in ENDED else ["arena", "bullpen"]
        # An instance may move from one list to the next meanwhile.
        seen = set()
        count = 0
        for each in lists:
            for data in self.pages(self.transport.at(each, end="/"), query):
                for instance in self._elements(data):
                    if instance.id in seen:
                        continue
                    if limit is not None and count >= limit:
                        return
                    count += 1
                    if each != "history":
                        seen.add(instance.id)
                    yield instance

    def _elements(self, data: Mapping[str, Any]) -> Iterator[Instance]:
        """The instances of an entry of a list, which may be a range of equal ones."""
        with self.transport.decoding("a list of instances"):
            first = int(data["id"].lstrip("i"))
            last = int((data.get("last") or data["id"]).lstrip("i"))
        for number in range(first, last + 1):
            yield Instance(self, {**data, "id": f"i{number}", "count": 1})

    def run(self, id: str) -> Run:
        """The run of this id, such as `r12`."""
        return Run(self, {"id": id}).refresh()

    def runs(
        self,
        state: Optional[str] = None,
        owner: Optional[str] = None,
        name: Optional[str] = None,
        limit: Optional[int] = None,
        since: Optional[str] = None,
        until: Optional[str] = None,
    ) -> Iterator[Run]:
        """Runs, the newest first, read page by page; at most `limit`, if given. `since` and `until`
        limit the time at which they have begun, as in :meth:`instances`.
        """
        page = _page(limit)
        query: Dict[str, Any] = {"state": state, "owner": owner, "name": name, "limit": page}
        query.update({"since": since, "until": until})
        for count, data in enumerate(self.pages(self.transport.at("runs", end="/"), query)):
            if limit is not None and count >= limit:
                return
            yield Run(self, data)

    def wait(
        self,
        handles: Iterable[Handle],
        timeout: Optional[float] = None,
        any: bool = False,
        progress: bool = False,
    ) -> Waited:
        """Waits until all instances, arrays and runs have ended, or with `any` the first one."""
        return waiting.wait(handles, timeout, any, progress)

    def as_completed(
        self, handles: Iterable[Handle], timeout: Optional[float] = None
    ) -> Iterator[Handle]:
        """Yields each instance, array or run when it has ended, the first one first."""
        return waiting.as_completed(handles, timeout)

    def cancel(self, target: Union[Target, Array], now: bool = False) -> Tuple[int, int]:
        """Ends an instance or all of an array: those that wait are halted, those that run are
        killed. Returns how many waited, and how many ran.
        """
        path = self.transport.at("instances", _id(target))
        data = self.transport.change("DELETE", path, query={"now": "true" if now else None})
        with self.transport.decoding(path):
            return int(data["halted"]), int(data["stopping"])

    def kill(self, target: Target, attempt: Optional[int] = None, now: bool = False) -> int:
        """Kills the running attempt of an instance, such as `i12`, as if it had ended by itself: it
        counts as a failure, and retries follow. Returns the number of the attempt.

        With `attempt`, only if that one runs. With `now`, all its processes are killed at once,
        and no final process runs.
        """
        path = self.transport.at("instances", _id(target), "kill")
        query = {"attempt": attempt, "now": "true" if now else None}
        data = self.transport.change("POST", path, query=query)
        with self.transport.decoding(path):
            return int(data["attempt"])

    def retry(self, target: Target) -> Instance:
        """Queues an instance again that is FAILED or HALTED."""
        return Instance(self, {"id": _id(target)}).retry()

    @overload
    def logs(
        self,
        target: Target,
        follow: Literal[False] = False,
        stderr: bool = False,
        attempt: Optional[int] = None,
    ) -> str: ...

    @overload
    def logs(
        self,
        target: Target,
        follow: Literal[True],
        stderr: bool = False,
        attempt: Optional[int] = None,
    ) -> Iterator[str]: ...

    def logs(
        self,
        target: Target,
        follow: bool = False,
        stderr: bool = False,
        attempt: Optional[int] = None,
    ) -> Union[str, Iterator[str]]:
        """What an instance has written; with `follow`, its lines as they are written, until it has
        ended: see `Instance.logs`.
        """
        instance = target if isinstance(target, Instance) else Instance(self, {"id": _id(target)})
        if follow:
            return instance.logs(follow=True, stderr=stderr, attempt=attempt)
        return instance.logs(stderr=stderr, attempt=attempt)

    def events(
        self,
        after: Optional[int] = None,
        *,
        instance: Optional[Target] = None,
        run: Union[Run, str, None] = None,
        owner: Optional[str] = None,
    ) -> EventStream:
        """Events as they become durable, after the one of this number, or from now on.

        The iterator waits for more, and reconnects by itself; close it, or use it in a `with`
        block.
        """
        query = {
            "instance": None if instance is None else _id(instance),
            "run": run.id if isinstance(run, Run) else run,
            "owner": owner,
        }
        return EventStream(self.transport, query, after)

    def pages(self, path: str, query: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """All entries of a list, page by page."""
        page = self.transport.get_json(path, query)
        while True:
            with self.transport.decoding(path):
                items, following = list(page["items"]), page["links"].get("next")
                following = None if following is None else self.transport.link(following)
            yield from items
            if following is None:
                return
            page = self.transport.get_json(following)

    def pause(self, name: str, reason: Optional[str] = None) -> None:
        """Pauses an entry of the library, such as `demo/sales`: see `Library.pause`."""
        self.library.pause(name, reason)

    def unpause(self, name: str) -> None:
        """Ends the pause of an entry of the library: see `Library.unpause`."""
        self.library.unpause(name)

    def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        max_concurrent: int = 1,
        reverse: bool = False,
    ) -> Optional[str]:
        """Launches the due times of an entry that have no launch: see `Library.backfill`."""
        return self.library.backfill(name, start, end, max_concurrent, reverse)

    def backfills(self) -> Iterator[Mapping[str, Any]]:
        """Backfills as the API describes them, the newest first, read page by page."""
        return self.pages(self.transport.at("backfills", end="/"), {"limit": _PAGE})

    def halt_backfill(self, id: str) -> None:
        """Halts a backfill: it launches nothing more, and what it has launched continues."""
        self.transport.change("POST", self.transport.at("backfills", id, "halt"))

    def resume_backfill(self, id: str) -> None:
        """Resumes a halted backfill."""
        self.transport.change("POST", self.transport.at("backfills", id, "resume"))

    def workers(self) -> List[Worker]:
        """All known workers, with what their attempts have claimed, and what they use."""
        path = self.transport.at("workers", end="/")
        return [Worker.read(each) for each in self.pages(path, {})]

    def wait_groups(self, owner: Optional[str] = None) -> List[WaitGroup]:
        """What queued instances wait for: a group for each reason, the largest first."""
        path = self.transport.at("bullpen", "reasons")
        return [WaitGroup.read(each) for each in self.pages(path, {"owner": owner})]

    def alarms(self, owner: Optional[str] = None) -> List[Alarm]:
        """What is late, slow, short or stuck now, the oldest first: 1,000 alarms at most."""
        path = self.transport.at("alarms", end="/")
        query = {"owner": owner, "limit": 1000}
        return [Alarm.read(each) for each in self.pages(path, query)]

    def task_usage(
        self,
        owner: Optional[str] = None,
        workflow: Optional[str] = None,
        task: Optional[str] = None,
    ) -> Iterator[TaskUsage]:
        """What the last 200 attempts of each task have used, with suggestions for its requests.

        An empty `workflow` is for tasks that belong to none.
        """
        path = self.transport.at("usage", "tasks", end="/")
        query = {"owner": owner, "workflow": workflow, "task": task, "limit": 200}
        return map(TaskUsage.read, self.pages(path, query))

    def fleets(self) -> List[Fleet]:
        """All fleets, from which the scheduler obtains workers, by name."""
        path = self.transport.at("fleets", end="/")
        return [Fleet.read(each) for each in self.pages(path, {})]

    def fleet_jobs(self, name: str) -> List[FleetJob]:
        """The last 100 jobs of a fleet, the latest first, those that have ended included."""
        path = self.transport.at("fleets", name, "jobs", end="/")
        return [FleetJob.read(each) for each in self.pages(path, {})]

    def define_fleet(self, name: str, definition: Mapping[str, Any]) -> Fleet:
        """Defines a fleet, or changes it. The definition is that of a file of fleets:

        `{"backend": "slurm", "partition": "long", "cpus": 16, "memory": "64GiB", "max": 8}`
        """
        body = values.write(dict(definition)).encode()
        return Fleet.read(self.transport.change("PUT", self.transport.at("fleets", name), body))

    def pause_fleet(self, name: str, paused: bool = True) -> Fleet:
        """Pauses a fleet, which then requests no more jobs, or resumes it."""
        path = self.transport.at("fleets", name, "paused")
        body = values.write({"paused": paused}).encode()
        return Fleet.read(self.transport.change("PUT", path, body))

    def remove_fleet(self, name: str, drain: bool = False) -> None:
        """Removes a fleet, and cancels its jobs; with `drain`, running ones end when they have no more work."""
        query = {"drain": "true"} if drain else None
        self.transport.change("DELETE", self.transport.at("fleets", name), query=query)

    def limits(self) -> List[Limit]:
        """Cluster-wide limits of resources, by name."""
        path = self.transport.at("limits", end="/")
        return [Limit.read(each) for each in self.pages(path, {})]

    def set_limit(
        self,
        name: str,
        capacity: Optional[int] = None,
        *,
        rate: Optional[str] = None,
        burst: Optional[int] = None,
    ) -> Limit:
        """Sets a cluster-wide limit, durably: it takes the place of the scheduler's `--limit`.

        Either a capacity, which counts what is in use, or a rate of starts, such as `10/s`, of which `burst` may
        come at once. A capacity below what is in use kills nothing: no more starts until less is in use.
        """
        path = self.transport.at("limits", name)
        fields = {"capacity": capacity, "rate": rate, "burst": burst}
        body = values.write({name: it for name, it in fields.items() if it is not None}).encode()
        return Limit.read(self.transport.change("PUT", path, body))

    def remove_limit(self, name: str) -> None:
        """Removes a limit that was set: the one of the scheduler's `--limit` is in force again."""
        self.transport.change("DELETE", self.transport.at("limits", name))

    def limit_array(self, ids: str, max_concurrent: Optional[int]) -> ArrayLimit:
        """Changes how many elements of an array (`i1..i1000`) run at once, while it runs; `None` for no limit.

        A limit below what is in flight kills nothing: no more elements start until fewer are.
        """
        path = self.transport.at("instances", str(ids), "limit")
        body = values.write({"maxConcurrent": max_concurrent}).encode()
        return ArrayLimit.read(self.transport.change("PUT", path, body))

    def shares(self) -> List[Share]:
        """Shares of owners in fair turns that were set, by owner; every other owner has weight 1."""
        path = self.transport.at("shares", end="/")
        return [Share.read(each) for each in self.pages(path, {})]

    def set_share(self, owner: str, weight: int) -> Share:
        """Sets the turns that an owner gets for each one of an owner with weight 1, from 1 to 1000."""
        body = values.write({"weight": weight}).encode()
        return Share.read(self.transport.change("PUT", self.transport.at("shares", owner), body))

    def remove_share(self, owner: str) -> None:
        """Removes the share of an owner, which then has weight 1."""
        self.transport.change("DELETE", self.transport.at("shares", owner))

    def secrets(self, owner: Optional[str] = None) -> List[Secret]:
        """Secrets that work of an owner may have, or all, without their values."""
        path = self.transport.at("secrets", end="/")
        query = {"owner": owner} if owner else {}
        return [Secret.read(each) for each in self.pages(path, query)]

    def set_secret(self, name: str, value: Union[str, bytes]) -> Secret:
        """Sets a secret, `OWNER/NAME`, or replaces its value.

        Tasks that are submitted with `secrets=["NAME"]` find it in the file `$BATON_SECRETS/NAME`, and those
        with `secrets=[{"name": "NAME", "env": "KEY"}]` in the variable `KEY`. No call returns the value.
        """
        body: Dict[str, Any] = {"value": value}
        if isinstance(value, bytes):
            body = {"value": base64.b64encode(value).decode(), "encoding": "base64"}
        answer = self.transport.change("PUT", self._secret(name), values.write(body).encode())
        return Secret.read(answer)

    def remove_secret(self, name: str) -> None:
        """Removes a secret, `OWNER/NAME`: attempts that start later do not get it."""
        self.transport.change("DELETE", self._secret(name))

    def _secret(self, name: str) -> str:
        owner, slash, secret = name.partition("/")
        return self.transport.at("secrets", *((owner, secret) if slash else ("default", name)))

    def command(self, run: Run, what: str, body: Mapping[str, Any], dry_run: bool = False) -> Any:
        """Sends a command about a run once, for its last known generation, if there is one."""
        query = {"dryRun": "true"} if dry_run else None
        known = {"generation": run.generation} if run.generation else {}
        path = self.transport.at("runs", run.id, what)
        try:
            values.check(body)
        except values.NotJson as error:
            raise WorkflowError("the request is not JSON", str(error)) from error
        sent = values.write({**body, **known}).encode()
        try:
            return self.transport.change("POST", path, sent, query)
        except BatonError as error:
            if error.status == _CONFLICT:
                raise RunConflict(run, error.problem) from error
            raise


def _id(target: Any) -> str:
    if isinstance(target, (Instance, Array)):
        return target.id
    if isinstance(target, str):
        return target
    raise BatonError(Problem(f"{target!r} is not an instance", "pass one, or its id such as i12"))


def _page(limit: Optional[int]) -> int:
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool)):
        raise BatonError(Problem(f"limit={limit!r} is not a number", "pass an integer"))
    return _PAGE if limit is None else max(min(limit, _PAGE), 1)
