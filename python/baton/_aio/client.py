"""The client for asyncio: the same requests, each in a thread of a small pool.

Waiting holds no thread for long: a handle alone is asked again every few seconds, and several share
one stream of events. An iterator whose task is cancelled stops within its next request.
"""

from __future__ import annotations

import asyncio
import functools
import os
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import (
    Any,
    AsyncIterator,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Literal,
    Mapping,
    Optional,
    Tuple,
    Type,
    TypeVar,
    Union,
    overload,
)

from .._client.client import Client
from .._client.submission import Indices, Words
from .._handles.arrays import Array
from .._handles.instances import Handle, Instance
from .._handles.run import Run
from .._handles.waiting import as_completed
from .._records.events import Event
from .._transport.settings import Cert
from .._workflows.workflow import Workflow
from ..errors import BatonError, Problem, WaitTimeout
from .handles import AsyncArray, AsyncHandle, AsyncInstance, AsyncRun, AsyncWaited
from .interrupt import interruptible

_T = TypeVar("_T")

# Requests at once.
_THREADS = 32

_END: Any = object()


class AsyncClient:
    """A client of one scheduler for asyncio. The arguments are those of `Client`.

    `async with AsyncClient() as client:` ends its threads in the end. Of what is not here, `client` is
    the client that blocks: `await client.call(client.client.library.trigger, "demo/sales")`.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        ca: Union[str, os.PathLike[str], None] = None,
        cert: Optional[Cert] = None,
    ) -> None:
        self.client = Client(url, token, ca, cert)
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="baton-async")

    @property
    def url(self) -> str:
        """The URL of the scheduler."""
        return self.client.url

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends its threads. Requests in flight are not waited for."""
        self._pool.shutdown(wait=False)

    async def call(self, function: Callable[..., _T], *args: Any, **kwargs: Any) -> _T:
        """Calls a function that blocks in a thread, and returns its result."""
        called = functools.partial(function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._pool, called)

    @overload
    async def submit(
        self, what: Workflow, params: Optional[Mapping[str, Any]] = None, **options: Any
    ) -> AsyncRun: ...

    @overload
    async def submit(
        self,
        what: Words,
        params: Optional[Mapping[str, Any]] = None,
        *,
        array: None = None,
        items: None = None,
        **options: Any,
    ) -> AsyncInstance: ...

    @overload
    async def submit(
        self,
        what: Words,
        params: Optional[Mapping[str, Any]] = None,
        *,
        array: Indices,
        **options: Any,
    ) -> AsyncArray: ...

    @overload
    async def submit(
        self,
        what: Words,
        params: Optional[Mapping[str, Any]] = None,
        *,
        items: Iterable[Any],
        **options: Any,
    ) -> AsyncArray: ...

    @overload
    async def submit(
        self, what: Mapping[str, Any], params: Optional[Mapping[str, Any]] = None, **options: Any
    ) -> Any: ...

    async def submit(
        self, what: Any, params: Optional[Mapping[str, Any]] = None, **options: Any
    ) -> Any:
        """Submits a command, a task or a workflow: see `Client.submit`."""
        return self.wrap(await self.call(self.client.submit, what, params, **options))

    async def cancel_all(
        self, *which: Union[AsyncHandle, str], now: bool = False
    ) -> Tuple[int, int]:
        """Ends instances: see `Client.cancel_all`."""
        return await self.call(self.client.cancel_all, *_ids(which), now=now)

    async def kill_all(
        self, *which: Union[AsyncHandle, str], now: bool = False
    ) -> Tuple[int, int]:
        """Kills the attempts that run: see `Client.kill_all`."""
        return await self.call(self.client.kill_all, *_ids(which), now=now)

    async def retry_all(
        self, *which: Union[AsyncHandle, str], state: str = "FAILED"
    ) -> Tuple[int, int]:
        """Queues those again that are FAILED, or HALTED: see `Client.retry_all`."""
        return await self.call(self.client.retry_all, *_ids(which), state=state)

    async def instance(self, id: str) -> Any:
        """The instance or the array of this id: see `Client.instance`."""
        return self.wrap(await self.call(self.client.instance, id))

    async def run(self, id: str) -> AsyncRun:
        """The run of this id, such as `r12`."""
        return AsyncRun(self, await self.call(self.client.run, id))

    async def trigger(
        self,
        name: str,
        params: Optional[Mapping[str, Any]] = None,
        *,
        idempotency_key: Optional[str] = None,
    ) -> Any:
        """Launches an entry of the library: see `Library.trigger`."""
        trigger = self.client.library.trigger
        return self.wrap(await self.call(trigger, name, params, idempotency_key=idempotency_key))

    async def instances(self, **filters: Any) -> AsyncIterator[AsyncInstance]:
        """Instances with their state: see `Client.instances`."""
        async for each in self.iterate(lambda client: client.instances(**filters)):
            yield AsyncInstance(self, Instance(self.client, each.info))

    async def runs(self, **filters: Any) -> AsyncIterator[AsyncRun]:
        """Runs, the newest first: see `Client.runs`."""
        async for each in self.iterate(lambda client: client.runs(**filters)):
            yield AsyncRun(self, Run(self.client, each.info))

    async def events(
        self, after: Optional[int] = None, **filters: Any
    ) -> AsyncIterator[Event]:
        """Events as they become durable: see `Client.events`."""
        filters = {name: getattr(value, "id", value) for name, value in filters.items()}
        async for event in self.iterate(lambda client: iter(client.events(after, **filters))):
            yield event

    @overload
    def logs(
        self, target: Union[AsyncInstance, str], follow: Literal[True], **options: Any
    ) -> AsyncIterator[str]: ...

    @overload
    def logs(
        self, target: Union[AsyncInstance, str], follow: Literal[False] = False, **options: Any
    ) -> Any: ...

    def logs(
        self, target: Union[AsyncInstance, str], follow: bool = False, **options: Any
    ) -> Any:
        """What an instance has written: `await client.logs("i12")`, or with `follow`
        `async for line in client.logs("i12", follow=True)`. See `Instance.logs`.
        """
        if isinstance(target, str):
            target = AsyncInstance(self, Instance(self.client, {"id": target}))
        return target.logs(follow=True, **options) if follow else target.logs(**options)

    async def wait(
        self, handles: Iterable[AsyncHandle], timeout: Optional[float] = None, any: bool = False
    ) -> AsyncWaited:
        """Waits until all have ended, or with `any` the first one: `(done, not_done)`."""
        several = _listed(handles)
        try:
            async for _ in self.as_completed(several, timeout):
                if any:
                    break
        except WaitTimeout:
            pass
        done = [each for each in several if each.ended]
        return AsyncWaited(done, [each for each in several if not each.ended])

    async def as_completed(
        self, handles: Iterable[AsyncHandle], timeout: Optional[float] = None
    ) -> AsyncIterator[Any]:
        """Yields each handle when it has ended, the first one first."""
        several = _listed(handles)
        copies: Dict[int, AsyncHandle] = {}

        def start(client: Client) -> Iterator[Handle]:
            bound = [each.handle.at(client) for each in several]
            copies.update((id(copy), each) for copy, each in zip(bound, several))
            return as_completed(bound, timeout)

        async for copy in self.iterate(start):
            found = copies[id(copy)]
            found.handle.info = copy.info
            yield found

    async def iterate(
        self, start: Callable[[Client], Iterator[_T]]
    ) -> AsyncIterator[_T]:
        """The values of an iterator that blocks, whose requests end when this one is closed."""
        client, stop = interruptible(self.client)
        try:
            values = await self.call(start, client)
            while True:
                value = await self.call(next, values, _END)
                if value is _END:
                    return
                yield value
        finally:
            stop()

    def wrap(self, handle: Any) -> Any:
        """The handle for asyncio of one that blocks."""
        kinds = {Run: AsyncRun, Array: AsyncArray, Instance: AsyncInstance}
        return kinds[type(handle)](self, handle)


def _ids(which: Iterable[Union[AsyncHandle, str]]) -> List[str]:
    return [each if isinstance(each, str) else each.id for each in which]


def _listed(handles: Iterable[AsyncHandle]) -> List[AsyncHandle]:
    if isinstance(handles, AsyncArray):
        return list(handles)
    several: List[Any] = [handles] if isinstance(handles, AsyncHandle) else list(handles)
    for each in several:
        if not isinstance(each, AsyncHandle):
            hint = "pass what an AsyncClient has returned"
            raise BatonError(Problem(f"{each!r} cannot be waited for", hint))
    return several
