"""Responses of the server as plain data. Unknown fields of later servers are ignored."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any, Dict, List, Mapping, Optional, Tuple

#: States of an ended run; it may be resumed.
ENDED = frozenset({"DONE", "FAILED", "HALTED", "ABORTED"})


@dataclass(frozen=True)
class ItemCounts:
    """The number of items by state. `total` is their sum."""

    waiting: int = 0
    ready: int = 0
    queued: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    halted: int = 0
    skipped: int = 0
    blocked: int = 0

    @property
    def total(self) -> int:
        """All items."""
        return sum(getattr(self, each.name) for each in fields(self))

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> ItemCounts:
        """Reads the server's JSON."""
        return cls(**{each.name: int(data.get(each.name, 0)) for each in fields(cls)})


@dataclass(frozen=True)
class RunProblem:
    """An item that could not start, with the reason."""

    task: str
    item: int
    text: str

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> RunProblem:
        """Reads the server's JSON."""
        return cls(task=data["task"], item=data["item"], text=data["text"])


@dataclass(frozen=True)
class Submitter:
    """The client that has submitted an instance or a run, or triggered it."""

    #: `token`, `certificate`, `trigger-secret`, or `unauthenticated`: then the name is only claimed.
    kind: str
    #: For people: `ann (token t3)`.
    text: str
    #: Name of its token or certificate, or of its user.
    name: Optional[str] = None
    #: Id of its token.
    token: Optional[str] = None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Submitter:
        """Reads the server's JSON."""
        return cls(
            kind=data["kind"],
            text=data["text"],
            name=data.get("name"),
            token=data.get("token"),
        )


@dataclass(frozen=True)
class Limit:
    """A cluster-wide limit of a resource."""

    name: str
    capacity: int
    #: More than the capacity after that was lowered. Of a rate, what recent starts have taken of its burst.
    used: int
    #: Waiting instances that request it.
    waiting: int
    #: `flag` (of the scheduler) or `run-time`.
    origin: str
    #: The capacity that the scheduler's flag sets.
    default: Optional[int] = None
    #: Starts per time, such as `10/s`, if it is a rate; the capacity is then its burst.
    rate: Optional[str] = None
    #: Of a rate that is used up: seconds until the next start is possible.
    next_start_seconds: Optional[float] = None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Limit:
        """Reads the server's JSON."""
        return cls(
            name=data["name"],
            capacity=data["capacity"],
            used=data["used"],
            waiting=data["waiting"],
            origin=data["origin"],
            default=data.get("default"),
            rate=data.get("rate"),
            next_start_seconds=data.get("nextStartSeconds"),
        )


@dataclass(frozen=True)
class ArrayLimit:
    """The concurrency limit of an array."""

    #: Its first and its last instance.
    first: str
    last: str
    #: How many elements may run at once; `None` if there is no limit.
    max_concurrent: Optional[int]
    #: Elements that a worker has.
    in_flight: int

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> ArrayLimit:
        """Reads the server's JSON."""
        return cls(
            first=data["first"],
            last=data["last"],
            max_concurrent=data["maxConcurrent"],
            in_flight=data["inFlight"],
        )


@dataclass(frozen=True)
class Share:
    """The share of an owner in fair turns."""

    owner: str
    #: Turns for each one of an owner with weight 1.
    weight: int

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Share:
        """Reads the server's JSON."""
        return cls(owner=data["owner"], weight=data["weight"])


@dataclass(frozen=True)
class Alarm:
    """Work that is late, slow, short or stuck."""

    #: `late`, `slow`, `short` or `stuck`.
    kind: str
    #: The instance, array or run: `i7`, `i2..i301` or `r5`.
    subject: str
    owner: str
    #: The name of its task or workflow.
    name: str
    #: Milliseconds since 1970.
    raised_at: int
    #: The rest of a sentence that begins with the name.
    reason: str

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Alarm:
        """Reads the server's JSON."""
        return cls(
            kind=data["kind"],
            subject=data["subject"],
            owner=data["owner"],
            name=data["name"],
            raised_at=data["raisedAt"],
            reason=data["reason"],
        )


@dataclass(frozen=True)
class WaitGroup:
    """Queued instances that wait for the same."""

    count: int
    #: The first of them, such as `i7`.
    first: str
    #: The reason in a word, as `explain` has it.
    reason: str
    #: The reason as a sentence, with a hint.
    text: str

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> WaitGroup:
        """Reads the server's JSON."""
        return cls(
            count=data["count"],
            first=data["first"],
            reason=data["reason"],
            text=data["text"],
        )


@dataclass(frozen=True)
class Percentiles:
    """The distribution of an amount over attempts."""

    p50: float
    p95: float
    max: float

    @classmethod
    def read(cls, data: Optional[Mapping[str, Any]]) -> Optional[Percentiles]:
        """Reads the server's JSON."""
        if data is None:
            return None
        return cls(p50=data["p50"], p95=data["p95"], max=data["max"])


@dataclass(frozen=True)
class TaskUsage:
    """What the last attempts of a task have used, beside what they requested.

    Percentiles are those of the attempts that succeeded; elements of an array and items of a workflow are attempts of
    one task.
    """

    owner: str
    #: The name of its workflow, if it is a task of one.
    workflow: Optional[str]
    #: None for the runs of the workflow as a whole.
    task: Optional[str]
    #: Attempts that were looked at: the last ones, at most 200.
    attempts: int
    succeeded: int
    failed: int
    out_of_memory: int
    timed_out: int
    #: Requested CPUs, and bytes of memory: what a worker must have, and the limit; 0 for none.
    cpus: float
    memory_requested: int
    memory_limit: int
    #: CPU time over run time.
    cores: Optional[Percentiles]
    #: The largest resident memory of one process, in bytes.
    memory: Optional[Percentiles]
    elapsed_seconds: Optional[Percentiles]
    #: Lines for the file of the task; none if its requests suit it, or nothing can be said.
    lines: Tuple[str, ...]
    #: A sentence for each request, or the reason for which there is no suggestion.
    reasons: Tuple[str, ...]

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> TaskUsage:
        """Reads the server's JSON."""
        requested, suggestion = data["requested"], data["suggestion"]
        return cls(
            owner=data["owner"],
            workflow=data.get("workflow"),
            task=data.get("task"),
            attempts=data["attempts"],
            succeeded=data["succeeded"],
            failed=data["failed"],
            out_of_memory=data["outOfMemory"],
            timed_out=data["timedOut"],
            cpus=requested["cpus"],
            memory_requested=requested["memory"],
            memory_limit=requested["memoryLimit"],
            cores=Percentiles.read(data.get("cores")),
            memory=Percentiles.read(data.get("memory")),
            elapsed_seconds=Percentiles.read(data.get("elapsedSeconds")),
            lines=tuple(suggestion["lines"]),
            reasons=tuple(suggestion["reasons"]),
        )


@dataclass(frozen=True)
class Secret:
    """A secret, without its value."""

    #: `*` for a secret of every owner.
    owner: str
    name: str
    #: `store`, or what the scheduler's file says: `file`, `environment` or `command`.
    source: str
    #: 1 for the first value; only of the store, as what follows.
    version: Optional[int] = None
    #: Milliseconds since 1970.
    set_at: Optional[int] = None
    set_by: Optional[str] = None
    #: When it was last sent to a worker, to the minute.
    used_at: Optional[int] = None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Secret:
        """Reads the server's JSON."""
        return cls(
            owner=data["owner"],
            name=data["name"],
            source=data["source"],
            version=data.get("version"),
            set_at=data.get("setAt"),
            set_by=data.get("setBy"),
            used_at=data.get("usedAt"),
        )


@dataclass(frozen=True)
class FleetJob:
    """A job that was requested of a fleet: the cluster manager runs it as one unit."""

    #: Such as `p12`.
    id: str
    fleet: str
    #: Its name in the lists of the cluster manager.
    name: str
    #: Its state and the reason for it, in words.
    text: str
    #: Workers that it starts.
    workers: int
    #: The nodes on which it runs or ran.
    nodes: Tuple[str, ...]
    #: Times are milliseconds since 1970.
    requested_at: int
    started_at: Optional[int] = None
    #: When the first of its workers connected.
    arrived_at: Optional[int] = None
    ended_at: Optional[int] = None
    #: Its id there, once that is known.
    native: Optional[str] = None
    #: The last state that the cluster manager reported, such as `queued` or `running`.
    state: Optional[str] = None
    #: How it ended, such as `ended`, `failed` or `preempted`; None if it has not.
    end: Optional[str] = None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> FleetJob:
        """Reads the server's JSON."""
        return cls(
            id=data["id"],
            fleet=data["fleet"],
            name=data["name"],
            text=data["text"],
            workers=data["workers"],
            nodes=tuple(data["nodes"]),
            requested_at=data["requestedAt"],
            started_at=data.get("startedAt"),
            arrived_at=data.get("arrivedAt"),
            ended_at=data.get("endedAt"),
            native=data.get("native"),
            state=data.get("state"),
            end=data.get("end"),
        )


@dataclass(frozen=True)
class Fleet:
    """A fleet: where the scheduler obtains workers."""

    name: str
    #: `slurm`, `ssh`, `local` or `command`.
    backend: str
    #: Its definition, as in a file of fleets.
    definition: Dict[str, Any]
    #: It requests nothing until it is resumed.
    paused: bool
    #: Workers that are connected, that were requested and are not connected yet, and of all its jobs.
    workers: int
    expected: int
    requested: int
    #: Workers that there may be.
    max: int
    #: Further workers that would help.
    wanted: int
    #: What it requests now or next, and why no more.
    plan: str
    #: What an operator should know.
    alarms: Tuple[str, ...]
    #: Its jobs that have not ended.
    jobs: Tuple[FleetJob, ...]
    #: The file that defines it; None if a client has.
    file: Optional[str] = None
    #: How its last jobs end, if it was removed: `cancel` or `drain`.
    removed: Optional[str] = None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Fleet:
        """Reads the server's JSON."""
        return cls(
            name=data["name"],
            backend=data["backend"],
            definition=dict(data["definition"]),
            paused=data["paused"],
            workers=data["workers"],
            expected=data["expected"],
            requested=data["requested"],
            max=data["max"],
            wanted=data["wanted"],
            plan=data["plan"],
            alarms=tuple(data["alarms"]),
            jobs=tuple(FleetJob.read(each) for each in data["jobs"]),
            file=data.get("file"),
            removed=data.get("removed"),
        )


@dataclass(frozen=True)
class MeasuredUse:
    """What the attempts of a worker use, in sum, as the worker has measured it."""

    #: Thousandths of a core, over the last seconds.
    cpu_milli: int
    #: Bytes of resident memory.
    memory: int


@dataclass(frozen=True)
class Worker:
    """A worker, as the scheduler knows it."""

    name: str
    state: str
    #: It gets no new work.
    drained: bool
    #: Attempts that it may be running, and how many it may hold.
    attempts: int
    slots: int
    #: Its resources: `cpu_milli` (thousandths of a core), `memory` and `disk` (bytes), `gpu`, `named`.
    capacity: Dict[str, Any]
    #: What its attempts have claimed of them.
    used: Dict[str, Any]
    labels: Dict[str, str]
    #: Seconds since its last message.
    heard_seconds: float
    #: What its attempts use; None if it has not been measured.
    measured: Optional[MeasuredUse] = None
    #: Why it cannot launch anything, and gets no new work; None if it can.
    fault: Optional[str] = None
    #: If unrelated work fails there and succeeds elsewhere: `failed` of `ended` kinds of work there,
    #: `failedElsewhere` of `endedElsewhere` on the other workers; None if it does not.
    suspicion: Optional[Dict[str, int]] = None
    #: Its devices, such as GPUs: of each `resource`, `id`, `free` (1 for all of it) and, where attempts
    #: hold it, `holders` with `instance`, `attempt` and `amount`.
    devices: Tuple[Dict[str, Any], ...] = ()
    #: The address by which it has reached the scheduler, and its proxy; None if it has not said.
    dialled: Optional[str] = None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Worker:
        """Reads the server's JSON."""
        measured = data.get("measured")
        return cls(
            name=data["name"],
            state=data["state"],
            drained=data["drained"],
            attempts=data["attempts"],
            slots=data["slots"],
            capacity=dict(data["capacity"]),
            used=dict(data["used"]),
            labels=dict(data["labels"]),
            heard_seconds=data["heardSeconds"],
            measured=measured and MeasuredUse(measured["cpu_milli"], measured["memory"]),
            fault=data.get("fault"),
            suspicion=data.get("suspicion"),
            devices=tuple(data.get("devices", ())),
            dialled=data.get("dialled"),
        )


@dataclass(frozen=True)
class RunEdge:
    """A dependency on an upstream task."""

    task: str
    condition: str
    by_item: bool


@dataclass(frozen=True)
class InstanceProgress:
    """How far an attempt has come: the newest line that it has reported."""

    #: Steps that are done, and all of them; 100 for a percentage. None if it is a message alone.
    done: Optional[int]
    total: Optional[int]
    message: str
    #: When it was reported: milliseconds since 1970, by its worker's clock.
    at: int
    #: Of a task of a run: the instance that was the last to report.
    instance: Optional[str] = None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> InstanceProgress:
        """Reads the server's JSON."""
        return cls(
            done=data.get("done"),
            total=data.get("total"),
            message=data.get("message", ""),
            at=data["at"],
            instance=data.get("instance"),
        )


@dataclass(frozen=True)
class RunTask:
    """One task of a run."""

    name: str
    index: int
    items: ItemCounts
    after: List[RunEdge]
    #: Its items are not known yet: they are an output of another task.
    unmapped: bool = False
    when: Optional[str] = None
    #: The block reason of most of its waiting items.
    reason: Optional[str] = None
    mean_seconds: Optional[float] = None
    #: What one of its running instances was the last to report.
    progress: Optional[InstanceProgress] = None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> RunTask:
        """Reads the server's JSON."""
        told = data.get("progress")
        return cls(
            name=data["name"],
            index=data["index"],
            items=ItemCounts.read(data["items"]),
            after=[
                RunEdge(each["task"], each["condition"], each["byItem"])
                for each in data.get("after", [])
            ],
            unmapped=data.get("unmapped", False),
            when=data.get("when"),
            reason=data.get("reason"),
            mean_seconds=data.get("meanSeconds"),
            progress=None if told is None else InstanceProgress.read(told),
        )


@dataclass(frozen=True)
class RunItem:
    """An item whose instance has ended or is in flight."""

    task: str
    item: int
    instance: str
    state: str
    generation: int
    #: Attempts of its instance so far.
    attempts: int = 0
    #: The value of the item, if its task has `for_each` or `matrix`.
    value: Any = None
    #: Milliseconds since 1970, by its worker's clock.
    started_at: Optional[int] = None
    ended_at: Optional[int] = None
    worker: Optional[str] = None
    #: A description of how its last attempt ended.
    end_text: Optional[str] = None
    outputs: Optional[Dict[str, Any]] = None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> RunItem:
        """Reads the server's JSON."""
        outputs = data.get("outputs")
        return cls(
            task=data["task"],
            item=data["item"],
            instance=data["instance"],
            state=data["state"],
            generation=data["generation"],
            attempts=data.get("attempts", 0),
            value=data.get("value"),
            started_at=data.get("startedAt"),
            ended_at=data.get("endedAt"),
            worker=data.get("worker"),
            end_text=data.get("endText"),
            outputs=None if outputs is None else json.loads(outputs),
        )


@dataclass(frozen=True)
class Process:
    """A process of an attempt, as its worker knows it now."""

    name: str
    state: str
    #: Runs so far, including a current one.
    runs: int
    #: Runs that count towards `max_failures`.
    failures: int
    #: Its process id on the host of the worker, while it runs.
    pid: Optional[int] = None
    #: Milliseconds since 1970, by its worker's clock.
    started_at: Optional[int] = None
    #: A description of how the run before has ended.
    last_end_text: Optional[str] = None
    #: Samples of its resource usage, oldest first, in the format of the API.
    usage: List[Dict[str, Any]] = field(default_factory=list)

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Process:
        """Reads the server's JSON."""
        return cls(
            name=data["name"],
            state=data["state"],
            runs=data["runs"],
            failures=data["failures"],
            pid=data.get("pid"),
            started_at=data.get("startedAt"),
            last_end_text=data.get("lastEndText"),
            usage=list(data["usage"]),
        )


@dataclass(frozen=True)
class ErrorGroup:
    """A group of equal failures of a run."""

    task: str
    end_text: str
    count: int
    #: The instance of one of them.
    example: str
    #: The last lines of its stderr, if they are known.
    stderr: Optional[str] = None

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> ErrorGroup:
        """Reads the server's JSON."""
        return cls(
            task=data["task"],
            end_text=data["endText"],
            count=data["count"],
            example=data["example"],
            stderr=data.get("stderrTail"),
        )
