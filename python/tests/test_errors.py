"""Every error is a `BatonError` with a hint, and survives a pickle."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any, Callable, Dict

import pytest

from baton import (
    BatonError,
    Client,
    ConnectionFailed,
    ErrorGroup,
    FieldError,
    Problem,
    Run,
    RunConflict,
    RunFailed,
    WaitTimeout,
    Workflow,
    WorkflowError,
)

from . import functions
from .fake_server import FakeServer

SURROGATE = "half \udc80"


def run() -> Run:
    data: Dict[str, Any] = {"id": "r1", "name": "etl", "state": "FAILED", "generation": 3}
    return Run(Client("http://127.0.0.1:1", token="baton_secret"), data)


@pytest.mark.parametrize(
    "error",
    [
        BatonError(Problem("title", "detail", 422, "invalid", [FieldError("a", "b", "c")])),
        ConnectionFailed("http://x", "refused", may_have_happened=True),
        ConnectionFailed("http://x", "not trusted", may_pass=False),
        WorkflowError("title", "hint"),
        WaitTimeout(run(), 1.5),
        RunFailed(run(), [ErrorGroup("a", "exited with 1", 2, "i7")]),
        RunConflict(run(), Problem("Conflict", "r1 is at generation 4", 409, "generation")),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("copied", [lambda it: pickle.loads(pickle.dumps(it)), copy.copy])
def test_errors_can_be_pickled_and_stay_what_they_are(
    error: BatonError, copied: Callable[[BatonError], BatonError]
) -> None:
    again = copied(error)
    assert type(again) is type(error) and str(again) == str(error)
    assert again.args == (error.problem,) and again.problem == error.problem
    assert list(again.errors) == list(error.errors)
    kept = {name for name in error.__dict__ if name not in ("run", "handle")}
    assert {name: again.__dict__[name] for name in kept} == {
        name: error.__dict__[name] for name in kept
    }
    if "run" in error.__dict__:
        assert again.__dict__["run"].info == error.__dict__["run"].info


def test_a_run_that_was_pickled_is_asked_for_with_the_token_of_where_it_is(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = pickle.dumps(Run(Client(fake.url, token="baton_secret"), {"id": "r1"}))
    assert b"baton_secret" not in data
    fake.replies = [(200, b'{"id":"r1","state":"DONE"}')] * 2
    assert pickle.loads(data).refresh().state == "DONE"
    monkeypatch.setenv("BATON_TOKEN", "baton_here")
    pickle.loads(data).refresh()
    assert [seen["Authorization"] for seen in fake.headers] == [None, "Bearer baton_here"]
    # What is no token must not cost the error that carries the run.
    monkeypatch.setenv("BATON_TOKEN", "a\nb")
    assert pickle.loads(data).id == "r1"


def of(client: Client) -> Any:
    """A run, without its types."""
    return Run(client, {"id": "r1"})


def wf() -> Any:
    """A workflow, without its types."""
    return Workflow("wrong")


#: Without their types, too.
MADE: Any = Workflow
DOUBLE: Any = functions.double


WRONG: Dict[str, Callable[[Any], Any]] = {
    "lone surrogate in a name": lambda client: client.run(SURROGATE),
    "lone surrogate in a query": lambda client: list(client.runs(owner=SURROGATE)),
    "lone surrogate in a workflow": lambda client: client.submit({"workflow": SURROGATE}),
    "a file name as workflow": lambda client: client.submit("etl.yaml"),
    "no workflow": lambda client: client.submit(5),
    "params that are a list": lambda client: client.submit({}, params=["a"]),
    "a limit in words": lambda client: list(client.runs(limit="5")),
    "a time with a unit": lambda client: of(client).wait("1s"),
    "a time that is no number": lambda client: of(client).wait(float("nan")),
    "a task that is none": lambda client: of(client).logs(5),
    "an item that is none": lambda client: of(client).item("a", -1),
    "an item in words": lambda client: of(client).item("a", "0"),
    "resume with a file name": lambda client: of(client).resume("etl.yaml"),
    "lone surrogate in a task": lambda client: of(client).retry(SURROGATE),
    "bytes as items": lambda client: wf().for_each("a", "x", items=b"ab"),
    "resume with no JSON": lambda client: of(client).resume({"tasks": {1: 2}}),
    "after nothing": lambda client: wf().task("a", run="true", after=None),
    "after a number": lambda client: wf().task("a", run="true", after=5),
    "an arrow to a number": lambda client: wf().task("a", run="true") >> [5],
    "an arrow from a number": lambda client: [5] >> wf().task("a", run="true"),
    "edges that are none": lambda client: wf().array("a", count=2, upstream=("b", [1, 2])),
    "upstream that is none": lambda client: wf().array("a", count=2, upstream="b"),
    "params that are a text": lambda client: MADE("a", params="day"),
    "defaults that are a list": lambda client: MADE("a", defaults=["x"]),
    "a pythonpath that is a text": lambda client: MADE("a", pythonpath="/x"),
    "a pythonpath of numbers": lambda client: MADE("a", pythonpath=[5]),
    "a python that is a number": lambda client: MADE("a", python=5),
    "a number mapped over": lambda client: DOUBLE.map(5),
    "a text mapped over": lambda client: DOUBLE.map("abc"),
}


@pytest.mark.parametrize("slip", WRONG)
def test_a_slip_of_the_caller_is_a_clear_error(slip: str) -> None:
    # No server listens there: the error is raised before a request.
    with pytest.raises(BatonError) as caught:
        WRONG[slip](Client("http://127.0.0.1:1"))
    assert not isinstance(caught.value, ConnectionFailed) and caught.value.detail


def test_arguments_that_do_not_fit_are_told_with_the_signature() -> None:
    add: Any = functions.add
    with Workflow("wrong"):
        with pytest.raises(WorkflowError, match="add cannot be called with these arguments: too many positional"):
            add(1, 2, 3)
        with pytest.raises(WorkflowError, match="unexpected keyword argument 'wrong'") as caught:
            add.map([1], wrong=5)
    assert "right: 'int' = 0" in caught.value.detail


def test_tasks_that_are_a_list_are_sent_for_the_server_to_refuse(fake: FakeServer) -> None:
    fake.replies = [(422, b'{"title":"tasks is a list"}')]
    with pytest.raises(BatonError, match="tasks is a list"):
        Client(fake.url).submit({"workflow": "w", "tasks": [1]})


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "127.0.0.1:8080",
        "http://",
        "http://x:port",
        "http://x?y=1",
        "http://[::1",
        "http://x y/",
        "http://x/a b",
        "http://x/ü",
        "http://" + "x" * 64,
        "http://..x/",
        f"http://{SURROGATE}",
        "http://x\n",
        5,
    ],
)
def test_what_is_no_url_is_refused(url: Any) -> None:
    with pytest.raises(BatonError, match="is not a URL of a scheduler"):
        Client(url)


def test_a_password_in_a_url_is_refused_and_not_repeated() -> None:
    with pytest.raises(BatonError, match="is not a URL of a scheduler") as caught:
        Client("http://me:hidden@127.0.0.1:8080")
    assert "hidden" not in str(caught.value)


def test_a_bad_token_is_refused_and_not_repeated() -> None:
    for wrong in ("baton_slip\nX-Evil: 1", "baton_slip\udc80", 5, b"baton_slip"):
        with pytest.raises(BatonError, match="token is invalid") as caught:
            Client(token=wrong)  # type: ignore[arg-type]
        assert "slip" not in str(caught.value)


def test_files_for_tls_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    junk = tmp_path / "junk.pem"
    junk.write_text("junk")
    wrong: Dict[str, Dict[str, Any]] = {
        "ca /nowhere.pem: No such file": {"ca": "/nowhere.pem"},
        f"{junk} has no certificates": {"ca": junk},
        "ca is 5": {"ca": 5},
        "cert /nowhere.pem: No such file": {"cert": ("/nowhere.pem", "/nowhere.key")},
        "key /nowhere.key: No such file": {"cert": [junk, "/nowhere.key"]},
        f"{junk} is not a certificate with its key": {"cert": junk},
        "cert has 3 files": {"cert": ("a", "b", "c")},
        "cert is 5": {"cert": 5},
        "the key of cert is None": {"cert": (junk, None)},
    }
    for data, given in wrong.items():
        with pytest.raises(BatonError, match="files for TLS cannot be used") as caught:
            Client("https://127.0.0.1:1", **given)
        assert data in str(caught.value)
    # Without https they are not looked at.
    Client("http://127.0.0.1:1", ca="/nowhere.pem")


@pytest.mark.parametrize(
    ("body", "ask"),
    [
        (b"[]", lambda client: client.run("r1")),
        (b"{}", lambda client: client.run("r1")),
        (b"5", lambda client: list(client.runs())),
        (b'{"items": [{}]}', lambda client: list(client.runs())),
        (b'{"items": [{}], "links": {}}', lambda client: Run(client, {"id": "r1"}).tasks()),
        (b'{"items": [5], "links": {}}', lambda client: Run(client, {"id": "r1"}).item("a")),
        (b'{"links": {}}', lambda client: client.submit({"workflow": "w"})),
        (b"5", lambda client: Run(client, {"id": "r1"}).resume()),
    ],
)
def test_an_answer_that_says_something_else_is_told(
    body: bytes, ask: Callable[[Client], Any], fake: FakeServer
) -> None:
    fake.replies = [(200, body)]
    with pytest.raises(BatonError, match="does not respond like a scheduler"):
        ask(Client(fake.url))
