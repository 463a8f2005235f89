"""States that torch.optim's optimizer would not have yet: SGD's, as long as its momentum is 0.

A paged state is there from the start. A step without momentum leaves the last gradient in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import _states
from ._slots import Slot, refuse

if TYPE_CHECKING:
    from ._state_dicts import Rates, StateDicts


def check(optimizer: "StateDicts", slot: Slot, rates: "Rates") -> None:
    """Raises InvalidArgument for a step that would overwrite states which torch's optimizer keeps."""
    if slot.has_states and not optimizer._keeps_states(rates):
        raise refuse(slot.name, "has a momentum, which torch keeps for later in steps with momentum=0, and a "
                                "step of sluice would lose it; leave momentum above 0, or make a new "
                                "optimizer")


def clear(optimizer: "StateDicts", slot: Slot, rates: "Rates") -> None:
    """Clears what steps without momentum have left, before one that has it."""
    if slot.steps > 0 and not slot.has_states and optimizer._keeps_states(rates):
        _states.clear(optimizer._core, slot, len(optimizer._state_names))
