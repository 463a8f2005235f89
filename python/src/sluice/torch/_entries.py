"""States that torch's optimizer would have: fewer than the library's, and those that the program left.

Its SGD has none as long as its momentum is 0. A paged state is there from the start, and a step
without momentum leaves the last gradient in it. A program may change ``optimizer.state`` by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from . import _states
from ._slots import Slot, refuse

if TYPE_CHECKING:
    from ._state_dicts import Rates, StateDicts


def check_kept(optimizer: "StateDicts", slot: Slot, rates: "Rates") -> None:
    """Raises InvalidArgument for a step that would overwrite states which torch's optimizer keeps."""
    if slot.has_states and not optimizer._keeps_states(rates):
        raise refuse(slot.name, "has a momentum, which torch keeps for later in steps with momentum=0, and a "
                                "step of sluice would lose it; leave momentum above 0, or make a new "
                                "optimizer")


def clear_left(optimizer: "StateDicts", slot: Slot, rates: "Rates") -> None:
    """Clears what steps without momentum have left, before one that has it."""
    if slot.steps > 0 and not slot.has_states and optimizer._keeps_states(rates):
        _states.clear(optimizer._core, slot, len(optimizer._state_names))


def take(optimizer: "StateDicts", slots: Iterable[Slot]) -> bool:
    """Takes changes as torch's optimizer would in its next step. Returns whether there are any.

    A parameter whose entry is gone begins anew, and a number of steps in an entry holds from here
    on. Raises InvalidArgument (names the parameter) for an entry with values of a paged state.
    """
    changed = False
    for slot in slots:
        entry = optimizer.state.get(slot.tensor)
        if entry:
            changed |= _take_steps(optimizer, slot, entry)
        elif slot.steps > 0 or slot.has_states:
            _begin_anew(optimizer, slot)
            changed = True
    return changed


def _take_steps(optimizer: "StateDicts", slot: Slot, entry: Mapping[str, Any]) -> bool:
    for name, value in entry.items():
        if value is not None and name != "step":
            raise refuse(slot.name, f"has a value for '{name}' in optimizer.state, whose states are paged; "
                                    "load_state_dict gives it states, del optimizer.state[parameter] new ones")
    steps = _states.steps_of(slot, entry, "optimizer.state")
    if steps == slot.steps:
        return False
    if slot.group >= 0:
        optimizer._core.set_steps_of(slot.parameter, steps)
    slot.steps = steps
    return True


def _begin_anew(optimizer: "StateDicts", slot: Slot) -> None:
    """Clears states and steps. A call after Ctrl-C repeats all of it, as ``slot`` changes last."""
    _states.clear(optimizer._core, slot, len(optimizer._state_names))
    if slot.group >= 0:
        optimizer._core.set_steps_of(slot.parameter, 0)
    slot.steps, slot.has_states = 0, optimizer._begins_with_states
    if slot.has_states:
        optimizer._note_steps(slot)
