"""PyTorch, where it is installed: tensors on the memory of leases, and bytes of tensors.

sluice is not linked to PyTorch. Memory passes as a DLPack capsule, one per tensor and tier, so that
all torch tensors of a sluice tensor share one storage.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _core, _dtypes, errors

if TYPE_CHECKING:
    import torch

    from ._tensor import Tensor


def tensor_on(tensor: "Tensor", held: _core.HeldLease) -> "torch.Tensor":
    """A torch tensor on the whole of ``tensor``, in the tier of the lease."""
    torch = imported("view.torch()")
    held.check()
    with tensor._torch_lock:
        known = tensor._storages.get(held.tier)
        storage = known() if known is not None else None
        if storage is None:
            capsule = held.lend_tensor(tensor.shape, tensor._dtype.code, tensor._dtype.bits)
            return _first_on(tensor, held.tier, capsule)
    if storage.data_ptr() != held.tensor_address:
        raise errors.FailedPrecondition(
            f"the torch tensors of '{tensor.name}' have left its memory: PyTorch moves what is sent "
            "to another process (Queue.put, arguments of a process) into shared memory, where they "
            "no longer show the tensor. Send view.torch().clone(), and drop the tensors that were sent"
        )
    empty = torch.empty(0, dtype=getattr(torch, tensor.dtype), device="cpu")
    return empty.set_(storage, 0, tensor.shape)


def tensor_off_lease(tensor: "Tensor") -> "torch.Tensor":
    """A torch tensor on the whole of ``tensor`` at its address in dram, which needs no lease.

    It shares the storage of leases in dram. REQUIRES: a tensor that is readable outside a lease.
    """
    torch = imported("weight.torch()")
    with tensor._torch_lock:
        known = tensor._storages.get("dram0")
        storage = known() if known is not None else None
        if storage is None:
            capsule = _core.lend_tensor_off_lease(
                tensor._state, tensor.shape, tensor._dtype.code, tensor._dtype.bits
            )
            return _first_on(tensor, "dram0", capsule)
    empty = torch.empty(0, dtype=getattr(torch, tensor.dtype), device="cpu")
    return empty.set_(storage, 0, tensor.shape)


def imported(caller: str) -> Any:
    try:
        import torch
    except ImportError:
        raise errors.FailedPrecondition(f"{caller} needs PyTorch: pip install torch") from None
    return torch


def _first_on(tensor: "Tensor", tier: str, capsule: object) -> "torch.Tensor":
    import torch

    whole: torch.Tensor = torch.utils.dlpack.from_dlpack(capsule)
    tensor._storages[tier] = weakref.ref(whole.untyped_storage())
    return whole


def bytes_of(values: object, tensor: "Tensor", writable: bool) -> Any:
    """A buffer with the bytes of an array or torch tensor that fits ``tensor``."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        return _torch_bytes(values, tensor, writable)
    if not isinstance(values, np.ndarray):
        raise errors.InvalidArgument(
            f"tensor '{tensor.name}' takes a NumPy array or a torch tensor, not "
            f"{type(values).__name__}"
        )
    _refuse_misfit(tensor, values.shape, _dtypes.parse(values.dtype).name)
    if not writable:
        values = np.ascontiguousarray(values)
    elif not (values.flags.c_contiguous and values.flags.writeable):
        raise errors.InvalidArgument(f"out of '{tensor.name}' must be C-contiguous and writeable")
    return values.reshape(-1).view(np.uint8)


def note_write(values: object) -> None:
    """Has autograd see that the bytes of a torch tensor were written, as its own operations do."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(values, torch.Tensor):
        torch.autograd.graph.increment_version(values)


def _torch_bytes(values: "torch.Tensor", tensor: "Tensor", writable: bool) -> Any:
    import torch

    if values.layout != torch.strided or values.is_quantized:
        raise errors.InvalidArgument(f"tensor '{tensor.name}' takes dense torch tensors")
    if values.device.type != "cpu":
        raise errors.InvalidArgument(
            f"tensor '{tensor.name}' takes torch tensors on the CPU, not on {values.device}: "
            "values.cpu()"
        )
    _refuse_misfit(tensor, tuple(values.shape), _dtypes.parse(values.dtype).name)
    if writable and not values.is_contiguous():
        raise errors.InvalidArgument(f"out of '{tensor.name}' must be contiguous")
    flat = values.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy()


def _refuse_misfit(tensor: "Tensor", shape: tuple[int, ...], dtype: str) -> None:
    if shape != tensor.shape or dtype != tensor.dtype:
        raise errors.InvalidArgument(
            f"tensor '{tensor.name}' is {tensor.dtype} of shape {tensor.shape}; "
            f"the values are {dtype} of shape {shape}"
        )
