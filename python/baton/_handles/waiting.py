"""Waiting for several handles at once: instances, arrays and runs.

All of them are waited for one after the other, since the last one decides. The first of several is
found by the events of the scheduler: one stream, however many handles there are.
"""

from __future__ import annotations

from collections import Counter
from typing import Dict, Iterable, Iterator, List, NamedTuple, Optional, Set

from .._records.events import LOST, Event, EventStream
from .._records.spans import spans
from .._records.views import ItemCounts
from ..errors import BatonError, Problem, WaitTimeout
from .arrays import Array
from .instances import Handle, Instance, seconds_of
from .progress import Group, Progress
from .run import Run


class Waited(NamedTuple):
    """The handles that have ended, and the others, each in the given order."""

    done: List[Handle]
    not_done: List[Handle]


def wait(
    handles: Iterable[Handle],
    timeout: Optional[float] = None,
    any: bool = False,
    progress: bool = False,
) -> Waited:
    """Waits until all handles have ended, or with `any` the first one; or for `timeout` seconds.

    Handles are instances, arrays and runs; an array alone stands for its elements. A failure is an end like any other: look at `state`, or
    call the handle's own `wait()`, which raises it. `progress` shows the number that have ended, on a
    terminal or in a notebook.
    """
    several = _listed(handles)
    with Progress.suitable(progress) as shown:
        if any or shown.is_seen:
            try:
                shown.show(_group(several))
                for _ in as_completed(several, timeout):
                    shown.show(_group(several))
                    if any:
                        break
            except WaitTimeout:
                pass
        else:
            _wait_all(several, timeout)
    return Waited([each for each in several if each.ended], [x for x in several if not x.ended])


def as_completed(handles: Iterable[Handle], timeout: Optional[float] = None) -> Iterator[Handle]:
    """Yields each handle when it has ended, the first one first; an array alone stands for its
    elements.

    Raises `WaitTimeout` about one of the others after `timeout` seconds.
    """
    several = _listed(handles)
    if not several:
        return
    transport = several[0].client.transport
    seconds = seconds_of(timeout)
    until = transport.now() + seconds
    with EventStream(transport, {}) as events:
        # What ends after this number is an event; what had ended before is seen by `refresh`.
        events.locate()
        waiting = _Waiting(several)
        yield from waiting.refreshed()
        while waiting.handles:
            event = events.read(until)
            if event is None:
                raise WaitTimeout(next(iter(waiting.handles.values())), seconds)
            yield from waiting.refreshed() if event.kind == LOST else waiting.take(event)


def _group(handles: List[Handle]) -> Group:
    states = Counter(each.state if each.ended else "" for each in handles)
    done, waiting = states.pop("DONE", 0), states.pop("", 0)
    halted = states.pop("HALTED", 0)
    failed = sum(states.values())
    counts = ItemCounts(waiting=waiting, done=done, halted=halted, failed=failed)
    return Group(f"{len(handles)} handles", counts)


def _wait_all(handles: List[Handle], timeout: Optional[float]) -> None:
    seconds = seconds_of(timeout)
    for each in handles:
        transport = each.client.transport
        until = transport.now() + seconds
        try:
            if not each.ended:
                each.wait_end(max(seconds, 0.0))
        except WaitTimeout:
            # One look at each of the others tells which have ended.
            seconds = 0.0
            continue
        seconds = max(until - transport.now(), 0.0)


class _Waiting:
    """The handles that have not ended, by their place in the list."""

    def __init__(self, handles: List[Handle]) -> None:
        self.handles: Dict[int, Handle] = dict(enumerate(handles))
        self._instances: Dict[int, List[int]] = {}
        self._runs: Dict[int, List[int]] = {}
        self._arrays: Dict[int, Array] = {}
        #: Elements of an array that have not ended, as far as is known.
        self._open: Dict[int, int] = {}
        for at, each in self.handles.items():
            if isinstance(each, Instance):
                self._instances.setdefault(each.number, []).append(at)
            elif isinstance(each, Run):
                self._runs.setdefault(each.number, []).append(at)
            elif isinstance(each, Array):
                self._arrays[at] = each

    def refreshed(self) -> Iterator[Handle]:
        """Yields those that have ended by now."""
        numbers = sorted(number for number, places in self._instances.items() if places)
        for first, last in spans(numbers):
            for number in self._ended_in(first, last):
                yield from self._look(self._instances[number])
        others = [at for at, each in self.handles.items() if not isinstance(each, Instance)]
        yield from self._look(others)

    def _ended_in(self, first: int, last: int) -> Iterator[int]:
        """The numbers of ended instances of a span; many that have not ended cost one request."""
        if first < last:
            client = next(iter(self.handles.values())).client
            if Array(client, first, last).refresh().open_count == last - first + 1:
                return
            middle = (first + last) // 2
            yield from self._ended_in(first, middle)
            yield from self._ended_in(middle + 1, last)
            return
        yield first

    def take(self, event: Event) -> Iterator[Handle]:
        """Yields those that have ended with an event."""
        places: Set[int] = set()
        if event.ended_run is not None:
            places.update(self._runs.get(event.ended_run, ()))
        if event.ended is not None:
            first, last = event.ended
            if first == last:
                places.update(self._instances.get(first, ()))
            else:
                numbers = (each for each in self._instances if first <= each <= last)
                places.update(at for each in numbers for at in self._instances[each])
            places.update(self._arrays_ended(first, last))
        return self._look(sorted(places))

    def _arrays_ended(self, first: int, last: int) -> Iterator[int]:
        """Arrays of which no element may be open any more."""
        for at, array in self._arrays.items():
            common = min(last, array.last) - max(first, array.first) + 1
            if at in self.handles and common > 0:
                # An element that is retried ends more than once: the count is only a hint.
                self._open[at] = self._open.get(at, 0) - common
                if self._open[at] <= 0:
                    yield at

    def _look(self, places: List[int]) -> Iterator[Handle]:
        for at in places:
            handle = self.handles.get(at)
            if handle is None:
                continue
            handle.refresh()
            if isinstance(handle, Array):
                self._open[at] = handle.open_count
            if handle.ended:
                del self.handles[at]
                yield handle


def _listed(handles: Iterable[Handle]) -> List[Handle]:
    single = isinstance(handles, Handle) and not isinstance(handles, Array)
    several: List[Handle] = [handles] if single else list(handles)  # type: ignore[list-item]
    for each in several:
        if not isinstance(each, Handle):
            raise BatonError(
                Problem(f"{each!r} cannot be waited for", "pass instances, arrays and runs")
            )
        if each.client.url != several[0].client.url:
            raise BatonError(
                Problem("the handles belong to two schedulers", "wait for those of one at a time")
            )
    return several
