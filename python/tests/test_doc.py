"""The examples of the README and of the modules run as they are written."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re

import pytest

import baton

from .conftest import PYTHON, Server, binary


def test_the_sessions_of_the_readme_run(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATON_URL", server.url)
    monkeypatch.setenv("BATON_BINARY", binary())
    blocks = re.findall(r"```python\n(.*?)```", (PYTHON / "README.md").read_text(), re.S)
    sessions = "\n".join(block for block in blocks if block.startswith(">>>"))
    parser = doctest.DocTestParser()
    test = parser.get_doctest(sessions, {}, "README", "README.md", 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    assert runner.run(test).failed == 0 and test.examples


def test_the_examples_of_the_modules_hold() -> None:
    examples = 0
    for found in pkgutil.walk_packages(baton.__path__, "baton."):
        result = doctest.testmod(importlib.import_module(found.name))
        assert result.failed == 0
        examples += result.attempted
    assert examples
