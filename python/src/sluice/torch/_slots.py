"""The parameters of an optimizer, and what is wrong with one or with its gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import torch

from .. import errors
from ._shards import has_summands, is_dtensor, local_of, problem_of_layout, ranks, version_of

# Types of parameters and gradients, as sluice._core names them.
DTYPES = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}


# Version of a parameter whose master is to be compared with it.
UNREAD = -1


class Slot:
    """A parameter of an optimizer, which keeps it and its memory.

    Of a DTensor the optimizer has the elements of this rank: shape, address and bytes are theirs.
    """

    def __init__(self, name: str, tensor: Any, master: bool) -> None:
        self.name = name
        self.tensor = tensor
        # Storages that the library may have still, by address of the object; none: it has this place.
        self.before: dict[int, Any] = {}
        self.take_place()
        self.shape = tuple(self.local.shape)
        self.dtype = tensor.dtype
        self.master = master and tensor.dtype != torch.float32
        self.group = -1      # id in sluice._core
        self.parameter = -1  # id in sluice._core
        self.steps = 0
        self.has_states = False  # torch.optim's optimizer would have them
        self.version = version_of(tensor)
        self.hook: Any = None  # handle of a hook on its gradients

    @property
    def local(self) -> Any:
        """The elements of this rank."""
        return local_of(self.tensor)

    def take_place(self) -> None:
        """Keeps the memory that the parameter has now."""
        self.storage = self.local.untyped_storage()
        self.address: int = self.local.data_ptr()

    def leave_place(self) -> None:
        """Counts the parameter as moved, and keeps its memory, until ``before`` is empty again."""
        self.before = {**self.before, self.storage._cdata: self.storage}

    @property
    def has_moved(self) -> bool:
        """Whether the parameter has other memory than the library was told, or that is freed."""
        return self.group >= 0 and (self.local.data_ptr() != self.address or self.storage.nbytes() == 0
                                    or bool(self.before))

    @property
    def count(self) -> int:
        """Elements of this rank."""
        return int(self.local.numel())

    @property
    def nbytes(self) -> int:
        """Bytes of this rank."""
        return int(self.local.nbytes)


class Slots(dict[int, Slot]):
    """Parameters of an optimizer, by id(tensor)."""

    @property
    def tensors(self) -> list[Any]:
        """The parameters."""
        return [slot.tensor for slot in self.values()]

    def __missing__(self, key: int) -> Slot:
        raise errors.InvalidArgument("param_groups has a tensor that was put there by hand; "
                                     "add_param_group adds parameters")


def refuse(name: str, problem: str) -> errors.InvalidArgument:
    """The error for a parameter, by its name."""
    return errors.InvalidArgument(f"parameter '{name}' {problem}")


def _problem_of(tensor: Any) -> Optional[str]:
    """Reason that keeps a parameter or a gradient out, whatever its type; None: none."""
    if is_dtensor(tensor):
        if has_summands(tensor):
            return f"has placements {tensor.placements}, so each rank has a summand; redistribute it"
        tensor = local_of(tensor)
    if tensor.layout != torch.strided:
        return f"is sparse ({tensor.layout}); only dense tensors are updated"
    if not tensor.is_cpu:
        return f"is on {tensor.device}; only tensors on the CPU are updated"
    if not tensor.is_contiguous():
        return f"is not contiguous (strides {tuple(tensor.stride())}); take .contiguous()"
    if tensor.is_neg():
        return "is a view that negates its memory; take .resolve_neg()"
    if tensor.is_complex():
        return f"is complex ({tensor.dtype}); take torch.view_as_real"
    return None


def check_parameter(name: str, tensor: Any, master: bool) -> None:
    """Raises InvalidArgument for what cannot be a parameter."""
    if torch.nn.parameter.is_lazy(tensor):
        raise refuse(name, "is that of a lazy module, which has no shape yet; call the model once before")
    if tensor.is_inference():
        raise refuse(name, "was made in torch.inference_mode(), where autograd sees no writes; make it "
                           "outside, or clone it there")
    # Both kinds of FullyShardedDataParallel's parameters have this mark.
    if getattr(tensor, "_fsdp_flattened", False):
        raise refuse(name, "is managed by FullyShardedDataParallel, and nothing tells its shards from replicas; "
                           "use fully_shard (FSDP2), whose parameters are DTensors")
    problem = _problem_of(tensor)
    if problem is not None:
        raise refuse(name, problem)
    if tensor.dtype not in DTYPES:
        raise refuse(name, f"is {tensor.dtype}; parameters are float32, bfloat16 or float16")
    if tensor.dtype == torch.float16 and not master:
        raise refuse(name, "is float16, which needs master=True")


def check_ranks(name: str, tensor: Any, overlap: bool, clips_alone: bool) -> None:
    """Raises InvalidArgument for a DTensor with options that cannot have one.

    ``clips_alone``: clip_norm is given, and the optimizer knows of one rank.
    """
    if not is_dtensor(tensor):
        return
    if overlap:
        raise refuse(name, "is a DTensor, which FSDP2 gathers before the modules below it are called; "
                           "leave overlap=True out for it")
    if clips_alone and ranks() > 1:
        raise refuse(name, "is a DTensor, and clip_norm= needs to know of the ranks: make the optimizer "
                           "after init_process_group")


def new_slots(group: Mapping[str, Any], known: Slots, master: bool, overlap: bool,
              clips_alone: bool) -> list[Slot]:
    """The parameters of a group, but for those known of one that could not be added.

    Raises InvalidArgument for what cannot be a parameter.
    """
    names = group.get("param_names")
    taken = {slot.name for slot in known.values()}
    new: dict[int, Slot] = {}
    for number, tensor in enumerate(group["params"]):
        name = f"{len(known) + len(new)}" if names is None else str(names[number])
        if id(tensor) in new:
            raise refuse(name, "is in its group twice")
        if id(tensor) in known:
            continue
        if name in taken:
            raise refuse(name, "has the name of another one; give each a name of its own")
        check_parameter(name, tensor, master)
        check_ranks(name, tensor, overlap, clips_alone)
        new[id(tensor)] = Slot(name, tensor, master)
        taken.add(name)
    return list(new.values())


def check_unchanged(slot: Slot) -> None:
    """Raises InvalidArgument if the parameter is not where and what it was."""
    if slot.group < 0 and slot.local.numel() == 0:
        return
    _check_kind(slot)
    if slot.has_moved:
        raise _refuse_place(slot)


def check_movable(slot: Slot) -> None:
    """Raises InvalidArgument if the memory that a parameter has now cannot take the place of the one before."""
    _check_kind(slot)
    check_parameter(slot.name, slot.tensor, slot.master)
    local, size = slot.local, slot.dtype.itemsize
    if is_dtensor(slot.tensor) or local.untyped_storage().nbytes() < local.storage_offset() * size + local.nbytes:
        raise _refuse_place(slot)
    if local.data_ptr() % size != 0:
        raise refuse(slot.name, f"begins at an address that is no multiple of {size}, the bytes of an element")


def check_no_part(slot: Slot) -> None:
    """Raises FailedPrecondition if a parameter has moved which has no part in a step that is not over."""
    if slot.has_moved:
        raise errors.FailedPrecondition(
            f"parameter '{slot.name}' was given other memory while the last step, in which it has no part, is not "
            "over: call optimizer.wait() first"
        )


def check_in_place(slot: Slot) -> None:
    """Raises FailedPrecondition if the parameter has other memory than its update, which is not over."""
    if slot.has_moved:
        raise errors.FailedPrecondition(
            f"parameter '{slot.name}' was given other memory (p.data = ..., .to(...)) before its last update was "
            "over, so it may lack that update. Call optimizer.wait() before such a change, and step() after an "
            "error; now give it the memory from before, or make a new optimizer"
        )


def check_shape(slot: Slot) -> None:
    """Raises InvalidArgument if the parameter has another shape than its states."""
    shape = tuple(slot.local.shape)
    if shape != slot.shape:
        raise refuse(slot.name, f"had shape {slot.shape} when it was added and has {shape} now; make a new "
                                "optimizer")


def _check_kind(slot: Slot) -> None:
    check_shape(slot)
    tensor = slot.tensor
    if tensor.dtype != slot.dtype:
        raise refuse(slot.name, f"was {slot.dtype} when it was added and is {tensor.dtype} now; "
                                "make a new optimizer")
    problem = _problem_of(tensor)
    if problem is not None:
        raise refuse(slot.name, problem)


def _refuse_place(slot: Slot) -> errors.InvalidArgument:
    return refuse(slot.name, "has other memory than when it was added (p.data = ..., .to(...), or "
                             "a freed storage); copy into it (p.copy_ under torch.no_grad()), or make a new "
                             "optimizer")


def check_not_frozen(slot: Slot) -> None:
    """Raises InvalidArgument for a frozen parameter that still has a gradient."""
    if not slot.tensor.requires_grad and slot.tensor.grad is not None:
        raise refuse(slot.name, "is frozen (requires_grad=False) and still has a gradient; clear it "
                                "(p.grad = None), or unfreeze the parameter (p.requires_grad_())")


def gradient_of(slot: Slot) -> Any:
    """The parameter's gradient, or None. Raises InvalidArgument if the parameter is frozen.

    One that negates its memory, as autograd makes of complex numbers, becomes one that does not. One of
    which each rank has a summand becomes their sum: a collective call.
    """
    check_not_frozen(slot)
    gradient = slot.tensor.grad
    if gradient is None:
        return None
    if is_dtensor(gradient):
        if has_summands(gradient) and is_dtensor(slot.tensor) and gradient.device_mesh == slot.tensor.device_mesh:
            with torch.no_grad():
                slot.tensor.grad = gradient = gradient.redistribute(placements=slot.tensor.placements)
    elif gradient.is_neg():
        slot.tensor.grad = gradient = gradient.resolve_neg()
    return gradient


def check_gradient(slot: Slot, gradient: Any) -> None:
    """Raises InvalidArgument for a gradient that cannot be used."""
    problem = problem_of_layout(gradient, slot.tensor) or _problem_of(gradient)
    if problem is None and gradient.dtype not in DTYPES:
        problem = f"is {gradient.dtype}; gradients are float32, bfloat16 or float16"
    if problem is None and local_of(gradient).shape != slot.shape:
        problem = f"has shape {tuple(local_of(gradient).shape)}, the parameter {slot.shape}"
    if problem is not None:
        raise errors.InvalidArgument(f"the gradient of parameter '{slot.name}' {problem}")
