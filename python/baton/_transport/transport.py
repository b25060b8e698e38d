"""Requests and responses.

Invariants:
* Only GET and requests with an idempotency key are retried, while the scheduler may be starting,
  stopping, or busy. Every other request is sent once: it may have happened although no response
  came, and the error reports that.
* Every request has a connection of its own. The peer may close a kept connection just as a request
  leaves, and then it is unknown whether the request arrived.
* A token is sent to its own scheduler only, and is in no error message and no pickle: a copy
  in another process takes the one of its environment.

The settings themselves are read in `settings`; connections are made in `schedulers`; responses that
grow are in `stream`.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import random
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    Mapping,
    Optional,
    Tuple,
    TypeVar,
    Union,
)
from urllib.parse import quote, urlencode, urlsplit

from ..errors import BatonError, ConnectionFailed, Problem
from . import settings
from .schedulers import Schedulers, reason
from .settings import Cert
from .stream import Stream

MEDIA_TYPE = "application/vnd.baton.v1+json"

_CONNECT_SECONDS = 5.0

# For a response, beyond the requested wait; and for each MiB that is sent, for slow lines and busy
# machines.
_RESPONSE_SECONDS = 30.0
_MIB_SECONDS = 2.0

# The minimum for the last request before a deadline.
_LAST_LOOK_SECONDS = 1.0

# How long a request is retried: a restart takes seconds. Without any earlier response most often no
# scheduler is running, and a user waits for the error.
_RETRY_SECONDS = 30.0
_FIRST_RETRY_SECONDS = 3.0

_PAUSE_SECONDS = 0.1
_PAUSE_SECONDS_MAX = 2.0

_MAY_PASS = frozenset({429, 502, 503, 504})

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Response:
    """A successful response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """HTTP to one scheduler, or to one of several that share a store. Threads may share it.

    Of several, the one that answered last is asked; the next one if that cannot be reached, or knows
    no leader: both mean that nothing was done. What may be repeated is also sent to the next one if
    a scheduler has stopped responding.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        token: Optional[str] = None,
        ca: Union[str, os.PathLike[str], None] = None,
        cert: Optional[Cert] = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url, servers = settings.urls(url)
        first = servers[0]
        self._origin = (first.scheme, first.netloc)
        self._base = first.path
        secure = any(server.scheme == "https" for server in servers)
        files = settings.tls_files(ca, cert) if secure else None
        self._schedulers = Schedulers(self.url, servers, files)
        self._token = settings.token(token)
        #: The clock of deadlines.
        self.sleep, self.now = sleep, now
        self._answered = False

    def __getstate__(self) -> Dict[str, Any]:
        left_here = ("_token", "sleep", "now")
        return {name: value for name, value in self.__dict__.items() if name not in left_here}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state, sleep=time.sleep, now=time.monotonic)
        try:
            self._token = settings.token(None)
        except BatonError:
            # An invalid token must not prevent unpickling, most often of an error.
            self._token = None

    def get(
        self,
        path: str,
        query: Optional[Mapping[str, Any]] = None,
        *,
        wait: float = 0.0,
        until: Optional[float] = None,
        media: str = MEDIA_TYPE,
        headers: Optional[Mapping[str, str]] = None,
    ) -> Response:
        """Sends a GET, for which the scheduler may take `wait` seconds longer.

        `until` is the deadline, by `now`; infinity for none. Without it, the request is retried
        for as long as a restart takes.
        """
        target = self._target(path, query)
        sent = {"Accept": media, **(headers or {})}

        def send() -> Response:
            left = math.inf if until is None else until - self.now()
            return self._send("GET", target, None, _RESPONSE_SECONDS + wait, sent, left)

        return self._retried(send, until)

    def open_stream(
        self,
        path: str,
        query: Optional[Mapping[str, Any]] = None,
        *,
        until: Optional[float] = None,
    ) -> Stream:
        """Opens a response that grows, retried like a GET."""
        target = self._target(path, query)

        def send() -> Stream:
            left = math.inf if until is None else until - self.now()
            connection, sock, response = self._request(
                "GET", target, None, _RESPONSE_SECONDS, {"Accept": "text/event-stream"}, left
            )
            if response.status == 200:
                return Stream(connection, sock, response)
            with self._exchange("GET", connection):
                body = response.read()
            raise BatonError(Problem.read(response.status, response.reason, body))

        return self._retried(send, until)

    def get_json(
        self,
        path: str,
        query: Optional[Mapping[str, Any]] = None,
        *,
        wait: float = 0.0,
        until: Optional[float] = None,
    ) -> Any:
        """Sends a GET, and decodes the JSON body."""
        return self._json(path, self.get(path, query, wait=wait, until=until))

    def change(
        self,
        method: str,
        path: str,
        body: Optional[bytes] = None,
        query: Optional[Mapping[str, Any]] = None,
        *,
        key: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
    ) -> Any:
        """Sends a change, and decodes the response.

        With an idempotency key it is retried like a GET, since the scheduler carries it out once;
        without one it is sent once: only the connection is retried, since the scheduler may be
        starting.
        """
        seconds = _RESPONSE_SECONDS + _MIB_SECONDS * len(body or b"") / (1 << 20)
        target = self._target(path, query)
        sent = {"Accept": MEDIA_TYPE, **(headers or {})}
        if key is not None:
            sent["Idempotency-Key"] = key

        def send() -> Response:
            return self._send(method, target, body, seconds, sent)

        return self._json(path, self._retried(send, once=key is None))

    def _retried(
        self, send: Callable[[], _Answer], until: Optional[float] = None, once: bool = False
    ) -> _Answer:
        """Sends until there is a response; until `until`, or for as long as a restart takes.

        With `once`, only as long as nothing could be sent, and as a start takes.
        """
        began = self.now()
        pause = _PAUSE_SECONDS
        unknown = False
        while True:
            try:
                return send()
            except BatonError as error:
                if isinstance(error, ConnectionFailed):
                    unknown = unknown or error.may_have_happened
                is_restart = self._answered and not once
                patience = _RETRY_SECONDS if is_restart else _FIRST_RETRY_SECONDS
                over = began + patience if until is None else until
                rest = over - self.now()
                was_sent = not isinstance(error, ConnectionFailed) or error.may_have_happened
                if not may_pass(error) or rest <= 0 or (once and was_sent):
                    if unknown and isinstance(error, ConnectionFailed):
                        # An earlier attempt may have arrived, even if the last one did not.
                        raise ConnectionFailed(
                            error.url, error.reason, may_have_happened=True
                        ) from error
                    raise
            # Jitter: the clients of one scheduler must not retry all at once.
            self.sleep(min(pause * random.uniform(0.5, 1.0), rest))
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    @contextmanager
    def decoding(self, path: str) -> Iterator[None]:
        """Turns a missing or mistyped field of a response into a `BatonError`."""
        try:
            yield
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, BatonError):
                raise
            cause = f"a field is missing in the response of {path} ({type(error).__name__}: {error})"
            raise self._malformed(cause) from error

    def link(self, link: str) -> str:
        """The path of a link of a response; refuses links to other servers."""
        parts = urlsplit(link)
        if (parts.scheme or parts.netloc) and (parts.scheme, parts.netloc) != self._origin:
            raise self._malformed(f"the link `{link}` leads to another server")
        return parts.path + (f"?{parts.query}" if parts.query else "")

    def at(self, *names: str, end: str = "") -> str:
        """The path of these names, percent-encoded."""
        try:
            return self._base + "".join("/" + quote(name, safe="") for name in names) + end
        except UnicodeEncodeError as error:
            raise _lone_surrogate(error) from error

    def _target(self, path: str, query: Optional[Mapping[str, Any]]) -> str:
        present = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            return path + ("?" + urlencode(present) if present else "")
        except UnicodeEncodeError as error:
            raise _lone_surrogate(error) from error

    def _send(
        self,
        method: str,
        target: str,
        body: Optional[bytes],
        seconds: float,
        headers: Mapping[str, str],
        left: float = math.inf,
    ) -> Response:
        """Sends a request, and reads the response: each within `seconds`, and both within `left`."""
        connection, _, response = self._request(method, target, body, seconds, headers, left)
        with self._exchange(method, connection):
            answer = Response(response.status, _lower(response.getheaders()), response.read())
        connection.close()
        if 200 <= answer.status < 300:
            return answer
        raise BatonError(Problem.read(answer.status, response.reason, answer.body))

    def _request(
        self,
        method: str,
        target: str,
        body: Optional[bytes],
        seconds: float,
        headers: Mapping[str, str],
        left: float,
    ) -> Tuple[http.client.HTTPConnection, Any, http.client.HTTPResponse]:
        """Sends a request, and reads the head of the response."""
        sent = {"Connection": "close", **headers}
        if body is not None:
            sent["Content-Type"] = MEDIA_TYPE
        if self._token is not None:
            sent["Authorization"] = f"Bearer {self._token}"
        # A server that requires no tokens takes none into account.
        if (user := settings.user()) is not None:
            sent["Baton-User"] = user
        if (trace := settings.trace()) is not None:
            sent["traceparent"] = trace
        began = self.now()
        left = max(left, _LAST_LOOK_SECONDS)
        server, connection = self._schedulers.connect(min(_CONNECT_SECONDS, left))
        repeatable = method == "GET" or "Idempotency-Key" in headers
        with ExitStack() as exchange:
            exchange.enter_context(self._exchange(method, connection, server))
            if self._schedulers.several and repeatable:
                exchange.enter_context(self._schedulers.watched(server, connection))
            left = max(left - (self.now() - began), _LAST_LOOK_SECONDS)
            # The connection forgets its socket when the response is the last one.
            sock = connection.sock
            if sock is not None:
                sock.settimeout(min(seconds, left))
            connection.request(method, target, body=body, headers=sent)
            response = connection.getresponse()
        self._answered = True
        self._schedulers.answered(server)
        if response.status == 503 and response.getheader("Baton-No-Leader") is not None:
            self._schedulers.advance(server)
        return connection, sock, response

    @contextmanager
    def _exchange(
        self, method: str, connection: http.client.HTTPConnection, server: Optional[int] = None
    ) -> Iterator[None]:
        """Turns a broken connection into a `ConnectionFailed`, and leaves the scheduler, if it is named."""
        try:
            yield
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if server is not None:
                self._schedulers.advance(server)
            happened = method != "GET"
            raise ConnectionFailed(self.url, reason(error), may_have_happened=happened) from error
        except BaseException:
            connection.close()
            raise

    def _json(self, path: str, answer: Response) -> Any:
        try:
            return json.loads(answer.body) if answer.body else {}
        except ValueError as error:
            raise self._malformed(f"the response of {path} is not JSON ({error})") from error

    def _malformed(self, cause: str) -> BatonError:
        title = f"the server at {self.url} does not respond like a scheduler of this version"
        return BatonError(
            Problem(title, f"{cause}; check the URL, and that both sides are the same version")
        )


def may_pass(error: BatonError) -> bool:
    """True if a retry may succeed."""
    if isinstance(error, ConnectionFailed):
        return error.may_pass
    return error.status in _MAY_PASS


def _lower(headers: Iterable[Tuple[str, str]]) -> Mapping[str, str]:
    return {name.lower(): value for name, value in headers}


def _lone_surrogate(error: UnicodeEncodeError) -> BatonError:
    title = f"{error.object[:40]!r} has a lone surrogate"
    return BatonError(Problem(title, "no name on a scheduler has one"))
