"""Futures of calls on workers, and the one thread that completes them.

A batch is a run with one task; each of its items is a call, or a chunk of calls. The watcher reads the
events of the scheduler on one connection for all batches: the event of an end has the result. It
holds the lock while it takes an event, and a submission holds it from its request to its registration,
so that no event of a batch is taken before the batch is known.
"""

from __future__ import annotations

import json
import math
import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from .._client.client import Client
from .._functions.boxes import RESULT
from .._handles.instances import Instance
from .._handles.run import Run
from .._records.events import LOST, Event, EventStream
from .._records.spans import spans
from ..errors import BatonError, Problem, RunConflict

#: Something to do without the lock.
_Action = Callable[[], None]


class CallFuture(Future):  # type: ignore[type-arg]
    """The result of a call on a worker.

    The call is durable: it continues without this program, and `run` has its result later.
    """

    def __init__(self, batch: Batch, item: int) -> None:
        super().__init__()
        self._batch = batch
        self._item = item
        self._cancel_notified = False

    @property
    def run(self) -> Run:
        """The run that has the call."""
        return self._batch.run

    @property
    def instance(self) -> Optional[Instance]:
        """The instance of the call, if it has one yet."""
        number = self._batch.instances.get(self._item)
        return None if number is None else Instance(self.run.client, {"id": f"i{number}"})

    def running(self) -> bool:
        """True if a worker has it now."""
        return not self.done() and self._item in self._batch.running

    def cancel(self) -> bool:
        """Cancels the call, also if it runs: it is killed. False if it has ended.

        A call of a chunk is killed when all calls of the chunk are cancelled.
        """
        if self.done():
            return self.cancelled()
        if all(each is self or each.cancelled() for each in self._batch.parts[self._item]):
            self._batch.cancel([self._item])
        return self.settle_cancelled()

    def settle_cancelled(self) -> bool:
        """Marks it as cancelled; False if it has ended."""
        if not super().cancel():
            return False
        with self._batch.lock:
            is_first, self._cancel_notified = not self._cancel_notified, True
        # Without this, those who wait for several futures would not learn of it; a second time
        # would be logged as an error.
        if is_first:
            self.set_running_or_notify_cancel()
        return True


class Batch:
    """The calls of one run."""

    def __init__(
        self, lock: Any, run: Run, task: str, counts: Sequence[int], chunked: bool
    ) -> None:
        self.lock = lock
        self.run = run
        self.task = task
        self.chunked = chunked
        #: The futures of each item.
        self.parts = [[CallFuture(self, item) for _ in range(n)] for item, n in enumerate(counts)]
        #: Items without an end.
        self.open: Set[int] = set(range(len(self.parts)))
        self.running: Set[int] = set()
        #: The instance of each item that has one.
        self.instances: Dict[int, int] = {}
        #: Items that are cancelled as soon as they have an instance.
        self.doomed: Set[int] = set()
        #: Items whose end, if it is no success, is that they were cancelled.
        self.leaving: Set[int] = set()

    @property
    def futures(self) -> List[CallFuture]:
        """All futures in order."""
        return [future for part in self.parts for future in part]

    def cancel(self, items: List[int]) -> None:
        """Cancels items on the scheduler; those without an instance, when they have one.

        If no other item waits for an instance, no more are made, also without this program.
        """
        with self.lock:
            known = {self.instances[item] for item in items if item in self.instances}
            waiting = {item for item in self.open if item not in self.instances}
            self.doomed.update(waiting.intersection(items))
            is_over = bool(waiting) and waiting <= self.doomed
            self.leaving.update(items)
        try:
            if is_over:
                # It may have ended meanwhile.
                with suppress(RunConflict):
                    self.run.halt()
            for first, last in spans(sorted(known)):
                self.run.client.cancel(f"i{first}" if first == last else f"i{first}..i{last}")
        except BatonError:
            self.leaving.difference_update(items)
            raise

    def close(self, item: int) -> Optional[List[CallFuture]]:
        """Ends an item: its futures, if it was open."""
        if item not in self.open:
            return None
        self.open.discard(item)
        self.running.discard(item)
        return self.parts[item]

    def result(self, item: int, outputs: Optional[str]) -> _Action:
        """Delivers the outputs of an item."""
        futures = self.close(item) or []

        def deliver() -> None:
            put = json.loads(outputs or "{}")
            if RESULT not in put:
                title = f"{self.run.id}, item {item}, has no result"
                reason = "its process ended before its function returned, or its outputs were replaced"
                error = BatonError(Problem(title, reason))
                _set_errors(futures, error)
                return
            several = put[RESULT] if self.chunked else [put[RESULT]]
            for future, value in zip(futures, several):
                with suppress(InvalidStateError):
                    future.set_result(value)

        return deliver

    def failure(self, item: int, reason: Callable[[], BaseException]) -> _Action:
        """Delivers the failure of an item."""
        futures = self.close(item) or []

        def deliver() -> None:
            if item in self.leaving:
                for future in futures:
                    future.settle_cancelled()
            elif any(not future.done() for future in futures):
                _set_errors(futures, reason())

        return deliver


def _set_errors(futures: Sequence[CallFuture], error: BaseException) -> None:
    for future in futures:
        with suppress(InvalidStateError):
            future.set_exception(error)


class Watcher:
    """Completes the futures of all batches, in one thread that lives while any is open."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.lock = threading.RLock()
        self._batches: Dict[int, Batch] = {}
        #: The item of each instance.
        self._items: Dict[int, Tuple[Batch, int]] = {}
        self._thread: Optional[threading.Thread] = None

    def start(self, submit: Callable[[], Batch]) -> Batch:
        """Submits a batch, and watches it."""
        with self.lock:
            position = None
            if self._thread is None:
                position = EventStream(self._client.transport, {}).locate()
            batch = submit()
            self._batches[batch.run.number] = batch
            if position is not None:
                query = {"owner": batch.run.owner or None}
                events = EventStream(self._client.transport, query, position)
                self._thread = threading.Thread(
                    target=self._watch, args=(events,), name="baton-executor", daemon=True
                )
                self._thread.start()
            return batch

    def open_futures(self) -> List[CallFuture]:
        """The futures that have no end."""
        with self.lock:
            several = [future for batch in self._batches.values() for future in batch.futures]
        return [future for future in several if not future.done()]

    def cancel_waiting(self) -> None:
        """Cancels all calls that no worker has."""
        with self.lock:
            waiting = [(each, sorted(each.open - each.running)) for each in self._batches.values()]
        for batch, items in waiting:
            batch.cancel(items)
            for future in (future for item in items for future in batch.parts[item]):
                future.settle_cancelled()

    def _watch(self, events: EventStream) -> None:
        try:
            with events:
                while self._step(events):
                    pass
        except BaseException as error:
            # Without this thread no future would ever end.
            with self.lock:
                self._thread = None
                batches, self._batches = list(self._batches.values()), {}
            for batch in batches:
                _set_errors(batch.futures, error)

    def _step(self, events: EventStream) -> bool:
        event = events.read()
        if event is None:
            return False
        with self.lock:
            actions = list(self._take(event))
        for action in actions:
            action()
        with self.lock:
            for number in [number for number, each in self._batches.items() if not each.open]:
                for instance in self._batches.pop(number).instances.values():
                    self._items.pop(instance, None)
            if self._batches:
                return True
            # The next submission starts a thread of its own.
            self._thread = None
            return False

    def _take(self, event: Event) -> Iterator[_Action]:
        """What follows from an event."""
        with self._client.transport.decoding("/events"):
            if event.kind == "instances-submitted":
                yield from self._submitted(event.fact)
            elif event.kind == "attempt-confirmed" or event.kind == "attempt-ended":
                yield from self._attempt(event)
            elif event.kind == "instances-halted":
                first, last = int(event.fact["first"]), int(event.fact["last"])
                for number in [each for each in self._items if first <= each <= last]:
                    yield self._failed(number)
            elif event.kind == "run-ended" and int(event.fact["run"]) in self._batches:
                yield from self._settle(self._batches[int(event.fact["run"])])
            elif event.kind == LOST:
                for batch in list(self._batches.values()):
                    yield from self._settle(batch)

    def _submitted(self, fact: Dict[str, Any]) -> Iterator[_Action]:
        part = fact["spec"].get("part") or {}
        batch = self._batches.get(int(part.get("run", -1)))
        if batch is not None:
            yield from self._learn(batch, int(part["item"]), int(fact["first"]))

    def _learn(self, batch: Batch, item: int, number: int) -> Iterator[_Action]:
        batch.instances[item] = number
        self._items[number] = (batch, item)
        if item in batch.doomed:
            batch.doomed.discard(item)
            yield lambda: _ignored(lambda: batch.cancel([item]))

    def _attempt(self, event: Event) -> Iterator[_Action]:
        number = int(event.fact["lease"]["attempt"]["instance"])
        if number not in self._items:
            return
        batch, item = self._items[number]
        if event.kind == "attempt-confirmed":
            batch.running.add(item)
            return
        batch.running.discard(item)
        if event.fact["verdict"] == "done":
            yield batch.result(item, event.fact.get("outputs"))
        elif event.ended is not None:
            yield self._failed(number)

    def _failed(self, number: int) -> _Action:
        batch, item = self._items[number]
        instance = Instance(self._client, {"id": f"i{number}"})

        def reason() -> BaseException:
            try:
                return instance.refresh(until=math.inf).failure()
            except BatonError as error:
                return error

        return batch.failure(item, reason)

    def _settle(self, batch: Batch) -> Iterator[_Action]:
        """Looks at every item that is open: some events are missing, or the run has ended."""
        if not batch.open:
            return
        try:
            ended = batch.run.refresh(until=math.inf).ended
            for each in list(batch.run.items(task=batch.task)):
                number = int(each.instance.lstrip("i"))
                yield from self._learn(batch, each.item, number)
                if each.state == "DONE":
                    put = None if each.outputs is None else json.dumps(each.outputs)
                    yield batch.result(each.item, put)
                elif each.state in ("FAILED", "HALTED", "ABORTED"):
                    yield self._failed(number)
        except BatonError as error:
            gone: BaseException = error
        else:
            if not ended:
                return
            reason = "; ".join(problem.text for problem in batch.run.problems[:1])
            title = f"the call was not started: run {batch.run.id} is {batch.run.state}"
            gone = BatonError(Problem(title, reason))
        for item in sorted(batch.open):
            yield batch.failure(item, lambda: gone)


def _ignored(action: _Action) -> None:
    # The future is cancelled already: the call only costs a worker some time.
    with suppress(BatonError):
        action()
