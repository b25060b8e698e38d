"""The process between a program and its server: `python guard.py REMOVE COMMAND...`.

It is the parent of the server, and its standard input is a pipe from the program. The end of that
pipe, when the program closes it or dies, ends the server as ^C does; REMOVE, unless empty, is a
directory to remove afterwards. Being in another session, neither hears a ^C for the program.

This file is run by itself: it imports nothing of the package.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from typing import Any, List

# The server gives its work half a minute, and less after a second signal.
_STEPS = ((signal.SIGINT, 45.0), (signal.SIGINT, 10.0), (signal.SIGKILL, None))

#: The exit status if the command cannot be started, as of a shell.
_NOT_STARTED = 126


def main(remove: str, command: List[str]) -> int:
    """Runs the server until its end, and returns its exit status."""
    try:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    except OSError as error:
        print(f"cannot start {command[0]}: {error.strerror}", file=sys.stderr, flush=True)
        _remove(remove)
        return _NOT_STARTED
    # The program waits for the end of the server's output.
    os.close(sys.stdout.fileno())

    def interrupt(*_: Any) -> None:
        server.send_signal(signal.SIGINT)

    for each in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(each, interrupt)
    threading.Thread(target=_end_with_the_program, args=(server,), daemon=True).start()
    status = server.wait()
    _remove(remove)
    return status if status >= 0 else 128 - status


def _end_with_the_program(server: subprocess.Popen[bytes]) -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    for each, seconds in _STEPS:
        server.send_signal(each)
        try:
            server.wait(seconds)
            return
        except subprocess.TimeoutExpired:
            print("the server has not ended yet", file=sys.stderr, flush=True)


def _remove(directory: str) -> None:
    """Removes a directory; the program warns of one that is left."""
    if directory:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    os._exit(main(sys.argv[1], sys.argv[2:]))
