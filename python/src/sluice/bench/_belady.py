"""The fewest pages that passes which repeat can read: Belady's optimum, page by page."""

from __future__ import annotations

import heapq
from collections.abc import Sequence, Set

# Passes at most until the pages in memory are those of an earlier pass's end.
_PASSES_MAX = 256


def least_pages(ops: Sequence[Set[int]], frames: int) -> float:
    """Pages read per pass at least, once passes have settled.

    ops
        Pages of each op of a pass, in the order of the pass. An op has all of its pages in memory.
    frames
        Pages that fit into memory.

    Pages come when an op needs them, and the one leaves whose next use is furthest: no other choice
    reads fewer, and reading ahead takes frames from it. Raises ValueError if an op does not fit.
    """
    largest = max(len(op) for op in ops)
    if largest > frames:
        raise ValueError(f"an op uses {largest} pages, and {frames} fit")
    memory = _Memory(_next_uses(ops), frames)
    ended: dict[frozenset[int], int] = {}
    reads: list[int] = []
    for number in range(_PASSES_MAX):
        reads.append(sum(memory.use(number * len(ops) + at, op) for at, op in enumerate(ops)))
        first = ended.setdefault(memory.pages, number)
        if first < number:
            return sum(reads[first + 1:]) / (number - first)
    return sum(reads[_PASSES_MAX // 2:]) / (_PASSES_MAX - _PASSES_MAX // 2)


def _next_uses(ops: Sequence[Set[int]]) -> list[dict[int, int]]:
    """Number of ops after which each page is used again, by op and page."""
    distances: list[dict[int, int]] = [{} for _ in ops]
    seen: dict[int, int] = {}
    for at in reversed(range(2 * len(ops))):
        for page in ops[at % len(ops)]:
            if at < len(ops):
                distances[at][page] = seen[page] - at
            seen[page] = at
    return distances


class _Memory:
    """Pages in memory, and when each is used next."""

    def __init__(self, distances: list[dict[int, int]], frames: int) -> None:
        self._distances = distances
        self._frames = frames
        self._next: dict[int, int] = {}
        # The furthest first; entries of earlier uses are skipped.
        self._furthest: list[tuple[int, int]] = []

    @property
    def pages(self) -> frozenset[int]:
        """The pages in memory."""
        return frozenset(self._next)

    def use(self, at: int, op: Set[int]) -> int:
        """Has the op's pages in memory; returns how many were read for it."""
        missing = sum(page not in self._next for page in op)
        for page in op:
            self._next.pop(page, None)
        while len(self._next) + len(op) > self._frames:
            negative, page = heapq.heappop(self._furthest)
            if self._next.get(page) == -negative:
                del self._next[page]
        for page, distance in self._distances[at % len(self._distances)].items():
            self._next[page] = at + distance
            heapq.heappush(self._furthest, (-at - distance, page))
        return missing
