"""What a worker runs for a function: `python -m baton.call MODULE:FUNCTION CALL [WORD...]`.

CALL is a JSON object: `args`, `kwargs`, `fill` (for each WORD, how it is read and its place among
the arguments) and `give` (what is put out beside the result, see `boxes`). What the function
returns is put out as `result`, if it is JSON. An exception ends the attempt with its traceback and
exit code 1, as Python does by itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any, Callable, Dict, List, NoReturn, Optional

from . import boxes, functions, values
from .functions import TaskFunction

# The module that a script is loaded as: its lines for `__main__` are not for workers.
_SCRIPT = "__baton_main__"


def main(argv: List[str]) -> None:
    """Calls the function, and puts out what it returns."""
    target, text, *words = argv
    called = json.loads(text)
    for (kind, *path), word in zip(called.get("fill", []), words):
        place = called
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = read(kind, word)
    functions.enter("loading")
    function = load(target)
    functions.enter("running")
    result = function(*called["args"], **called["kwargs"])
    if inspect.isawaitable(result) or inspect.isgenerator(result):
        raise TypeError(f"{target} has returned {result!r}, of which nothing has run")
    put_out(result, called.get("give", []), target)


def read(kind: str, word: str) -> Any:
    """The argument that a word is."""
    if kind == "str":
        return word
    if kind == "text":
        return _json_or_text(word)
    value = json.loads(word)
    if kind == "box":
        return value["value"]
    if kind == "boxes":
        # Where a task has one item, its outputs are filled in as those of a task without.
        several = value if isinstance(value, list) else [value]
        return [each["value"] for each in several]
    return value


def load(target: str) -> Callable[..., Any]:
    """The function that is called so."""
    place, _, name = target.rpartition(":")
    found: Any = _script(place) if os.path.isabs(place) else importlib.import_module(place)
    for step in name.split("."):
        found = getattr(found, step)
    function: Callable[..., Any] = found.function if isinstance(found, TaskFunction) else found
    return function


def _script(path: str) -> ModuleType:
    sys.path[0] = os.path.dirname(path)
    spec = importlib.util.spec_from_file_location(_SCRIPT, path)
    if spec is None:
        # The name of a script need not end in `.py`.
        loader = SourceFileLoader(_SCRIPT, path)
        spec = importlib.util.spec_from_file_location(_SCRIPT, path, loader=loader)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_SCRIPT] = module
    spec.loader.exec_module(module)
    return module


def put_out(result: Any, give: List[str], target: str) -> None:
    """Puts out what a function has returned, and what others want of it, beside what it may have
    put out by itself.
    """
    put: Dict[str, Any] = {}
    try:
        values.check(result)
        put[boxes.RESULT] = result
    except values.Unfit as error:
        text = f"what {target} has returned is no JSON ({error})"
        if any(boxes.is_of_result(name) for name in give):
            raise TypeError(f"{text}, and another task wants it") from error
        print(f"baton: {text}, and is not put out", file=sys.stderr)
    path = os.environ.get("BATON_OUTPUT")
    if not path:
        return
    there = _read(path)
    own = _understood(there)
    if own is None:
        # The worker says what is wrong with it.
        return
    put = {**own, **put}
    try:
        put.update(boxes.given(put, give))
    except values.Unfit as error:
        raise TypeError(f"another task is mapped over what {target} puts out: {error}") from error
    if put != own:
        with open(path, "w", encoding="utf-8") as file:
            file.write(values.write(put))


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def _understood(text: str) -> Optional[Dict[str, Any]]:
    """What stands in the file of outputs, as a worker reads it; nothing if that is wrong."""
    if text.startswith("{"):
        try:
            told = json.loads(text, parse_constant=_no_constant)
        except ValueError:
            return None
        return dict(told)
    put: Dict[str, Any] = {}
    for line in text.split("\n"):
        key, equals, value = line.partition("=")
        if equals:
            put[key] = _json_or_text(value)
        elif line.strip():
            return None
    return put


def _json_or_text(word: str) -> Any:
    try:
        return json.loads(word, parse_constant=_no_constant)
    except ValueError:
        return word


def _no_constant(word: str) -> NoReturn:
    # Python alone takes NaN and Infinity for JSON.
    raise ValueError(f"{word} is no JSON")


if __name__ == "__main__":
    main(sys.argv[1:])
