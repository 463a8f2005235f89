"""Report of a stream of weights."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

from ..._runtime import Runtime
from ..._weights import Weights
from ._expert_cache import Cache
from ._passes import Passes
from ._units import Unit

# Share of the time in which units wait, above which a model is bound by reading.
_STALL_SHARE = 0.1


@dataclasses.dataclass(frozen=True)
class Counts:
    """Counters of a stream at one time."""

    passes: int = 0
    seconds: float = 0.0
    leased_bytes: int = 0
    read_bytes: int = 0
    stall_seconds: float = 0.0

    def since(self, before: "Counts") -> "Counts":
        """Counts after ``before``."""
        return Counts(*(getattr(self, each.name) - getattr(before, each.name)
                        for each in dataclasses.fields(self)))

    def figures(self) -> dict[str, Any]:
        """The counters and what follows from them, by name."""
        share = self.stall_seconds / self.seconds if self.seconds > 0 else 0.0
        resident = 1 - self.read_bytes / self.leased_bytes if self.leased_bytes > 0 else 0.0
        return {
            **dataclasses.asdict(self),
            "gib_per_second": self._per_second(self.leased_bytes),
            "read_gib_per_second": self._per_second(self.read_bytes),
            "resident_share": max(0.0, resident),
            "stall_share": share,
            "bound_by": "reading" if share > _STALL_SHARE else "compute",
        }

    def _per_second(self, nbytes: int) -> float:
        return nbytes / self.seconds / (1 << 30) if self.seconds > 0 else 0.0


class Report:
    """The counters of a stream, and the report of them."""

    def __init__(self, runtime: Runtime, weights: Weights, unused: list[str], units: list[Unit],
                 passes: Passes, experts: Optional[Cache]) -> None:
        self._runtime = runtime
        self._unused = unused
        self._units = units
        self._passes = passes
        self._experts = experts
        self._page_bytes = runtime.page_bytes
        self._weight_bytes = weights.nbytes
        self._begin = self._counts()
        self._after_first: Optional[Counts] = None
        self._ended: Optional[dict[str, Any]] = None

    def note_pass(self) -> None:
        """Notes the counters when the first pass has ended, and the second one begins."""
        if self._passes.count == 1 and self._after_first is None:
            self._after_first = self._counts()

    def now(self) -> dict[str, Any]:
        """The report."""
        return dict(self._ended) if self._ended is not None else self._make()

    def end(self) -> dict[str, Any]:
        """The report, which is the same from now on."""
        if self._ended is None:
            self._ended = self._make()
        return dict(self._ended)

    def _make(self) -> dict[str, Any]:
        counts = self._counts()
        first = (self._after_first or counts).since(self._begin)
        later = counts.since(self._after_first) if self._after_first is not None else first
        experts = {} if self._experts is None else {"experts": self._experts.figures()}
        return {
            **later.figures(),
            "passes": counts.passes,
            "first_pass": first.figures(),
            "weight_bytes": self._weight_bytes,
            "budget_bytes": self._budget_bytes(),
            "units": [{"name": unit.name, "bytes": unit.nbytes, "entries": unit.entries,
                       "stall_seconds": unit.stall_seconds} for unit in self._units],
            "unused": list(self._unused),
            **experts,
        }

    def _budget_bytes(self) -> int:
        own: int = self._runtime.stats()["tiers"]["dram"]["budget_bytes"]
        return own + (0 if self._experts is None else self._experts.budget_bytes)

    def _counts(self) -> Counts:
        stats = self._runtime.stats()
        # A page that was read is there still, or was dropped: nothing is ever written.
        dropped = stats["evictions"]["dropped_clean"] * self._page_bytes
        counts = Counts(
            passes=self._passes.count,
            seconds=self._passes.seconds,
            leased_bytes=sum(len(unit.pages) * unit.entries for unit in self._units)
            * self._page_bytes,
            read_bytes=dropped + stats["tiers"]["dram"]["used_bytes"],
            stall_seconds=sum(unit.stall_seconds for unit in self._units),
        )
        if self._experts is None:
            return counts
        experts = self._experts.figures()
        more = {name: getattr(counts, name) + experts[name]
                for name in ("leased_bytes", "read_bytes", "stall_seconds")}
        return dataclasses.replace(counts, **more)
