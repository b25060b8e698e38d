"""Python functions on workers, as `concurrent.futures` calls them.

Each call is a task of its own: durable, in a fresh interpreter, placed by its resources. `functions`
has the rules for functions, arguments and results; `futures` waits for them.
"""

from __future__ import annotations

import os
import time
from concurrent import futures
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from .._client.client import Client
from .._functions.commands import Call, Item, Texts
from .._functions.functions import TaskFunction
from .._handles.progress import Group, Progress
from .._records.views import ItemCounts
from .._workflows.workflow import Workflow
from ..errors import WorkflowError
from .futures import Batch, CallFuture, Watcher


# From one display of the progress to the next.
_SHOW_SECONDS = 0.5


class Executor(futures.Executor):
    """Calls functions on the workers of a scheduler.

    `name` and `owner` are those of its runs. `max_concurrent` limits the calls of one `map` that run at
    once. `python` and `pythonpath` are those of `Workflow`. The other fields are those of a task:
    `resources`, `env`, `retry`, `timeout`, `priority` and so on.

    A call is durable when `submit` returns, and continues without this program. An exception of the
    function is an `InstanceFailed` whose cause is the remote traceback.
    """

    def __init__(
        self,
        client: Optional[Client] = None,
        *,
        name: str = "executor",
        owner: Optional[str] = None,
        max_concurrent: Optional[int] = None,
        python: Union[str, os.PathLike[str], None] = None,
        pythonpath: Optional[Sequence[Union[str, os.PathLike[str]]]] = None,
        **fields: Any,
    ) -> None:
        self.client = client or Client()
        self._name = name
        self._owner = owner
        self._max_concurrent = max_concurrent
        self._python, self._pythonpath = python, pythonpath
        self._fields = fields
        self._watcher = Watcher(self.client)
        self._is_shut = False

    def __repr__(self) -> str:
        return f"<executor {self._name} at {self.client.url}>"

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> CallFuture:
        """Calls `fn(*args, **kwargs)` on a worker. When it returns, the call is durable."""
        function = self._function(fn)
        call = Call(function.function, args, kwargs)
        return self._start(function, call, {}, [1], False).futures[0]

    def submit_all(
        self, fn: Callable[..., Any], /, *iterables: Iterable[Any], chunksize: int = 1
    ) -> List[CallFuture]:
        """Calls `fn` for each element of an iterable, or for those of several side by side, as one
        array: a future for each.

        `chunksize` is the number of calls in one process.
        """
        function = self._function(fn)
        for each in iterables:
            if not isinstance(each, Iterable):
                raise WorkflowError(f"{each!r} cannot be mapped over", "pass lists or ranges")
        calls = list(zip(*iterables))
        if not calls:
            return []
        item, how = _items(calls, chunksize)
        if how is None:
            call = Call(function.function, (item,), {})
        else:
            # The signature is that of one call, and the command has one word.
            call = Call(function.function, calls[0], {}).with_item(item, how)
        counts = [min(chunksize, len(calls) - at) for at in range(0, len(calls), chunksize)]
        more = {"for_each": item.for_each}
        return self._start(function, call, more, counts, how == "chunk").futures

    def map(
        self,
        fn: Callable[..., Any],
        *iterables: Iterable[Any],
        timeout: Optional[float] = None,
        chunksize: int = 1,
        progress: bool = False,
        **unknown: Any,
    ) -> Iterator[Any]:
        """The results of `fn` for each element, in order, as one array.

        Raises the exception of a call in its place, and TimeoutError if a result is not there
        `timeout` seconds after the call of `map`; both cancel what has not ended. `progress` shows
        how many have ended, on a terminal or in a notebook, while it waits for a result.
        """
        if unknown:
            raise TypeError(f"map() has no argument {next(iter(unknown))!r}")
        end = None if timeout is None else time.monotonic() + timeout
        several = self.submit_all(fn, *iterables, chunksize=chunksize)
        return _results(several, end, progress)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accepts no more calls, and waits until all have ended.

        With `cancel_futures`, those that no worker has are cancelled. Without `wait` the calls
        continue, and their futures still get their results while this program runs.
        """
        self._is_shut = True
        if cancel_futures:
            self._watcher.cancel_waiting()
        if wait:
            futures.wait(self._watcher.open_futures())

    def _function(self, fn: Callable[..., Any]) -> TaskFunction[Any]:
        if self._is_shut:
            raise RuntimeError("cannot schedule new futures after shutdown")
        if isinstance(fn, TaskFunction):
            return fn.options(**{**self._fields, **fn.fields})
        return TaskFunction(fn, self._fields)

    def _start(
        self,
        function: TaskFunction[Any],
        call: Call,
        more: Dict[str, Any],
        counts: Sequence[int],
        chunked: bool,
    ) -> Batch:
        workflow = Workflow(
            self._name,
            owner=self._owner,
            max_concurrent=self._max_concurrent,
            python=self._python,
            pythonpath=self._pythonpath,
        )
        call.more["need"] = True
        task = function.add_to(workflow, call, more)
        lock = self._watcher.lock
        return self._watcher.start(
            lambda: Batch(lock, workflow.run(self.client), task.name, counts, chunked)
        )


def _items(calls: List[Tuple[Any, ...]], chunksize: int) -> Tuple[Item, Optional[str]]:
    """The items of a map, and how their arguments are spread."""
    if not isinstance(chunksize, int) or chunksize < 1:
        raise WorkflowError(f"chunksize={chunksize!r}", "pass a number from 1")
    if chunksize > 1:
        chunks = (calls[at : at + chunksize] for at in range(0, len(calls), chunksize))
        return Texts(chunks), "chunk"
    if len(calls[0]) > 1:
        return Texts(calls), "star"
    return Texts(each[0] for each in calls), None


def _results(several: List[CallFuture], end: Optional[float], progress: bool) -> Iterator[Any]:
    try:
        with Progress.suitable(progress) as shown:
            for future in several:
                while shown.is_seen and not future.done() and (end is None or _left(end) > 0):
                    shown.show(_group(several))
                    left = _SHOW_SECONDS if end is None else min(_left(end), _SHOW_SECONDS)
                    futures.wait([future], timeout=left)
                yield future.result(None if end is None else _left(end))
            if several:
                shown.show(_group(several))
    finally:
        for future in several:
            future.cancel()


def _left(end: float) -> float:
    return end - time.monotonic()


def _group(several: List[CallFuture]) -> Group:
    words: Dict[str, int] = {}
    for future in several:
        word = "queued"
        if future.cancelled():
            word = "halted"
        elif future.done():
            word = "failed" if future.exception() else "done"
        elif future.running():
            word = "running"
        words[word] = words.get(word, 0) + 1
    return Group(f"map {several[0].run.id}", ItemCounts(**words))
