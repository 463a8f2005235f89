"""step_in_backward: an update begins as soon as backward has made the gradient."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, Optional

import torch
from torch.utils._pytree import tree_leaves

from .. import _core, errors
from ._gradients import Gathered, update_of
from ._shards import increment_version, is_dtensor, like, local_of, ranks, version_of
from ._slots import Slot, check_not_frozen
from ._step import Step

# Bytes of gradients at most, or one gradient, that wait for their updates while backward goes on.
_HELD_BYTES = 64 << 20

# Callers of an operation on a gradient that is used up, by a part of the operation's name.
_ORIGINS = {
    "_amp_": "GradScaler",
    "norm": "clip_grad_norm_, or Trainer (set its max_grad_norm to 0, and have _get_grad_norm return "
            "None)",
    "add": "accumulation, or a weight that segments of a reentrant checkpoint share",
    "mul.out": "DistributedDataParallel",
}

_INSTEAD = "leave step_in_backward out for it"


class UsedGradient(torch.Tensor):  # type: ignore[misc]
    """Stands in ``.grad`` for a gradient that was used up in backward: whoever needs it gets an error."""

    _parameter: str

    @staticmethod
    def of(slot: Slot, gradient: Any) -> Any:
        """Used gradient of a parameter, without memory; for a DTensor a DTensor of one."""
        local = local_of(gradient)
        made: UsedGradient = torch.Tensor._make_wrapper_subclass(
            UsedGradient, local.shape, dtype=local.dtype, device=local.device
        )
        made._parameter = slot.name
        return like(gradient, made)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        operation = str(func)
        used = next(leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, cls))
        used._refuse(next((text for name, text in _ORIGINS.items() if name in operation), operation))

    def _refuse(self, origin: str) -> NoReturn:
        raise errors.FailedPrecondition(
            f"the gradient of parameter '{self._parameter}' was used up in backward "
            f"(step_in_backward=True), and {origin} needs it; {_INSTEAD}"
        )

    def numpy(self, *_: object, **__: object) -> NoReturn:
        self._refuse("numpy()")

    def tolist(self) -> NoReturn:
        self._refuse("tolist()")

    def share_memory_(self) -> NoReturn:
        self._refuse("share_memory()")

    def untyped_storage(self) -> NoReturn:
        self._refuse("untyped_storage()")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self._refuse("pickle, or torch.save,")

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"<gradient of '{self._parameter}', used up in backward>"


def is_used(gradient: Any) -> bool:
    """Whether the gradient stands for one that was used up."""
    return isinstance(local_of(gradient), UsedGradient)


class EarlyStep(Step):
    """A step whose updates begin one by one."""

    def __init__(self, groups: Mapping[int, Mapping[str, Any]]) -> None:
        super().__init__(Gathered())
        self.groups = groups  # param_groups, keyed by id(tensor)
        self.over = False
        self._indices: dict[int, int] = {}   # key: id(tensor)
        self._held: deque[int] = deque()     # indices of gradients that updates read, oldest first
        self._held_bytes = 0
        # Parameter that an update begins of, its gradient and rates, and the updates begun before.
        self._beginning: Optional[tuple[Slot, Any, _core._Rates, int]] = None

    def update(self, core: _core.Optimizer, slot: Slot, rates: _core._Rates) -> None:
        """Begins the update of a parameter, and takes its gradient."""
        self.settle(core)
        gradient = slot.tensor.grad
        if id(slot.tensor) in self._indices:
            raise errors.FailedPrecondition(
                f"parameter '{slot.name}' was updated in this step already (step_in_backward=True): "
                f"call step() after each backward; for accumulation, {_INSTEAD}"
            )
        if slot.group >= 0:
            update = update_of(slot, gradient, rates)
            self._beginning = slot, gradient, rates, core.begun
            try:
                core.begin(update)
            except errors.Error:
                self._beginning = None
                raise
        self._note(slot, gradient, rates)
        self._beginning = None
        del gradient
        self._let_go(core)

    @property
    def is_empty(self) -> bool:
        """Whether no update of it has begun."""
        return not self.slots and self._beginning is None

    def settle(self, core: _core.Optimizer) -> None:
        """Notes the last update, if Ctrl-C came after its begin and before the end of its note."""
        if self._beginning is not None:
            slot, gradient, rates, before = self._beginning
            if core.begun > before:
                self._note(slot, gradient, rates)
            self._beginning = None

    def _note(self, slot: Slot, gradient: Any, rates: _core._Rates) -> None:
        """Notes a parameter as updated; a second call completes one that Ctrl-C has ended."""
        index = self._indices.get(id(slot.tensor), len(self._indices))
        self.slots[index:] = [slot]
        self.gradients[index:] = [gradient]
        self.rates[index:] = [rates]
        self.after[index:] = [slot.steps + 1]
        self.versions[index:] = [version_of(gradient)]
        self._indices[id(slot.tensor)] = index
        if slot.group >= 0 and not (self._held and self._held[-1] == index):
            self._held_bytes += local_of(gradient).nbytes
            self._held.append(index)
        # A later backward that has saved the parameter must not use it.
        increment_version(slot.tensor)
        slot.version = version_of(slot.tensor)
        if slot.tensor.grad is gradient:
            slot.tensor.grad = UsedGradient.of(slot, gradient)

    def _let_go(self, core: _core.Optimizer) -> None:
        """Gives gradients back that updates have used; waits for some, if there are too many."""
        while self._held:
            index = self._held[0]
            block = self._held_bytes > _HELD_BYTES and len(self._held) > 1
            updated = core.wait_for(self.slots[index].group, block)
            if not updated and not block:
                return
            self._held.popleft()
            self._held_bytes -= local_of(self.gradients[index]).nbytes
            if updated:  # one that has failed is repeated with its gradient
                self.gradients[index] = None

    def drop_used(self) -> None:
        """Parameters have no gradient any more."""
        for slot in self.slots:
            if is_used(slot.tensor.grad):
                slot.tensor.grad = None


def refuse_frozen(slots: Iterable[Slot]) -> None:
    """Raises InvalidArgument for a frozen parameter with a gradient that is not used up."""
    for slot in slots:
        if not is_used(slot.tensor.grad):
            check_not_frozen(slot)


def refuse_options(clip_norm: Optional[float], overlap: bool) -> None:
    """Raises InvalidArgument for what needs all gradients, or begins after backward."""
    if overlap:
        raise errors.InvalidArgument(
            "overlap=True and step_in_backward=True begin updates at different times; leave one out"
        )
    if clip_norm is not None:
        raise errors.InvalidArgument(
            f"clip_norm={clip_norm} needs the gradients of all parameters before the first update, "
            f"and step_in_backward=True has them one by one; leave one of them out"
        )


def refuse_ranks(slots: Iterable[Slot]) -> None:
    """Raises FailedPrecondition where a gradient is not that of all ranks: of a plain tensor."""
    count = ranks()
    plain = [slot.name for slot in slots if not is_dtensor(slot.tensor)]
    if count > 1 and plain:
        raise errors.FailedPrecondition(
            f"step_in_backward=True updates parameter '{plain[0]}' by the gradient of this rank alone, "
            f"before DistributedDataParallel averages those of its {count} ranks; {_INSTEAD}. FSDP2's "
            "parameters (DTensors) can have it"
        )
