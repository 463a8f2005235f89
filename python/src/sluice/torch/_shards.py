"""Parameters that are DTensors: the elements of this rank, and what all ranks have together."""

from __future__ import annotations

import dataclasses
import logging
import math
import os
import weakref
from collections.abc import Iterable
from typing import Any, Optional

import torch

from .. import errors

_log = logging.getLogger("sluice")

# Elements that are taken to double precision at a time.
_CHUNK = 1 << 20


def is_dtensor(tensor: Any) -> bool:
    """Whether the tensor is one of several ranks."""
    return type(tensor).__name__ == "DTensor"


def has_summands(tensor: Any) -> bool:
    """Whether a DTensor is a sum, or another reduction, of what its ranks have."""
    return any(placement.is_partial() for placement in tensor.placements)


def local_of(tensor: Any) -> Any:
    """The elements of this rank: the local tensor of a DTensor, or the tensor itself."""
    if not is_dtensor(tensor):
        return tensor
    local = tensor._local_tensor
    return local.wait() if type(local).__name__ == "AsyncCollectiveTensor" else local


def version_of(tensor: Any) -> int:
    """A number that is another one after each write to the tensor, or to its local tensor."""
    own = int(tensor._version)
    return own + int(tensor._local_tensor._version) if is_dtensor(tensor) else own


def increment_version(tensor: Any) -> None:
    """Tells autograd, and whoever asks for the version, that the tensor was written."""
    torch.autograd.graph.increment_version(tensor)
    if is_dtensor(tensor):
        torch.autograd.graph.increment_version(tensor._local_tensor)


def like(tensor: Any, local: Any) -> Any:
    """The elements of this rank as what the tensor is: a DTensor with its mesh and placements."""
    if not is_dtensor(tensor):
        return local
    # DTensor.from_local would move them to the devices of the mesh, where offloaded ones are not.
    meta = tensor._spec.tensor_meta._replace(dtype=local.dtype)
    spec = dataclasses.replace(tensor._spec, tensor_meta=meta)
    return type(tensor)(local, spec, requires_grad=False)


def problem_of_layout(tensor: Any, parameter: Any) -> Optional[str]:
    """Difference of the ranks' parts of a tensor from those of the parameter; None: none."""
    if is_dtensor(tensor) != is_dtensor(parameter):
        return f"is {_kind(tensor)}, the parameter {_kind(parameter)}"
    if not is_dtensor(tensor):
        return None
    if tensor.placements != parameter.placements:
        return (f"has placements {tensor.placements}, the parameter {parameter.placements}; "
                "redistribute it")
    if tensor.device_mesh != parameter.device_mesh:
        return f"is on {tensor.device_mesh}, the parameter on {parameter.device_mesh}"
    return None


def _kind(tensor: Any) -> str:
    return "a DTensor" if is_dtensor(tensor) else "a plain tensor"


def ranks() -> int:
    """Processes of torch.distributed; 1: it is not used."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_initialized():
        return 1
    return int(distributed.get_world_size())


def check_group(tensors: list[Any]) -> None:
    """Raises FailedPrecondition for tensors of several ranks without their process group."""
    if ranks() == 1 and any(is_dtensor(each) and each.device_mesh.size() > 1 for each in tensors):
        raise errors.FailedPrecondition(
            "parameters are spread over several ranks, and torch.distributed has no process group any "
            "more: call this before destroy_process_group"
        )


def warn_of_budgets(share_is_given: bool) -> None:
    """Says it if each of several ranks takes the budgets of the whole host for its own."""
    if ranks() > 1 and not share_is_given and "LOCAL_WORLD_SIZE" not in os.environ:
        _log.warning("%d ranks, and LOCAL_WORLD_SIZE is not set: this rank has the whole budgets of its "
                     "runtime; set LOCAL_RANK and LOCAL_WORLD_SIZE, or give share=", ranks())


def reshard(parameters: Iterable[Any]) -> None:
    """Drops FSDP2's whole copies of parameters, some of which it keeps after a forward.

    The next forward makes them from what the ranks have then.
    """
    own = {id(each) for each in parameters if is_dtensor(each)}
    if not own:
        return
    from torch.distributed import _composable_state

    for each in list(_composable_state._module_state_mapping.values()):
        state = each() if isinstance(each, weakref.ref) else each
        for group in _groups_of(state):
            if any(id(parameter.sharded_param) in own for parameter in group.fsdp_params):
                group.reshard()


def _groups_of(state: Any) -> list[Any]:
    """Parameters that FSDP2 gathers together; older versions of PyTorch have one group for a module."""
    groups = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
    return [group for group in groups if group is not None]


def root_of(mesh: Any) -> Any:
    """The mesh from which a DTensor's mesh is cut."""
    own = getattr(mesh, "_get_root_mesh", None)
    if own is not None:
        return own()
    from torch.distributed.device_mesh import _mesh_resources  # older versions of PyTorch

    return _mesh_resources.get_root_mesh(mesh)


def norm_of(gradients: Iterable[Any], parameters: list[Any]) -> float:
    """The norm of the gradients of all ranks, the same on each. A collective call of DTensors.

    A plain gradient counts once: it is the same on every rank. ``parameters`` are all that may have
    a gradient, on any rank. Raises FailedPrecondition without the ranks' process group.
    """
    check_group(parameters)
    plain = 0.0
    # Squares on this rank, in an order that all ranks have.
    spread = {_spread_of(each): 0.0 for each in parameters if is_dtensor(each)}
    for gradient in gradients:
        squares = _squares(local_of(gradient))
        if is_dtensor(gradient):
            spread[_spread_of(gradient)] += squares
        else:
            plain += squares
    return math.sqrt(plain + sum(_of_all(mesh, dims, each) for (mesh, dims), each in spread.items()))


def _spread_of(tensor: Any) -> tuple[Any, tuple[int, ...]]:
    """The mesh, and its dimensions over which elements are spread."""
    dims = (dim for dim, placement in enumerate(tensor.placements) if not placement.is_replicate())
    return tensor.device_mesh, tuple(dims)


def _squares(tensor: Any) -> float:
    """The sum of squares in double precision; infinite or NaN where an element is."""
    return sum(float(chunk.double().square().sum())
               for chunk in tensor.detach().reshape(-1).split(_CHUNK))


def _of_all(mesh: Any, dims: Iterable[int], squares: float) -> float:
    """The sum over the ranks of these dimensions, in their order: every rank has the same bits."""
    for dim in dims:
        own = torch.tensor([squares], dtype=torch.float64)
        each = [torch.empty_like(own) for _ in range(mesh.size(dim))]
        torch.distributed.all_gather(each, own, group=mesh.get_group(dim))
        squares = sum(float(one) for one in each)
    return squares
