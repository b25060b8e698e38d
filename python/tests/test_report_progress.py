"""Progress that a task reports of itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from baton import Client, InstanceProgress, Workflow, report_progress

from .conftest import PATIENCE, until


def test_each_report_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "progress"
    monkeypatch.setenv("BATON_PROGRESS", str(path))
    report_progress(1, 4)
    report_progress(2, 4, "two\nlines  ")
    report_progress(message="only words")
    report_progress()
    assert path.read_text() == "1/4\n2/4 two lines\nonly words\n"


def test_elsewhere_it_does_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BATON_PROGRESS", raising=False)
    report_progress(1, 4)
    monkeypatch.setenv("BATON_PROGRESS", os.fspath(tmp_path))
    report_progress(1, 4)
    report_progress(2, 4)
    assert capsys.readouterr().err.count("progress cannot be reported") == 1
    for done, total in [(1, None), (None, 4), (-1, 4), (1, 0)]:
        with pytest.raises(ValueError):
            report_progress(done, total)


def test_an_instance_and_its_run_tell_what_was_reported(client: Client, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    workflow = Workflow("reports")
    script = f"echo '3/4 rows' > $BATON_PROGRESS; until test -e {gate}; do sleep 0.05; done; exit 1"
    workflow.task("count", run=script)
    run = client.submit(workflow)
    until("it is told", lambda: any(each.progress for each in run.tasks()))
    (task,) = run.tasks()
    told = task.progress
    assert told is not None and told.instance is not None
    assert (told.done, told.total, told.message) == (3, 4, "rows") and told.at > 0
    instance = client.instance(told.instance)
    live = instance.progress
    assert live == InstanceProgress(3, 4, "rows", told.at)
    gate.touch()
    instance.wait_end(PATIENCE)
    assert instance.state == "FAILED" and instance.progress == live
