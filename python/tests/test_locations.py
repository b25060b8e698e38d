"""Locations of functions: workers call the function that was passed."""

from __future__ import annotations

import functools
import json
import math
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import pytest

from baton import Workflow, WorkflowError, task
from baton._functions.locations import locate, own_roots

from . import functions
from .conftest import PYTHON, environment

#: Prints the task of a call, where it is not loaded by a worker.
SCRIPT = """
import json, helper
from baton import Workflow, task

@task
def f(x):
    return [x + helper.ONE, __name__]

if __name__ != "__baton_main__":
    with Workflow("script"):
        print(json.dumps(f(1).to_dict()))
"""


def ran(command: List[str], stdin: Optional[str] = None, **env: str) -> Any:
    known = {**environment(), "PYTHONPATH": str(PYTHON), **env}
    return subprocess.run(command, env=known, capture_output=True, text=True, input=stdin)


def result_of(data: Dict[str, Any], dir: Path) -> Any:
    """What the command of a task puts out, as `result`."""
    dir.mkdir(exist_ok=True)
    ended = ran(data["run"], **data["env"], BATON_OUTPUT=str(dir / "out"))
    assert ended.returncode == 0, ended.stderr
    return json.loads((dir / "out").read_text())["result"]


@pytest.mark.parametrize("name", ["script.py", "script", "pkg/__main__.py"])
def test_the_function_of_a_script_is_found_whatever_it_is_called(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(SCRIPT)
    (path.parent / "helper.py").write_text("ONE = 1\n")
    started = path.parent if path.name == "__main__.py" else path
    printed = ran([sys.executable, "-B", str(started)])
    assert printed.returncode == 0, printed.stderr
    data = json.loads(printed.stdout)
    assert data["run"][3] == f"{path}:f"
    assert result_of(data, tmp_path / "work") == [2, "__baton_main__"]


def test_a_module_that_is_run_by_its_name_is_imported(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(SCRIPT.replace("__baton_main__", "pkg.__main__"))
    (tmp_path / "helper.py").write_text("ONE = 1\n")
    path = f"{PYTHON}:{tmp_path}"
    printed = ran([sys.executable, "-B", "-m", "pkg"], PYTHONPATH=path)
    assert printed.returncode == 0, printed.stderr
    data = json.loads(printed.stdout)
    assert data["run"][3] == "pkg.__main__:f"
    assert result_of(data, tmp_path / "work") == [2, "pkg.__main__"]


@pytest.mark.parametrize("command", [["-"], ["-c", SCRIPT], ["/dev/stdin"]])
def test_a_function_that_was_typed_in_is_refused(command: List[str], tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("ONE = 1\n")
    path = f"{PYTHON}:{tmp_path}"
    ended = ran([sys.executable, *command], stdin=SCRIPT, PYTHONPATH=path)
    assert ended.returncode == 1 and "a worker cannot find the function" in ended.stderr


def original(x: int) -> int:
    return x


GIVEN = original


def original(x: int) -> int:  # type: ignore[no-redef]
    return -x


def twin(x: int) -> int:
    return x


@functools.wraps(twin)
def wrapper(x: int) -> int:
    return twin(x) + 1


def counted(function: Any) -> Any:
    def inner(*args: Any) -> Any:
        return function(*args)

    return functools.wraps(function)(inner)


@counted
@task
def covered(x: int) -> int:
    return x


@task
@counted
def below(x: int) -> int:
    return x


class Thing:
    """Something with methods."""

    def method(self, x: int) -> int:
        return x

    @task
    def decorated(self, x: int) -> int:
        return x + 1

    @staticmethod
    def static(x: int) -> int:
        return x


nameless = task(lambda: 1)


def hidden_function() -> None: ...


hidden_function.__qualname__ = "COUNT"
COUNT = 5

REFUSED: List[Tuple[Callable[[], Any], str]] = [
    (lambda: task(GIVEN)(1), "original in the module tests.test_locations is another function by now"),
    (lambda: task(wrapper)(1), "twin in the module tests.test_locations is another function by now"),
    (lambda: covered(1), "covered in the module tests.test_locations is another function by now"),
    (lambda: task(Thing().method)(1), "Thing.method is a method"),
    (lambda: Thing().decorated(1), "Thing.decorated is a method"),
    (lambda: task(Thing.method)(Thing(), 1), "Thing.method is a method"),
    (lambda: nameless(), "made within another"),
    (lambda: task(functools.partial(twin, 1))(), "has no name in a module"),
    (lambda: task(hidden_function)(), "COUNT in the module tests.test_locations is by now int"),
]


@pytest.mark.parametrize(("call", "reason"), REFUSED)
def test_a_function_that_its_name_does_not_lead_to_is_refused(
    call: Callable[[], Any], reason: str
) -> None:
    with Workflow("wrong") as wf, pytest.raises(WorkflowError) as caught:
        call()
    assert reason in str(caught.value) and caught.value.detail and not wf.tasks


def test_a_function_that_was_deleted_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = task(twin)
    monkeypatch.delattr(sys.modules[__name__], "twin")
    with Workflow("wrong"), pytest.raises(WorkflowError, match="has nothing of that name"):
        made(1)


def test_a_function_is_taken_by_its_name_whether_it_is_decorated_there_or_not() -> None:
    with Workflow("right"):
        targets = [
            made.to_dict()["run"][3]
            for made in (task(twin)(1), below(1), functions.add(1), task(Thing.static)(1))
        ]
    assert targets == [
        f"{__name__}:twin",
        f"{__name__}:below",
        "tests.functions:add",
        f"{__name__}:Thing.static",
    ]


def test_a_decorated_method_is_called_as_usual_where_there_is_no_workflow() -> None:
    assert Thing().decorated(1) == 2


def test_what_a_call_would_not_run_is_refused_when_it_is_decorated() -> None:
    async def coroutine() -> None: ...

    async def async_generator() -> Any:
        yield 1

    def generator() -> Iterator[int]:
        yield 1

    wf = Workflow("wrong")
    for decorate in (task, task(timeout="5m"), wf.task, wf.task(timeout="5m")):
        for function, reason in [
            (coroutine, "coroutine is `async`"),
            (async_generator, "async_generator is `async`"),
            (functools.partial(coroutine), "is `async`"),
            (generator, "generator has a `yield`"),
            (5, "5 is not a function"),
        ]:
            made: Any = decorate
            with pytest.raises(WorkflowError, match=reason):
                made(function)


def test_a_body_that_has_not_run_fails_on_the_worker(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(
        "import functools\n"
        "async def body(): print('ran')\n"
        "def f(): return body()\n"
        "def g(): return (x for x in [1])\n"
    )
    for name in "fg":
        command = [sys.executable, "-m", "baton.call", f"late:{name}", '{"args":[],"kwargs":{}}']
        ended = ran(command, PYTHONPATH=f"{PYTHON}:{tmp_path}")
        assert ended.returncode == 1 and "which has not run" in ended.stderr


def test_the_traceback_of_a_function_begins_with_its_own_frames(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def f():\n    g()\n\ndef g():\n    raise ValueError('no')\n")
    (tmp_path / "broken.py").write_text("raise ValueError('no')\n")
    for target, frames in [
        ("own:f", ["own.py", "own.py"]),
        ("broken:f", ["broken.py"]),
        (f"{tmp_path}/broken.py:f", ["broken.py"]),
    ]:
        command = [sys.executable, "-m", "baton.call", target, '{"args":[],"kwargs":{}}']
        ended = ran(command, PYTHONPATH=f"{PYTHON}:{tmp_path}")
        files = re.findall(r'File ".*?([^/"]+)", line', ended.stderr)
        assert files == frames, ended.stderr
        assert ended.returncode == 1 and ended.stderr.endswith("ValueError: no\n")
    # There is no such frame: the whole is shown.
    command[-2] = "missing:f"
    ended = ran(command, PYTHONPATH=f"{PYTHON}:{tmp_path}")
    assert "call.py" in ended.stderr and "No module named 'missing'" in ended.stderr


def test_the_interpreter_and_its_path_are_given_as_paths(tmp_path: Path) -> None:
    wf = Workflow("paths", python=Path("/opt/python"), pythonpath=[tmp_path, PYTHON])
    with wf:
        data = functions.add(1).to_dict()
    # This package is found wherever the other modules are, and named once.
    assert data["run"][0] == "/opt/python" and data["env"]["PYTHONPATH"] == f"{tmp_path}:{PYTHON}"
    with Workflow("none", pythonpath=[]):
        assert functions.add(1).to_dict()["env"]["PYTHONPATH"] == str(PYTHON)


def test_what_the_interpreter_looks_through_anyway_is_not_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sysconfig, "get_paths", lambda: {"purelib": str(PYTHON)})
    with Workflow("installed"):
        assert functions.add(1).to_dict()["env"] == {"PYTHONUNBUFFERED": "1"}


def test_a_function_of_an_extension_module_is_found_by_its_module() -> None:
    target, roots = locate(math.sqrt)
    assert target == "math:sqrt" and roots == own_roots()
