"""Parameters of a model that streams, and the weights that they show."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, Optional

import torch
from torch.utils.hooks import RemovableHandle

from ... import _core, errors

if TYPE_CHECKING:
    from ..._weights import Weight, Weights


def refuse_copy() -> NoReturn:
    """Raises the error for a copy of a model that streams, or of a part of one."""
    raise errors.InvalidArgument(
        "a model that streams cannot be copied or pickled: close the stream first, or send "
        "model.state_dict()"
    )


@dataclasses.dataclass(eq=False)
class Slot:
    """A parameter of the model, and the weight that it shows while the model streams."""

    names: list[str]
    places: list[tuple[torch.nn.Module, str]]
    original: torch.nn.Parameter
    # Weights of the files whose bytes, one behind the other, are the parameter's.
    parts: list[Weight] = dataclasses.field(init=False)
    # The weight that it shows, unless experts lease its rows.
    weight: Weight = dataclasses.field(init=False)
    by_expert: bool = False
    shown: Optional[torch.nn.Parameter] = None
    address: int = 0
    # Stand-in while nothing is leased, where no file has the bytes as they are.
    hidden: Optional[torch.nn.Parameter] = None
    # The units that lease the weight: with a tie several do at once.
    users: set[object] = dataclasses.field(default_factory=set)
    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    # Hooks by which state dicts raise that would write the parameter, or have it on meta.
    guards: list[RemovableHandle] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        # The dtype that the model computes with, and whether from_pretrained makes it float32.
        self.dtype = self.original.dtype
        self.widened = False

    def __reduce__(self) -> NoReturn:  # hooks of modules have it
        refuse_copy()

    @property
    def idle(self) -> Optional[torch.nn.Parameter]:
        """The parameter of the modules outside a lease."""
        return self.shown if self.hidden is None else self.hidden

    def show(self, view: torch.Tensor) -> None:
        """Makes the parameter that shows the weight."""
        self.shown = self._parameter(view)
        self.address = self.shown.data_ptr()

    def hide(self) -> None:
        """Has the parameter be on meta outside a lease."""
        self.hidden = self._parameter(torch.empty_like(self.original, dtype=self.dtype, device="meta"))

    def _parameter(self, view: torch.Tensor) -> torch.nn.Parameter:
        parameter = torch.nn.Parameter(view, requires_grad=False)
        parameter.__dict__.update(self.original.__dict__)
        return parameter

    def forget(self) -> None:
        """Gives the memory of the original back; what is left of it is on meta."""
        original = self.original
        self.original = torch.nn.Parameter(
            torch.empty_like(original, device="meta"), requires_grad=original.requires_grad
        )
        self.original.__dict__.update(original.__dict__)

    def guard(self) -> None:
        """Has state dicts raise, until ``end``, that would write the parameter, or have it on meta."""
        self.guards += [module.register_load_state_dict_pre_hook(_NoLoading(self))
                        for module, _ in self.places]
        if self.hidden is not None:
            self.guards += [module.register_state_dict_pre_hook(self._refuse_saving)
                            for module, _ in self.places]

    def refuse_loading(self, module: torch.nn.Module, state: Mapping[str, Any], prefix: str) -> None:
        """Raises FailedPrecondition if a state that ``module`` is to load has the parameter."""
        if any(each is module and prefix + name in state for each, name in self.places):
            raise errors.FailedPrecondition(
                f"parameter '{self.names[0]}' shows a file of the checkpoint, and load_state_dict would "
                "write to it: close the stream first, and load the model into memory"
            )

    def _refuse_saving(self, *_: object) -> NoReturn:
        raise errors.FailedPrecondition(
            f"parameter '{self.names[0]}' is put together of parts of the files while the model runs, "
            "and a state dict would have it on meta: copy the files of the checkpoint, or close the "
            "stream and load the model into memory (from_pretrained)"
        )

    def end(self) -> None:
        """Gives the weight's memory back."""
        while self.guards:
            self.guards.pop().remove()
        self.shown = self.hidden = None

    def use(self, unit: object) -> None:
        """Has the modules compute on the weight, which ``unit`` leases."""
        with self.lock:
            self.users.add(unit)
            self.put(self.shown)

    def leave(self, unit: object) -> None:
        """Ends ``use``, or what there is of it."""
        with self.lock:
            self.users.discard(unit)
            if not self.users:
                self.put(self.idle)

    def put(self, parameter: Optional[torch.nn.Parameter]) -> None:
        """Makes ``parameter`` that of every module that has this one."""
        for module, name in self.places:
            module._parameters[name] = parameter

    def refuse_moved(self) -> None:
        """Raises FailedPrecondition unless the modules compute on the weight's memory."""
        with self.lock:
            now = self.shown if self.users else self.idle
            same = all(module._parameters.get(name) is now for module, name in self.places)
        at = 0 if now is self.hidden else self.address
        moved = now is None or now.data_ptr() != at or now.dtype != self.dtype
        if not same or moved:
            raise errors.FailedPrecondition(
                f"parameter '{self.names[0]}' has been moved or replaced while the model streams "
                "(model.to(), half(), load_state_dict(assign=True)): close the stream first"
            )


class _NoLoading:
    """A hook before load_state_dict. In a copy of its module it does nothing."""

    def __init__(self, slot: Optional[Slot]) -> None:
        self._slot = slot

    def __call__(self, module: torch.nn.Module, state: Mapping[str, Any], prefix: str,
                 *_: object) -> None:
        if self._slot is not None:
            self._slot.refuse_loading(module, state, prefix)

    def __reduce__(self) -> Any:
        return _NoLoading, (None,)


def renew_lists(slots: list[Slot]) -> None:
    """Has recurrent modules, which keep lists of their parameters, list those that they have now."""
    modules = {id(module): module for slot in slots for module, _ in slot.places}
    for module in modules.values():
        if isinstance(module, torch.nn.RNNBase):
            module._init_flat_weights()


def request_of(weight: Weight, first: int = 0, nbytes: Optional[int] = None) -> _core._Request:
    """The lease of a weight's bytes, from ``first`` on."""
    assert weight.tensor is not None
    return (weight.tensor._state, first, weight.nbytes if nbytes is None else nbytes, "r", None)


def view_of(weight: Weight) -> torch.Tensor:
    """A torch tensor that shows a weight. Raises InvalidArgument for one at an odd address."""
    view = weight.torch()
    if view.data_ptr() % view.element_size() != 0:
        raise errors.InvalidArgument(
            f"weight '{weight.name}' of {weight.file} begins within an element "
            f"({view.dtype}): write the file again with safetensors"
        )
    return view


def show(slot: Slot, weights: Weights) -> None:
    """Makes the parameters of a slot. Weights of the files that they do not show are not kept."""
    parts, slot.parts = slot.parts, []
    if slot.by_expert:
        slot.hide()
        return
    slot.weight = parts[0]
    if len(parts) > 1:
        slot.weight = weights._fused(slot.names[0], tuple(slot.original.shape), parts)
        slot.hide()
    slot.show(view_of(slot.weight))
