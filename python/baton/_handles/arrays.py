"""Arrays: many instances that were submitted together, with consecutive ids."""

from __future__ import annotations

from collections.abc import Sequence as _Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Dict,
    Iterator,
    List,
    Optional,
    Tuple,
    Union,
    overload,
)

from .._records.views import ENDED, ItemCounts
from ..errors import InstanceFailed
from .instances import Handle, Instance, cancel

if TYPE_CHECKING:
    from .._client.client import Client

# The states of instances, as a progress display counts them.
_COUNTED = {
    "REGISTERING": "waiting",
    "QUEUED": "queued",
    "INSTANTIATING": "queued",
    "LAUNCHED": "queued",
    "RUNNING": "running",
    "TRIAGING": "running",
    "DONE": "done",
    "FAILED": "failed",
    "HALTED": "halted",
    "ABORTED": "halted",
}


class Array(Handle, _Sequence):  # type: ignore[type-arg]
    """Instances with consecutive ids, submitted together; a sequence of them."""

    kind = "array"

    def __init__(self, client: Client, first: int, last: int, name: str = "") -> None:
        super().__init__(client, {"id": f"i{first}..i{last}", "name": name})
        self.first, self.last = first, last
        self._elements: Dict[int, Instance] = {}

    def __repr__(self) -> str:
        return f"<array {self.id} of {self.name}: {self.counts}>"

    def __len__(self) -> int:
        return self.last - self.first + 1

    @overload
    def __getitem__(self, at: int) -> Instance: ...

    @overload
    def __getitem__(self, at: slice) -> List[Instance]: ...

    def __getitem__(self, at: Union[int, slice]) -> Union[Instance, List[Instance]]:
        """The element at a position from 0, which is not its index in the array; its state is not
        fetched yet.
        """
        numbers = range(self.first, self.last + 1)
        if isinstance(at, slice):
            return [self._element(number) for number in numbers[at]]
        return self._element(numbers[at])

    def __iter__(self) -> Iterator[Instance]:
        return (self._element(number) for number in range(self.first, self.last + 1))

    @property
    def counts(self) -> Dict[str, int]:
        """The last known number of elements by state."""
        return dict(self.info.get("counts", {}))

    @property
    def state(self) -> str:
        """DONE if all are, FAILED or HALTED if all have ended otherwise, RUNNING or QUEUED."""
        counts = self.counts
        if sum(counts.get(state, 0) for state in ENDED) < sum(counts.values()) or not counts:
            return "RUNNING" if counts.get("RUNNING") else "QUEUED"
        bad = (state for state in ("FAILED", "ABORTED", "HALTED") if counts.get(state))
        return next(bad, "DONE")

    @property
    def item_counts(self) -> Optional[ItemCounts]:
        """The last known number of elements by state."""
        numbers: Dict[str, int] = {}
        for state, count in self.counts.items():
            word = _COUNTED.get(state, "running")
            numbers[word] = numbers.get(word, 0) + count
        return ItemCounts(**numbers) if numbers else None

    @property
    def open_count(self) -> int:
        """The last known number of elements that have not ended."""
        return len(self) - sum(self.counts.get(state, 0) for state in ENDED)

    def wait(self, timeout: Optional[float] = None, progress: bool = False) -> Array:
        """Waits until all are DONE.

        Raises `InstanceFailed` about the first that has failed when all have ended.
        """
        self.wait_end(timeout, progress)
        self.raise_failure()
        return self

    def raise_failure(self) -> None:
        """Raises the failure of one element, if not all are DONE."""
        if self.state == "DONE":
            return
        for each in self.failed():
            raise InstanceFailed(each, each.stderr_tail(), self)

    def failed(self) -> Iterator[Instance]:
        """The elements that have ended and are not DONE, the first one first."""
        found = [each for each in self.states() if each.ended and each.state != "DONE"]
        return iter(sorted(found, key=lambda each: each.number))

    def states(self) -> Iterator[Instance]:
        """The elements that have ended or are in flight, with their state, read page by page."""
        name = self.name or self[0].refresh().name
        for each in self.client.instances(name=name):
            if self.first <= each.number <= self.last:
                yield each

    def cancel(self, now: bool = False) -> Tuple[int, int]:
        """Ends all that have not ended: the numbers of those that waited, and of those that ran."""
        return cancel(self.client, self.id, now)

    def retry(self) -> List[Instance]:
        """Queues those again that have ended and are not DONE."""
        return [each.retry() for each in self.failed()]

    def _element(self, number: int) -> Instance:
        # One object for each, so that it keeps the state that was fetched.
        if number not in self._elements:
            data = {"id": f"i{number}", "name": self.name}
            self._elements[number] = Instance(self.client, data)
        return self._elements[number]

    def _read(self, data: Dict[str, Any]) -> None:
        counts = {str(state): int(count) for state, count in data["counts"].items()}
        self.info = {**self.info, **data, "id": self.info["id"], "counts": counts}
