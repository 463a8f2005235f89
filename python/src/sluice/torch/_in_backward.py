"""Steps whose updates begin in backward (step_in_backward)."""

from __future__ import annotations

from typing import Any, cast

from .. import errors
from . import _early, _entries, _slots
from ._saves import Saves
from ._early import EarlyStep
from ._owners import follow
from ._shards import version_of
from ._slots import Slot
from ._step import go_on, numbers_of_nothing


class StepsInBackward(Saves):
    """Part of an optimizer with step_in_backward=True. PagedOptimizer has the rest."""

    _numbers: dict[str, Any]  # figures of the last step

    def _update_in_backward(self, slot: Slot) -> None:
        """Begins the update of a parameter that has a gradient."""
        step = self._step
        if step is None or step.over:
            step = self._begin_early_step()
        step = cast(EarlyStep, step)
        group = step.groups.get(id(slot.tensor))
        if group is None:  # the parameter is not in param_groups any more
            return
        if slot.has_moved:
            raise errors.FailedPrecondition(
                f"parameter '{slot.name}' was given other memory after backward had begun to update "
                "(step_in_backward=True), too late for this step; do that after step()"
            )
        _slots.check_unchanged(slot)
        _slots.check_gradient(slot, _slots.gradient_of(slot))
        if slot.master and version_of(slot.tensor) != slot.version:
            raise errors.FailedPrecondition(
                f"parameter '{slot.name}' was written after backward had begun to update "
                "(step_in_backward=True), too late for its master; write it after step()"
            )
        rates = self._rates(group, slot.steps)
        _entries.check_kept(self, slot, rates)
        step.update(self._core, slot, rates)

    def _begin_early_step(self) -> EarlyStep:
        self._finish()
        follow(self, [slot for slot in self._slots.values() if slot.tensor.requires_grad])
        _early.refuse_ranks(self._slots.values())
        self._refuse_half_loaded()
        _early.refuse_frozen(self._slots.values())
        _entries.take(self, (slot for _, slot in self._every()))
        self._check_groups()
        pairs = [(slot, self._rates(group, slot.steps)) for group, slot in self._pairs()]
        for slot, rates in pairs:
            _entries.check_kept(self, slot, rates)
        for slot, rates in pairs:
            _entries.clear_left(self, slot, rates)
        self._refresh_masters(slot for slot, _ in pairs)
        step = EarlyStep({id(tensor): group for group in self.param_groups
                          for tensor in group["params"]})
        self._step = step
        return step

    def _step_in_backward(self) -> None:
        """Begins what has a gradient that backward did not tell of, and completes the step."""
        if self._step is not None and self._step.over:
            self._finish()
        if self._step is not None:
            for slot in self._step.slots:
                _slots.check_in_place(slot)
            cast(EarlyStep, self._step).settle(self._core)
        _early.refuse_frozen(self._slots.values())
        for group in self.param_groups:
            for tensor in group["params"]:
                slot = self._slots[id(tensor)]
                if tensor.grad is not None and not _early.is_used(tensor.grad):
                    self._listen(slot)
                    self._update_in_backward(slot)
        step = self._step
        if step is None:
            return
        cast(EarlyStep, step).drop_used()
        if any(slot.group >= 0 for slot in step.slots):
            step.left = self._core.started
            step.over = True
            go_on(self, step)
            self._wait()
        else:  # this rank has no element of theirs
            self._numbers = numbers_of_nothing(None)
            self._count(step)
            self._step = None
