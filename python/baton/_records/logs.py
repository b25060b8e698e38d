"""What an attempt has written: all of it, its end, or line by line while it is written.

A log is read in pieces, each where the one before has ended, so that neither a rotation nor a
restart of the scheduler repeats or drops a byte.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Dict, Iterator, List, Optional, Union

from .._transport.transport import Response, Transport, may_pass
from ..errors import BatonError, ConnectionFailed, traceback_in

if TYPE_CHECKING:
    from .._handles.instances import Instance

_PIECE_BYTES = 1 << 20

_POLL_SECONDS = 0.25

#: Bytes of the end of a log that an error shows.
TAIL_BYTES = 16 * 1024

#: Lines of stderr that the server records with a failure.
RECORDED_LINES = 20


@dataclass(frozen=True)
class Selector:
    """One log of an instance."""

    instance: str
    stderr: bool = False
    #: The last attempt by default.
    attempt: Optional[int] = None
    #: The first process by default.
    process: Optional[str] = None
    #: The last run of the process by default.
    run: Optional[int] = None
    cursor: Optional[str] = None

    def path(self, transport: Transport) -> str:
        """Its path."""
        stream = "stderr" if self.stderr else "stdout"
        return transport.at("instances", self.instance, "logs", stream)

    def query(self) -> Dict[str, Union[str, int, None]]:
        """The query of its next piece."""
        return {
            "attempt": self.attempt,
            "process": self.process,
            "run": self.run,
            "cursor": self.cursor,
            "limit": _PIECE_BYTES,
        }

    def after(self, piece: Response) -> Selector:
        """The rest after a piece: of this attempt and run, whatever starts meanwhile."""
        return replace(
            self,
            attempt=_number(piece, "baton-attempt") or self.attempt,
            run=self.run if _number(piece, "baton-run") is None else _number(piece, "baton-run"),
            cursor=piece.headers.get("baton-cursor") or self.cursor,
        )


def read(transport: Transport, selector: Selector) -> str:
    """The whole log so far."""
    pieces: List[bytes] = []
    while True:
        piece = transport.get(selector.path(transport), selector.query(), media="*/*")
        pieces.append(piece.body)
        if not piece.body or _is_end(piece):
            return b"".join(pieces).decode("utf-8", "replace")
        selector = selector.after(piece)


def tail(transport: Transport, instance: str, recorded: Optional[str] = None) -> str:
    """The last lines of stderr of the last attempt; empty if they cannot be read.

    The ones that are `recorded` suffice, unless they may be the end of a longer traceback.
    """
    whole = recorded and len(recorded.splitlines()) < RECORDED_LINES
    if recorded and (whole or traceback_in(recorded)):
        return recorded
    return _read_tail(transport, instance) or recorded or ""


def _read_tail(transport: Transport, instance: str) -> str:
    path = Selector(instance, stderr=True).path(transport)
    wanted = {"Range": f"bytes=-{TAIL_BYTES}"}
    try:
        # Details of an error are not worth a long wait for a worker that is gone.
        until = transport.now() + 1
        found = transport.get(path, media="*/*", headers=wanted, until=until)
    except BatonError:
        return ""
    text = found.body.decode("utf-8", "replace")
    return text.partition("\n")[2] if len(found.body) >= TAIL_BYTES else text


def follow(instance: Instance, selector: Selector) -> Iterator[str]:
    """The lines of the log as they are written, until the instance has ended.

    Without an attempt, the last one and all later ones; without a run, the last one and all later
    ones of the process.
    """
    one_attempt, one_run = selector.attempt is not None, selector.run is not None
    transport = instance.client.transport
    if not one_attempt:
        first = _attempt_after(instance, 0)
        if first is None:
            return
        selector = replace(selector, attempt=instance.attempts)
    lines = _Lines()
    while True:
        piece = _piece(instance, selector)
        yield from lines.feed(piece.body)
        selector = selector.after(piece)
        if not _is_end(piece):
            if not piece.body:
                transport.sleep(_POLL_SECONDS)
            continue
        yield from lines.rest()
        run = _number(piece, "baton-next-run")
        if run is not None and not one_run:
            selector = replace(selector, run=run, cursor=None)
            continue
        following = None
        if not one_attempt and not one_run:
            following = _attempt_after(instance, selector.attempt or 0)
        if following is None:
            return
        selector = replace(selector, attempt=following, run=None, cursor=None)


def _piece(instance: Instance, selector: Selector) -> Response:
    """The next piece, also while the scheduler or the worker is away."""
    transport = instance.client.transport
    while True:
        try:
            return transport.get(selector.path(transport), selector.query(), media="*/*")
        except BatonError as error:
            if not may_pass(error):
                raise
            # The log of an attempt that has ended stays away with its worker.
            instance.refresh(until=float("inf"))
            if instance.ended and not isinstance(error, ConnectionFailed):
                raise


def _attempt_after(instance: Instance, number: int) -> Optional[int]:
    """Waits for a later attempt; None if the instance has ended without one."""
    instance.refresh(until=float("inf"))
    while instance.attempts <= number:
        if instance.ended:
            return None
        instance.refresh(wait=1, until=float("inf"))
    return number + 1


class _Lines:
    """Bytes as lines of text."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._text = ""

    def feed(self, data: bytes) -> List[str]:
        """The lines that are complete now."""
        *whole, self._text = (self._text + self._decoder.decode(data)).split("\n")
        return [line + "\n" for line in whole]

    def rest(self) -> List[str]:
        """The last line, if it has no end."""
        text, self._text = self._text + self._decoder.decode(b"", True), ""
        self._decoder.reset()
        return [text] if text else []


def _is_end(piece: Response) -> bool:
    return piece.headers.get("baton-end") == "true"


def _number(piece: Response, header: str) -> Optional[int]:
    text = piece.headers.get(header, "")
    return int(text) if text.isdigit() else None
