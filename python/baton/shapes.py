"""What the server tells, as plain data. Fields that a later server adds are passed over."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, Dict, List, Mapping, Optional

#: States in which a run stays until somebody resumes it.
ENDED = frozenset({"DONE", "FAILED", "HALTED", "ABORTED"})


@dataclass(frozen=True)
class ItemCounts:
    """How many items are where. `total` is their sum."""

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
    def read(cls, told: Mapping[str, Any]) -> ItemCounts:
        """As the server tells it."""
        return cls(**{each.name: int(told.get(each.name, 0)) for each in fields(cls)})


@dataclass(frozen=True)
class RunProblem:
    """An item that could not begin, and why."""

    task: str
    item: int
    text: str

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> RunProblem:
        """As the server tells it."""
        return cls(task=told["task"], item=told["item"], text=told["text"])


@dataclass(frozen=True)
class RunEdge:
    """That a task comes after another."""

    task: str
    condition: str
    by_item: bool


@dataclass(frozen=True)
class RunTask:
    """One task of a run."""

    name: str
    index: int
    items: ItemCounts
    after: List[RunEdge]
    #: Its items are not known yet: they are what another task puts out.
    unmapped: bool = False
    when: Optional[str] = None
    #: What most of those that wait are waiting for.
    reason: Optional[str] = None
    mean_seconds: Optional[float] = None

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> RunTask:
        """As the server tells it."""
        return cls(
            name=told["name"],
            index=told["index"],
            items=ItemCounts.read(told["items"]),
            after=[
                RunEdge(each["task"], each["condition"], each["byItem"])
                for each in told.get("after", [])
            ],
            unmapped=told.get("unmapped", False),
            when=told.get("when"),
            reason=told.get("reason"),
            mean_seconds=told.get("meanSeconds"),
        )


@dataclass(frozen=True)
class RunItem:
    """An item whose instance has ended, or is on its way."""

    task: str
    item: int
    instance: str
    state: str
    generation: int
    #: What it is an instance for, where its task has `for_each` or `matrix`.
    value: Any = None
    #: Milliseconds since 1970, by its worker's clock.
    started_at: Optional[int] = None
    ended_at: Optional[int] = None
    worker: Optional[str] = None
    #: How its last attempt ended, in words.
    end_text: Optional[str] = None
    #: What it has put out.
    outputs: Optional[Dict[str, Any]] = None

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> RunItem:
        """As the server tells it."""
        outputs = told.get("outputs")
        return cls(
            task=told["task"],
            item=told["item"],
            instance=told["instance"],
            state=told["state"],
            generation=told["generation"],
            value=told.get("value"),
            started_at=told.get("startedAt"),
            ended_at=told.get("endedAt"),
            worker=told.get("worker"),
            end_text=told.get("endText"),
            outputs=None if outputs is None else json.loads(outputs),
        )


@dataclass(frozen=True)
class ErrorGroup:
    """Failures of a run that are alike."""

    task: str
    end_text: str
    count: int
    #: The instance of one of them.
    example: str

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> ErrorGroup:
        """As the server tells it."""
        return cls(
            task=told["task"],
            end_text=told["endText"],
            count=told["count"],
            example=told["example"],
        )
