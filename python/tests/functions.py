"""Functions that the tests use as tasks."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List

from baton import task


@task
def double(value: Any) -> Any:
    """Twice the value; a string stays one."""
    return value * 2


@task
def add(left: int, right: int = 0) -> int:
    return left + right


@task
def kinds(values: List[Any], more: Any = None) -> List[str]:
    """The Python types of the arguments."""
    return [type(value).__name__ for value in values] + [type(more).__name__]


@task
def texts() -> List[Any]:
    """Strings that look like other values."""
    return ["5", 5, "null", None, "{{ item }}", ["6"]]


@task
def writes(text: str) -> None:
    """Writes outputs itself."""
    with open(os.environ["BATON_OUTPUT"], "w") as file:
        file.write(text)


@task
def says(gate: str) -> None:
    """Prints, and returns when a file exists."""
    print("begun")
    while not os.path.exists(gate):
        time.sleep(0.05)


@task
def kind(value: Any) -> str:
    return f"{type(value).__name__} {value!r}"


@task
def pair(value: Any) -> Dict[str, Any]:
    return {"value": value}


@task
def nothing_to_tell() -> object:
    return {1, 2}


@task
def fails(reason: str) -> None:
    raise ValueError(reason)


def plain(value: int) -> int:
    return value + 1


def square(value: int) -> int:
    if value % 10 == 7:
        raise ValueError(f"{value} is unlucky")
    return value * value


def joined(left: str, right: Any, sep: str = "-") -> str:
    return f"{left}{sep}{right}"


def echoed(value: Any) -> Any:
    return value


def large(size: int) -> str:
    return "x" * size


def object_of() -> object:
    return object()


def gated(gate: str, name: str) -> str:
    """Reports that it has begun, and returns when a file exists."""
    with open(f"{gate}.{name}", "w"):
        pass
    while not os.path.exists(gate):
        time.sleep(0.05)
    return name


def leaves(code: int) -> None:
    raise SystemExit(code)
