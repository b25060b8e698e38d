"""The library of a scheduler: stored tasks and workflows, their schedules, triggers and backfills."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from .. import _values as values
from .._handles.instances import Instance
from .._handles.run import Run
from .._workflows.parts import values_of
from .._workflows.tasks import plain
from .._workflows.workflow import Workflow
from ..errors import BatonError, Problem, WorkflowError

if TYPE_CHECKING:
    from .client import Client

_PAGE = 1000

_NOT_FOUND = 404


@dataclass(frozen=True)
class Entry:
    """A task or a workflow of the library, in one revision."""

    owner: str
    name: str
    revision: int
    #: `task` or `workflow`.
    kind: str
    #: The definition, as a task or workflow file; None in lists.
    definition: Optional[Dict[str, Any]] = None
    #: Schedule and other triggers, in the format of the API.
    trigger: Optional[Dict[str, Any]] = None
    #: The schedule as the server understands it.
    schedule: Optional[str] = None
    #: The next due time; only in lists.
    next_at: Optional[datetime] = None
    #: Since when it is paused.
    paused_at: Optional[datetime] = None
    pause_reason: Optional[str] = None
    #: The file of the library directory that defines it, if any.
    file: Optional[str] = None

    @property
    def id(self) -> str:
        """Owner and name: `demo/sales`."""
        return f"{self.owner}/{self.name}"

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Entry:
        """Reads the server's JSON."""
        return cls(
            owner=data["owner"],
            name=data["name"],
            revision=int(data["revision"]),
            kind=str(data.get("kind", "task")),
            definition=data.get("definition"),
            trigger=data.get("trigger"),
            schedule=data.get("scheduleText"),
            next_at=_time(data.get("nextAt")),
            paused_at=_time(data.get("pausedAt")),
            pause_reason=data.get("pauseReason"),
            file=data.get("file"),
        )


@dataclass(frozen=True)
class Tick:
    """What became of a due time, or of the end of an upstream entry."""

    seq: int
    #: `launched`, `late`, `skipped` or `backfilled`.
    verdict: str
    text: str
    #: The due time, or the first of several.
    due: datetime
    #: The number of due times.
    count: int = 1
    #: Why it was skipped.
    reason: Optional[str] = None
    #: The id of the instance or run that was launched.
    launched: Optional[str] = None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Tick:
        """Reads the server's JSON."""
        return cls(
            seq=int(data["seq"]),
            verdict=data["verdict"],
            text=data["text"],
            due=_moment(data["nominalAt"]),
            count=int(data["count"]),
            reason=data.get("reason"),
            launched=data.get("instance") or data.get("run"),
        )


class Library:
    """The stored tasks and workflows of a scheduler: `client.library`.

    Entries are named `owner/name`; without an owner it is `default`.
    """

    def __init__(self, client: Client) -> None:
        self.client = client

    def __iter__(self) -> Iterator[Entry]:
        return self.entries()

    def entries(self, owner: Optional[str] = None) -> Iterator[Entry]:
        """Entries by owner and name, read page by page."""
        path = self.client.transport.at("library", end="/")
        for each in self.client.pages(path, {"owner": owner, "limit": _PAGE}):
            with self.client.transport.decoding(path):
                entry = Entry.read(each)
            yield entry

    def get(self, name: str, revision: Optional[int] = None) -> Entry:
        """An entry with its definition: the current revision, or an older one."""
        path = self._at(name)
        data = self.client.transport.get_json(path, {"revision": revision})
        with self.client.transport.decoding(path):
            return Entry.read(data)

    def revisions(self, name: str) -> Iterator[Entry]:
        """The revisions of an entry, the newest first, read page by page."""
        path = self._at(name, "revisions", end="/")
        for each in self.client.pages(path, {"limit": _PAGE}):
            with self.client.transport.decoding(path):
                entry = Entry.read(each)
            yield entry

    def put(
        self,
        definition: Union[Workflow, Mapping[str, Any]],
        *,
        trigger: Optional[Mapping[str, Any]] = None,
        owner: Optional[str] = None,
        revision: Optional[int] = None,
        dry_run: bool = False,
    ) -> str:
        """Creates or replaces the entry that a `Workflow`, or a task or workflow file, defines.

        `trigger` is what starts it, such as `{"schedule": "every day at 6:00"}`. With `revision`,
        only if that is the current one (0: only if there is none); otherwise the error has status
        412. With `dry_run` the server only validates it. Returns `created`, `replaced` or
        `unchanged`.
        """
        file = _file(definition, trigger, owner)
        entry = f"{file.get('owner') or 'default'}/{_entry_name(file)}"
        found = self._revision(entry) if revision is None else revision
        headers = {"If-Match": f'"r{found}"'} if found else {"If-None-Match": "*"}
        query = {"dryRun": "true" if dry_run else None}
        data = self._change("PUT", entry, (), file, query, headers)
        return str(data["change"])

    def delete(self, name: str, revision: Optional[int] = None) -> None:
        """Removes an entry, in the given or the current revision. Its history stays."""
        found = self.get(name).revision if revision is None else revision
        self._change("DELETE", name, (), None, None, {"If-Match": f'"r{found}"'})

    def pause(self, name: str, reason: Optional[str] = None) -> None:
        """Pauses an entry: nothing launches it by itself."""
        body = {"paused": True} if reason is None else {"paused": True, "reason": reason}
        self._change("PUT", name, ("paused",), body)

    def unpause(self, name: str) -> None:
        """Ends the pause of an entry. What was skipped stays skipped."""
        self._change("PUT", name, ("paused",), {"paused": False})

    def trigger(
        self,
        name: str,
        params: Optional[Mapping[str, Any]] = None,
        *,
        idempotency_key: Optional[str] = None,
    ) -> Union[Instance, Run]:
        """Launches an entry now: the instance of a task, or the run of a workflow.

        Requests with the same key launch it once, and return the same. Without a key each call has
        one of its own, so that a retry after a lost response launches nothing twice.
        """
        path = self._at(name, "run")
        sent = values.write({"params": values_of(params)}).encode()
        key = idempotency_key or uuid.uuid4().hex
        data = self.client.transport.change("POST", path, sent, key=key)
        with self.client.transport.decoding(path):
            id = str(data["id"])
        handle = {"id": id, "name": name.rpartition("/")[2]}
        kind = Run if id.startswith("r") else Instance
        return kind(self.client, handle).refresh()

    def ticks(self, name: str, limit: Optional[int] = None) -> Iterator[Tick]:
        """What became of the due times of an entry, the latest first, read page by page."""
        path = self._at(name, "ticks", end="/")
        for count, each in enumerate(self.client.pages(path, {"limit": limit or _PAGE})):
            if limit is not None and count >= limit:
                return
            with self.client.transport.decoding(path):
                tick = Tick.read(each)
            yield tick

    def due(
        self, name: str, limit: int = 10, after: Optional[datetime] = None
    ) -> List[datetime]:
        """The next due times of an entry, in UTC; empty without a schedule."""
        path = self._at(name, "due")
        query = {"limit": limit, "after": None if after is None else milliseconds(after)}
        data = self.client.transport.get_json(path, query)
        with self.client.transport.decoding(path):
            return [_moment(each) for each in data["at"]]

    def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        max_concurrent: int = 1,
        reverse: bool = False,
    ) -> Optional[str]:
        """Launches each due time of an entry from `start` to `end` that has no launch.

        Returns the id of the backfill, such as `b1`, or None if every due time has a launch. The
        scheduler continues it by itself.
        """
        body = {
            "from": milliseconds(start),
            "to": milliseconds(end),
            "maxConcurrent": max_concurrent,
            "reverse": reverse,
        }
        found = self._change("POST", name, ("backfills",), body, end="/").get("id")
        return None if found is None else str(found)

    def _revision(self, name: str) -> int:
        """The current revision of an entry; 0 if there is none."""
        try:
            return self.get(name).revision
        except BatonError as error:
            if error.status != _NOT_FOUND:
                raise
            return 0

    def _change(
        self,
        method: str,
        name: str,
        what: Tuple[str, ...],
        body: Optional[Mapping[str, Any]],
        query: Optional[Mapping[str, Any]] = None,
        headers: Optional[Mapping[str, str]] = None,
        end: str = "",
    ) -> Mapping[str, Any]:
        path = self._at(name, *what, end=end)
        sent = None if body is None else values.write(body).encode()
        answer = self.client.transport.change(method, path, sent, query, headers=headers)
        with self.client.transport.decoding(path):
            return dict(answer)

    def _at(self, name: str, *what: str, end: str = "") -> str:
        owner, _, entry = name.rpartition("/")
        return self.client.transport.at(owner or "default", "tasks", entry, *what, end=end)


def milliseconds(at: datetime) -> int:
    """Milliseconds since 1970; a time without a zone is in the local one."""
    if not isinstance(at, datetime):
        raise BatonError(Problem(f"{at!r} is not a time", "pass a datetime"))
    return int(at.timestamp() * 1000)


def _file(
    definition: Union[Workflow, Mapping[str, Any]],
    trigger: Optional[Mapping[str, Any]],
    owner: Optional[str],
) -> Dict[str, Any]:
    if isinstance(definition, Workflow):
        file = definition.to_dict()
    elif isinstance(definition, Mapping):
        file = {name: plain(value) for name, value in definition.items()}
    else:
        raise WorkflowError(
            f"{definition!r} is not a definition",
            "pass a Workflow, or a mapping in the schema of task or workflow files",
        )
    more = {"trigger": plain(trigger), "owner": owner}
    file.update({name: value for name, value in more.items() if value is not None})
    try:
        values.check(file)
    except values.NotJson as error:
        raise WorkflowError("the definition is not JSON", str(error)) from error
    return file


def _entry_name(file: Mapping[str, Any]) -> str:
    for field in ("workflow", "task"):
        if isinstance(file.get(field), str) and file[field]:
            return str(file[field])
    processes = file.get("processes")
    if isinstance(processes, list) and processes and isinstance(processes[0], Mapping):
        return str(processes[0].get("name", ""))
    raise WorkflowError("the definition has no name", "add `task` or `workflow` to it")


def _time(at: Optional[int]) -> Optional[datetime]:
    return None if at is None else _moment(at)


def _moment(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, tz=timezone.utc)
