"""Clients whose requests and pauses another thread can end."""

from __future__ import annotations

import threading
from typing import Any, Callable, Set, Tuple

from .._client.client import Client
from .._transport.stream import Stream
from .._transport.transport import Transport


class Interrupted(Exception):
    """The iterator was closed. Its consumer is gone, so that it does not see this."""


class InterruptibleTransport(Transport):
    """A transport that sends nothing more once it is stopped."""

    def __init__(self, of: Transport) -> None:
        # The token and the TLS files are those of the original.
        self.__dict__.update(of.__dict__)
        self._stopped = threading.Event()
        self._streams: Set[Stream] = set()
        self.sleep = self._pause

    def stop(self) -> None:
        """Ends pauses and streams now, and everything else at its next request."""
        self._stopped.set()
        for stream in list(self._streams):
            stream.close()

    def open_stream(self, *args: Any, **kwargs: Any) -> Stream:
        """Opens a response that grows."""
        stream = super().open_stream(*args, **kwargs)
        self._streams.add(stream)
        if self._stopped.is_set():
            stream.close()
        return stream

    def _request(self, *args: Any, **kwargs: Any) -> Any:
        if self._stopped.is_set():
            raise Interrupted
        return super()._request(*args, **kwargs)

    def _pause(self, seconds: float) -> None:
        if self._stopped.wait(seconds):
            raise Interrupted


def interruptible(client: Client) -> Tuple[Client, Callable[[], None]]:
    """A copy of a client, and the function that stops it."""
    copy = Client.__new__(Client)
    transport = InterruptibleTransport(client.transport)
    copy.transport = transport
    return copy, transport.stop
