"""Activations: the tensors that autograd saves for backward, in the tiers of a runtime."""

from __future__ import annotations

from typing import Any, NoReturn, Optional

import torch

from .. import _options, errors
from .._options import Size
from .._runtime import Runtime
from ._pager import Pager, pager_of
from ._stash import Saved, refuse_changed


class OffloadActivations(torch.autograd.graph.saved_tensors_hooks):  # type: ignore[misc]
    """The context of ``offload_activations``. It may be entered again, nested and in any thread."""

    def __init__(self, pager: Pager, min_bytes: int) -> None:
        stash, load = pager.stash, pager.load

        def pack(tensor: torch.Tensor) -> object:
            try:
                size = tensor.nbytes
            except RuntimeError:  # a sparse tensor
                size = 0
            if size >= min_bytes:
                saved = stash(tensor, min_bytes)
                if saved is not None:
                    return saved
            # detach(): an output would keep the node that keeps it. Both share the version.
            return (tensor.detach(), tensor._version)

        def unpack(packed: Any) -> torch.Tensor:
            if type(packed) is Saved:
                return load(packed)
            tensor, version = packed
            if tensor._version != version:
                refuse_changed(tensor, version)
            return tensor

        # Hooks are not compiled, even if the context is within a compiled model.
        super().__init__(torch.compiler.disable(pack), torch.compiler.disable(unpack))
        self._pager = pager

    def __enter__(self) -> "OffloadActivations":
        super().__enter__()
        return self

    def stats(self) -> dict[str, int]:
        """Counters of the runtime's saved tensors since its start.

        stashed, stashed_bytes
            Blocks of bytes that went to the runtime.
        shared
            Saved tensors that use a block which was stashed already.
        from_memory
            Uses of a block that was still in PyTorch's memory.
        fetched, ahead
            Blocks copied back, and blocks of them that were asked for before their use.
        full
            Saved tensors that stayed in PyTorch's memory, as dram and nvme were full.
        """
        return dict(self._pager.counts)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise errors.InvalidArgument(
            "offload_activations cannot be copied or pickled: what it has stored belongs to a runtime of this "
            "process; keep it out of what is copied, and call offload_activations(runtime) again"
        )


def offload_activations(runtime: Runtime, *, min_bytes: Optional[Size] = None) -> OffloadActivations:
    """A context that keeps the tensors which autograd saves in the tiers of ``runtime``.

        with sluice.torch.offload_activations(runtime):
            loss = model(batch).loss
        loss.backward()

    Saved tensors on the CPU are copied to pages of the runtime beside the computation, and their
    memory is freed. The latest 64 MiB stay, as backward uses them first. Backward copies the others
    back ahead of their use, in the order of the passes before. Gradients have the bits of a run
    without the context.
    The C library keeps much of what is freed. It is made to return that to the system once less
    than a quarter of the memory of the machine or the control group is available.

    min_bytes
        Smaller tensors stay, as a count or as text ("1MiB"). None: a page of the runtime, the least
        that a tensor takes there.

    Parameters and views of them stay. So do tensors that are not on the CPU, not strided, nested,
    of a subclass, or conjugate or negative views. All tensors stay once dram and nvme are full,
    which the logger "sluice" says once. A tensor that was changed in place after it was saved
    raises FailedPrecondition in backward, unless its copy had ended before.
    Raises InvalidArgument. Threads: any.
    """
    if not isinstance(runtime, Runtime):
        raise errors.InvalidArgument(
            f"offload_activations takes a sluice.Runtime, not {type(runtime).__name__}"
        )
    least = runtime.page_bytes if min_bytes is None else _options.parse_size("min_bytes", min_bytes)
    return OffloadActivations(pager_of(runtime), max(1, least))
