"""A server of the program's own: `up`, and `python -m baton`."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Dict
from urllib.parse import urlsplit

import pytest

import baton
from baton import BatonError, Client
from baton._local import binary as binaries
from baton._local import server as servers
from baton._transport.settings import DEFAULT_URL

from .conftest import PATIENCE, PYTHON, binary, environment, until


@pytest.fixture(autouse=True)
def the_binary_under_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATON_BINARY", binary())


def test_hello_needs_no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATON_URL", "http://127.0.0.1:1")
    with baton.up(resources={"cpu": 2}) as server:
        assert server.client().submit("echo hello").wait().logs() == "hello\n"
        # A URL that is not given is that of the server, within the block.
        assert Client().url == server.url
        assert [each.capacity["cpu_milli"] for each in Client().workers()] == [2000]
        link = server.data / "pid"
        server.client().submit("ln -s $$ $LINK; sleep 600", env={"LINK": str(link)})
        until("the work runs", link.is_symlink)
        pid = int(os.readlink(link))
    assert Client().url == "http://127.0.0.1:1"
    assert not server.data.parent.exists() and not _is_alive(pid)
    assert not _listens(server.url)
    server.stop()


def test_a_data_directory_is_used_again(tmp_path: Path) -> None:
    data = tmp_path / "runs"
    with baton.up(data) as server:
        done = server.client().submit("echo kept").wait()
        work = server.client().submit("echo $BATON_ATTEMPT; test $BATON_ATTEMPT = 2 || sleep 600")
        until("the work starts", lambda: work.refresh().state == "RUNNING")
        with baton.up() as other:
            assert Client().url == other.url
        assert Client().url == server.url
    assert "shutting down" in server.log.read_text()
    with baton.up(str(data)) as server:
        assert server.client().instance(done.id).logs() == "kept\n"
        again = server.client().instance(work.id).wait(PATIENCE)
        assert again.attempts == 2


PROGRAM = """
import os, signal, sys
import baton

# A shell's command in the background ignores it, and so would this.
signal.signal(signal.SIGINT, signal.default_int_handler)
server = baton.up()
try:
    # As a terminal does on ^C.
    os.killpg(0, signal.SIGINT)
    signal.pause()
except KeyboardInterrupt:
    pass
server.client().submit("true").wait(30)
server.client().submit("sleep 600")
print(server.url, server.data, flush=True)
if sys.argv[1] == "die":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("how", ["return", "die"])
def test_a_server_ends_with_its_program(tmp_path: Path, how: str) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "program.py"), how]
    known = {**environment(), "BATON_BINARY": binary(), "PYTHONPATH": str(PYTHON)}
    ended = subprocess.run(
        command, env=known, stdout=subprocess.PIPE, timeout=PATIENCE, start_new_session=True
    )
    assert ended.returncode == (-signal.SIGKILL if how == "die" else 0)
    url, data = ended.stdout.decode().split()
    if how == "die":
        until("its server has ended", lambda: not Path(data).parent.exists())
    # A program that returns waits for that.
    assert not Path(data).parent.exists() and not _listens(url)


def test_a_directory_in_use_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with baton.up(tmp_path):
        monkeypatch.setattr(servers, "_IN_USE_SECONDS", 0.0)
        with pytest.raises(BatonError, match="another scheduler is using .* stop it first"):
            baton.up(tmp_path)


def test_a_server_that_is_ending_is_waited_for(tmp_path: Path) -> None:
    with baton.up(tmp_path) as first:
        assert first._process is not None and first._process._popen.stdin is not None
        first._process._popen.stdin.close()
        with baton.up(tmp_path) as second:
            assert second.url != first.url


def test_a_wrong_option_is_in_the_error() -> None:
    with pytest.raises(BatonError, match="--no-such"):
        baton.up(options=["--no-such"])
    with pytest.raises(BatonError, match="pass a list of words"):
        baton.up(options="--no-such")


def test_another_program_is_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _executable(tmp_path / "baton", "#!/bin/sh\necho who are you >&2; echo hello")
    monkeypatch.setenv("BATON_BINARY", str(tmp_path / "baton"))
    with pytest.raises(BatonError, match="`baton up` has not started: who are you"):
        baton.up()
    _executable(tmp_path / "baton", "no program")
    with pytest.raises(BatonError, match="cannot start .*: Exec format error"):
        baton.up()


def test_a_server_that_is_never_ready_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _executable(tmp_path / "baton", "#!/bin/sh\nln -s $$ $PIDFILE; exec sleep 600")
    monkeypatch.setenv("BATON_BINARY", str(tmp_path / "baton"))
    monkeypatch.setenv("PIDFILE", str(tmp_path / "pid"))
    with pytest.raises(BatonError, match="has not started"):
        baton.up(timeout=1)
    # On a busy machine it may have been ended before its first command.
    assert not (tmp_path / "pid").is_symlink() or not _is_alive(int(os.readlink(tmp_path / "pid")))


def test_the_binary_is_found_where_pip_puts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "env" / "lib" / "python3.11" / "site-packages"
    scripts, user, path = tmp_path / "scripts", tmp_path / "user", tmp_path / "path"
    known: Dict[str, str] = {"scripts": str(scripts), "posix_user": str(user)}
    monkeypatch.delenv("BATON_BINARY")
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setattr(binaries, "_SITE", site)
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path / "base"))
    monkeypatch.setattr(sysconfig, "get_path", lambda name, scheme="": known[scheme or name])
    with pytest.raises(BatonError, match="neither in .*/scripts, .* nor on PATH; install the wheel"):
        binaries.find()
    # From the last place to the first.
    for place in (path, tmp_path / "base/bin", user, scripts, tmp_path / "env/bin", site / "bin"):
        _executable(place / "baton", "")
        assert binaries.find() == str(place / "baton")
    (site / "bin" / "baton").chmod(0o600)
    assert binaries.find() == str(tmp_path / "env/bin/baton")
    monkeypatch.setenv("BATON_BINARY", str(site / "bin" / "baton"))
    with pytest.raises(BatonError, match="BATON_BINARY is .* no file that can be executed"):
        binaries.find()




def test_the_module_is_the_command_line() -> None:
    command = [sys.executable, "-m", "baton", "--version"]
    known = {**environment(), "PYTHONPATH": str(PYTHON)}
    found = subprocess.run(
        command, env={**known, "BATON_BINARY": binary()}, capture_output=True, text=True
    )
    assert found.returncode == 0 and found.stdout.startswith("baton ")
    wrong = subprocess.run(
        command, env={**known, "BATON_BINARY": "/nowhere"}, capture_output=True, text=True
    )
    assert wrong.returncode == 1 and wrong.stderr.startswith("baton: the baton binary cannot be")


def test_a_fork_of_the_program_does_not_stop_its_server() -> None:
    with baton.up() as server:
        child = os.fork()
        if child == 0:
            server.stop()
            os._exit(0)
        os.waitpid(child, 0)
        assert server.client().submit("true").wait().state == "DONE"
    assert Client().url == DEFAULT_URL


def _listens(url: str) -> bool:
    parts = urlsplit(url)
    with socket.socket() as probe:
        return probe.connect_ex((parts.hostname, parts.port)) == 0


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o700)
