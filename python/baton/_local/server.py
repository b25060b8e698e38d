"""A server that belongs to this program: `baton up`, on ports that the kernel chooses.

A guard process starts it, and ends it when the program closes a pipe. The kernel closes it if the
program dies: no server is left behind.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, List, Mapping, Optional, Sequence, Type, Union

from .._client.client import Client
from .._transport import settings
from ..errors import BatonError, Problem
from . import binary, guard

#: The exit status of `baton up` if another scheduler uses its data directory.
_IN_USE = 75

# The server of a program that has died may still be ending.
_IN_USE_SECONDS = 10.0

_POLL_SECONDS = 0.1

# Lines of the log that an error shows.
_LINES_MAX = 5

# Variables of `baton` that choose neither a scheduler nor a store.
_PASSED_ON = ("BATON_LOG", "BATON_TZDATA")

# A service manager waits for the program, and not for its server.
_OF_SERVICES = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")

_Directory = Union[str, "os.PathLike[str]"]


def up(
    data: Optional[_Directory] = None,
    *,
    resources: Union[str, Mapping[str, Any], None] = None,
    listen: str = "127.0.0.1:0",
    options: Sequence[str] = (),
    timeout: float = 60.0,
) -> Server:
    """Starts a scheduler with one worker on this host, and waits until it is ready.

    It belongs to this program, and ends with the block of a `with` statement, with `stop()`, or
    with the program, however that ends; its work ends with it. Until then `Client()`, `Executor()`
    and `Workflow.run()` without a URL use it.

    `data` is its data directory; one that exists is used again. The default is a temporary one,
    which is removed in the end. `resources` are those of the worker, such as `{"cpu": 4}`;
    `options` are further ones of `baton up`, such as `["--library", "tasks"]`.
    """
    if isinstance(options, str):
        raise BatonError(Problem(f"options is the text {options!r}", "pass a list of words"))
    command = [binary.find(), "up", "--json", "--listen", listen, "--worker-listen", "127.0.0.1:0"]
    if resources is not None:
        command += ["--resources", _resources(resources)]
    command += options
    deadline = time.monotonic() + timeout
    retried_until = time.monotonic() + _IN_USE_SECONDS
    while True:
        started = _Process(command, data)
        url = started.ready_url(deadline)
        if url is not None:
            return Server(url, started)
        status = started.end()
        if status != _IN_USE or time.monotonic() > min(deadline, retried_until):
            raise _not_started(started, status, timeout)
        time.sleep(_POLL_SECONDS)


class Server:
    """A scheduler with one worker, started by `up`."""

    def __init__(self, url: str, process: _Process) -> None:
        #: The URL of its API, and of its pages.
        self.url = url
        #: Its data directory.
        self.data = process.data
        #: The file of its log.
        self.log = process.log
        self._process: Optional[_Process] = process
        self._program = os.getpid()
        settings.started.append(url)
        # Also keeps this object: the server runs on if the program drops it.
        atexit.register(self.stop)

    def client(self) -> Client:
        """A client of this server."""
        return Client(self.url)

    def stop(self) -> None:
        """Ends the server with its work, and waits for that. A second call does nothing."""
        process, self._process = self._process, None
        # A fork of the program does not own the server.
        if process is None or os.getpid() != self._program:
            return
        atexit.unregister(self.stop)
        settings.started.remove(self.url)
        process.end()
        if process.home is not None and process.home.exists():
            warnings.warn(f"{process.home} could not be removed", ResourceWarning, stacklevel=2)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Server {self.url}{'' if self._process is not None else ', ended'}>"


class _Process:
    """The guard of a server, with its pipes and its log."""

    def __init__(self, command: Sequence[str], data: Optional[_Directory]) -> None:
        #: The temporary directory that the guard removes, if any.
        self.home = Path(tempfile.mkdtemp(prefix="baton-")) if data is None else None
        self.data = self.home / "data" if self.home else Path(data or ".").absolute()
        os.makedirs(self.data, mode=0o700, exist_ok=True)
        self.log = (self.home or self.data) / "up.log"
        # Open for reading as well: an error shows it, when the file may have been removed.
        self._log = open(self.log, "a+b")
        self._log_start = self._log.seek(0, os.SEEK_END)
        #: The last lines of the log of a start that has failed.
        self.last_lines: List[str] = []
        remove = "" if self.home is None else str(self.home)
        # Isolated: variables of Python, and modules in the working directory, do not matter.
        isolated = [sys.executable, "-I", "-S", guard.__file__, remove]
        self._popen = subprocess.Popen(
            [*isolated, *command, "--data", str(self.data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=_environment(),
            start_new_session=True,
        )

    def ready_url(self, deadline: float) -> Optional[str]:
        """The URL that the server announces; None if it ends, or does not in time."""
        assert self._popen.stdout is not None
        output, line = self._popen.stdout.fileno(), b""
        while not line.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([output], [], [], left)[0]:
                return None
            more = os.read(output, 4096)
            if not more:
                return None
            line += more
        try:
            url = str(json.loads(line)["url"])
        except (ValueError, TypeError, KeyError):
            # Of a program that is not Baton.
            return None
        self._log.close()
        return url

    def end(self) -> int:
        """Ends the server, and returns its exit status."""
        assert self._popen.stdin is not None and self._popen.stdout is not None
        self._popen.stdin.close()
        status = self._popen.wait()
        self._popen.stdout.close()
        if not self._log.closed:
            with self._log:
                self._log.seek(self._log_start)
                text = self._log.read().decode(errors="replace")
            self.last_lines = text.rstrip().splitlines()[-_LINES_MAX:]
        return status


def _not_started(process: _Process, status: int, timeout: float) -> BatonError:
    shown = "\n".join(process.last_lines)
    reason = f"exit {status}" if status else f"it was not ready within {timeout:g} s"
    return BatonError(Problem("`baton up` has not started", shown or reason))


def _resources(given: Union[str, Mapping[str, Any]]) -> str:
    if isinstance(given, str):
        return given
    return ",".join(f"{name}={amount}" for name, amount in given.items())


def _environment() -> Dict[str, str]:
    """This environment, without settings for other schedulers."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED_ON or not (name.startswith("BATON_") or name in _OF_SERVICES)
    }
