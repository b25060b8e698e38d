"""Consecutive numbers as spans."""

from __future__ import annotations

from typing import Iterator, List, Optional, Tuple


def spans(numbers: List[int]) -> Iterator[Tuple[int, int]]:
    """The spans of ascending numbers.

    >>> list(spans([1, 2, 3, 7, 9, 10]))
    [(1, 3), (7, 7), (9, 10)]
    """
    first: Optional[int] = None
    for at, number in enumerate(numbers):
        first = number if first is None else first
        if at + 1 == len(numbers) or numbers[at + 1] != number + 1:
            yield first, number
            first = None
