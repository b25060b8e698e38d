"""Progress on terminals and in notebooks, and none elsewhere."""

from __future__ import annotations

import io
import sys
from types import ModuleType, SimpleNamespace
from typing import Any, Dict, List

import pytest

from baton import Client, ErrorGroup, Executor, Run, RunFailed, WaitTimeout, wait
from baton._handles.progress import Notebook, Progress, View, Terminal, line

from . import functions
from .conftest import PATIENCE


class Screen(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def run(state: str = "RUNNING", name: str = "etl", **counts: int) -> Run:
    data: Dict[str, Any] = {"id": "r12", "name": name, "state": state, "items": counts}
    return Run(Client(), data)


def test_a_line_says_how_far_a_run_is() -> None:
    half = run(done=480, failed=20, running=100, waiting=400)
    done = "etl r12 RUNNING  [############............] 480/1000 done"
    assert line(half, 72) == f"{done}  20 failed  100 running  400 waiting  1:12"
    assert line(run("DONE", done=3), 3_700).endswith(f"[{'#' * 24}] 3/3 done  1:01:40")
    assert "0/0 done" in line(run("QUEUED"), 0)
    assert "\x1b" not in line(run(name="\x1b[2J\n"), 0)


def test_a_terminal_shows_one_line_in_place_that_never_wraps() -> None:
    screen = Screen()
    bar = Progress.suitable(True, screen)
    assert isinstance(bar, Terminal) and bar.is_seen
    with Terminal(screen, columns=40) as bar:
        bar.show(run(done=1, waiting=9))
        bar.show(run("DONE", done=10))
    shown = screen.getvalue()
    first, second = shown.split("\r")[1:]
    assert len(first.replace("\x1b[K", "")) == 39 and first.endswith("\x1b[K")
    assert shown.count("\n") == 1 and second.endswith("\n")


def test_the_time_stays_where_the_line_is_too_long() -> None:
    long = run(name="nightly-report", done=480, failed=20, blocked=3, running=100, waiting=400)
    whole = line(long, 72)
    assert len(whole) > 80
    for columns in range(12, 100):
        shown = line(long, 72, columns)
        assert shown.endswith("  1:12") and len(shown) <= columns
    assert line(long, 72, 200) == whole
    fitted = line(long, 72, 79)
    # The bar is what gives way at first.
    assert "480/1003 done  20 failed  3 blocked" in fitted and "[" not in fitted
    assert "[########........]" in line(long, 72, len(whole) - 8)
    assert line(long, 72, 3) == ":12"


def test_an_interrupted_wait_prints_how_to_find_the_run() -> None:
    screen = Screen()
    with pytest.raises(KeyboardInterrupt), Terminal(screen) as bar:
        bar.show(run(done=1, waiting=9))
        raise KeyboardInterrupt
    assert 'Client().run("r12")' in screen.getvalue().splitlines()[-1]


def test_programs_see_nothing() -> None:
    quiet = io.StringIO()
    for bar in (Progress.suitable(True, quiet), Progress.suitable(False, Screen())):
        assert not bar.is_seen
        with bar:
            bar.show(run())
    assert quiet.getvalue() == ""


def in_notebook(monkeypatch: pytest.MonkeyPatch) -> List[Any]:
    """What a notebook shows from now on."""
    shown: List[Any] = []

    def display(what: Any, display_id: bool) -> Any:
        shown.append(what)
        return SimpleNamespace(update=shown.append)

    ipython, displays = ModuleType("IPython"), ModuleType("IPython.display")
    shell = SimpleNamespace(kernel=None)
    monkeypatch.setattr(ipython, "get_ipython", lambda: shell, raising=False)
    monkeypatch.setattr(displays, "display", display, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    return shown


def test_arrays_groups_and_maps_have_progress(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = in_notebook(monkeypatch)
    array = client.submit("true", array=3, name="<i>", resources={"cpu": 0.1})
    array.wait(PATIENCE, progress=True)
    page = shown[-1]._repr_html_()
    assert page == array._repr_html_()[: -len("</code>")] + page[page.index("  0:") :]
    assert '<progress value="3" max="3">' in page and "&lt;i&gt;" in page and "3/3 done" in page
    single = client.submit("false")
    assert '<progress value="0" max="1">' in single._repr_html_()
    shown.clear()
    wait([array, single], PATIENCE, progress=True)
    assert "2 handles FAILED" in repr(shown[-1]) and "1/2 done  1 failed" in repr(shown[-1])
    shown.clear()
    executor = Executor(client, resources={"cpu": 0.1})
    assert list(executor.map(functions.echoed, [1, 2], progress=True)) == [1, 2]
    assert "2/2 done" in repr(shown[-1]) and "map r" in repr(shown[-1])


def test_a_notebook_gets_one_bar_that_is_brought_up_to_date(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = in_notebook(monkeypatch)
    bar = Progress.suitable(True)
    assert isinstance(bar, Notebook)
    with bar:
        bar.show(run(done=1, waiting=1, name="<b>"))
        bar.show(run(done=2, name="<b>"))
    assert [type(each) for each in shown] == [View, View]
    page = shown[1]._repr_html_()
    assert '<progress value="2" max="2">' in page and "<b>" not in page and "&lt;b&gt;" in page
    assert "2/2 done" in repr(shown[1])
    # The shell of a terminal is no notebook.
    del sys.modules["IPython"].get_ipython().kernel
    assert isinstance(Progress.suitable(True, Screen()), Terminal)


def test_a_failed_run_says_what_failed() -> None:
    failed = run("FAILED", done=5, failed=3, blocked=2)
    failed.info["problems"] = [{"task": "publish", "item": 0, "text": "no output `rows`"}]
    groups = [ErrorGroup("extract", "exited with 1", 3, "i7")] * 7
    error = RunFailed(failed, groups)
    assert str(error).splitlines()[:2] == [
        "run r12 (etl) is FAILED; 5 of 10 items are done, 3 failed, 2 blocked",
        "  extract: exited with 1 (3 times), such as i7",
    ]
    assert "and 2 more kinds" in str(error) and "publish[0]: no output `rows`" in str(error)
    assert error.errors == groups and error.state == "FAILED" and error.run is failed
    assert isinstance(WaitTimeout(failed, 1.5), TimeoutError)
    assert 'client.run("r12")' in str(WaitTimeout(failed, 1.5))
