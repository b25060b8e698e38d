"""Changes to several instances at once, by their ids."""

from __future__ import annotations

from typing import Any, Iterator, List, Tuple, Union

from .._transport.transport import Transport
from ..errors import BatonError, Problem
from .instances import Handle

#: An instance or an array, or an id such as `i12` or `i1..i9`.
Which = Union[Handle, str]

# Ids and ranges of one request; a scheduler accepts twice as many.
_MOST = 100


class Several:
    """The part of a client that changes several instances at once."""

    transport: Transport

    def cancel_all(self, *which: Which, now: bool = False) -> Tuple[int, int]:
        """Ends instances: the numbers of those that waited, and of those that ran."""
        return self._counts("DELETE", which, "", ("halted", "stopping"), now="true" if now else None)

    def kill_all(self, *which: Which, now: bool = False) -> Tuple[int, int]:
        """Kills the attempts that run, and retries follow: the numbers of killed and skipped ones."""
        return self._counts("POST", which, "kill", ("killed", "skipped"), now="true" if now else None)

    def retry_all(self, *which: Which, state: str = "FAILED") -> Tuple[int, int]:
        """Queues those again that are FAILED, or HALTED: the numbers of retried and skipped ones."""
        return self._counts("POST", which, "retry", ("retried", "skipped"), state=state)

    def _counts(
        self, method: str, which: Tuple[Which, ...], what: str, names: Tuple[str, str], **query: Any
    ) -> Tuple[int, int]:
        first = second = 0
        for ids in _requests(which):
            path = self.transport.at("instances", ids, *([what] if what else []))
            data = self.transport.change(method, path, query=query)
            with self.transport.decoding(path):
                first, second = first + int(data[names[0]]), second + int(data[names[1]])
        return first, second


def _requests(which: Tuple[Which, ...]) -> Iterator[str]:
    """The ids of each request, as ranges, so that the reply has counts.

    >>> list(_requests(("i1", "i3..i9")))
    ['i1..i1,i3..i9']
    """
    ids: List[str] = []
    for each in which:
        id = str(getattr(each, "id", each))
        ids.append(id if ".." in id else f"{id}..{id}")
    if not ids:
        raise BatonError(Problem("no instance is named", "pass ids such as i12 or i1..i9"))
    for place in range(0, len(ids), _MOST):
        yield ",".join(ids[place : place + _MOST])
