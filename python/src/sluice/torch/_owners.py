"""The memory that optimizers have: two parameters never share any, and one may get other memory."""

from __future__ import annotations

import bisect
import gc
import threading
import weakref
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from .. import errors
from ._shards import local_of
from ._slots import UNREAD, Slot, check_movable, refuse

if TYPE_CHECKING:
    from ._state_dicts import StateDicts


class _Owned(NamedTuple):
    """Memory of a parameter that an optimizer has, while both live and the tensor is there still."""

    start: int  # address of the first byte
    end: int    # address behind the last byte
    name: str
    optimizer: "weakref.ref[Any]"
    tensor: "weakref.ref[Any]"

    @property
    def holds(self) -> bool:
        """Whether the optimizer has it still."""
        tensor = self.tensor()
        alive = self.optimizer() is not None and tensor is not None
        return alive and int(local_of(tensor).data_ptr()) == self.start


class Owners:
    """The memory of the parameters of all optimizers of a process. No two entries overlap.

    A look-up takes O(log n) of n parameters. Threads: any.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # garbage collection may close an optimizer meanwhile
        # Sorted by address. One list, as Ctrl-C may come between changes of two.
        self._owned: list[_Owned] = []

    def take(self, optimizer: Any, slot: Slot) -> None:
        """The optimizer has the parameter from now on. Raises InvalidArgument if another has it."""
        problem = self._try(optimizer, slot)
        if problem is not None:
            gc.collect()  # cycles, as of Lightning's objects, keep an optimizer that nobody has any more
            problem = self._try(optimizer, slot)
        if problem is not None:
            raise refuse(slot.name, problem)

    def _try(self, optimizer: Any, slot: Slot) -> Optional[str]:
        """Takes the parameter unless another has it. Returns the problem then."""
        start, end = slot.address, slot.address + slot.nbytes
        if start == end:
            return None
        with self._lock:
            while (index := self._last_before(end)) >= 0:
                owned = self._owned[index]
                if owned.end <= start:
                    break
                if owned.holds:
                    return _problem(optimizer, slot, owned)
                self._drop(owned)
            new = _Owned(start, end, slot.name, weakref.ref(optimizer), weakref.ref(slot.tensor))
            self._owned.insert(self._last_before(start) + 1, new)
        return None

    def give_back(self, optimizer: Any, slot: Slot) -> None:
        """The optimizer has the parameter no more. One that has taken it since keeps it."""
        with self._lock:
            index = self._last_before(slot.address + 1)
            owned = self._owned[index] if index >= 0 else None
            if owned is None or owned.start != slot.address or owned.tensor() is not slot.tensor:
                return
            if owned.optimizer() is optimizer:
                self._drop(owned)

    def _last_before(self, end: int) -> int:
        """Index of the entry that begins last before an address, or -1. Others end before that one begins."""
        return bisect.bisect_left(self._owned, (end,)) - 1

    def _drop(self, owned: _Owned) -> None:
        index = self._last_before(owned.start + 1)
        if index >= 0 and self._owned[index] is owned:
            del self._owned[index]


def _problem(optimizer: Any, slot: Slot, owned: _Owned) -> str:
    if owned.optimizer() is optimizer:
        return (f"has memory that overlaps that of the parameter '{owned.name}' of this optimizer; give each "
                "memory of its own (p.clone()), or both modules the same parameter")
    if owned.tensor() is slot.tensor:
        return "belongs to another optimizer of sluice already; close() that one first"
    return (f"has memory that overlaps that of the parameter '{owned.name}' of another optimizer of sluice; "
            "close() that one first, or give each memory of its own (p.clone())")


# The one of this process.
OWNERS = Owners()


def follow(optimizer: "StateDicts", needed: Collection[Slot]) -> None:
    """Has the optimizer update the memory that its parameters have now.

    As torch's optimizers do: ``Module.to``, accelerate and ``p.data = ...`` give a parameter other memory.
    Raises InvalidArgument (names the parameter) where one that is needed has memory that no parameter can
    have, FailedPrecondition while the update of one is under way: nothing has changed then.
    """
    moved = [slot for slot in optimizer._slots.values()
             if slot.has_moved and (slot in needed or _is_movable(slot))]
    if not moved:
        return
    for slot in moved:
        check_movable(slot)
    optimizer._finish()
    # An error, or Ctrl-C, may end this anywhere: the next call begins anew.
    for slot in moved:
        slot.leave_place()
        OWNERS.give_back(optimizer, slot)
    try:
        for slot in moved:
            slot.take_place()
            slot.version = UNREAD  # a master is compared with it
            OWNERS.take(optimizer, slot)
        optimizer._core.move([(slot.parameter, slot.address, slot.local.nbytes) for slot in moved])
    except BaseException:
        for slot in moved:
            OWNERS.give_back(optimizer, slot)
        raise
    for slot in moved:
        slot.before = {}


def _is_movable(slot: Slot) -> bool:
    try:
        check_movable(slot)
    except errors.InvalidArgument:
        return False
    return True
