"""The public surface: the names that programs import, and the layers of the private packages."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Iterator, List, Tuple

import pytest

import baton
from baton import errors

from .conftest import PYTHON

#: Every name here is a promise: a new one is documented in the README first.
NAMES = """
Alarm Array ArrayLimit AsyncArray AsyncClient AsyncHandle AsyncInstance AsyncRun BatonError
CallFuture Client ConnectionFailed Entry ErrorGroup Event EventStream Executor FieldError Fleet
FleetJob Handle Instance InstanceFailed InstanceProgress ItemCounts Library Limit MeasuredUse Output
Percentiles Problem Process RemoteTraceback Run RunConflict RunEdge RunFailed RunItem RunProblem
RunTask Secret Server Share Submitter Task TaskFunction TaskUsage Template Tick WaitGroup
WaitTimeout Waited Worker Workflow WorkflowError as_completed report_progress task up wait
""".split()

#: `baton.call` is started by workers, and not imported; so is `baton.__main__`, by `-m baton`.
MODULES = ["baton", "baton.call", "baton.errors"]

#: The private packages, each above those that it may import.
LAYERS = [
    "_local",
    "_aio",
    "_executor",
    "_client",
    "_handles",
    "_records",
    "_transport",
    "_functions",
    "_workflows",
]

ROOT = PYTHON.parent


def test_the_names_of_the_package_are_these() -> None:
    assert baton.__all__ == NAMES
    visible = {
        name
        for name, value in vars(baton).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert visible == set(NAMES)


def test_every_error_is_public_twice() -> None:
    raised = {name for name in NAMES if getattr(baton, name).__module__ == errors.__name__}
    assert set(errors.__all__) == raised
    assert all(getattr(errors, name) is getattr(baton, name) for name in errors.__all__)


def test_every_other_module_is_private() -> None:
    found = ["baton", *(each.name for each in pkgutil.walk_packages(baton.__path__, "baton."))]
    assert [name for name in sorted(found) if not _is_private(name)] == MODULES
    packages = {name.split(".")[1] for name in found if name.count(".") == 2}
    assert packages == set(LAYERS)


def test_pages_and_examples_name_public_modules_only() -> None:
    pages = [ROOT / "README.md", PYTHON / "README.md", *ROOT.glob("docs/**/*.md")]
    for path in [*pages, *ROOT.glob("examples/*")]:
        for module, names in _documented(path.read_text()):
            assert module in MODULES, f"{path}: {module}"
            public = importlib.import_module(module).__all__ if names else []
            assert set(names) <= set(public), f"{path}: {names}"


def test_a_private_module_on_a_page_is_found() -> None:
    page = (
        ">>> from baton import Client, wait as wait_for\nfrom baton.views import Worker\n"
        "    import baton._client.client as c\npython3 -m baton.parts x\nbaton._handles.run.Run: no\n"
        "from baton import (Run)\nfrom batons import x"
    )
    assert list(_documented(page)) == [
        ("baton", ["Client", "wait"]),
        ("baton.views", ["Worker"]),
        ("baton._client.client", []),
        ("baton.parts", []),
        ("baton._handles.run.Run", []),
        ("baton", ["Run"]),
    ]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_package_imports_only_layers_below(layer: str) -> None:
    below = LAYERS[LAYERS.index(layer) :]
    for path in sorted((PYTHON / "baton" / layer).glob("*.py")):
        for package in _imported_packages(path):
            assert package in below, f"{path.name} imports {package}"


def test_both_distributions_have_the_version_of_the_workspace() -> None:
    workspace = (ROOT / "Cargo.toml").read_text()
    found = re.search(r'^\[workspace\.package\]\nversion = "(.*)"$', workspace, re.M)
    assert found is not None and baton.__version__ == found[1]
    for path in (ROOT / "pyproject.toml", PYTHON / "pyproject.toml"):
        assert 'dynamic = ["version"]' in path.read_text()


def _is_private(name: str) -> bool:
    return any(part.startswith("_") for part in name.split("."))


def _documented(text: str) -> Iterator[Tuple[str, List[str]]]:
    """The modules of this package in a text, and the names that it imports from each."""
    named = re.compile(
        r"\bfrom (?P<source>baton(?:\.\w+)*) import (?P<names>[^\n]+)"
        r"|\bimport (?P<imported>baton(?:\.\w+)*)(?![\w.])"
        r"|-m (?P<started>baton(?:\.\w+)*)(?![\w.])"
        r"|\b(?P<shown>baton\._\w+(?:\.\w+)*)"
    )
    for found in named.finditer(text):
        module = next(filter(None, found.group("source", "imported", "started", "shown")))
        names = (found["names"] or "").strip("()").split(",")
        yield module, [name.split()[0] for name in names if name.strip()]


def _imported_packages(path: Path) -> Iterator[str]:
    """The private packages that a module needs while it is imported."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.level == 2:
            from_package = [alias.name for alias in node.names]
            first = [node.module.split(".")[0]] if node.module else from_package
            yield from (name for name in first if name in LAYERS)
