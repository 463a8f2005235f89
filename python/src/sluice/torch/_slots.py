"""The parameters of an optimizer, and what is wrong with one or with its gradient."""

from __future__ import annotations

import weakref
from typing import Any, Optional

import torch

from .. import errors

# Types of parameters and gradients, as sluice._core names them.
DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}

# The optimizer and the tensor of each address that an optimizer has. An entry is true while both
# live and the tensor is there still.
_owners: "dict[int, tuple[weakref.ref[Any], weakref.ref[Any]]]" = {}


class Slot:
    """A parameter of an optimizer, which keeps it and its memory."""

    def __init__(self, name: str, tensor: Any, master: bool) -> None:
        self.name = name
        self.tensor = tensor
        self.storage = tensor.untyped_storage()
        self.address: int = tensor.data_ptr()
        self.shape = tuple(tensor.shape)
        self.dtype = tensor.dtype
        self.master = master and tensor.dtype != torch.float32
        self.group = -1      # id in sluice._core
        self.parameter = -1  # id in sluice._core
        self.steps = 0
        self.version: int = tensor._version
        self.hook: Any = None  # handle of a hook on its gradients

    @property
    def count(self) -> int:
        """Elements."""
        return int(self.tensor.numel())

    @property
    def nbytes(self) -> int:
        """Bytes of the parameter."""
        return int(self.tensor.nbytes)


def refuse(name: str, problem: str) -> errors.InvalidArgument:
    """The error for a parameter, by its name."""
    return errors.InvalidArgument(f"parameter '{name}' {problem}")


def _problem_of(tensor: Any) -> Optional[str]:
    """What keeps a parameter or a gradient out, whatever its type; None: nothing."""
    if type(tensor).__name__ == "DTensor":
        return "is a DTensor, which is not supported yet"
    if tensor.layout != torch.strided:
        return f"is sparse ({tensor.layout}); only dense tensors are updated"
    if tensor.device.type != "cpu":
        return f"is on {tensor.device}; only tensors on the CPU are updated"
    if not tensor.is_contiguous():
        return f"is not contiguous (strides {tuple(tensor.stride())}); take .contiguous()"
    if tensor.is_complex():
        return f"is complex ({tensor.dtype}); take torch.view_as_real"
    return None


def check_parameter(name: str, tensor: Any, master: bool) -> None:
    """Raises InvalidArgument for what cannot be a parameter."""
    problem = _problem_of(tensor)
    if problem is not None:
        raise refuse(name, problem)
    if tensor.dtype not in DTYPES:
        raise refuse(name, f"is {tensor.dtype}; parameters are float32, bfloat16 or float16")
    if tensor.dtype == torch.float16 and not master:
        raise refuse(name, "is float16, which needs master=True")
    owner, owned = _owners.get(tensor.data_ptr(), (None, None))
    if owner is None or owned is None or tensor.numel() == 0:
        return
    other = owned()
    if owner() is not None and other is not None and other.data_ptr() == tensor.data_ptr():
        raise refuse(name, "belongs to another optimizer of sluice already; close() that one first")


def take(optimizer: Any, slot: Slot) -> None:
    """The optimizer has the parameter from now on."""
    _owners[slot.address] = (weakref.ref(optimizer), weakref.ref(slot.tensor))


def give_back(slot: Slot) -> None:
    """No optimizer has the parameter."""
    _owners.pop(slot.address, None)


def check_unchanged(slot: Slot) -> None:
    """Raises InvalidArgument if the parameter is not where and what it was."""
    tensor = slot.tensor
    if slot.group < 0 and tensor.numel() == 0:
        return
    if tuple(tensor.shape) != slot.shape:
        raise refuse(slot.name, f"had shape {slot.shape} when it was added and has "
                                f"{tuple(tensor.shape)} now; make a new optimizer")
    if tensor.dtype != slot.dtype:
        raise refuse(slot.name, f"was {slot.dtype} when it was added and is {tensor.dtype} now; "
                                "make a new optimizer")
    problem = _problem_of(tensor)
    if problem is not None:
        raise refuse(slot.name, problem)
    if tensor.data_ptr() != slot.address or slot.storage.nbytes() == 0:
        raise refuse(slot.name, "has other memory than when it was added (p.data = ..., .to(...), or "
                                "a freed storage); copy into it (p.data.copy_), or make a new optimizer")


def check_gradient(slot: Slot, gradient: Any) -> None:
    """Raises InvalidArgument for a gradient that cannot be used."""
    problem = _problem_of(gradient)
    if problem is None and gradient.dtype not in DTYPES:
        problem = f"is {gradient.dtype}; gradients are float32, bfloat16 or float16"
    if problem is None and tuple(gradient.shape) != slot.shape:
        problem = f"has shape {tuple(gradient.shape)}, the parameter {slot.shape}"
    if problem is not None:
        raise errors.InvalidArgument(f"the gradient of parameter '{slot.name}' {problem}")
