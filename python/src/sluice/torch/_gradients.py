"""The gradients of a step, and who is told of them in backward."""

from __future__ import annotations

import dataclasses
import weakref
from typing import TYPE_CHECKING, Any

from .. import _core
from ._compiled import not_compiled
from ._entries import check_kept
from ._shards import local_of
from ._slots import DTYPES, Slot, check_gradient, check_unchanged, gradient_of

if TYPE_CHECKING:
    from ._optimizer import PagedOptimizer


@dataclasses.dataclass
class Gathered:
    """Parameters of a step, and their gradients."""

    slots: list[Slot] = dataclasses.field(default_factory=list)
    gradients: list[Any] = dataclasses.field(default_factory=list)
    rates: list[_core._Rates] = dataclasses.field(default_factory=list)
    # The gradients as sluice._core takes them; none of a parameter without elements on this rank.
    updates: list[_core._Update] = dataclasses.field(default_factory=list)

    def add(self, slot: Slot, gradient: Any, rates: _core._Rates) -> None:
        """One more parameter."""
        self.slots.append(slot)
        self.gradients.append(gradient)
        self.rates.append(rates)
        if slot.group >= 0:
            self.updates.append(update_of(slot, gradient, rates))

    @property
    def with_elements(self) -> list[Slot]:
        """The parameters that have elements on this rank."""
        return [slot for slot in self.slots if slot.group >= 0]


def update_of(slot: Slot, gradient: Any, rates: _core._Rates) -> _core._Update:
    """A gradient as sluice._core takes it."""
    local = local_of(gradient)
    return (slot.group, slot.parameter, DTYPES[local.dtype], local.data_ptr(), local.nbytes, rates)


def gather(optimizer: "PagedOptimizer") -> Gathered:
    """Parameters and gradients of a step."""
    gathered = Gathered()
    optimizer._check_groups()
    for group in optimizer.param_groups:
        for tensor in group["params"]:
            slot = optimizer._slots[id(tensor)]
            gradient = gradient_of(slot)
            if gradient is None:
                continue
            check_unchanged(slot)
            check_gradient(slot, gradient)
            optimizer._listen(slot)
            rates = optimizer._rates(group, slot.steps)
            check_kept(optimizer, slot, rates)
            gathered.add(slot, gradient, rates)
    return gathered


class Listener:
    """A hook of a parameter that does not keep the optimizer."""

    def __init__(self, optimizer: "PagedOptimizer") -> None:
        self._optimizer = weakref.ref(optimizer)

    @not_compiled
    def __call__(self, tensor: Any) -> None:
        optimizer = self._optimizer()
        if optimizer is not None:
            optimizer._on_gradient(tensor)
