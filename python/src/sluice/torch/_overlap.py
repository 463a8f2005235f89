"""overlap: step() returns at once, and modules wait for their parameters before they run."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Optional

import torch

from .. import errors
from ._compiled import not_compiled
from ._slots import Slot, check_in_place

if TYPE_CHECKING:
    from ._optimizer import PagedOptimizer

# Modules that read parameters of modules below them without calling those.
_READ_BELOW = (
    torch.jit.ScriptModule, torch.nn.MultiheadAttention, torch.nn.TransformerEncoderLayer
)
_LISTS = (torch.nn.ParameterList, torch.nn.ParameterDict)


class Overlap:
    """The parameters of the last step that nobody has waited for.

    A module waits for its own before its forward, state_dict and load_state_dict. A gradient of one that no
    module has waited for is an error: something else has read it, perhaps before its update.
    """

    def __init__(self, optimizer: "PagedOptimizer") -> None:
        self._unread: dict[int, Slot] = {}  # key: id(tensor)
        # Modules that have parameters of the optimizer, and the hooks before their state_dict and
        # load_state_dict.
        self._known: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._hook = _Hook(optimizer)
        self._handle = torch.nn.modules.module.register_module_forward_pre_hook(self._hook)

    def begin(self, slots: Iterable[Slot]) -> None:
        """Notes that a step of these slots has begun."""
        self._unread = {id(slot.tensor): slot for slot in slots}

    def end(self) -> None:
        """Notes that the step is over."""
        self._unread = {}

    def close(self) -> None:
        """Ends the step and removes the hooks, so that modules no longer wait."""
        self.end()
        self._handle.remove()
        for handles in list(self._known.values()):
            for handle in handles:
                handle.remove()

    @property
    def all_read(self) -> bool:
        """Whether modules have waited for all parameters of the step."""
        return not self._unread

    @property
    def unread(self) -> list[Slot]:
        """The parameters of the step that no module has waited for."""
        return list(self._unread.values())

    def before(self, module: Any, optimizer: "PagedOptimizer") -> None:
        """Waits for the parameters that a module is about to read, or to write."""
        if not self._unread and module in self._known:
            return
        parameters = list(_read_by(module))
        if module not in self._known and any(id(each) in optimizer._slots for each in parameters):
            self._watch(module)
        for parameter in parameters:
            slot = self._unread.get(id(parameter))
            if slot is not None:
                check_in_place(slot)
                if not optimizer._core.wait_for(slot.group, True):
                    optimizer._wait()  # raises what the update has met
                self._unread.pop(id(parameter), None)

    def _watch(self, module: Any) -> None:
        """Has a module, and those below it, wait before a state dict of theirs is made or loaded."""
        for each in module.modules():
            # TorchScript takes no such hooks.
            if each not in self._known and not isinstance(each, torch.jit.ScriptModule):
                self._known[each] = (
                    each.register_state_dict_pre_hook(self._hook),
                    each.register_load_state_dict_pre_hook(self._hook),
                )

    def check_read(self, slot: Slot) -> None:
        """Raises FailedPrecondition for a gradient of a parameter that no module has waited for."""
        if id(slot.tensor) in self._unread:
            raise errors.FailedPrecondition(
                f"parameter '{slot.name}' was used while its update was under way (overlap=True): no "
                "module with it was called, or only compiled code has called it. Call "
                "optimizer.wait() before such a use; what this backward has computed is void"
            )


def _read_by(module: Any) -> Iterable[Any]:
    if _is_compiled(module) or isinstance(module, _READ_BELOW) or _writes_gradients(module):
        return list(module.parameters())
    own = [each for each in module._parameters.values() if each is not None]
    lists = (child for child in module._modules.values() if isinstance(child, _LISTS))
    return [*own, *(each for child in lists for each in child.parameters())]


def _is_compiled(module: Any) -> bool:
    """Whether torch.compile has made the module, or its compile() was called: hooks below it may not run."""
    return type(module).__name__ == "OptimizedModule" or _is_compiled_in_place(module)


def _is_compiled_in_place(module: Any) -> bool:
    return getattr(module, "_compiled_call_impl", None) is not None


def _writes_gradients(module: Any) -> bool:
    """Whether the next backward writes to gradients of the step: they are views of the module's buckets.

    DistributedDataParallel writes to those of parameters that its forward has not used, too.
    """
    parallel = isinstance(module, torch.nn.parallel.DistributedDataParallel)
    return parallel and bool(getattr(module, "gradient_as_bucket_view", False))


class _Hook:
    """A hook of modules, before forward, state_dict and load_state_dict. It keeps no optimizer."""

    def __init__(self, optimizer: Optional["PagedOptimizer"]) -> None:
        self._optimizer = None if optimizer is None else weakref.ref(optimizer)

    def __call__(self, module: Any, *arguments: object) -> None:
        if not torch.compiler.is_compiling():
            self._wait(module)
        elif _is_compiled_in_place(module):  # its hooks are compiled too
            self.overlap_waits_outside_the_graph(module)

    @not_compiled
    def overlap_waits_outside_the_graph(self, module: Any) -> None:
        """Waits where a graph breaks. torch.compile's error names this function with fullgraph=True."""
        self._wait(module)

    def _wait(self, module: Any) -> None:
        optimizer = None if self._optimizer is None else self._optimizer()
        if optimizer is not None and optimizer._overlap is not None:
            optimizer._overlap.before(module, optimizer)

    def __reduce__(self) -> Any:
        return _Hook, (None,)  # a module that is copied or loaded waits for nobody
