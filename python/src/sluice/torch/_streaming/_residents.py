"""Experts that stay in dram from one use to the next, by a policy."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable, Set

from ... import _core
from ._changes import Changes
from ._expert_policies import Guarded, Key


@dataclasses.dataclass(eq=False)
class Expert:
    """Leases of an expert. It has no tensors: frames of an error would hold them."""

    key: Key
    name: str
    nbytes: int
    requests: list[_core._Request]
    pages: Set[int]
    # Runs of layers that use the expert, or have asked for it.
    users: set[object] = dataclasses.field(default_factory=set)
    _held: list[_core.HeldLease] = dataclasses.field(default_factory=list)
    _lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)

    @property
    def is_leased(self) -> bool:
        """Whether all pages are leased, and so stay."""
        return 0 < len(self._held) == len(self.requests)

    def lease(self, session: _core.Session) -> None:
        """Leases the pages until ``release``, unless they are. Raises as ``Runtime.lease``."""
        with self._lock:
            if self.is_leased:
                return
            self.release()  # an interrupt has left a part
            op = _core.Op(session, self.name, None)
            try:
                self._held += op.acquire(self.requests, None)
            finally:
                op.end()

    def release(self) -> None:
        """Ends the lease, or what there is of it. To be called without other users."""
        while self._held:
            self._held.pop().release()


class Residents:
    """The experts in dram, or on their way there. Their pages fit into the frames. Threads: any.

    ``run`` is an object for each run of a layer. A run that waits for room in ``use`` must not have
    asked for other experts: two runs would wait for each other.
    """

    def __init__(self, policy: Guarded, frames: int) -> None:
        self._policy = policy
        self._frames = frames
        self._experts: dict[Key, Expert] = {}
        # Number of residents that have each page: neighbours in a file share one.
        self._pages: dict[int, int] = {}
        # Whether the numbers are right: not during a count, nor after an interrupt in it.
        self._counted = True
        self._changes = Changes()

    def use(self, run: object, expert: Expert, soon: Set[Expert]) -> None:
        """Keeps the expert resident until ``leave``. Waits for others in use, if there is no room.

        soon
            Experts that the run uses next. They leave only where no other can.

        Raises InvalidArgument, as the policy does.
        """
        with self._changes.lock:
            self._policy.touch(expert.key)
        while True:
            with self._changes.lock:
                if self._enter(run, expert, soon, soon_may_leave=True):
                    return
                left = self._changes.next()
            left.acquire()

    def ask(self, run: object, expert: Expert, soon: Set[Expert]) -> bool:
        """Makes the expert resident like ``use``, if there is room now. Raises InvalidArgument."""
        with self._changes.lock:
            return self._enter(run, expert, soon, soon_may_leave=False)

    def leave(self, run: object, experts: Iterable[Expert]) -> None:
        """Ends what ``use`` and ``ask`` began, as far as they came."""
        with self._changes.lock:
            for expert in experts:
                used = run in expert.users
                expert.users.discard(run)
                if used and not expert.users and not expert.is_leased:
                    self._drop(expert)
            self._changes.tell()

    def drop_all(self) -> None:
        """Ends all leases. To be called while no layer runs."""
        with self._changes.lock:
            for expert in list(self._experts.values()):
                self._drop(expert)

    def __contains__(self, expert: Expert) -> bool:
        return expert.key in self._experts

    @property
    def in_use(self) -> list[str]:
        """Names of experts that layers use, or have asked for."""
        with self._changes.lock:
            return [expert.name for expert in self._experts.values() if expert.users]

    def _enter(self, run: object, expert: Expert, soon: Set[Expert], soon_may_leave: bool) -> bool:
        if expert.key not in self._experts:
            if not self._make_room(expert, soon, soon_may_leave):
                return False
            expert.users.add(run)  # first: ``leave`` drops it after an interrupt
            self._counted = False
            self._experts[expert.key] = expert
            self._count(expert)
            self._counted = True
        expert.users.add(run)
        return True

    def _make_room(self, expert: Expert, soon: Set[Expert], soon_may_leave: bool) -> bool:
        """Drops experts that the policy chooses until the pages fit; false where none may leave."""
        self._recount()
        while len(self._pages) + sum(page not in self._pages for page in expert.pages) > self._frames:
            idle = [each for each in self._experts.values() if not each.users]
            candidates = tuple(each.key for each in idle if each not in soon)
            if not candidates and soon_may_leave:
                candidates = tuple(each.key for each in idle)
            if not candidates:
                return False
            self._drop(self._experts[self._policy.choose(candidates)])
        return True

    def _count(self, expert: Expert) -> None:
        for page in expert.pages:
            self._pages[page] = self._pages.get(page, 0) + 1

    def _recount(self) -> None:
        """Counts the pages anew after an interrupt."""
        if not self._counted:
            self._pages.clear()
            for expert in self._experts.values():
                self._count(expert)
            self._counted = True

    def _drop(self, expert: Expert) -> None:
        expert.release()
        if expert.key not in self._experts:  # an interrupt came before
            return
        self._recount()
        self._counted = False
        del self._experts[expert.key]
        for page in expert.pages:
            self._pages[page] -= 1
            if self._pages[page] == 0:
                del self._pages[page]
        self._counted = True


class Run:
    """One run of a layer: its experts in turn, each leased, and those asked for that come next."""

    def __init__(self, residents: Residents, session: _core.Session, experts: list[Expert],
                 ahead_pages: int) -> None:
        self._residents = residents
        self._session = session
        self._experts = experts
        self._ahead_pages = ahead_pages
        self._soon = set(experts)
        # Index of the first expert that is neither kept nor asked for.
        self._first = 0
        # Experts that were asked for.
        self._asked: set[Expert] = set()

    def begin(self, at: int) -> None:
        """Leases an expert, and asks for others. Raises as ``Runtime.lease``, InvalidArgument."""
        expert = self._experts[at]
        self._soon.discard(expert)
        self._asked.discard(expert)
        self._residents.use(self, expert, self._soon)
        self._first = max(self._first, at + 1)
        while self._first < len(self._experts) and self._ask(self._experts[self._first]):
            self._first += 1
        expert.lease(self._session)

    def end(self, at: int) -> None:
        """Has the expert stay or go as the policy says."""
        self._residents.leave(self, self._experts[at:at + 1])

    def close(self) -> None:
        """Ends the run, wherever it is."""
        self._residents.leave(self, self._experts)

    def _ask(self, expert: Expert) -> bool:
        """Has an expert stay, or come, if there is room; at least one comes."""
        if expert in self._residents:
            return self._residents.ask(self, expert, self._soon)
        pages = sum(len(each.pages) for each in self._asked) + len(expert.pages)
        if self._asked and pages > self._ahead_pages:
            return False
        if not self._residents.ask(self, expert, self._soon):
            return False
        self._asked.add(expert)
        self._session.prefetch(expert.requests, 0)
        return True
