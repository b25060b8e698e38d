"""Submissions of commands, tasks, arrays and workflows."""

from __future__ import annotations

import uuid
from contextlib import suppress
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterable,
    Iterator,
    Mapping,
    Optional,
    Union,
    cast,
    overload,
)

from .._handles.arrays import Array
from .._handles.instances import Instance
from .._handles.run import Run
from .._transport.transport import Transport
from .._workflows.parts import cut, values_of
from .._workflows.workflow import Workflow, file_of
from ..errors import BatonError, WorkflowError
from . import submission
from .conditions import After
from .submission import Indices, Words

if TYPE_CHECKING:
    from .client import Client


class Submitter:
    """The part of a client that submits."""

    transport: Transport

    @overload
    def submit(
        self,
        what: Workflow,
        params: Optional[Mapping[str, Any]] = None,
        *,
        idempotency_key: Optional[str] = None,
    ) -> Run: ...

    @overload
    def submit(
        self,
        what: Words,
        params: Optional[Mapping[str, Any]] = None,
        *,
        array: None = None,
        items: None = None,
        after: Optional[After] = None,
        idempotency_key: Optional[str] = None,
        name: Optional[str] = None,
        owner: Optional[str] = None,
        resources: Optional[Mapping[str, Any]] = None,
        env: Optional[Mapping[str, Any]] = None,
        timeout: Union[str, timedelta, None] = None,
        retry: Optional[Mapping[str, Any]] = None,
        **fields: Any,
    ) -> Instance: ...

    @overload
    def submit(
        self,
        what: Words,
        params: Optional[Mapping[str, Any]] = None,
        *,
        array: Indices,
        after: Optional[After] = None,
        max_concurrent: Optional[int] = None,
        max_fails: Optional[int] = None,
        idempotency_key: Optional[str] = None,
        name: Optional[str] = None,
        owner: Optional[str] = None,
        resources: Optional[Mapping[str, Any]] = None,
        env: Optional[Mapping[str, Any]] = None,
        timeout: Union[str, timedelta, None] = None,
        retry: Optional[Mapping[str, Any]] = None,
        **fields: Any,
    ) -> Array: ...

    @overload
    def submit(
        self,
        what: Words,
        params: Optional[Mapping[str, Any]] = None,
        *,
        items: Iterable[Any],
        after: Optional[After] = None,
        max_concurrent: Optional[int] = None,
        max_fails: Optional[int] = None,
        idempotency_key: Optional[str] = None,
        name: Optional[str] = None,
        owner: Optional[str] = None,
        resources: Optional[Mapping[str, Any]] = None,
        env: Optional[Mapping[str, Any]] = None,
        timeout: Union[str, timedelta, None] = None,
        retry: Optional[Mapping[str, Any]] = None,
        **fields: Any,
    ) -> Array: ...

    @overload
    def submit(
        self,
        what: Mapping[str, Any],
        params: Optional[Mapping[str, Any]] = None,
        *,
        array: Optional[Indices] = None,
        items: Optional[Iterable[Any]] = None,
        after: Optional[After] = None,
        max_concurrent: Optional[int] = None,
        max_fails: Optional[int] = None,
        idempotency_key: Optional[str] = None,
        **fields: Any,
    ) -> Any: ...

    def submit(
        self,
        what: Union[Workflow, Mapping[str, Any], Words],
        params: Optional[Mapping[str, Any]] = None,
        *,
        array: Optional[Indices] = None,
        items: Optional[Iterable[Any]] = None,
        after: Optional[After] = None,
        max_concurrent: Optional[int] = None,
        max_fails: Optional[int] = None,
        idempotency_key: Optional[str] = None,
        name: Optional[str] = None,
        **fields: Any,
    ) -> Any:
        """Submits a command, a task or a workflow, and returns when it is durable.

        A command is a string for a shell, or a list of words; with a mapping in the schema of task
        files it returns an `Instance`. `array` makes an `Array` of it: a number of elements, a
        range or a list of indices, or text such as `1-100` or `0-9:2,20`. `items` makes an `Array`
        with one element for each: the item is in `BATON_ITEM`, texts as they are and other values
        as JSON, and `{{ item }}` in the command stands for it. At most `max_concurrent` elements run
        at the same time (also `array="1-1000%20"`); when `max_fails` have failed, the others are
        cancelled. `after` is what must have ended before: a handle or an id, several of them, or a
        mapping from them to `ok` (DONE, the default), `fail` or `any`. A `Workflow`, or a mapping in the schema of
        workflow files, returns a `Run`. `params` are values of parameters; `name` and the other
        fields are those of task files.

        While the scheduler restarts or is busy, the request is retried with the same
        `Idempotency-Key`, so that it is carried out once at most. With a key of your own, also a
        repeated call returns what the first one has made. If no response comes in time, the error
        reports that it may have happened.
        """
        key = idempotency_key or uuid.uuid4().hex
        if isinstance(what, Workflow) or submission.is_workflow(what):
            conditions = {
                "after": after,
                "max_concurrent": max_concurrent,
                "max_fails": max_fails,
            }
            given = {"array": array, "items": items, "name": name, **conditions, **fields}
            for field in (field for field, value in given.items() if value is not None):
                raise WorkflowError(
                    f"{field}= does not apply to a workflow", "set the field in the workflow"
                )
            return self._submit_run(file_of(what), params, key)  # type: ignore[arg-type]
        if params and not isinstance(what, Mapping):
            # A command declares no parameters of its own.
            fields.setdefault("params", dict.fromkeys(params))
        file = submission.task_file(what, {"task": name, **fields})
        sent = submission.body(
            file, values_of(params), array, items, after, max_concurrent, max_fails
        )
        path = self.transport.at("instances", end="/")
        data = self.transport.change("POST", path, sent, key=key)
        with self.transport.decoding(path):
            first, last = int(data["first"].lstrip("i")), int(data["last"].lstrip("i"))
        called = str(file.get("task", ""))
        if array is not None or items is not None:
            return Array(self._client(), first, last, called)
        return Instance(self._client(), {"id": f"i{first}", "name": called, "state": "QUEUED"})

    def _submit_run(
        self, file: Dict[str, Any], params: Optional[Mapping[str, Any]], key: str
    ) -> Run:
        """Submits a workflow. One too large for a request is sent in parts, and starts with the
        last.
        """
        first, rest = cut(file, values_of(params))
        path = self.transport.at("runs", end="/")
        data = self.transport.change("POST", path, first, key=key)
        with self.transport.decoding(path):
            run = Run(self._client(), {"id": data["id"], "name": str(file.get("workflow", ""))})
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

    def _client(self) -> Client:
        return cast("Client", self)
