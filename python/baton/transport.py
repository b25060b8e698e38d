"""Requests and answers.

Invariants:
* Only GET is tried again, while the scheduler may be starting, stopping, or busy. Anything else is
  sent once: it may have happened although no answer came, and the error says so.
* Every request has a connection of its own. One that is kept may have been closed by the other
  side just as a request leaves, and then nobody knows whether it arrived.
* A token goes to the scheduler that it was given for, and into no message.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Mapping, Optional, Tuple, Union
from urllib.parse import quote, urlencode, urlsplit

from .errors import BatonError, ConnectionFailed, Problem

DEFAULT_URL = "http://127.0.0.1:8080"

MEDIA_TYPE = "application/vnd.baton.v1+json"

#: A certificate and its key, or a file with both.
Cert = Union[
    str, "os.PathLike[str]", Tuple[Union[str, "os.PathLike[str]"], Union[str, "os.PathLike[str]"]]
]

_CONNECT_SECONDS = 5.0

# For an answer, beyond what the scheduler is asked to wait.
_ANSWER_SECONDS = 30.0

# How long a GET is tried again: a restart takes seconds. Where nothing was ever heard, most
# often nobody is there, and a person waits for the error.
_PATIENCE_SECONDS = 30.0
_FIRST_PATIENCE_SECONDS = 3.0

_PAUSE_SECONDS = 0.1
_PAUSE_SECONDS_MAX = 2.0

_MAY_PASS = frozenset({429, 502, 503, 504})


@dataclass(frozen=True)
class Answer:
    """What came back, if it was good."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """The way to one scheduler. Threads may share it."""

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
        self.url = (url or os.environ.get("BATON_URL") or DEFAULT_URL).rstrip("/")
        parts = urlsplit(self.url)
        if (
            parts.scheme not in ("http", "https")
            or not parts.hostname
            or parts.query
            or parts.fragment
        ):
            raise BatonError(
                Problem(
                    f"`{self.url}` is no URL of a scheduler", f"write one such as {DEFAULT_URL}"
                )
            )
        try:
            self._port = parts.port
        except ValueError as error:
            raise BatonError(
                Problem(f"`{self.url}` is no URL of a scheduler", str(error))
            ) from error
        self._host = parts.hostname
        self._origin = (parts.scheme, parts.netloc)
        self._base = parts.path
        self._tls = _tls(ca, cert) if parts.scheme == "https" else None
        self._token = _token(token)
        self._sleep = sleep
        self._now = now
        self._answered = False

    def get(
        self,
        path: str,
        query: Optional[Mapping[str, Any]] = None,
        *,
        wait: float = 0.0,
        media: str = MEDIA_TYPE,
    ) -> Answer:
        """Gets something, which the scheduler may take `wait` seconds longer for."""
        target = self._target(path, query)
        patience = _PATIENCE_SECONDS if self._answered else _FIRST_PATIENCE_SECONDS
        until = self._now() + patience
        pause = _PAUSE_SECONDS
        while True:
            try:
                return self._send("GET", target, None, _ANSWER_SECONDS + wait, media)
            except BatonError as error:
                passes = (
                    error.may_pass
                    if isinstance(error, ConnectionFailed)
                    else error.status in _MAY_PASS
                )
                if not passes or self._now() + pause > until:
                    raise
            # Many clients of one scheduler do not come back all at once.
            self._sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)

    def get_json(
        self, path: str, query: Optional[Mapping[str, Any]] = None, *, wait: float = 0.0
    ) -> Any:
        """Gets something as JSON."""
        return self._json(path, self.get(path, query, wait=wait))

    def change(
        self,
        method: str,
        path: str,
        body: Optional[bytes] = None,
        query: Optional[Mapping[str, Any]] = None,
    ) -> Any:
        """Asks once for a change, and reads what came of it."""
        return self._json(
            path, self._send(method, self._target(path, query), body, _ANSWER_SECONDS, MEDIA_TYPE)
        )

    def link(self, link: str) -> str:
        """The path of a link of an answer, if it leads to the same scheduler."""
        parts = urlsplit(link)
        if (parts.scheme or parts.netloc) and (parts.scheme, parts.netloc) != self._origin:
            raise self._nonsense(f"the link `{link}` leads to somebody else")
        return parts.path + (f"?{parts.query}" if parts.query else "")

    def at(self, *names: str, end: str = "") -> str:
        """The path of names that are anybody's text."""
        return self._base + "".join("/" + quote(name, safe="") for name in names) + end

    def _target(self, path: str, query: Optional[Mapping[str, Any]]) -> str:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        return path + ("?" + urlencode(given) if given else "")

    def _send(
        self, method: str, target: str, body: Optional[bytes], seconds: float, media: str
    ) -> Answer:
        headers = {"Accept": media, "Connection": "close"}
        if body is not None:
            headers["Content-Type"] = MEDIA_TYPE
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        connection = self._connect()
        try:
            connection.request(method, target, body=body, headers=headers)
            if connection.sock is not None:
                connection.sock.settimeout(seconds)
            response = connection.getresponse()
            answer = Answer(response.status, _lower(response.getheaders()), response.read())
            reason = response.reason
        except (OSError, http.client.HTTPException) as error:
            sent = method != "GET"
            raise ConnectionFailed(self.url, _words(error), may_have_happened=sent) from error
        finally:
            connection.close()
        self._answered = True
        if 200 <= answer.status < 300:
            return answer
        raise BatonError(Problem.read(answer.status, reason, answer.body))

    def _connect(self) -> http.client.HTTPConnection:
        """A connection; until there is one, nothing was asked."""
        if self._tls is None:
            connection = http.client.HTTPConnection(
                self._host, self._port, timeout=_CONNECT_SECONDS
            )
        else:
            connection = http.client.HTTPSConnection(
                self._host, self._port, timeout=_CONNECT_SECONDS, context=self._tls
            )
        try:
            connection.connect()
        except ssl.SSLCertVerificationError as error:
            connection.close()
            why = (
                f"its certificate is not trusted ({error.verify_message}); "
                "name its CA with Client(ca=...) or BATON_CA"
            )
            raise ConnectionFailed(self.url, why, may_pass=False) from error
        except ssl.SSLError as error:
            connection.close()
            why = (
                f"TLS does not come about ({error.reason}); "
                "check that it speaks https, and the certificates"
            )
            raise ConnectionFailed(self.url, why, may_pass=False) from error
        except OSError as error:
            connection.close()
            raise ConnectionFailed(self.url, _words(error)) from error
        return connection

    def _json(self, path: str, answer: Answer) -> Any:
        try:
            return json.loads(answer.body) if answer.body else {}
        except ValueError as error:
            raise self._nonsense(f"what {path} answers is no JSON ({error})") from error

    def _nonsense(self, why: str) -> BatonError:
        title = f"what answers at {self.url} does not speak like a scheduler of this version"
        return BatonError(
            Problem(title, f"{why}; check the URL, and that both sides are the same version")
        )


def encode(body: Any) -> bytes:
    """The body of a request."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _lower(headers: Iterable[Tuple[str, str]]) -> Mapping[str, str]:
    return {name.lower(): value for name, value in headers}


def _words(error: Exception) -> str:
    # Only since Python 3.10 it is a TimeoutError.
    if isinstance(error, (TimeoutError, socket.timeout)):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _token(given: Optional[str]) -> Optional[str]:
    token = (given or os.environ.get("BATON_TOKEN") or "").strip()
    # Without the text: it may be a secret with a slip of the pen.
    if not token.isascii() or any(not " " < letter < "\x7f" for letter in token):
        detail = "it should be one line as `baton token create` has printed it"
        raise BatonError(Problem("what is given as token is none", detail))
    return token or None


def _tls(ca: Union[str, os.PathLike[str], None], cert: Optional[Cert]) -> ssl.SSLContext:
    trusted = ca or os.environ.get("BATON_CA") or None
    key: Union[str, os.PathLike[str], None] = None
    if cert is None:
        shown: Union[str, os.PathLike[str], None] = os.environ.get("BATON_CERT") or None
        key = os.environ.get("BATON_KEY") or None
    elif isinstance(cert, tuple):
        shown, key = cert
    else:
        shown = cert
    try:
        context = ssl.create_default_context(cafile=trusted)
        if shown is not None:
            context.load_cert_chain(shown, key)
    except OSError as error:
        detail = f"{error}; check the files of ca and cert (or BATON_CA, BATON_CERT and BATON_KEY)"
        raise BatonError(Problem("the files for TLS cannot be used", detail)) from error
    return context
