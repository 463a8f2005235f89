"""Base of the optimizers: a torch.optim.Optimizer whose states sluice pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn, Optional

from .. import _core, errors
from .._options import threads_of
from . import _early, _entries, _slots
from ._ahead import Ahead
from ._arguments import check_rates, named, refuse_set, result_of, settings_of
from ._compiled import not_compiled
from ._gradients import Listener, gather
from ._in_backward import StepsInBackward
from ._overlap import Overlap
from ._owners import OWNERS, follow
from ._shards import increment_version, norm_of, ranks, version_of, warn_of_budgets
from ._slots import Slot
from ._step import Step, begun, check_places, go_on, may_repeat, numbers_of_nothing, start


class PagedOptimizer(StepsInBackward):
    """A torch.optim.Optimizer whose states a Runtime pages; the parameters stay in torch's memory.

    It is used as any: ``param_groups``, schedulers of the learning rate, ``clip_grad_norm_``,
    accumulation, ``GradScaler``, ``zero_grad``, ``add_param_group``. ``step`` blocks, and skips
    parameters without a gradient. Parameters are float32, bfloat16 or float16, dense, contiguous,
    and on the CPU; gradients may be of either type. Of a DTensor each rank pages the states of its
    own elements.

    A copy (deepcopy, pickle) is refused: use ``state_dict``. One thread at a time uses it.
    """

    # Kind in sluice._core, and options that must have one value; set by a subclass.
    _kind = ""
    _fixed: Mapping[str, Any] = {}

    def __init__(self, params: Any, rates: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        own = settings_of(type(self).__name__, options, rates, self._fixed)
        self.defaults = {**rates, **self._fixed}
        self._check_options(self.defaults, type(self).__name__)
        if own.step_in_backward:
            _early.refuse_options(own.clip_norm, own.overlap)
        # The library knows the gradients of this rank alone.
        self._norm_given = own.clip_norm is not None and ranks() > 1
        self._clips_alone = own.clip_norm is not None and not self._norm_given
        self._master = own.master
        self._in_backward = own.step_in_backward
        self._closures = own.closures
        warn_of_budgets(own.runtime._share_is_given)
        self._slots = _slots.Slots()
        self._step = None
        self._numbers: dict[str, Any] = {}
        self._session = own.runtime._session
        self._core = _core.create_optimizer(
            self._session, self._kind, own.states, own.lowest, own.clip_norm or 0.0, self._norm_given,
            own.seed, threads_of(own.threads, own.runtime._share[1]), own.overlap)
        self._ahead = Ahead(self._core, self._session)
        self._overlap = Overlap(self) if own.overlap else None
        try:
            with named(type(self).__name__):
                super().__init__(params, self.defaults)
        except BaseException:
            self.close()
            raise

    # --- groups ---

    @not_compiled
    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group as torch does. Raises InvalidArgument (names the parameter), TierFull."""
        with named("add_param_group"):
            super().add_param_group(param_group)
        try:
            self._adopt(self.param_groups[-1])
        except BaseException:
            del self.param_groups[-1]
            raise

    def _adopt(self, group: dict[str, Any]) -> None:
        self._finish()
        follow(self, [])
        self._check_options(group, f"parameter group {len(self.param_groups) - 1}")
        new = _slots.new_slots(group, self._slots, self._master, self._overlap is not None,
                               self._clips_alone)
        try:
            for slot in new:
                OWNERS.take(self, slot)
            for slot in new:
                self._add(slot, group)
        except BaseException:
            for slot in new:
                if id(slot.tensor) not in self._slots:
                    OWNERS.give_back(self, slot)
            raise
        for slot in new:
            self._loaded(slot, 0, self._begins_with_states)

    def _add(self, slot: Slot, group: Mapping[str, Any]) -> None:
        if slot.count > 0:
            # The number decides roundings. It is the same on ranks that have no element of another one.
            slot.group, slot.parameter = self._core.add(
                slot.name, _slots.DTYPES[slot.dtype], slot.shape, slot.address, slot.nbytes,
                slot.master, len(self._slots))
        self._slots[id(slot.tensor)] = slot
        if slot.count > 0:
            self._core.set_rates(slot.group, self._rates(group, 0))
        self._listen(slot)  # ranks without elements raise where the others do

    def _check_options(self, group: Mapping[str, Any], where: str) -> None:
        for option, only in self._fixed.items():
            refuse_set(type(self).__name__, option, group.get(option), only)
        check_rates(where, group, self.defaults)

    # --- steps ---

    @not_compiled
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Updates every parameter that has a gradient; returns when that is done.

        Without any gradient nothing changes. A closure is refused unless ``closures=True``: then it
        is called once, before that, and its result is returned. Raises InvalidArgument (names the
        parameter; nothing has been updated), and Unavailable, TierFull or DataLoss (names the
        elements; others have been updated). Call it again then, with the same gradients and without
        the closure: it updates what is missing.
        """
        result = result_of(type(self).__name__, closure, self._closures)
        if self._in_backward:
            self._step_in_backward()
        else:
            self._update_all()
        return result

    def _update_all(self) -> None:
        needed = [slot for slot in self._slots.values() if slot.tensor.grad is not None]
        if not may_repeat(self, needed):
            follow(self, needed)
        gathered = gather(self)
        before = begun(self)
        uncounted = before is not None and not before.counted
        repeats = (before is not None and before.has(gathered.gradients)  # and is not under way
                   and (self._overlap is None or before.failed or uncounted))
        self._finish()
        if repeats or not (gathered.slots or self._norm_given):
            return
        self._refuse_half_loaded()
        if _entries.take(self, gathered.slots) or uncounted:
            gathered = gather(self)  # rates may depend on the steps
        norm = norm_of(gathered.gradients, self._slots.tensors) if self._norm_given else None
        if not gathered.updates:  # this rank has no element of theirs
            self._numbers = numbers_of_nothing(norm)
            self._count(Step(gathered))
            return
        slots = gathered.with_elements
        for slot, rates in zip(gathered.slots, gathered.rates):
            _entries.clear_left(self, slot, rates)
        self._refresh_masters(slots)
        self._ahead.begin_step(slots)
        step = start(self, gathered, norm)
        if self._overlap is None:
            self._wait()
        else:
            self._count(step)

    @not_compiled
    def wait(self) -> None:
        """Returns when the last step is done (overlap=True). Raises what ``step`` raises."""
        self._finish()

    @not_compiled
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clears gradients as torch does."""
        if not set_to_none and self._overlap is not None:
            self._finish()  # the step reads the gradients
        super().zero_grad(set_to_none)

    @property
    @not_compiled
    def gradient_norm(self) -> Optional[float]:
        """Norm of the last step's gradients before they were clipped; None without clip_norm."""
        if self._overlap is not None:
            self._finish()
        norm: Optional[float] = self._numbers.get("gradient_norm")
        return norm

    @property
    @not_compiled
    def last_step(self) -> dict[str, Any]:
        """Seconds of the last step: wait_seconds (reads, writes) and compute_seconds."""
        if self._overlap is not None:
            self._finish()
        return dict(self._numbers)

    # --- gradients in backward ---

    def _listen(self, slot: Slot) -> None:
        """Has _on_gradient told of the parameter's gradients from now on, unless it is frozen."""
        if slot.hook is None and slot.tensor.requires_grad:
            slot.hook = slot.tensor.register_post_accumulate_grad_hook(Listener(self))

    def _on_gradient(self, tensor: Any) -> None:
        slot = self._slots.get(id(tensor))
        if slot is None:
            return
        if self._in_backward:
            self._update_in_backward(slot)
            return
        if slot.group < 0:
            return
        if self._overlap is not None:
            self._overlap.check_read(slot)
            if self._overlap.all_read:
                self._finish()
        if self._step is None:
            self._ahead.add_gradient(slot)

    def _finish(self) -> None:
        """Completes a step that was interrupted, or that has failed."""
        step = begun(self)
        if step is None:
            return
        if not step.over:
            raise errors.FailedPrecondition(
                "backward has updated parameters (step_in_backward=True): call step() first"
            )
        check_places(self, step)
        if step.left is not None:
            if step.failed and not step.unchanged:
                raise errors.FailedPrecondition(
                    "the last step failed in part, and its gradients have been changed, so it cannot "
                    "be completed; load() a save"
                )
            go_on(self, step)
        self._wait()

    def _wait(self) -> None:
        step = self._step
        assert step is not None
        try:
            self._numbers = self._core.wait()
        except errors.Error:
            step.left = self._core.started
            step.failed = True
            raise
        self._count(step)
        if self._overlap is not None:
            self._overlap.end()
        self._step = None

    def _count(self, step: Step) -> None:
        """Parameters have made a step. A second call completes a count that Ctrl-C has ended."""
        if step.counted:
            return
        for slot, rates, steps in zip(step.slots, step.rates, step.after):
            slot.steps = steps
            slot.has_states = self._keeps_states(rates)
            increment_version(slot.tensor)
            slot.version = version_of(slot.tensor)
            self._note_steps(slot)
        step.counted = True

    # --- the end ---

    @not_compiled
    def close(self) -> None:
        """Ends the optimizer and frees its states; the parameters stay as they are.

        Closing the runtime does it, and so does the last use.
        """
        self._core.close()
        if self._overlap is not None:
            self._overlap.close()
        if isinstance(self._step, _early.EarlyStep):
            self._step.drop_used()
        for slot in self._slots.values():
            OWNERS.give_back(self, slot)
            if slot.hook is not None:
                slot.hook.remove()

    def __del__(self) -> None:
        # The gradients of a step that is under way go after what reads them.
        core: Optional[_core.Optimizer] = self.__dict__.get("_core")
        overlap: Optional[Overlap] = self.__dict__.get("_overlap")
        if core is not None:
            core.close()
        if overlap is not None:
            overlap.close()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise errors.InvalidArgument(
            f"{type(self).__name__} cannot be copied or pickled: its states are paged by a runtime of "
            "this process; use state_dict(), or save()"
        )
