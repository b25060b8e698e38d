"""What a worker runs for a function: `python -m baton.call MODULE:FUNCTION CALL [WORD...]`.

CALL is a JSON object: `args`, `kwargs`, `fill` (for each WORD, how it is read and its place among
the arguments) and `give` (what is put out beside the result). What the function returns is put out
as `result`, if it is JSON. An exception ends the attempt with its traceback and exit code 1, as
Python does by itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from typing import Any, Callable, Dict, List

from . import functions
from .functions import BOX, BOXES, EACH, TaskFunction, boxed

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
    put_out(outputs(result, called.get("give", []), target))


def read(kind: str, word: str) -> Any:
    """The argument that a word is."""
    if kind == "str":
        return word
    if kind == "text":
        # As values are read that a shell puts out.
        try:
            return json.loads(word)
        except ValueError:
            return word
    value = json.loads(word)
    if kind == "box":
        return value["value"]
    if kind == "boxes":
        # Where a task has one item, its outputs are filled in as those of a task without.
        boxes = value if isinstance(value, list) else [value]
        return [each["value"] for each in boxes]
    return value


def load(target: str) -> Callable[..., Any]:
    """The function that is called so."""
    place, _, name = target.rpartition(":")
    if place.endswith(".py"):
        sys.path[0] = os.path.dirname(place)
        spec = importlib.util.spec_from_file_location(_SCRIPT, place)
        if spec is None or spec.loader is None:
            raise ImportError(f"{place} cannot be loaded")
        module = importlib.util.module_from_spec(spec)
        sys.modules[_SCRIPT] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(place)
    found: Any = module
    for step in name.split("."):
        found = getattr(found, step)
    function: Callable[..., Any] = found.function if isinstance(found, TaskFunction) else found
    return function


def outputs(result: Any, give: List[str], target: str) -> Dict[str, Any]:
    """What is put out for a result."""
    try:
        json.dumps(result, allow_nan=False)
    except (TypeError, ValueError) as error:
        text = f"what {target} has returned is no JSON ({error})"
        if give:
            raise TypeError(f"{text}, and another task wants it") from error
        print(f"baton: {text}, and is not put out", file=sys.stderr)
        return {}
    put = {"result": result}
    if BOX in give:
        put[BOX] = boxed(result)
    if EACH in give:
        put[EACH] = [boxed(result)]
    if BOXES in give:
        if not isinstance(result, (list, tuple)):
            raise TypeError(
                f"another task is mapped over what {target} returns: it must be a list, "
                f"and not {type(result).__name__}"
            )
        put[BOXES] = [boxed(each) for each in result]
    return put


def put_out(put: Dict[str, Any]) -> None:
    """Writes values behind those that the function may have written by itself."""
    path = os.environ.get("BATON_OUTPUT")
    if not path or not put:
        return
    try:
        with open(path, encoding="utf-8") as file:
            there = file.read()
    except FileNotFoundError:
        there = ""
    if there.lstrip().startswith("{"):
        put = {**json.loads(there), **put}
        there = ""
    if there.strip():
        lines = "".join(f"{key}={json.dumps(value)}\n" for key, value in put.items())
        text = there.rstrip("\n") + "\n" + lines
    else:
        text = json.dumps(put)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    main(sys.argv[1:])
