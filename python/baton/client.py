"""A scheduler, seen from outside."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, Dict, Iterator, Mapping, Optional, Union

from .errors import BatonError
from .parts import cut, values_of
from .run import Run
from .transport import Cert, Transport, encode
from .workflow import Workflow

_PAGE = 1000


class Client:
    """A client of one scheduler. Nothing is sent before the first request.

    What is not given is taken from the environment, as the command line does: `BATON_URL` (or
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
        """The URL, as it is used."""
        return self.transport.url

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def submit(
        self,
        workflow: Union[Workflow, Mapping[str, Any]],
        params: Optional[Mapping[str, Any]] = None,
    ) -> Run:
        """Submits a workflow, or a mapping in the schema of workflow files.

        When it returns, the run is durable. A workflow too large for one request goes in parts; the
        run begins when all are there. Nothing is sent twice: if the connection breaks, the error
        says that the run may exist.
        """
        file = workflow.to_dict() if isinstance(workflow, Workflow) else dict(workflow)
        first, rest = cut(file, values_of(params))
        told = self.transport.change("POST", self.transport.at("runs", end="/"), first)
        name = str(file.get("workflow", ""))
        run = Run(self, {"id": told["id"], "name": name})
        if rest:
            self._register(run, rest)
        return run.accepted(told)

    def _register(self, run: Run, rest: Iterator[bytes]) -> None:
        """Sends the other parts, and starts the run; if that fails, the half of it goes."""
        try:
            for part in rest:
                self.transport.change("POST", self.transport.at("runs", run.id, "tasks"), part)
            self.transport.change("POST", self.transport.at("runs", run.id, "start"))
        except BaseException:
            # The first error says what is wrong; and a run that is not started ends by itself.
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
        page = _PAGE if limit is None else min(limit, _PAGE)
        query: Dict[str, Any] = {
            "state": state,
            "owner": owner,
            "name": name,
            "limit": max(page, 1),
        }
        for count, told in enumerate(self.pages(self.transport.at("runs", end="/"), query)):
            if limit is not None and count >= limit:
                return
            yield Run(self, told)

    def pages(self, path: str, query: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Everything of a list, page by page."""
        page = self.transport.get_json(path, query)
        while True:
            yield from page["items"]
            following = page["links"].get("next")
            if following is None:
                return
            page = self.transport.get_json(self.transport.link(following))

    def ask(self, run: Run, what: str, body: Mapping[str, Any], dry_run: bool = False) -> Any:
        """Asks once for a change of a run."""
        query = {"dryRun": "true"} if dry_run else None
        return self.transport.change(
            "POST", self.transport.at("runs", run.id, what), encode(body), query
        )
