"""A real server for the tests that need one.

The binary is `BATON_BIN`, or the one that cargo has built here. Nothing sleeps in order to
synchronise: runs are waited for, with a bound that is longer than anything takes on a slow machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List

import pytest

from baton import Client

from .fake_server import FakeServer

#: Longer than anything takes on a slow and busy machine.
PATIENCE = 60.0

PYTHON = Path(__file__).resolve().parent.parent


def binary() -> str:
    """The binary under test."""
    return os.environ.get("BATON_BIN") or str(PYTHON.parent / "target" / "debug" / "baton")


def environment() -> Dict[str, str]:
    """This environment, without settings for another scheduler."""
    return {name: value for name, value in os.environ.items() if not name.startswith("BATON_")}


class Server:
    """A scheduler with one worker, on ports that the kernel chooses."""

    def __init__(self, dir: Path, *options: str) -> None:
        self.dir, self.options = dir, options
        self.log = dir / "server.log"
        self._start("127.0.0.1:0")

    def _start(self, listen: str) -> None:
        command = [binary(), "up", "--data", str(self.dir / "data"), "--listen", listen]
        command += ["--worker-listen", "127.0.0.1:0", "--resources", "cpu=32", *self.options]
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, env=environment(), cwd=self.dir
            )
        assert self.process.stdout is not None
        said = self.process.stdout.readline().decode()
        assert said.startswith("baton scheduler ready: "), f"{said!r}\n{self.log.read_text()}"
        self.url = said.split(": ", 1)[1].split(",")[0]

    def kill(self) -> None:
        """Kills it; its work continues."""
        self.process.kill()
        self.process.wait(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def start_again(self) -> None:
        """Starts it at the same address."""
        self._start(self.url.split("//")[1])

    def stop(self) -> None:
        """Stops it with its work."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            if self.process.stdout is not None:
                self.process.stdout.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(tmp_path_factory.mktemp("server"))
    yield started
    started.stop()


@pytest.fixture
def client(server: Server) -> Client:
    return Client(server.url)


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    fake = FakeServer()
    yield fake
    fake.server.shutdown()
    fake.server.server_close()


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("URL", "TOKEN", "CA", "CERT", "KEY"):
        monkeypatch.delenv(f"BATON_{name}", raising=False)


def until(what: str, condition: Callable[[], bool]) -> None:
    """Waits for a condition, and fails with its description."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"timed out: {what}"
        time.sleep(0.02)


def script(path: Path, *args: str, **env: str) -> List[str]:
    """The lines that a Python script of its own process prints."""
    known = {**environment(), **env, "PYTHONPATH": str(PYTHON)}
    command = [sys.executable, str(path), *args]
    ended = subprocess.run(command, env=known, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()
