"""The location of a function: `MODULE:NAME`, or `FILE:NAME` if the module is a script.

As with pickle, the name must lead back to the same function: otherwise the worker would silently
call another one.
"""

from __future__ import annotations

import inspect
import sys
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, Callable, List, NoReturn, Optional, Tuple

from ..errors import WorkflowError

_MAIN = "__main__"


def locate(function: Callable[..., Any]) -> Tuple[str, List[str]]:
    """The location of a function, and the directories that must be on the module path."""
    name = getattr(function, "__qualname__", None)
    known = getattr(function, "__module__", None)
    if not isinstance(name, str) or not isinstance(known, str):
        _refuse(repr(function), "since it has no name in a module", "define it with `def`")
    _check_kind(function, name)
    module = sys.modules.get(known)
    _check_same(function, name, known, module)
    if known == _MAIN:
        # `python -m package.module` has an importable name; `python directory/` has none.
        spec_name = getattr(getattr(module, "__spec__", None), "name", None)
        known = spec_name if spec_name and spec_name != _MAIN else ""
    file = getattr(module, "__file__", None)
    if file is None:
        if not known:
            _refuse(name, "since it was typed in", "put it into a file, and import it")
        return f"{known}:{name}", own_roots()
    path = Path(file).resolve()
    root = _root(path, known) if known else None
    if root is not None:
        return f"{known}:{name}", _without_default_paths([*_package(), str(root)])
    if not path.is_file():
        _refuse(name, f"since {file} is no file by itself", "put it into a module, and import it")
    return f"{path}:{name}", own_roots()


def own_roots() -> List[str]:
    """The directory of this package, unless it is on the default module path."""
    return _without_default_paths(_package())


def _check_kind(function: Callable[..., Any], name: str) -> None:
    if inspect.ismethod(function):
        _refuse_method(name)
    if "<" in name:
        _refuse(
            name,
            "since it is made within another",
            "define it with `def` at the level of a module",
        )
    if "." in name and inspect.isfunction(function):
        first = next(iter(inspect.signature(function).parameters), None)
        if first == "self":
            _refuse_method(name)


def _check_same(function: Callable[..., Any], name: str, known: str, module: Any) -> None:
    """Refuses a function whose name leads to another object."""
    from .functions import TaskFunction

    found: Any = module
    for step in name.split("."):
        found = getattr(found, step, None)
    if found is function or (isinstance(found, TaskFunction) and found.function is function):
        return
    if found is None:
        _refuse(
            name,
            f"since the module {known} has nothing of that name",
            "leave it where it was defined; do not delete or rename it",
        )
    if inspect.isfunction(found) or isinstance(found, TaskFunction):
        reason = f"since {name} in the module {known} is another function by now"
        hint = "give each a name of its own; a decorator beside @task goes below it"
    else:
        reason = f"since {name} in the module {known} is by now {type(found).__name__}"
        hint = "use @task as the uppermost decorator, and the name only once"
    _refuse(name, reason, hint)


def _refuse(name: str, reason: str, hint: str) -> NoReturn:
    raise WorkflowError(f"a worker cannot find the function {name}, {reason}", hint)


def _refuse_method(name: str) -> NoReturn:
    raise WorkflowError(
        f"{name} is a method, and no worker has the object that it belongs to",
        "make it a function of the module, and pass the required data as arguments",
    )


def _package() -> List[str]:
    return [str(Path(__file__).resolve().parent.parent.parent)]


def _root(path: Path, module: str) -> Optional[Path]:
    """The directory from which the file can be imported as this module, if there is one."""
    parts = module.split(".")
    # The name of an extension module has the platform in its suffix.
    suffixes = (suffix for suffix in EXTENSION_SUFFIXES if path.name.endswith(suffix))
    stem = path.name[: -len(next(suffixes, path.suffix))] or path.name
    whole = path.parent.parts if stem == "__init__" else (*path.parent.parts, stem)
    if list(whole[-len(parts) :]) != parts:
        return None
    return Path(*whole[: -len(parts)])


def _without_default_paths(roots: List[str]) -> List[str]:
    """Drops directories on the default module path."""
    paths = [*sysconfig.get_paths().values(), sysconfig.get_config_var("DESTSHARED")]
    own = {str(Path(path).resolve()) for path in paths if path}
    return [root for root in dict.fromkeys(roots) if root not in own]
