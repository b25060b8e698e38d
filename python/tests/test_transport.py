"""Requests against a scripted server."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from pathlib import Path
from typing import Optional

import pytest

from baton import BatonError, Client, ConnectionFailed, Workflow

from .fake_server import FakeServer, Reply, silent_port, transport


def test_reading_is_tried_again_until_it_is_answered(fake: FakeServer) -> None:
    fake.replies = [(503, b"{}"), None, (429, b""), (200, b'{"a": 1}')]
    way, clock = transport(fake.url)
    assert way.get_json("/x") == {"a": 1}
    assert len(fake.seen) == 4 and 0 < clock.at < 3


@pytest.mark.parametrize("key", [None, "k"])
def test_a_scheduler_that_starts_is_waited_for(key: Optional[str]) -> None:
    with socket.socket() as starting:
        starting.bind(("127.0.0.1", 0))
        way, clock = transport(f"http://127.0.0.1:{starting.getsockname()[1]}")
        with pytest.raises(ConnectionFailed, match="refused"):
            way.change("POST", "/x", key=key)
        assert 2 <= clock.at <= 4, "it does not listen"


def test_what_was_sent_without_a_key_is_sent_once(fake: FakeServer) -> None:
    fake.replies = [(503, b"{}"), None]
    way, clock = transport(fake.url)
    with pytest.raises(BatonError):
        way.change("POST", "/x")
    with pytest.raises(ConnectionFailed):
        way.change("POST", "/x")
    assert (len(fake.seen), clock.at) == (2, 0)


def test_of_several_schedulers_the_first_that_knows_a_leader_answers(fake: FakeServer) -> None:
    held, closed = silent_port()
    follower = FakeServer()
    follower.without_leader = True
    follower.replies = [(503, b"{}")]
    fake.replies = [(200, b'{"a": 1}'), (200, b'{"a": 2}')]
    with held:
        way, clock = transport(f"{closed}, {follower.url},{fake.url}/")
        assert way.get_json("/x") == {"a": 1}
        assert way.get_json("/x") == {"a": 2}
    follower.server.shutdown()
    assert (len(follower.seen), len(fake.seen)) == (1, 2), "who has answered is asked first"
    assert clock.at < 1


def test_of_several_schedulers_a_frozen_one_gets_only_a_probe(fake: FakeServer) -> None:
    with socket.socket() as frozen:
        frozen.bind(("127.0.0.1", 0))
        # The kernel accepts connections for it.
        frozen.listen()
        way, _ = transport(f"http://127.0.0.1:{frozen.getsockname()[1]},{fake.url}")
        fake.replies = [(200, b'{"a": 1}'), (200, b'{"a": 2}')]
        assert way.change("POST", "/x") == {"a": 1}
        assert way.change("POST", "/x") == {"a": 2}
        probe, _ = frozen.accept()
        with probe:
            assert probe.recv(1000).startswith(b"GET /healthz ")
        frozen.setblocking(False)
        with pytest.raises(BlockingIOError):
            frozen.accept()


def test_what_a_frozen_scheduler_has_accepted_is_sent_to_the_next_one_if_it_may_be(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("baton._transport.schedulers._WATCH_SECONDS", 0.01)
    frozen = FakeServer()
    thawed = threading.Event()

    def freeze(path: str) -> None:
        if frozen.seen:
            thawed.wait()

    frozen.before, frozen.replies = freeze, [None]
    way, _ = transport(f"{frozen.url},{fake.url}")
    fake.replies = [(200, b'{"a": 1}')]
    assert way.change("POST", "/x", key="k") == {"a": 1}
    thawed.set()
    frozen.server.shutdown()
    keys = [headers["Idempotency-Key"] for headers in (*frozen.headers, *fake.headers)]
    assert keys == ["k", "k"]


def test_a_slow_scheduler_is_waited_for(fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("baton._transport.schedulers._WATCH_SECONDS", 0.01)
    other = FakeServer()
    probes = threading.Semaphore(0)

    def slow(path: str) -> None:
        if path == "/healthz":
            probes.release()
        else:
            # One before the request, and some while it waits.
            for _ in range(4):
                probes.acquire()

    fake.before, fake.replies = slow, [(200, b'{"a": 1}')]
    way, _ = transport(f"{fake.url},{other.url}")
    assert way.get_json("/x") == {"a": 1}
    other.server.shutdown()
    assert (len(fake.seen), len(other.seen)) == (1, 0)


def test_a_list_of_urls_has_one_path() -> None:
    with pytest.raises(BatonError, match="same path"):
        transport("http://a:1/x,http://b:1/y")
    with pytest.raises(BatonError):
        transport("http://a:1,")


def test_a_refusal_that_will_not_pass_is_told_at_once(fake: FakeServer) -> None:
    fake.replies = [
        (
            404,
            b'{"type":"not-found","title":"Not Found","status":404,"detail":"there is no run r9"}',
        )
    ]
    way, clock = transport(fake.url)
    with pytest.raises(BatonError) as caught:
        way.get_json("/runs/r9")
    assert (caught.value.status, caught.value.title, caught.value.detail) == (
        404,
        "Not Found",
        "there is no run r9",
    )
    assert clock.at == 0 and str(caught.value) == "Not Found: there is no run r9"


def test_retries_end_and_are_few_without_any_earlier_response(fake: FakeServer) -> None:
    held, url = silent_port()
    with held:
        way, clock = transport(url)
        with pytest.raises(ConnectionFailed) as caught:
            way.get("/runs/")
        assert clock.at <= 3
        assert str(caught.value) == (
            f"cannot reach the scheduler at {url}: Connection refused; "
            "start it with `baton up` or `with baton.up():`, or name it with Client(url=...) or "
            "BATON_URL"
        )
        assert caught.value.url == url
    fake.replies = [(200, b"{}"), *[(503, b'{"title":"busy"}')] * 100]
    way, clock = transport(fake.url)
    way.get("/x")
    with pytest.raises(BatonError, match="busy"):
        way.get("/x")
    assert 20 < clock.at <= 30


ACCEPTED = b'{"id":"r7","generation":1,"links":{}}'


def client_of(fake: FakeServer) -> Client:
    """A client without real pauses."""
    client = Client(fake.url)
    client.transport, _ = transport(fake.url)
    return client


@pytest.mark.parametrize("reply", [None, (503, b'{"title":"store failed"}'), (429, b"")])
def test_a_submission_keeps_its_key_when_it_is_tried_again(fake: FakeServer, reply: Reply) -> None:
    client = client_of(fake)
    for _ in range(2):
        fake.replies = [reply, reply, (201, ACCEPTED), (500, b"oops")]
        assert Workflow("once").run(client).id == "r7"
    posted = [headers for headers, seen in zip(fake.headers, fake.seen) if seen[0] == "POST"]
    keys = [headers["Idempotency-Key"] for headers in posted]
    assert len(keys) == 6 and len(set(keys[:3])) == len(set(keys[3:])) == 1
    assert keys[0] != keys[3] and len(keys[0]) == 32


def test_a_submission_without_a_response_may_have_happened(fake: FakeServer) -> None:
    fake.replies = [None] * 100
    with pytest.raises(ConnectionFailed) as caught:
        Workflow("once").run(client_of(fake))
    assert len(fake.seen) > 1
    assert "may or may not have happened" in caught.value.detail


@pytest.mark.parametrize("reply", [None, (503, b'{"title":"store failed"}')])
def test_another_change_is_sent_once_whatever_comes_of_it(fake: FakeServer, reply: Reply) -> None:
    fake.replies = [reply]
    with pytest.raises(BatonError) as caught:
        client_of(fake).transport.change("POST", "/runs/r7/start")
    assert len(fake.seen) == 1 and fake.headers[0]["Idempotency-Key"] is None
    if reply is None:
        assert "may or may not have happened" in caught.value.detail


def test_a_run_that_was_accepted_is_not_lost_where_it_cannot_be_looked_at(fake: FakeServer) -> None:
    fake.replies = [(201, b'{"id":"r7","generation":1,"links":{}}'), (500, b"oops")]
    run = Workflow("kept").run(Client(fake.url))
    assert (run.id, run.name, run.state, run.generation) == ("r7", "kept", "QUEUED", 1)
    fake.replies = [(200, b'{"id":"r7","generation":2,"links":{}}'), (500, b"oops")]
    assert run.resume() is run and run.generation == 2


def test_a_submission_without_a_server_reports_that_it_did_not_happen() -> None:
    held, url = silent_port()
    client = Client(url)
    client.transport, _ = transport(url)
    with held, pytest.raises(ConnectionFailed) as caught:
        Workflow("missing").run(client)
    assert "start it with" in caught.value.detail


def test_a_registration_that_fails_is_taken_back(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted = b'{"id":"r7","generation":1,"links":{}}'
    fake.replies = [(201, accepted), (422, b'{"title":"bad part","status":422}'), (202, b"{}")]
    monkeypatch.setattr("baton._workflows.parts.PART_BYTES_MAX", 300)
    wf = Workflow("parts")
    for number in range(30):
        wf.task(f"t{number}", run="true")
    with pytest.raises(BatonError, match="bad part"):
        wf.run(Client(fake.url))
    assert [(method, path) for method, path, _ in fake.seen] == [
        ("POST", "/runs/"),
        ("POST", "/runs/r7/tasks/"),
        ("DELETE", "/runs/r7"),
    ]


def test_a_problem_names_each_field_and_its_hint(fake: FakeServer) -> None:
    problem = {
        "type": "invalid",
        "title": "Unprocessable Entity",
        "status": 422,
        "detail": "1 thing is wrong",
        "errors": [
            {"field": "tasks.a.rum", "message": "no field `rum`", "hint": "did you mean `run`?"}
        ],
    }
    fake.replies = [(422, json.dumps(problem).encode())]
    with pytest.raises(BatonError) as caught:
        transport(fake.url)[0].change("POST", "/runs/", b"{}")
    assert caught.value.errors[0].field == "tasks.a.rum" and caught.value.problem.kind == "invalid"
    assert str(caught.value) == (
        "Unprocessable Entity: 1 thing is wrong\n\n"
        "tasks.a.rum\n  no field `rum`\n  hint: did you mean `run`?"
    )


@pytest.mark.parametrize("body", [b"<html>proxy\n says no</html>", b"[1]", b"\xff", b""])
def test_a_response_of_another_server_is_shown_as_it_is(fake: FakeServer, body: bytes) -> None:
    fake.replies = [(400, body), (200, body or b"<")]
    way, _ = transport(fake.url)
    with pytest.raises(BatonError, match="^400 "):
        way.get("/x")
    if body != b"[1]":
        with pytest.raises(BatonError, match="does not respond like a scheduler"):
            way.get_json("/x")


def test_pages_follow_links_but_not_to_another_server(fake: FakeServer) -> None:
    pages = [
        {"items": [{}, {}], "links": {"next": "/runs/?cursor=a%2Bb"}},
        {"items": [{"id": "r1"}], "links": {}},
    ]
    fake.replies = [(200, json.dumps(page).encode()) for page in pages]
    client = Client(fake.url, token="baton_secret")
    assert list(client.pages("/runs/", {"state": None, "limit": 2})) == [{}, {}, {"id": "r1"}]
    assert [path for _, path, _ in fake.seen] == ["/runs/?limit=2", "/runs/?cursor=a%2Bb"]
    assert fake.headers[0]["Authorization"] == "Bearer baton_secret" and "secret" not in repr(client)
    fake.replies = [(200, b'{"items": [], "links": {"next": "http://elsewhere/runs/"}}')]
    with pytest.raises(BatonError, match="leads to another server"):
        list(client.pages("/runs/", {}))


def test_settings_come_from_the_environment_unless_they_are_given(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Client().url == "http://127.0.0.1:8080"
    monkeypatch.setenv("BATON_URL", fake.url + "/prefix/")
    monkeypatch.setenv("BATON_TOKEN", "baton_env\n")
    fake.replies = [(200, b'{"id":"r1","state":"DONE"}')] * 2
    assert Client().run("r 1/").state == "DONE"
    Client(url=fake.url, token="baton_given").run("r1")
    assert [path for _, path, _ in fake.seen] == ["/prefix/runs/r%201%2F", "/runs/r1"]
    assert [seen["Authorization"] for seen in fake.headers] == [
        "Bearer baton_env",
        "Bearer baton_given",
    ]


def test_a_token_comes_from_the_file_that_the_environment_names(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "token"
    path.write_text("baton_file\n")
    monkeypatch.delenv("BATON_TOKEN", raising=False)
    monkeypatch.setenv("BATON_TOKEN_FILE", str(path))
    fake.replies = [(200, b'{"id":"r1","state":"DONE"}')] * 2
    Client(fake.url).run("r1")
    monkeypatch.setenv("BATON_TOKEN", "baton_env")
    Client(fake.url).run("r1")
    assert [seen["Authorization"] for seen in fake.headers] == [
        "Bearer baton_file",
        "Bearer baton_env",
    ]
    monkeypatch.delenv("BATON_TOKEN")
    path.unlink()
    with pytest.raises(BatonError, match="BATON_TOKEN_FILE: No such file"):
        Client(fake.url)


def test_the_name_of_the_user_is_sent_with_and_without_a_token(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.replies = [(200, b'{"id":"r1","state":"DONE"}')] * 4
    monkeypatch.setenv("USER", "ann")
    Client(fake.url).run("r1")
    Client(fake.url, token="baton_given").run("r1")
    for unfit in ("a\nb", "x" * 101):
        monkeypatch.setenv("USER", unfit)
        Client(fake.url).run("r1")
    assert [seen["Baton-User"] for seen in fake.headers] == ["ann", "ann", None, None]


def test_the_span_of_the_program_is_sent(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    fake.replies = [(200, b'{"id":"r1","state":"DONE"}')] * 3
    for set_to in (context, "", "a\r\nb"):
        monkeypatch.setenv("TRACEPARENT", set_to)
        Client(fake.url).run("r1")
    assert [seen["traceparent"] for seen in fake.headers] == [context, None, None]


def test_https_where_it_is_not_spoken_is_told_at_once(fake: FakeServer) -> None:
    way, clock = transport(fake.url.replace("http:", "https:"))
    with pytest.raises(ConnectionFailed, match="check that the port has TLS"):
        way.get("/x")
    assert clock.at == 0
    assert isinstance(way._schedulers._tls, ssl.SSLContext)
