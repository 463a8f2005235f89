"""Experts of a mixture that are leased one by one, from a runtime of their own.

Which experts come is not known ahead. So a policy decides there which stay, and the plan of the
other weights is not disturbed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from ... import _core, errors
from ._slots import Slot, request_of, view_of

if TYPE_CHECKING:
    from ..._runtime import Runtime
    from ..._weights import Weight, Weights

# Modules of experts with their names.
Modules = list[tuple[str, Any]]
# The attribute of such a module that has its Leases.
LEASES = "_sluice_leases"


@dataclasses.dataclass(frozen=True)
class Expert:
    """The rows of one expert in each of two products, and what leases them."""

    up: list[torch.Tensor]
    down: list[torch.Tensor]
    requests: list[_core._Request]
    pages: set[int]


@dataclasses.dataclass(frozen=True)
class Needs:
    """Bytes of pages: of all units, of the largest one, of all experts, of the largest one."""

    dense: int
    unit: int
    experts: int
    expert: int


def shares(total: int, needs: Needs, processes: int = 1) -> tuple[int, int]:
    """Budgets of the units and of the experts. Units come first: every pass uses them all.

    Raises TierFull.
    """
    experts = min(max(total - needs.dense, needs.expert), needs.experts)
    if total - experts >= needs.unit:
        return min(total - experts, needs.dense), experts
    raise errors.TierFull(
        f"dram is {total} bytes, and one unit ({needs.unit} bytes of pages) and one expert "
        f"({needs.expert}) are used at once: dram={(needs.unit + needs.expert) * processes} is the least"
    )


class Cache:
    """The runtime that pages experts, and what it has done. Threads: any."""

    def __init__(self, runtime: Runtime, policy: str, modules: Modules, weights: Weights) -> None:
        self.runtime = runtime
        self.budget_bytes: int = runtime.stats()["tiers"]["dram"]["budget_bytes"]
        self._policy = policy
        self._modules = modules
        self._weights: Mapping[str, Weight] = weights
        self._weight_bytes = 0
        self._lock = threading.Lock()
        self._leases = self._pages = self._tokens = 0
        self._stall_seconds = 0.0

    def lease(self, slots: list[Slot]) -> list[tuple[Any, Leases]]:
        """Modules with the leases of their experts, whose slots are marked. To be called once."""
        leases = []
        for name, module in self._modules:
            own = _slots_of(module, slots)
            for slot in own:
                slot.by_expert = True
                self._weight_bytes += sum(part.nbytes for part in slot.parts)
            leases.append((module, Leases(name, self, own, self._experts(own, module.num_experts))))
        self._weights = {}  # weights that no expert has are freed
        return leases

    def _experts(self, slots: list[Slot], count: int) -> list[Expert]:
        rows = [[_rows_of(slot, number, count, self._weights) for slot in slots]
                for number in range(count)]
        return [_expert(up, down, self.runtime.page_bytes) for up, down in rows]

    def close(self) -> None:
        """Closes the runtime. Raises as ``Runtime.close``."""
        self.runtime.close()

    def note_tokens(self, tokens: int) -> None:
        """Counts tokens that went through one layer."""
        with self._lock:
            self._tokens += tokens

    @contextlib.contextmanager
    def leased(self, name: str, expert: Expert) -> Iterator[None]:
        """Leases an expert. Raises as ``Runtime.lease``."""
        begin = time.perf_counter()
        op = _core.Op(self.runtime._session, name, None)
        held: list[_core.HeldLease] = []
        try:
            held += op.acquire(expert.requests, None)
            with self._lock:
                self._stall_seconds += time.perf_counter() - begin
                self._leases += 1
                self._pages += len(expert.pages)
            yield
        finally:
            while held:
                held.pop().release()
            op.end()

    def figures(self) -> dict[str, Any]:
        """Figures since the begin."""
        page, stats = self.runtime.page_bytes, self.runtime.stats()
        # A page that was read is there still, or was dropped: nothing is ever written.
        read = stats["evictions"]["dropped_clean"] * page + stats["tiers"]["dram"]["used_bytes"]
        leased = self._pages * page
        tokens = self._tokens / len(self._modules)
        return {
            "policy": self._policy,
            "budget_bytes": self.budget_bytes,
            "weight_bytes": self._weight_bytes,
            "leases": self._leases,
            "leased_bytes": leased,
            "read_bytes": read,
            "hit_ratio": max(0.0, 1 - read / leased) if leased else 0.0,
            "tokens": tokens,
            "bytes_per_token": read / tokens if tokens else 0.0,
            "stall_seconds": self._stall_seconds,
        }


class Leases:
    """The experts of one module, as long as its model streams."""

    def __init__(self, name: str, cache: Cache, slots: list[Slot], experts: list[Expert]) -> None:
        self._name = name
        self._cache = cache
        self._slots = slots
        self.experts = experts
        self._ahead_pages = cache.budget_bytes // cache.runtime.page_bytes // 2

    @property
    def pages(self) -> list[set[int]]:
        """Pages of each expert."""
        return [expert.pages for expert in self.experts]

    def begin(self, module: Any) -> None:
        """Has the module lease its experts, until ``end``."""
        module.__dict__[LEASES] = self

    def end(self, module: Any) -> None:
        """Has the module lease nothing any more."""
        module.__dict__.pop(LEASES, None)
        self.experts = []

    def each(self, numbers: list[int], tokens: int) -> Generator[int, None, None]:
        """Leases one expert after the other, and asks for those that come next.

        Close the iterator to end the lease. Raises as ``Runtime.lease``, FailedPrecondition (moved).
        """
        for slot in self._slots:
            slot.refuse_moved()
        self._cache.note_tokens(tokens)
        asked = 0
        for i, number in enumerate(numbers):
            asked = self._ask(numbers, i, max(asked, i + 1))
            expert = self.experts[number]
            with self._cache.leased(f"{self._name}.{number}", expert):
                yield number

    def _ask(self, numbers: list[int], now: int, first: int) -> int:
        """Asks for experts from ``first`` on, as far as there is room; returns where it stops."""
        room = self._ahead_pages - sum(len(self.experts[i].pages) for i in numbers[now:first])
        while first < len(numbers) and len(self.experts[numbers[first]].pages) <= room:
            expert = self.experts[numbers[first]]
            self._cache.runtime._session.prefetch(expert.requests)
            room -= len(expert.pages)
            first += 1
        return first

    def __reduce__(self) -> NoReturn:
        raise errors.InvalidArgument("a model that streams cannot be copied or pickled: close it first")


def _slots_of(module: Any, slots: list[Slot]) -> list[Slot]:
    """The slots of the two products of a module's experts."""
    return [next(slot for slot in slots if (module, name) in slot.places)
            for name in ("gate_up_proj", "down_proj")]


_Rows = list[tuple[torch.Tensor, "_core._Request", int]]


def _rows_of(slot: Slot, number: int, count: int, weights: Mapping[str, Weight]) -> _Rows:
    """Rows of one of ``count`` experts: tensors, what leases them, and bytes."""
    parts = [weights[part.name] for part in slot.parts]
    if len(parts) == 1:
        nbytes = parts[0].nbytes // count
        return [(view_of(parts[0])[number], request_of(parts[0], number * nbytes, nbytes), nbytes)]
    each = len(parts) // count
    return [(view_of(part), request_of(part), part.nbytes)
            for part in parts[number * each:(number + 1) * each]]


def _expert(up: _Rows, down: _Rows, page_bytes: int) -> Expert:
    pages: set[int] = set()
    for view, _, nbytes in [*up, *down]:
        first = view.data_ptr()
        pages.update(range(first // page_bytes, (first + nbytes - 1) // page_bytes + 1))
    return Expert([view for view, _, _ in up], [view for view, _, _ in down],
                  [request for _, request, _ in [*up, *down]], pages)
