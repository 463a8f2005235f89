"""The order in which saved tensors are used: recorded in one backward pass, expected in the next."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from ._stash import Stash

# Passes of different shape whose orders are kept; the oldest goes.
_ORDERS_MAX = 256


class Pass:
    """The stashes of one run of saves, up to the first use of one of them."""

    __slots__ = ("closed", "next", "place", "plan", "record", "sizes", "stashes", "used")

    def __init__(self) -> None:
        self.stashes: list[weakref.ref[Stash]] = []
        self.sizes: list[int] = []
        self.closed = False
        # The expected order as indices into stashes, each index's place in it, and the next place.
        self.plan: list[int] = []
        self.place: dict[int, int] = {}
        self.next = 0
        # The order that is seen, and the same as a set.
        self.record: list[int] = []
        self.used: set[int] = set()


class Orders:
    """Passes and their orders. Threads: any; each thread saves into passes of its own."""

    def __init__(self) -> None:
        self._orders: dict[tuple[int, ...], list[int]] = {}
        self._current = threading.local()

    def add(self, stash: "Stash") -> None:
        """Adds a new stash to the pass of this thread."""
        current: Optional[Pass] = getattr(self._current, "value", None)
        if current is None or current.closed:
            current = self._current.value = Pass()
        stash.run = current
        stash.index = len(current.stashes)
        current.stashes.append(weakref.ref(stash))
        current.sizes.append(stash.size)

    def use(self, stash: "Stash") -> None:
        """Records a use. The first one of a pass ends its saves."""
        run = stash.run
        if not run.closed:
            self._close(run)
        place = run.place.get(stash.index)
        if place is None:  # saved, or used, while another thread ended the saves
            return
        if stash.index not in run.used:
            run.used.add(stash.index)
            run.record.append(stash.index)
        run.next = place + 1

    def coming(self, run: Pass) -> "Iterator[Stash]":
        """The stashes that are expected next, without those that are gone."""
        for place in range(run.next, len(run.plan)):
            stash = run.stashes[run.plan[place]]()
            if stash is not None:
                yield stash

    def _close(self, run: Pass) -> None:
        run.closed = True
        key = (len(run.sizes), hash(tuple(run.sizes)))
        last_first = range(len(run.sizes) - 1, -1, -1)
        known = self._orders.get(key, [])
        seen = set(known)
        run.plan = [*known, *(index for index in last_first if index not in seen)]
        run.place = {index: place for place, index in enumerate(run.plan)}
        # A pass that ended early leaves a short record, which replaces the older order all the same.
        self._orders.pop(key, None)
        self._orders[key] = run.record
        if len(self._orders) > _ORDERS_MAX:
            self._orders.pop(next(iter(self._orders)), None)
