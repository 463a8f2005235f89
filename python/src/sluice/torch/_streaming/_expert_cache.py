"""Experts of a mixture that are leased one by one, from a runtime of their own.

Which experts come is not known ahead. So a policy decides which stay, and the plan of the other
weights is not disturbed. The leases of those that stay go on from one use to the next.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import torch

from ... import _core, errors
from ._expert_policies import Guarded, Key
from ._residents import Expert, Residents, Run
from ._slots import Slot, request_of, view_of

if TYPE_CHECKING:
    from ..._runtime import Runtime
    from ..._weights import Weight, Weights

# Modules of experts with their names.
Modules = list[tuple[str, Any]]
# The attribute of such a module that has its Leases.
LEASES = "_sluice_leases"

# Part of the experts' dram that is asked for ahead, if it is more than one expert.
_AHEAD_PART = 16


@dataclasses.dataclass(frozen=True)
class Rows:
    """The rows of one expert in each of two products."""

    up: list[torch.Tensor]
    down: list[torch.Tensor]


class _Part(NamedTuple):
    """Rows in one weight of the files, what leases them, and their bytes."""

    view: torch.Tensor
    request: _core._Request
    nbytes: int


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

    def __init__(self, runtime: Runtime, policy: Guarded, modules: Modules, weights: Weights) -> None:
        self.runtime = runtime
        self.budget_bytes: int = runtime.stats()["tiers"]["dram"]["budget_bytes"]
        frames = self.budget_bytes // runtime.page_bytes
        self.residents = Residents(policy, frames)
        # Each has the experts in the order of their uses, while it is here.
        self._traces: list[list[Expert]] = []
        self._ahead_pages = frames // _AHEAD_PART
        self._policy = policy.name
        self._modules = modules
        self._weights: Mapping[str, Weight] = weights
        self._weight_bytes = 0
        self._lock = threading.Lock()
        self._leases = self._pages = self._tokens = 0
        self._stall_seconds = 0.0

    def lease(self, slots: list[Slot]) -> list[tuple[Any, Leases]]:
        """Modules with the leases of their experts, whose slots are marked. To be called once."""
        leases = []
        for layer, (name, module) in enumerate(self._modules):
            own = _slots_of(module, slots)
            for slot in own:
                slot.by_expert = True
                self._weight_bytes += sum(part.nbytes for part in slot.parts)
            count = module.num_experts
            parts = [[_parts_of(slot, number, count, self._weights) for slot in own]
                     for number in range(count)]
            experts = [self._expert((layer, number), f"{name}.{number}", [*up, *down])
                       for number, (up, down) in enumerate(parts)]
            rows = [Rows([part.view for part in up], [part.view for part in down]) for up, down in parts]
            leases.append((module, Leases(self, own, experts, rows)))
        self._weights = {}  # weights that no expert has are freed
        return leases

    def _expert(self, key: Key, name: str, parts: list[_Part]) -> Expert:
        page_bytes = self.runtime.page_bytes
        pages: set[int] = set()
        for part in parts:
            first, last = part.view.data_ptr(), part.view.data_ptr() + part.nbytes - 1
            pages.update(range(first // page_bytes, last // page_bytes + 1))
        return Expert(key, name, sum(part.nbytes for part in parts), [part.request for part in parts],
                      pages)

    def close(self) -> None:
        """Closes the runtime. Raises as ``Runtime.close``."""
        self.residents.drop_all()
        self.runtime.close()

    def begin_trace(self, used: list[Expert]) -> None:
        """Has the experts that are used written to a list."""
        with self._lock:
            self._traces.append(used)

    def end_trace(self, used: list[Expert]) -> None:
        """Ends ``begin_trace``: the list does not change any more, though threads run the model."""
        with self._lock:
            self._traces = [each for each in self._traces if each is not used]

    def run(self, experts: list[Expert], tokens: int) -> Run:
        """A run of a layer. Counts the tokens that go through it."""
        with self._lock:
            self._tokens += tokens
        return Run(self.residents, self.runtime._session, experts, self._ahead_pages)

    @contextlib.contextmanager
    def leased(self, run: Run, at: int, expert: Expert) -> Iterator[None]:
        """Leases an expert of a run. Raises as ``Run.begin``."""
        begin = time.perf_counter()
        run.begin(at)
        with self._lock:
            self._stall_seconds += time.perf_counter() - begin
            self._leases += 1
            self._pages += len(expert.pages)
            for trace in self._traces:
                trace.append(expert)
        yield
        run.end(at)

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

    def __init__(self, cache: Cache, slots: list[Slot], experts: list[Expert],
                 rows: list[Rows]) -> None:
        self._cache = cache
        self._slots = slots
        self.experts = experts
        self.rows = rows

    @property
    def pages(self) -> list[Set[int]]:
        """Pages of each expert."""
        return [expert.pages for expert in self.experts]

    def begin(self, module: Any) -> None:
        """Has the module lease its experts, until ``end``."""
        module.__dict__[LEASES] = self

    def end(self, module: Any) -> None:
        """Has the module lease nothing any more."""
        module.__dict__.pop(LEASES, None)
        self.rows = []

    def each(self, numbers: list[int], tokens: int) -> Generator[int, None, None]:
        """Leases one expert after the other, and asks for those that come next.

        Close the iterator to end the lease. Raises as ``Runtime.lease``, FailedPrecondition (moved),
        InvalidArgument (the policy has failed).
        """
        for slot in self._slots:
            slot.refuse_moved()
        experts = [self.experts[number] for number in numbers]
        run = self._cache.run(experts, tokens)
        with contextlib.closing(run):
            for at, number in enumerate(numbers):
                with self._cache.leased(run, at, experts[at]):
                    yield number

    def __reduce__(self) -> NoReturn:
        raise errors.InvalidArgument("a model that streams cannot be copied or pickled: close it first")


def _slots_of(module: Any, slots: list[Slot]) -> list[Slot]:
    """The slots of the two products of a module's experts."""
    return [next(slot for slot in slots if (module, name) in slot.places)
            for name in ("gate_up_proj", "down_proj")]


def _parts_of(slot: Slot, number: int, count: int, weights: Mapping[str, Weight]) -> list[_Part]:
    """Rows of one of ``count`` experts."""
    parts = [weights[part.name] for part in slot.parts]
    if len(parts) == 1:
        nbytes = parts[0].nbytes // count
        return [_Part(view_of(parts[0])[number], request_of(parts[0], number * nbytes, nbytes), nbytes)]
    each = len(parts) // count
    return [_Part(view_of(part), request_of(part), part.nbytes)
            for part in parts[number * each:(number + 1) * each]]
