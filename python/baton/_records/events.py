"""The events of a scheduler, in order, across restarts.

Every event has a number; a stream that breaks is opened again after the last number, so that no
event is missed and none comes twice. If the server has pruned some, the event `lost` reports it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Type

from .._transport.stream import Stream
from .._transport.transport import Transport, may_pass
from ..errors import BatonError
from .views import Submitter

_PAUSE_SECONDS = 0.2
_PAUSE_SECONDS_MAX = 2.0

#: The name of the event that reports missing ones.
LOST = "lost"

# Verdicts on an attempt after which no other follows.
_FINAL = frozenset({"done", "gave-up", "stopped"})


@dataclass(frozen=True)
class Event:
    """One fact, as the server has recorded it."""

    #: Its number in the whole history.
    seq: int
    #: Its kind, such as `attempt-ended`.
    kind: str
    text: str
    #: Milliseconds since 1970.
    at: int = 0
    #: The fact itself, in the format of the API.
    fact: Dict[str, Any] = field(default_factory=dict)
    links: Dict[str, str] = field(default_factory=dict)
    #: The client that has asked for it; None if it is not known, or if the fact follows by itself.
    requested_by: Optional[Submitter] = None

    @classmethod
    def read(cls, seq: int, kind: str, data: Mapping[str, Any]) -> Event:
        """Reads the server's JSON."""
        fact = data.get("fact", {})
        client = data.get("requestedBy")
        return cls(
            seq=seq,
            kind=kind,
            text=str(data.get("text", "")),
            at=int(data.get("at", 0)),
            fact=dict(fact.get(kind, fact)),
            links=dict(data.get("links", {})),
            requested_by=Submitter.read(client) if client else None,
        )

    @property
    def ended(self) -> Optional[Tuple[int, int]]:
        """The first and the last number of the instances that it ends, if any."""
        if self.kind == "attempt-ended" and self.fact["verdict"] in _FINAL:
            number = int(self.fact["lease"]["attempt"]["instance"])
            return number, number
        if self.kind == "instances-halted":
            return int(self.fact["first"]), int(self.fact["last"])
        return None

    @property
    def ended_run(self) -> Optional[int]:
        """The number of the run that it ends, if any."""
        return int(self.fact["run"]) if self.kind == "run-ended" else None


class EventStream:
    """Iterates over events, and waits for more. It reconnects by itself.

    `with client.events(owner="demo") as events:` closes it in the end. One thread reads it, any
    thread may close it.
    """

    def __init__(
        self, transport: Transport, query: Mapping[str, Any], after: Optional[int] = None
    ) -> None:
        self._transport = transport
        self._query = {name: value for name, value in query.items() if value is not None}
        #: The number of the last event that was read; None before the first response.
        self.position = after
        self._stream: Optional[Stream] = None
        self._closed = False
        self._pause = _PAUSE_SECONDS

    def __iter__(self) -> Iterator[Event]:
        while True:
            event = self.read()
            if event is None:
                return
            yield event

    def __enter__(self) -> EventStream:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends it; a thread that reads it gets None."""
        self._closed = True
        if self._stream is not None:
            self._stream.close()

    def locate(self) -> int:
        """The number of the last event so far, at which it starts."""
        if self.position is None:
            with_end = {**self._query, "follow": "false"}
            stream = self._transport.open_stream(self._path(), with_end)
            try:
                self._read_event(stream, math.inf)
            finally:
                stream.close()
        return self.position or 0

    def read(self, until: float = math.inf) -> Optional[Event]:
        """The next event; None if it is closed, or at the deadline, by the clock of the transport."""
        while not self._closed:
            left = until - self._transport.now()
            if left <= 0:
                return None
            if self._stream is None and not self._open(until):
                continue
            stream = self._stream
            if stream is None:
                continue
            event = self._read_event(stream, until)
            if event is not None:
                self._pause = _PAUSE_SECONDS
                return event
            stream.close()
            self._stream = None
            if not self._closed and self._transport.now() < until:
                self._sleep(until)
        return None

    def _open(self, until: float) -> bool:
        query = {**self._query, "after": self.position}
        try:
            bound = until if math.isfinite(until) else None
            self._stream = self._transport.open_stream(self._path(), query, until=bound)
        except BatonError as error:
            if not may_pass(error):
                raise
            self._sleep(until)
            return False
        if self._closed:
            self._stream.close()
        return True

    def _sleep(self, until: float) -> None:
        left = max(until - self._transport.now(), 0.0)
        self._transport.sleep(min(self._pause, left))
        self._pause = min(2 * self._pause, _PAUSE_SECONDS_MAX)

    def _read_event(self, stream: Stream, until: float) -> Optional[Event]:
        """The next event of this response; None at its end."""
        number: Optional[int] = None
        kind = ""
        data: List[str] = []
        while True:
            line = stream.line(until - self._transport.now())
            if not line:
                return None
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            if text:
                name, _, value = text.partition(":")
                value = value[1:] if value.startswith(" ") else value
                if name == "id" and value.isdigit():
                    number = int(value)
                elif name == "event":
                    kind = value
                elif name == "data":
                    data.append(value)
                continue
            if number is not None:
                self.position = number
            if data:
                with self._transport.decoding("/events"):
                    return Event.read(number or 0, kind, json.loads("\n".join(data)))

    def _path(self) -> str:
        return self._transport.at("events")
