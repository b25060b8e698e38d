"""The call of a function on a worker: `python -m baton.call MODULE:FUNCTION CALL [WORD...]`.

CALL is a JSON object: `args`, `kwargs`, `fill` (for each WORD, its encoding and its position among
the arguments), `give` (the boxes to output beside the result, see `boxes`), `spread` (`star`: the
first argument is the list of all; `chunk`: it is a list of such lists, one for each call) and `need`
(fail without a result). The return value becomes the output `result`, if it is JSON. An exception
ends the attempt with its traceback and exit code 1, as Python does by itself.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType
from typing import Any, Callable, Dict, List, NoReturn, Optional, Type

from .. import _values as values
from . import boxes, functions
from .functions import TaskFunction

#: Bytes of the outputs of an attempt that a worker accepts.
OUTPUTS_BYTES_MAX = 64 * 1024

# A script is loaded under this name, so that its `__main__` block does not run on workers.
_SCRIPT = "__baton_main__"


def main(argv: List[str]) -> None:
    """Calls the function, and reports its return value as an output."""
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
    need = called.get("need", False)
    try:
        result = _spread(function, called, target)
    except SystemExit as error:
        if need and error.code in (None, 0):
            raise RuntimeError(f"{target} has ended with {error!r} instead of a result") from error
        raise
    report_outputs(result, called.get("give", []), target, need)


def _spread(function: Callable[..., Any], called: Dict[str, Any], target: str) -> Any:
    """Calls the function, or calls it for each of several lists of arguments."""
    args, how = called["args"], called.get("spread")
    if how == "chunk":
        return [_checked(function(*each), target) for each in args[0]]
    if how == "star":
        args = args[0]
    return _checked(function(*args, **called["kwargs"]), target)


def _checked(result: Any, target: str) -> Any:
    if inspect.isawaitable(result) or inspect.isgenerator(result):
        raise TypeError(f"{target} has returned {result!r}, which has not run")
    return result


def read(kind: str, word: str) -> Any:
    """Decodes one argument."""
    if kind == "str":
        return word
    if kind == "text":
        return _json_or_text(word)
    value = json.loads(word)
    if kind == "box":
        return value["value"]
    if kind == "boxes":
        # The outputs of a task with one item are inserted like those of a task without items.
        several = value if isinstance(value, list) else [value]
        return [each["value"] for each in several]
    return value


def load(target: str) -> Callable[..., Any]:
    """The function of a target `MODULE:NAME` or `FILE:NAME`."""
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


def report_outputs(result: Any, give: List[str], target: str, need: bool = False) -> None:
    """Adds the return value and the requested boxes to the outputs that the function has written.

    With `need`, a return value that cannot be an output is an error.
    """
    put: Dict[str, Any] = {}
    try:
        values.check(result)
        put[boxes.RESULT] = result
    except values.NotJson as error:
        text = f"the return value of {target} is not JSON ({error})"
        if any(boxes.is_of_result(name) for name in give):
            raise TypeError(f"{text}, and another task refers to it") from error
        if need:
            raise TypeError(f"{text}: write it to a file, and return its path") from error
        print(f"baton: {text}, and is no output", file=sys.stderr)
    path = os.environ.get("BATON_OUTPUT")
    if not path:
        return
    there = _read(path)
    own = _parse_outputs(there)
    if own is None:
        # The worker reports what is wrong with it.
        return
    put = {**own, **put}
    try:
        put.update(boxes.requested(put, give))
    except values.NotJson as error:
        raise TypeError(f"another task maps over an output of {target}: {error}") from error
    text = values.write(put)
    size = len(text.encode())
    if need and size > OUTPUTS_BYTES_MAX:
        raise ValueError(
            f"the return value of {target} takes {size} bytes with its outputs, and there are "
            f"{OUTPUTS_BYTES_MAX}: write it to a file, and return its path"
        )
    if put != own:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


def _parse_outputs(text: str) -> Optional[Dict[str, Any]]:
    """The outputs in the file, as a worker reads them; None if it is invalid."""
    if text.startswith("{"):
        try:
            data = json.loads(text, parse_constant=_no_constant)
        except ValueError:
            return None
        return dict(data)
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
    # Only Python accepts NaN and Infinity as JSON.
    raise ValueError(f"{word} is no JSON")


def hide_frames(entry: str) -> None:
    """Shows only frames of the user in tracebacks, by whatever hook Python was started with.

    `entry` is the file that Python was started with.
    """
    show = sys.excepthook

    def shown(
        kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]
    ) -> None:
        trace = trace and _own_frames(trace, entry)
        show(kind, error.with_traceback(trace), trace)

    sys.excepthook = shown


def _own_frames(trace: TracebackType, entry: str) -> TracebackType:
    """The traceback from the first frame of the function or its module on.

    An exception of this module, or of the import of one that does not exist, has no such frame:
    then the whole.
    """
    rest: Optional[TracebackType] = trace
    while rest is not None and _runs_before(rest.tb_frame.f_code.co_filename, entry):
        rest = rest.tb_next
    return rest or trace


def _runs_before(file: str, entry: str) -> bool:
    """True for what runs before the function: `python -m`, this module, and the import."""
    if file in (entry, __file__) or file.startswith(("<frozen runpy", "<frozen importlib")):
        return True
    return os.path.abspath(file) in (runpy.__file__, importlib.__file__)
