"""Progress of a run or an array: one line, redrawn in place, on a terminal; a bar in a notebook; nothing
elsewhere.
"""

from __future__ import annotations

import html
import importlib
import shutil
import sys
import time
from types import TracebackType
from typing import Any, List, Optional, Protocol, TextIO, Type

from .._records.views import ItemCounts

_BAR_CHARS = 24

# A shorter bar is useless.
_BAR_CHARS_MIN = 6

# Counts shown beside `done`, in this order, if not zero.
_OTHERS = ("failed", "halted", "blocked", "skipped", "running", "queued", "ready", "waiting")


class Shown(Protocol):
    """What has progress: a run, an array, a group of handles, the calls of a map."""

    @property
    def kind(self) -> str:
        """The noun for messages."""

    @property
    def id(self) -> str:
        """The id, or empty."""

    @property
    def name(self) -> str:
        """The name."""

    @property
    def state(self) -> str:
        """The state."""

    @property
    def ended(self) -> bool:
        """True if it has ended."""

    @property
    def item_counts(self) -> Optional[ItemCounts]:
        """The number of its parts by state, if it has any."""


class Group:
    """Several things as one: the number of them in each state."""

    kind = "group"
    id = ""

    def __init__(self, name: str, counts: ItemCounts) -> None:
        self.name = name
        self.item_counts: Optional[ItemCounts] = counts
        self.ended = _over(counts) == counts.total
        bad = counts.failed + counts.halted
        self.state = ("FAILED" if bad else "DONE") if self.ended else "RUNNING"


class Progress:
    """Shows nothing; the base of the others."""

    is_seen = False

    @staticmethod
    def suitable(wanted: bool, stream: Optional[TextIO] = None) -> Progress:
        """The progress display for this program's output."""
        if not wanted:
            return Progress()
        display = _notebook()
        if display is not None:
            return Notebook(display)
        stream = stream if stream is not None else sys.stderr
        return Terminal(stream) if stream is not None and stream.isatty() else Progress()

    def show(self, handle: Shown) -> None:
        """Shows the state of a run or an array."""

    def close(self, interrupted: bool) -> None:
        """Ends the display."""

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close(interrupted=kind is KeyboardInterrupt)


class Terminal(Progress):
    """One line, drawn in place."""

    is_seen = True

    def __init__(self, stream: TextIO, columns: Optional[int] = None) -> None:
        self._stream = stream
        self._columns = columns
        self._began = time.monotonic()
        self._shown: Optional[Shown] = None

    def show(self, handle: Shown) -> None:
        """Redraws the line."""
        self._shown = handle
        columns = self._columns or shutil.get_terminal_size().columns
        # A line that wraps cannot be overwritten.
        text = line(handle, time.monotonic() - self._began, max(columns - 1, 1))
        self._stream.write("\r" + text + "\x1b[K")
        self._stream.flush()

    def close(self, interrupted: bool) -> None:
        """Keeps the last line, and prints how to find the run again after an interrupt."""
        if self._shown is None:
            return
        self._stream.write("\n")
        shown = self._shown
        if interrupted and not shown.ended and shown.id:
            finder = "run" if shown.kind == "run" else "instance"
            found = f'Client().{finder}("{shown.id}")'
            self._stream.write(f"the {shown.kind} continues; find it with {found}\n")
        self._stream.flush()


class Notebook(Progress):
    """A bar in the output of a cell."""

    is_seen = True

    def __init__(self, display: Any) -> None:
        self._display = display
        self._began = time.monotonic()
        self._handle: Any = None

    def show(self, handle: Shown) -> None:
        """Shows or updates the bar."""
        shown = View(handle, time.monotonic() - self._began)
        if self._handle is None:
            self._handle = self._display(shown, display_id=True)
        else:
            self._handle.update(shown)


class View:
    """The state of a run or an array, for IPython's display."""

    def __init__(self, handle: Shown, seconds: Optional[float]) -> None:
        self._text = line(handle, seconds)
        counts = handle.item_counts or ItemCounts(**{_single(handle): 1})
        self._over, self._total = _over(counts), counts.total

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self._over}" max="{max(self._total, 1)}"></progress>'
        return f"{bar} <code>{html.escape(self._text)}</code>"


def line(handle: Shown, seconds: Optional[float], columns: Optional[int] = None) -> str:
    """The state of a run or an array in one line. If it exceeds the columns, the bar shrinks first;
    the time, if given, always stays.
    """
    text = _body(handle, _BAR_CHARS)
    if seconds is None:
        return text
    clock = _time(seconds)
    if columns is None:
        return f"{text}  {clock}"
    room = columns - len(clock) - 2
    if len(text) > room:
        bar = _BAR_CHARS - (len(text) - room)
        text = _body(handle, bar if bar >= _BAR_CHARS_MIN else 0)
    if len(text) > room:
        text = text[: max(room - 2, 0)] + ".."
    return f"{text}  {clock}"[-columns:]


def _body(handle: Shown, bar: int) -> str:
    parts: List[str] = [" ".join(filter(None, (handle.name, handle.id, handle.state)))]
    counts = handle.item_counts
    if counts is not None:
        full = bar * _over(counts) // max(counts.total, 1)
        drawn = f"[{'#' * full}{'.' * (bar - full)}] " if bar else ""
        parts.append(f"{drawn}{counts.done}/{counts.total} done")
        parts += [f"{getattr(counts, word)} {word}" for word in _OTHERS if getattr(counts, word)]
    # Names are untrusted, and may have terminal escapes.
    return "".join(letter if letter.isprintable() else "?" for letter in "  ".join(parts))


def _single(handle: Shown) -> str:
    """The count of something without parts."""
    return "done" if handle.ended else "running"


def _over(counts: ItemCounts) -> int:
    return counts.done + counts.failed + counts.halted + counts.skipped + counts.blocked


def _time(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _notebook() -> Any:
    """IPython's `display`, in a notebook."""
    ipython = sys.modules.get("IPython")
    shell = getattr(ipython, "get_ipython", lambda: None)()
    # IPython in a terminal has no kernel, and shows a line.
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return importlib.import_module("IPython.display").display
