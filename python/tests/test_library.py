"""The library on a real server."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from baton import BatonError, Client, Instance, Run, Workflow, WorkflowError

from .conftest import PATIENCE, until

DAILY = {"schedule": "0 6 * * *"}


def test_an_entry_is_put_read_and_deleted(client: Client) -> None:
    library = client.library
    file = {"task": "sales", "owner": "lib", "run": "echo 1"}
    assert library.put(file, dry_run=True) == "created"
    assert library.put(file) == "created" and library.put(file) == "unchanged"
    assert library.put(file, trigger=DAILY, revision=1) == "replaced"
    with pytest.raises(BatonError) as caught:
        library.put({**file, "run": "echo 3"}, revision=1)
    assert caught.value.status == 412
    entry = library.get("lib/sales")
    assert (entry.id, entry.revision, entry.kind) == ("lib/sales", 2, "task")
    assert entry.definition is not None and entry.definition["run"] == "echo 1"
    assert entry.schedule and library.get("lib/sales", revision=1).schedule is None
    assert [each.revision for each in library.revisions("lib/sales")] == [2, 1]
    [listed] = library.entries(owner="lib")
    after = datetime(2026, 1, 1, tzinfo=timezone.utc)
    assert listed.next_at is not None and listed.next_at.hour == 6
    assert library.due("lib/sales", limit=2, after=after) == [
        after + timedelta(hours=6),
        after + timedelta(hours=30),
    ]
    library.pause("lib/sales", reason="repairs")
    paused = library.get("lib/sales")
    assert paused.paused_at is not None and paused.pause_reason == "repairs"
    library.unpause("lib/sales")
    library.delete("lib/sales")
    assert list(library.entries(owner="lib")) == []
    with pytest.raises(BatonError) as caught:
        library.get("lib/sales")
    assert caught.value.status == 404


def test_a_key_that_is_used_twice_triggers_once(client: Client) -> None:
    run = "echo {{ params.day }}"
    client.library.put({"task": "echo", "owner": "trig", "run": run, "params": {"day": None}})
    params = {"day": "monday"}
    first, again = [
        client.library.trigger("trig/echo", params, idempotency_key="k1") for _ in range(2)
    ]
    assert isinstance(first, Instance) and first.id == again.id
    assert first.wait(PATIENCE).logs() == "monday\n"
    other = client.library.trigger("trig/echo", {"day": 5})
    assert other.id != first.id
    assert len(list(client.instances(owner="trig"))) == 2
    with pytest.raises(BatonError) as caught:
        client.library.trigger("trig/echo")
    assert caught.value.status == 422 and "day" in str(caught.value)


def test_a_workflow_is_stored_and_triggered(client: Client) -> None:
    workflow = Workflow("flow", owner="trig", params={"n": 1})
    workflow.task("a", run="echo {{ params.n }}")
    assert client.library.put(workflow, trigger=DAILY) == "created"
    run = client.library.trigger("trig/flow", {"n": 7})
    assert isinstance(run, Run)
    assert run.wait(PATIENCE, progress=False).logs("a") == "7\n"
    start = datetime(2026, 3, 1, tzinfo=timezone.utc)
    backfill = client.library.backfill("trig/flow", start, start + timedelta(days=2))
    assert backfill is not None
    until("both are launched", lambda: len(list(client.library.ticks("trig/flow"))) >= 2)
    ticks = list(client.library.ticks("trig/flow", limit=2))
    assert {tick.verdict for tick in ticks} == {"backfilled"}
    assert all(tick.launched and tick.launched.startswith("r") for tick in ticks)
    client.library.delete("trig/flow")


@pytest.mark.parametrize("definition", [5, "sales.yaml", {"run": "x"}, {"task": "a", "x": {1: 2}}])
def test_what_is_no_definition_is_refused(client: Client, definition: Any) -> None:
    with pytest.raises(WorkflowError):
        client.library.put(definition)
    with pytest.raises(BatonError, match="is not a time"):
        client.library.due("a", after="now")  # type: ignore[arg-type]


def test_limits_are_set_and_removed(client: Client) -> None:
    assert client.limits() == []
    limit = client.set_limit("db/py", 2)
    assert (limit.name, limit.capacity, limit.used, limit.origin) == ("db/py", 2, 0, "run-time")
    assert [each.name for each in client.limits()] == ["db/py"]
    with pytest.raises(BatonError) as caught:
        client.set_limit("cpu", 2)
    assert caught.value.status == 422
    client.remove_limit("db/py")
    with pytest.raises(BatonError) as caught:
        client.remove_limit("db/py")
    assert caught.value.status == 404


def test_a_limit_may_be_a_rate(client: Client) -> None:
    limit = client.set_limit("api/py", rate="10/s", burst=20)
    assert (limit.rate, limit.capacity, limit.used) == ("10/s", 20, 0)
    assert limit.next_start_seconds is None
    for fields in ({}, {"capacity": 1, "rate": "1/s"}, {"rate": "often"}):
        with pytest.raises(BatonError) as caught:
            client.set_limit("api/py", **fields)
        assert caught.value.status == 422
    client.remove_limit("api/py")


def test_the_limit_of_an_array_changes_while_it_waits(client: Client) -> None:
    client.set_limit("gate/py", 0)
    array = client.submit("true", array=3, resources={"gate/py": 1})
    limit = client.limit_array(array.id, 2)
    assert (limit.first, limit.last) == (f"i{array.first}", f"i{array.last}")
    assert (limit.max_concurrent, limit.in_flight) == (2, 0)
    assert client.limit_array(array[1].id, None).max_concurrent is None
    alone = client.submit("true", resources={"gate/py": 1})
    with pytest.raises(BatonError, match="no element of an array") as caught:
        client.limit_array(alone.id, 2)
    assert caught.value.status == 422
    client.remove_limit("gate/py")
    array.cancel()
    alone.cancel()


def test_shares_are_set_and_removed(client: Client) -> None:
    assert client.set_share("lab", 3).weight == 3
    assert [(each.owner, each.weight) for each in client.shares()] == [("lab", 3)]
    with pytest.raises(BatonError) as caught:
        client.set_share("lab", 0)
    assert caught.value.status == 422
    client.remove_share("lab")
    assert client.shares() == []


def test_secrets_are_set_used_and_removed(client: Client) -> None:
    secret = client.set_secret("py/key", "tr0ub4dor")
    assert (secret.owner, secret.name, secret.source, secret.version) == ("py", "key", "store", 1)
    assert client.set_secret("py/key", b"\x00\xfftr0ub4dor").version == 2
    assert [each.name for each in client.secrets("py")] == ["key"]
    assert client.secrets("nobody") == []
    command = "test $(tail -c +3 $BATON_SECRETS/key) = tr0ub4dor && echo it is tr0ub4dor"
    instance = client.submit(command, owner="py", secrets=["key"])
    assert instance.wait().state == "DONE"
    client.set_secret("py/key", "tr0ub4dor")
    instance = client.submit("echo it is $KEY", owner="py", secrets=[{"name": "key", "env": "KEY"}])
    assert instance.wait().state == "DONE"
    assert instance.logs() == "it is ***\n"
    client.remove_secret("py/key")
    with pytest.raises(BatonError) as caught:
        client.remove_secret("py/key")
    assert caught.value.status == 404
    with pytest.raises(BatonError) as caught:
        client.set_secret("py/a b", "x")
    assert caught.value.status == 422


def test_fleets_are_defined_paused_and_removed(client: Client) -> None:
    assert client.fleets() == []
    definition = {"backend": "local", "cpus": 2, "memory": "1GiB", "max": 3}
    fleet = client.define_fleet("here", definition)
    assert (fleet.name, fleet.backend, fleet.max, fleet.workers) == ("here", "local", 3, 0)
    assert fleet.definition == definition
    assert client.pause_fleet("here").paused
    assert not client.pause_fleet("here", paused=False).paused
    assert [each.name for each in client.fleets()] == ["here"]
    assert client.fleet_jobs("here") == []
    with pytest.raises(BatonError) as caught:
        client.define_fleet("here", {**definition, "max": 0})
    assert (caught.value.status, caught.value.errors[0].field) == (422, "max")
    client.remove_fleet("here", drain=True)
    assert client.fleets() == []
