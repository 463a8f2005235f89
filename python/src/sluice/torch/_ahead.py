"""States of the next step come in while backward runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .. import _core, errors
from ._slots import Slot

# Pages ahead take at most one part in so many of dram: the step itself needs the rest.
_PART_OF_DRAM = 2

# Hints of one step, each for more of those pages.
_HINTS = 8


class Ahead:
    """Hints of the pages that the next step uses first, as backward comes near its end.

    Each step is taken to have the gradients of the step before: the same parameters, and the same
    number of bytes from all of its backward passes. So accumulation keeps states out of dram until
    its last pass. As activations leave dram in the course of that pass, states take their place.
    """

    def __init__(self, core: _core.Optimizer, session: _core.Session) -> None:
        self._core = core
        self._session = session
        self._groups: list[int] = []
        self._step_bytes = 0      # parameters of the last step
        self._expected_bytes = 0  # gradients that backward made before it, each time that it did
        self._seen_bytes = 0      # gradients since the step
        self._hints = 0
        self._hinted_bytes = 0

    def begin_step(self, slots: Iterable[Slot]) -> None:
        """A step of these parameters begins."""
        slots = list(slots)
        self._groups = [slot.group for slot in slots]
        self._step_bytes = sum(slot.nbytes for slot in slots)
        self._expected_bytes, self._seen_bytes = self._seen_bytes, 0
        self._hints = self._hinted_bytes = 0

    def add_gradient(self, slot: Slot) -> None:
        """Backward has made the parameter's gradient, or added to it."""
        self._seen_bytes += slot.nbytes
        if self._expected_bytes == 0 or not self._groups:
            return
        left = self._expected_bytes - self._seen_bytes
        hints = min(_HINTS * (self._step_bytes - left) // self._step_bytes, _HINTS)
        if hints > self._hints:
            self._hints = hints
            self._hint()

    def _hint(self) -> None:
        try:
            stats = self._session.stats()
            most = stats["tiers"]["dram"]["budget_bytes"] // _PART_OF_DRAM * self._hints // _HINTS
            room = min(self._hinted_bytes + self._free_bytes(stats), most)
            self._hinted_bytes = self._core.prefetch(self._groups, room)
        except errors.Error:
            # Closed, or a child of fork: backward needs neither, and step() says it.
            self._groups = []

    def _free_bytes(self, stats: dict[str, Any]) -> int:
        """Frames that nothing is in or on its way to: pages in others may be needed before the step, or in it."""
        dram = stats["tiers"]["dram"]
        waiting: int = stats["prefetch"]["waiting"] * self._session.page_bytes
        free: int = dram["budget_bytes"] - dram["used_bytes"] - dram["transit_bytes"] - waiting
        return max(free, 0)
