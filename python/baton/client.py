"""Client of one scheduler: submits workflows, lists runs."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from datetime import datetime
from typing import Any, Dict, Iterator, Mapping, Optional, Union

from . import values
from .errors import BatonError, Problem, RunConflict, WorkflowError
from .parts import cut, values_of
from .run import Run
from .settings import Cert
from .transport import Transport
from .workflow import Workflow, file_of

_PAGE = 1000

_CONFLICT = 409


def _milliseconds(at: datetime) -> int:
    """Milliseconds since 1970; a time without a zone is in the local one."""
    return int(at.timestamp() * 1000)


class Client:
    """A client of one scheduler. Nothing is sent before the first request.

    Missing arguments come from the environment, as in the command line: `BATON_URL` (or
    http://127.0.0.1:8080), `BATON_TOKEN`, and for https `BATON_CA`, `BATON_CERT` and `BATON_KEY`.
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

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def submit(
        self,
        workflow: Union[Workflow, Mapping[str, Any]],
        params: Optional[Mapping[str, Any]] = None,
    ) -> Run:
        """Submits a workflow, or a mapping in the schema of workflow files.

        When it returns, the run is durable. A workflow too large for one request is sent in parts; the
        run starts when all have arrived. While the scheduler restarts or is busy, the request is
        retried with the same `Idempotency-Key`, so that it makes one run at most. If no response
        comes in time, the error reports that the run may exist.
        """
        file = file_of(workflow)
        first, rest = cut(file, values_of(params))
        path = self.transport.at("runs", end="/")
        data = self.transport.change("POST", path, first, key=uuid.uuid4().hex)
        with self.transport.decoding(path):
            run = Run(self, {"id": data["id"], "name": str(file.get("workflow", ""))})
        if rest:
            self._register(run, rest)
        return run.accepted(data)

    def _register(self, run: Run, rest: Iterator[bytes]) -> None:
        """Sends the other parts, and starts the run; deletes the partial run on failure."""
        try:
            for part in rest:
                self.transport.change(
                    "POST", self.transport.at("runs", run.id, "tasks", end="/"), part
                )
            self.transport.change("POST", self.transport.at("runs", run.id, "start"))
        except BaseException:
            # The first error is the cause; and a run that is not started is aborted by the server.
            with suppress(BatonError):
                self.transport.change("DELETE", self.transport.at("runs", run.id))
            raise

    def run(self, id: str) -> Run:
        """The run of this id, such as `r12`."""
        return Run(self, {"id": id}).refresh()

    def runs(
        self,
        state: Optional[str] = None,
        owner: Optional[str] = None,
        name: Optional[str] = None,
        limit: Optional[int] = None,
    ) -> Iterator[Run]:
        """Runs, the newest first, read page by page; at most `limit`, if given."""
        if limit is not None and not isinstance(limit, int):
            raise BatonError(Problem(f"limit={limit!r} is not a number of runs", "give an integer"))
        page = _PAGE if limit is None else min(limit, _PAGE)
        query: Dict[str, Any] = {
            "state": state,
            "owner": owner,
            "name": name,
            "limit": max(page, 1),
        }
        for count, data in enumerate(self.pages(self.transport.at("runs", end="/"), query)):
            if limit is not None and count >= limit:
                return
            yield Run(self, data)

    def kill(self, instance: str, attempt: Optional[int] = None, now: bool = False) -> int:
        """Kills the running attempt of an instance, such as `i12`, as if it had ended by itself: it
        counts as a failure, and retries follow. Returns the number of the attempt.

        With `attempt`, only if that one runs. With `now`, all its processes are killed at once,
        and no final process runs.
        """
        path = self.transport.at("instances", instance, "kill")
        query = {"attempt": attempt, "now": "true" if now else None}
        data = self.transport.change("POST", path, query=query)
        with self.transport.decoding(path):
            return int(data["attempt"])

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
        """Pauses an entry of the library, such as `demo/sales`: nothing launches it by itself."""
        body = {"paused": True} if reason is None else {"paused": True, "reason": reason}
        self._change_entry("PUT", name, "paused", body)

    def unpause(self, name: str) -> None:
        """Ends the pause of an entry of the library. What was skipped stays skipped."""
        self._change_entry("PUT", name, "paused", {"paused": False})

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
            "from": _milliseconds(start),
            "to": _milliseconds(end),
            "maxConcurrent": max_concurrent,
            "reverse": reverse,
        }
        data = self._change_entry("POST", name, "backfills", body, end="/")
        found = data.get("id")
        return None if found is None else str(found)

    def backfills(self) -> Iterator[Mapping[str, Any]]:
        """Backfills as the API describes them, the newest first, read page by page."""
        return self.pages(self.transport.at("backfills", end="/"), {"limit": _PAGE})

    def halt_backfill(self, id: str) -> None:
        """Halts a backfill: it launches nothing more, and what it has launched continues."""
        self.transport.change("POST", self.transport.at("backfills", id, "halt"))

    def resume_backfill(self, id: str) -> None:
        """Resumes a halted backfill."""
        self.transport.change("POST", self.transport.at("backfills", id, "resume"))

    def _change_entry(
        self, method: str, name: str, what: str, body: Mapping[str, Any], end: str = ""
    ) -> Mapping[str, Any]:
        owner, _, entry = name.rpartition("/")
        path = self.transport.at(owner or "default", "tasks", entry, what, end=end)
        answer = self.transport.change(method, path, values.write(body).encode())
        with self.transport.decoding(path):
            return dict(answer)

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
