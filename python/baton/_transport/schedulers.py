"""Connections to one scheduler, or to one of several that share a store.

One of several may be frozen: its host accepts connections, and nothing answers. So a scheduler is
probed before a request, unless it has answered the one before; and while it leaves a request that
may be repeated without a response, it is probed until it has responded, or leaves a probe without a
response as well. A slow scheduler is waited for.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
from contextlib import contextmanager, suppress
from typing import Any, Dict, Iterator, List, Optional, Tuple
from urllib.parse import SplitResult

from ..errors import ConnectionFailed
from . import settings

# For one of several to respond at all, before another one is asked.
_PROBE_SECONDS = 2.0

# For a response before its scheduler is probed, and between such probes; and for such a probe: on a
# starved host, a living scheduler may need some of it.
_WATCH_SECONDS = 1.0
_WATCH_PROBE_SECONDS = 3.0


class Schedulers:
    """The schedulers that a client may ask. Threads may share them."""

    def __init__(
        self, url: str, servers: List[SplitResult], files: Optional[settings.TlsFiles]
    ) -> None:
        self.url = url
        self._servers = servers
        self._files = files
        self._tls = settings.tls(files) if files is not None else None
        self._current = 0
        #: The one that has answered the last request.
        self._answering: Optional[int] = None

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_tls": None}

    @property
    def several(self) -> bool:
        """Whether there is another one to ask."""
        return len(self._servers) > 1

    def answered(self, server: int) -> None:
        """Takes note that this one responds to requests."""
        self._answering = server

    def advance(self, failed: int) -> None:
        """Asks the scheduler after `failed` from now on, unless another thread has advanced already."""
        self._answering = None
        if self._current == failed:
            self._current = (failed + 1) % len(self._servers)

    def connect(self, seconds: float) -> Tuple[int, http.client.HTTPConnection]:
        """Connects to the first scheduler that can be reached. No request is sent before that."""
        for _ in self._servers[1:]:
            server = self._current
            try:
                return server, self._connect_probed(server, seconds)
            except ConnectionFailed as error:
                if not error.may_pass:
                    raise
            self.advance(server)
        server = self._current
        return server, self._connect_probed(server, seconds)

    @contextmanager
    def watched(self, server: int, connection: http.client.HTTPConnection) -> Iterator[None]:
        """Ends the wait for a response if its scheduler responds to nothing: with a `TimeoutError`."""
        sock = connection.sock
        lock = threading.Lock()
        done = threading.Event()
        frozen = threading.Event()

        def watch() -> None:
            while not done.wait(_WATCH_SECONDS):
                try:
                    self._probe(server, _WATCH_PROBE_SECONDS)
                except ConnectionFailed:
                    with lock, suppress(OSError):
                        if not done.is_set():
                            frozen.set()
                            # Of the socket below TLS, whose state belongs to the waiting thread.
                            socket.socket.shutdown(sock, socket.SHUT_RDWR)
                    return

        try:
            threading.Thread(target=watch, name="baton-watch", daemon=True).start()
        except RuntimeError:
            # The interpreter ends: the response has all its time.
            pass
        try:
            yield
        except (OSError, http.client.HTTPException) as error:
            if frozen.is_set():
                raise TimeoutError from error
            raise
        finally:
            with lock:
                done.set()

    def _connect_probed(self, server: int, seconds: float) -> http.client.HTTPConnection:
        if self.several and self._answering != server:
            self._probe(server, min(seconds, _PROBE_SECONDS))
        return self._connect(server, seconds)

    def _probe(self, server: int, seconds: float) -> None:
        """Raises `ConnectionFailed` if the scheduler does not respond in time."""
        connection = self._connect(server, seconds)
        try:
            connection.request("GET", f"{self._servers[server].path}/healthz")
            connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionFailed(self.url, reason(error)) from error
        finally:
            connection.close()

    def _connect(self, number: int, seconds: float) -> http.client.HTTPConnection:
        server = self._servers[number]
        host, port = server.hostname or "", server.port
        connection: http.client.HTTPConnection
        if server.scheme == "http" or self._files is None:
            connection = http.client.HTTPConnection(host, port, timeout=seconds)
        else:
            if self._tls is None:
                self._tls = settings.tls(self._files)
            connection = http.client.HTTPSConnection(
                host, port, timeout=seconds, context=self._tls
            )
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            # What TLS refuses now, it refuses later.
            refused = _tls_reason(error)
            cause = refused or reason(error)
            raise ConnectionFailed(self.url, cause, may_pass=refused is None) from error
        return connection


def _tls_reason(error: OSError) -> Optional[str]:
    """Why there is no TLS connection; None if that is not due to TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({error.verify_message}); "
            "name its CA with Client(ca=...) or BATON_CA"
        )
    if isinstance(error, ssl.SSLError):
        return (
            f"the TLS handshake failed ({error.reason}); "
            "check that the port has TLS, and the certificates"
        )
    return None


def reason(error: Exception) -> str:
    """Why there is no response."""
    # `socket.timeout` is a TimeoutError only since Python 3.10.
    if isinstance(error, (TimeoutError, socket.timeout)):
        return "no response in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
