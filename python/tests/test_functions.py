"""Functions as tasks: their commands, and what these do."""

from __future__ import annotations

import inspect
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import pytest

from baton import Task, Workflow, WorkflowError, task
from baton._functions.remote import report_outputs, read

from . import functions
from .conftest import PYTHON, environment


def call_of(made: Task) -> Any:
    return json.loads(made.to_dict()["run"][4].replace("{{{{", "{{"))


def run_of(
    made: Task, outputs: Path, words: Dict[str, str], **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs the command as a worker would, with the references filled in."""
    data = made.to_dict()
    command = [words.get(word, word).replace("{{{{", "{{") for word in data["run"]]
    known = {**environment(), **data.get("env", {}), "BATON_OUTPUT": str(outputs), **env}
    # A worker has no part in where this test was started.
    return subprocess.run(command, env=known, cwd=outputs.parent, capture_output=True, text=True)


def test_a_call_within_a_workflow_is_a_task_and_elsewhere_a_call() -> None:
    assert functions.add(1, right=2) == 3 and functions.double.map([1, 2]) == [2, 4]
    with Workflow("calls") as wf:
        first = functions.add(1, right=2)
        second = functions.add(4)
    assert functions.add(4) == 4
    assert list(wf.tasks) == ["add", "add-2"] and second.name == "add-2"
    data = first.to_dict()
    assert data["run"][:4] == [sys.executable, "-m", "baton.call", "tests.functions:add"]
    assert data["env"] == {"PYTHONPATH": str(PYTHON), "PYTHONUNBUFFERED": "1"}
    assert call_of(first) == {"args": [1], "kwargs": {"right": 2}}


def test_the_command_calls_the_function_and_puts_out_its_result(tmp_path: Path) -> None:
    with Workflow("calls"):
        made = functions.pair("{{ item }} and {{{ more")
    ended = run_of(made, tmp_path / "out", {})
    assert ended.returncode == 0, ended.stderr
    assert json.loads((tmp_path / "out").read_text()) == {
        "result": {"value": "{{ item }} and {{{ more"}
    }


def test_a_task_as_argument_is_an_edge_and_its_result(tmp_path: Path) -> None:
    with Workflow("chain") as wf:
        first = functions.double("5")
        shell = wf.task("shell", run="echo result=7 > $BATON_OUTPUT")
        last = functions.kinds([first, shell, shell.output("rows"), 1], more={"deep": first})
    assert last.to_dict()["after"] == ["double", "shell"]
    # The text 5 stays one, since it travels in a box.
    assert call_of(first)["give"] == ["_box"]
    words = {"{{ tasks.double.outputs._box }}": '{"value":"55"}'}
    words |= {
        "{{ tasks.shell.outputs.result }}": "7",
        "{{ tasks.shell.outputs.rows }}": "some text",
    }
    ended = run_of(last, tmp_path / "out", words)
    assert ended.returncode == 0, ended.stderr
    assert json.loads((tmp_path / "out").read_text()) == {
        "result": ["str", "int", "str", "int", "dict"]
    }
    ended = run_of(first, tmp_path / "first", {})
    assert json.loads((tmp_path / "first").read_text()) == {"result": "55", "_box": {"value": "55"}}


def test_an_output_of_a_function_keeps_its_type_whatever_it_is_called(tmp_path: Path) -> None:
    with Workflow("outputs"):
        first = functions.writes('{"rows": "5", "files": ["6", 6]}')
        last = functions.kinds([first.output(), first.output("rows")])
        each = functions.kind.map(first.output("files"))
        several = functions.writes.map(["rows=7", "rows=x"])
        together = functions.kinds(several.output("rows"))
        again = functions.kind.map(several.output("rows"))
        none = functions.kinds(functions.writes.map([]).output("rows"))
    assert call_of(first)["give"] == ["_box", "_box.rows", "_boxes.files"]
    assert call_of(several)["give"] == ["_box.rows", "_each.rows"]
    assert last.to_dict()["after"] == each.to_dict()["after"] == ["writes"]
    assert each.to_dict()["for_each"] == "{{ tasks.writes.outputs._boxes.files }}"
    assert again.to_dict()["for_each"] == "{{ tasks.writes-2.outputs._each.rows }}"
    assert call_of(together)["fill"] == [["boxes", "args", 0]]
    assert call_of(none) == {"args": [[]], "kwargs": {}}
    ended = run_of(first, tmp_path / "out", {})
    assert ended.returncode == 0, ended.stderr
    put = json.loads((tmp_path / "out").read_text())
    assert put["_boxes.files"] == [{"value": "6"}, {"value": 6}]
    words = {f"{{{{ tasks.writes.outputs.{key} }}}}": json.dumps(put[key]) for key in put}
    ended = run_of(last, tmp_path / "last", words)
    assert ended.returncode == 0, ended.stderr
    assert json.loads((tmp_path / "last").read_text())["result"] == ["NoneType", "str", "NoneType"]


def test_a_map_over_the_results_of_a_map_is_joined_by_place(tmp_path: Path) -> None:
    with Workflow("places"):
        listed = functions.texts()
        first = functions.kind.map(listed)
        second = functions.double.map(first)
        both = functions.kinds.map(second, second)
    assert second.to_dict()["for_each"] == first.to_dict()["for_each"]
    assert second.to_dict()["after"] == [{"task": "kind", "each": True}]
    ended = run_of(second, tmp_path / "out", {"{{ tasks.kind.outputs._box }}": '{"value":"5"}'})
    assert ended.returncode == 0, ended.stderr
    assert json.loads((tmp_path / "out").read_text())["result"] == "55"
    # All results are an argument, too.
    assert both.to_dict()["after"] == ["double"]
    assert both.to_dict()["for_each"] == "{{ tasks.double.outputs._each }}"


def test_an_output_of_a_command_is_json_where_it_looks_like_it() -> None:
    assert [read("text", word) for word in ("5", "x", "[1]", "NaN", '"5"')] == [
        5,
        "x",
        [1],
        "NaN",
        "5",
    ]


def test_a_template_may_be_what_a_function_is_made_from() -> None:
    wf = Workflow("template")
    heavy = wf.template("heavy", resources={"cpu": 4})
    with wf:
        made = functions.add.options(template=heavy)(1)
    assert made.to_dict()["template"] == "heavy" and not made.has_items


@pytest.mark.parametrize(
    ("items", "for_each", "words"),
    [
        (["5", "x"], ["5", "x"], ["5", "x"]),
        ([5, None, ["5"]], [5, None, ["5"]], ["5", "null", '["5"]']),
        (["5", 5], [{"value": "5"}, {"value": 5}], ['{"value":"5"}', '{"value":5}']),
        (range(2, 4), {"range": [2, 4]}, ["2", "3"]),
    ],
)
def test_a_mapped_function_gets_each_item_as_it_is(
    items: Any, for_each: Any, words: List[str], tmp_path: Path
) -> None:
    with Workflow("map"):
        made = functions.pair.map(items)
    assert made.to_dict()["for_each"] == for_each
    for item, word in zip(items, words):
        ended = run_of(made, tmp_path / "out", {"{{ item }}": word})
        assert ended.returncode == 0, ended.stderr
        assert json.loads((tmp_path / "out").read_text())["result"] == {"value": item}
        (tmp_path / "out").unlink()


def test_maps_over_a_list_and_over_a_map_differ_in_what_they_ask_for(tmp_path: Path) -> None:
    with Workflow("maps") as wf:
        listed = functions.texts()
        each = functions.kind.map(listed)
        again = functions.kind.map(each)
        together = functions.kinds(again)
        shell = functions.kind.map(wf.task("list", run="./list").output("files"))
    assert each.to_dict()["for_each"] == "{{ tasks.texts.outputs._boxes }}"
    assert each.to_dict()["after"] == ["texts"]
    # Joined by place: the same items, and the result of each.
    assert again.to_dict()["for_each"] == each.to_dict()["for_each"]
    assert call_of(listed)["give"] == ["_boxes"] and call_of(each)["give"] == ["_box"]
    assert call_of(together)["fill"] == [["boxes", "args", 0]]
    assert shell.to_dict()["for_each"] == "{{ tasks.list.outputs.files }}"
    ended = run_of(listed, tmp_path / "out", {})
    assert ended.returncode == 0, ended.stderr
    assert json.loads((tmp_path / "out").read_text())["_boxes"][:2] == [
        {"value": "5"},
        {"value": 5},
    ]
    # One item is filled in as if there were no others, and is a list all the same.
    many, one = '[{"value":"5"},{"value":5}]', '{"value":"5"}'
    for word, expected in [(many, ["str", "int"]), (one, ["str"])]:
        ended = run_of(together, tmp_path / "out", {"{{ tasks.kind-2.outputs._box }}": word})
        assert ended.returncode == 0, ended.stderr
        result = json.loads((tmp_path / "out").read_text())["result"]
        assert result == [*expected, "NoneType"]
    ended = run_of(each, tmp_path / "each", {"{{ item }}": '{"value":"5"}'})
    put = json.loads((tmp_path / "each").read_text())
    assert put == {"result": "str '5'", "_box": {"value": "str '5'"}}


def test_a_map_of_nothing_is_an_empty_list_to_others() -> None:
    with Workflow("nothing"):
        none = functions.double.map([])
        again = functions.double.map(none)
        together = functions.kinds(again)
    assert again.to_dict()["for_each"] == [] and again.to_dict()["after"] == ["double"]
    assert call_of(together) == {"args": [[]], "kwargs": {}}
    assert together.to_dict()["after"] == ["double-2"]


def test_a_failure_shows_its_traceback_and_puts_nothing_out(tmp_path: Path) -> None:
    with Workflow("failure"):
        made = functions.fails("no luck")
    ended = run_of(made, tmp_path / "out", {})
    assert ended.returncode == 1 and "ValueError: no luck" in ended.stderr
    assert not (tmp_path / "out").exists()


def test_a_result_that_is_no_json_is_dropped_unless_another_task_refers_to_it(tmp_path: Path) -> None:
    with Workflow("no json"):
        made = functions.nothing_to_tell()
    ended = run_of(made, tmp_path / "out", {})
    assert ended.returncode == 0 and "is not JSON" in ended.stderr
    with Workflow("no json"):
        made = functions.nothing_to_tell()
        functions.double(made)
    ended = run_of(made, tmp_path / "out", {})
    assert ended.returncode == 1 and "another task refers to it" in ended.stderr
    with Workflow("no list"):
        made = functions.add(1)
        functions.double.map(made)
    ended = run_of(made, tmp_path / "out", {})
    assert ended.returncode == 1 and "must be a list, and not int" in ended.stderr


@pytest.mark.parametrize("written", ["", "rows=3\n", "rows=3", '{"rows": 3}'])
def test_a_result_joins_the_outputs_of_the_function_itself(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    path.write_text(written)
    monkeypatch.setenv("BATON_OUTPUT", str(path))
    report_outputs("two\nlines", ["_box.rows", "_box.other"], "f")
    rows = {"rows": 3, "_box.rows": {"value": 3}} if written else {}
    assert json.loads(path.read_text()) == {**rows, "result": "two\nlines"}


def test_outputs_that_no_worker_reads_are_left_for_it_to_complain_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    monkeypatch.setenv("BATON_OUTPUT", str(path))
    for written in ("rows", "{rows}", '{"rows": NaN}'):
        path.write_text(written)
        report_outputs(5, [], "f")
        assert path.read_text() == written
    # Only Python takes this for JSON.
    path.write_text("rows=NaN")
    report_outputs(5, [], "f")
    assert json.loads(path.read_text()) == {"rows": "NaN", "result": 5}


def test_the_function_of_a_script_is_found_by_its_file_and_the_script_is_not_run_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "script.py"
    path.write_text(
        "import json, helper\n"
        "from baton import Workflow, task\n"
        "wf = Workflow('script')\n"
        "@wf.task(timeout='5m')\n"
        "def inner(x): return x + helper.ONE\n"
        "@wf.task\n"
        "def outer(x): return inner(x) * 10\n"
        "made = outer(1)\n"
        "if __name__ == '__main__': print(json.dumps(made.to_dict()))\n"
        "elif helper.TWICE: wf.run()\n"
    )
    (tmp_path / "helper.py").write_text("import os\nONE = 1\nTWICE = 'TWICE' in os.environ\n")
    env = {**environment(), "PYTHONPATH": str(PYTHON)}
    printed = subprocess.run(
        [sys.executable, str(path)], env=env, capture_output=True, text=True, check=True
    )
    data = json.loads(printed.stdout)
    assert data["run"][3] == f"{path}:outer" and data["env"]["PYTHONPATH"] == str(PYTHON)
    env |= {"BATON_OUTPUT": str(tmp_path / "out")}
    ended = subprocess.run(data["run"], env=env, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    # A function that runs on a worker calls others as they are.
    assert json.loads((tmp_path / "out").read_text()) == {"result": 20}
    ended = subprocess.run(data["run"], env={**env, "TWICE": "1"}, capture_output=True, text=True)
    assert ended.returncode == 1 and 'if __name__ == "__main__":' in ended.stderr


def test_a_decorated_function_keeps_its_signature_also_for_type_checkers() -> None:
    assert str(inspect.signature(functions.add)) == "(left: 'int', right: 'int' = 0) -> 'int'"
    with pytest.raises(TypeError):
        functions.add(1, wrong=2)  # type: ignore[call-arg]
    made = Workflow("types").task(timeout="5m")(functions.plain)
    with Workflow("call"), pytest.raises(WorkflowError):
        made()  # type: ignore[call-arg]


def test_options_and_fields_become_fields_of_the_task() -> None:
    made = task(retry={"attempts": 3}, env={"A": "b"})(functions.plain)
    wf = Workflow("fields", python="/opt/python", pythonpath=["/srv/{{lib", Path("/srv/more")])
    before = wf.task("before", run="true")
    with wf:
        first = made(1)
        second = made.options(name="again", timeout="5m", after=before)(2)
    data = second.to_dict()
    assert (
        data["retry"] == {"attempts": 3} and data["timeout"] == "5m" and data["after"] == ["before"]
    )
    assert data["env"] == {
        "A": "b",
        "PYTHONPATH": os.pathsep.join(["/srv/{{{{lib", "/srv/more", str(PYTHON)]),
        "PYTHONUNBUFFERED": "1",
    }
    assert data["run"][0] == "/opt/python" and second.name == "again"
    assert first.name == "plain" and "timeout" not in first.to_dict()


def test_what_no_worker_could_call_is_refused_at_once() -> None:
    with Workflow("wrong") as wf:
        with pytest.raises(WorkflowError, match="within another"):
            task(lambda: 1)()
        add: Any = functions.add
        with pytest.raises(WorkflowError, match="missing a required argument: 'left'"):
            add()
        with pytest.raises(WorkflowError, match="argument 0 of add is not JSON"):
            add({1, 2})
        with pytest.raises(WorkflowError, match="argument right of add is not JSON"):
            add(1, right=math.nan)
        with pytest.raises(WorkflowError, match="JSON has string keys only"):
            add({1: 2})
        with pytest.raises(WorkflowError, match="write them to a file"):
            functions.double("x" * 200_000)
        assert not wf.tasks
    with Workflow("other"):
        stranger = functions.double(1)
    with wf, pytest.raises(WorkflowError, match="to another workflow"):
        functions.double(stranger)
    # A refused call has requested no outputs.
    assert "give" not in call_of(stranger) and not wf.tasks
