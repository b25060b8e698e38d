"""A program over the client that openapi-python-client generates, against a real server.

Usage: program.py URL DIRECTORY-OF-THE-CLIENT
"""

import sys
from http import HTTPStatus

url, directory = sys.argv[1:]
sys.path.insert(0, directory)

from api.api.instances import show, submit, timeline
from api.api.library import create_task, task
from api.api.views import history
from api.client import Client
from api.models import (
    EntryFile,
    FactLeaseGranted,
    FactLeaseGrantedVariant,
    Instance,
    InstanceWithOutputs,
    ListEvent,
    ListInstance,
    Problem,
    RangeSummary,
    Submit,
    SubmitReply,
    Task,
    UniversalState,
)

client = Client(base_url=url)


def one_is_submitted_and_read_back() -> None:
    body = Submit.from_dict({"file": {"task": "generated", "run": "echo hello"}})
    reply = submit.sync(client=client, body=body)
    assert isinstance(reply, SubmitReply) and reply.count == 1, reply
    shown = show.sync(reply.first, client=client, wait=60)
    assert isinstance(shown, InstanceWithOutputs), shown
    assert shown.state is UniversalState.DONE and shown.attempts == 1, shown
    assert shown.links["self"] == f"/instances/{reply.first}"
    events = timeline.sync(reply.first, client=client)
    assert isinstance(events, ListEvent), events
    granted = [it.fact for it in events.items if isinstance(it.fact, FactLeaseGrantedVariant)]
    assert len(granted) == 1, events
    assert isinstance(granted[0].lease_granted, FactLeaseGranted)
    assert granted[0].lease_granted.holder.worker == shown.worker


def instances_are_listed() -> None:
    found = history.sync(client=client, name="generated")
    assert isinstance(found, ListInstance) and len(found.items) == 1, found
    assert isinstance(found.items[0], Instance) and found.items[0].name == "generated"


def a_range_has_another_type() -> None:
    body = Submit.from_dict({"file": {"task": "many", "run": "true"}, "array": {"from": 0, "to": 3}})
    reply = submit.sync(client=client, body=body)
    assert isinstance(reply, SubmitReply) and reply.count == 4, reply
    shown = show.sync(f"{reply.first}..{reply.last}", client=client, wait=60)
    assert isinstance(shown, RangeSummary), shown
    assert shown.counts["DONE"] == 4, shown


def an_error_has_its_type() -> None:
    body = Submit.from_dict({"file": {"task": "generated", "runn": "true"}})
    answer = submit.sync_detailed(client=client, body=body)
    assert answer.status_code == HTTPStatus.UNPROCESSABLE_ENTITY, answer
    assert isinstance(answer.parsed, Problem), answer
    assert answer.parsed.errors[0].field == "runn", answer.parsed
    missing = show.sync("i999999", client=client)
    assert isinstance(missing, Problem) and missing.status == 404, missing


def an_entry_is_created_and_read() -> None:
    file = EntryFile.from_dict({"task": "generated", "run": "true", "trigger": {"schedule": "every day at 3:00"}})
    create_task.sync(owner="generated", client=client, body=file)
    entry = task.sync(owner="generated", name="generated", client=client)
    assert isinstance(entry, Task), entry
    assert entry.trigger.schedule.slack == 3_600_000, entry


for check in (
    one_is_submitted_and_read_back,
    instances_are_listed,
    a_range_has_another_type,
    an_error_has_its_type,
    an_entry_is_created_and_read,
):
    check()
