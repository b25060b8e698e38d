"""The path of the `baton` binary.

`BATON_BINARY` comes first, then the binary that was installed with this package, so that both have
the same version, and then the search path of the shell.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Iterator

from ..errors import BatonError, Problem

VARIABLE = "BATON_BINARY"

_NAME = "baton"

#: The directory that holds this package.
_SITE = Path(__file__).resolve().parent.parent.parent


def find() -> str:
    """The absolute path of the binary."""
    named = os.environ.get(VARIABLE)
    if named:
        if not _is_executable(Path(named)):
            detail = f"{VARIABLE} is {named}, and that is no file that can be executed"
            raise BatonError(Problem("the baton binary cannot be started", detail))
        return os.path.abspath(named)
    places = list(dict.fromkeys(_installed(_SITE)))
    for place in places:
        if _is_executable(place / _NAME):
            return str(place / _NAME)
    found = shutil.which(_NAME)
    if found is None:
        searched = ", ".join(map(str, places))
        detail = (
            f"it is neither in {searched} nor on PATH; install the wheel baton-scheduler, which "
            f"has it, or name it with {VARIABLE}"
        )
        raise BatonError(Problem("the baton binary was not found", detail))
    return os.path.abspath(found)


def _installed(site: Path) -> Iterator[Path]:
    """Directories into which pip puts a binary that comes with a package in `site`."""
    # `pip install --target`.
    yield site / "bin"
    # `pip install --prefix`, and every environment: PREFIX/lib/python3.11/site-packages.
    if site.parent.parent.name in ("lib", "lib64"):
        yield site.parent.parent.parent / "bin"
    yield Path(sysconfig.get_path("scripts"))
    # `pip install --user`.
    yield Path(sysconfig.get_path("scripts", f"{os.name}_user"))
    # A virtual environment that sees the packages of its Python.
    yield Path(sys.base_prefix) / "bin"


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
