"""Instances, arrays and runs for asyncio: each has the handle that blocks, and calls it in threads."""

from __future__ import annotations

import math
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Dict,
    Iterator,
    List,
    Literal,
    NamedTuple,
    Optional,
    Tuple,
    TypeVar,
    overload,
)

from .._handles.arrays import Array
from .._handles.instances import Handle, Instance, seconds_of
from .._handles.run import Run
from .._records.views import ErrorGroup, RunItem, RunTask
from .._transport.transport import may_pass
from ..errors import BatonError, WaitTimeout

if TYPE_CHECKING:
    from .client import AsyncClient

# A request of a wait takes a thread for so long.
_WAIT_SECONDS = 2

# And for so much longer, if the scheduler is away.
_RETRY_SECONDS = 2.0

_Own = TypeVar("_Own", bound="AsyncHandle")


class AsyncHandle:
    """What can be waited for: an instance, an array, a run."""

    handle: Handle

    def __init__(self, client: AsyncClient, handle: Any) -> None:
        self.client = client
        #: The handle that blocks, with the last known state.
        self.handle = handle

    def __repr__(self) -> str:
        return f"<async {repr(self.handle)[1:]}"

    def _repr_html_(self) -> str:
        return self.handle._repr_html_()

    @property
    def id(self) -> str:
        """The id."""
        return self.handle.id

    @property
    def name(self) -> str:
        """The name of the task or workflow."""
        return self.handle.name

    @property
    def state(self) -> str:
        """The last known state."""
        return self.handle.state

    @property
    def ended(self) -> bool:
        """True if it has ended."""
        return self.handle.ended

    async def refresh(self: _Own) -> _Own:
        """Fetches its state."""
        await self.client.call(self.handle.refresh)
        return self

    async def wait(self: _Own, timeout: Optional[float] = None) -> _Own:
        """Waits until it is DONE, and raises what `wait` of the handle that blocks raises."""
        seconds = seconds_of(timeout)
        now = self.client.client.transport.now
        until = now() + seconds
        while not self.ended:
            left = until - now()
            if left <= 0:
                raise WaitTimeout(self.handle, seconds)
            step = math.ceil(min(_WAIT_SECONDS, left))
            try:
                bound = now() + step + _RETRY_SECONDS
                await self.client.call(self.handle.refresh, wait=step, until=bound)
            except BatonError as error:
                if not may_pass(error):
                    raise
                if now() >= until:
                    raise WaitTimeout(self.handle, seconds, str(error)) from error
        # It has ended: this only raises.
        await self.client.call(self.handle.raise_failure)
        return self


class AsyncWaited(NamedTuple):
    """The handles that have ended, and the others, each in the given order."""

    done: List[AsyncHandle]
    not_done: List[AsyncHandle]


class AsyncInstance(AsyncHandle):
    """One execution of one task: see `Instance`."""

    handle: Instance

    @property
    def item(self) -> Optional[str]:
        """The text in `BATON_ITEM`: see `Instance.item`."""
        return self.handle.item

    @property
    def array_index(self) -> Optional[int]:
        """The index within its array, if it is an element of one."""
        return self.handle.array_index

    async def cancel(self, now: bool = False) -> bool:
        """Ends it; False if it had ended before."""
        return await self.client.call(self.handle.cancel, now)

    async def kill(self, attempt: Optional[int] = None, now: bool = False) -> int:
        """Kills the running attempt; retries follow."""
        return await self.client.call(self.handle.kill, attempt, now)

    async def retry(self) -> AsyncInstance:
        """Queues it again, if it is FAILED or HALTED."""
        await self.client.call(self.handle.retry)
        return self

    async def outputs(self) -> Dict[str, Any]:
        """The outputs of its successful attempt."""
        return await self.client.call(self.handle.outputs)

    async def explain(self) -> str:
        """What it waits for, or how it has ended."""
        return await self.client.call(self.handle.explain)

    @overload
    def logs(self, follow: Literal[True], **options: Any) -> AsyncIterator[str]: ...

    @overload
    def logs(self, follow: Literal[False] = False, **options: Any) -> Any: ...

    def logs(self, follow: bool = False, **options: Any) -> Any:
        """What it has written: `await instance.logs()`, or with `follow`
        `async for line in instance.logs(follow=True)`. See `Instance.logs`.
        """
        if not follow:
            return self.client.call(self.handle.logs, **options)
        return self.client.iterate(
            lambda client: self.handle.at(client).logs(follow=True, **options)
        )


class AsyncArray(AsyncHandle):
    """Instances that were submitted together, as a sequence: see `Array`."""

    handle: Array

    def __len__(self) -> int:
        return len(self.handle)

    def __getitem__(self, at: int) -> AsyncInstance:
        return AsyncInstance(self.client, self.handle[at])

    def __iter__(self) -> Iterator[AsyncInstance]:
        return (AsyncInstance(self.client, each) for each in self.handle)

    @property
    def counts(self) -> Dict[str, int]:
        """The last known number of elements by state."""
        return self.handle.counts

    async def cancel(self, now: bool = False) -> Tuple[int, int]:
        """Ends all that have not ended: how many waited, and how many ran."""
        return await self.client.call(self.handle.cancel, now)

    async def retry(self) -> List[AsyncInstance]:
        """Queues those again that have ended and are not DONE."""
        several = await self.client.call(self.handle.retry)
        return [AsyncInstance(self.client, each) for each in several]


class AsyncRun(AsyncHandle):
    """One run of a workflow: see `Run`."""

    handle: Run

    async def halt(self, kill: bool = False, now: bool = False) -> AsyncRun:
        """Halts it."""
        await self.client.call(self.handle.halt, kill, now)
        return self

    async def resume(self, **options: Any) -> AsyncRun:
        """Resumes it, if it is HALTED or FAILED: see `Run.resume`."""
        await self.client.call(self.handle.resume, **options)
        return self

    async def retry(self, task: Optional[str] = None, downstream: bool = False) -> AsyncRun:
        """Runs a task again: see `Run.retry`."""
        await self.client.call(self.handle.retry, task, downstream)
        return self

    async def tasks(self) -> List[RunTask]:
        """Its tasks in dependency order."""
        return await self.client.call(self.handle.tasks)

    async def errors(self) -> List[ErrorGroup]:
        """Groups of equal failures."""
        return await self.client.call(self.handle.errors)

    async def items(
        self, state: Optional[str] = None, task: Optional[str] = None
    ) -> AsyncIterator[RunItem]:
        """Items whose instance has ended or is in flight."""
        found = self.client.iterate(lambda client: self.handle.at(client).items(state, task))
        async for each in found:
            yield each

    async def outputs(self, task: Any, item: int = 0) -> Dict[str, Any]:
        """The outputs of an item."""
        return await self.client.call(self.handle.outputs, task, item)

    async def result(self, task: Any, item: int = 0) -> Any:
        """The return value of a task's function."""
        return await self.client.call(self.handle.result, task, item)

    def logs(
        self, task: Any, item: int = 0, stderr: bool = False, follow: bool = False
    ) -> Any:
        """The output of an item: `await run.logs("a")`, or with `follow` an async iterator."""
        if not follow:
            return self.client.call(self.handle.logs, task, item, stderr)
        return self.client.iterate(
            lambda client: self.handle.at(client).logs(task, item, stderr, follow=True)
        )
