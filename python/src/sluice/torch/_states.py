"""States of parameters as ordinary tensors, and from them."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Optional

import torch

from .. import _core, errors
from ._arguments import number_of
from ._shards import local_of, problem_of_layout
from ._slots import Slot, refuse

# Tensors of a spill file begin at multiples of this.
_ALIGNMENT = 64

# Largest number of steps: beyond it not every number is a float.
_STEPS_MAX = 2**53

# The name of a master among the states of a parameter.
MASTER = "master"


class Spill:
    """An unnamed file with room for fp32 tensors, which are mapped from it.

    Its pages are page cache, which the system writes and drops as it needs to. The file goes with
    its last tensor.
    """

    def __init__(self, directory: str, counts: Iterable[int]) -> None:
        self._used = 0
        size = sum(_aligned(4 * count) for count in counts)
        if size == 0:
            return
        place = directory or tempfile.gettempdir()
        try:
            with tempfile.TemporaryFile(dir=place) as file:
                os.posix_fallocate(file.fileno(), 0, size)
                self._map = mmap.mmap(file.fileno(), size)
        except OSError as error:
            raise errors.TierFull(
                f"state_dict: {place} takes no file of the {size} bytes of the states: {error}"
            ) from error

    def take(self, shape: tuple[int, ...], count: int) -> Any:
        """The next tensor, a storage of its own."""
        if count == 0:
            return torch.empty(shape)
        tensor = torch.frombuffer(self._map, dtype=torch.float32, count=count, offset=self._used)
        self._used += _aligned(4 * count)
        return tensor.reshape(shape)


def _aligned(size: int) -> int:
    return (size + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


def check_form(state_dict: Any) -> None:
    """Raises InvalidArgument for what has not the form of a state dict."""
    if not isinstance(state_dict, Mapping):
        raise errors.InvalidArgument(f"the state dict is {type(state_dict).__name__}; take that of state_dict()")
    if "param_groups" not in state_dict or "state" not in state_dict:
        raise errors.InvalidArgument("the state dict has no 'state' or no 'param_groups'")
    states, groups = state_dict["state"], state_dict["param_groups"]
    if not isinstance(states, Mapping):
        raise errors.InvalidArgument(f"the state dict has 'state' as {type(states).__name__}, not as a dict")
    for index, state in states.items():
        if not isinstance(state, Mapping):
            raise errors.InvalidArgument(f"the state dict has the states of parameter {index!r} as "
                                         f"{type(state).__name__}, not as a dict")
    if not isinstance(groups, (list, tuple)):
        raise errors.InvalidArgument(f"the state dict has 'param_groups' as {type(groups).__name__}, not as a list")
    for number, group in enumerate(groups):
        params = group.get("params") if isinstance(group, Mapping) else None
        if not isinstance(params, (list, tuple)) or not all(isinstance(each, Hashable) for each in params):
            raise errors.InvalidArgument(f"parameter group {number} of the state dict is no dict with a "
                                         "list 'params' of the numbers of parameters")


class Loaded:
    """Entries of a state dict for one parameter. Raises InvalidArgument for impossible ones.

    ``over``: a load before it may have written states. ``counted``: the update depends on the steps.
    """

    def __init__(self, slot: Slot, names: tuple[str, ...], saved: Mapping[str, Any],
                 over: bool, counted: bool) -> None:
        self.slot = slot
        self._written = over or slot.steps > 0 or slot.has_states
        known = {*names, MASTER, "step"}
        unknown = sorted(str(name) for name in saved if name not in known)
        if unknown:
            raise refuse(slot.name, f"has a state '{unknown[0]}' in the state dict, which this "
                                    f"optimizer has not; it has {', '.join(names)}")
        if saved and counted and "step" not in saved:
            raise refuse(slot.name, "has no 'step' in the state dict, by which its update is corrected")
        self.steps = steps_of(slot, saved, "the state dict")
        self.values: list[Optional[Any]] = []
        for name in names:
            value = saved.get(name)
            if saved and value is None and name != "momentum_buffer":
                raise refuse(slot.name, f"has no state '{name}' in the state dict")
            self.values.append(value)
        self.has_states = any(value is not None for value in self.values)
        self.master = saved.get(MASTER) if slot.master else None
        for name, value in (*zip(names, self.values), (MASTER, self.master)):
            if value is not None:
                _check_value(slot, name, value)

    def write(self, core: _core.Optimizer) -> None:
        """Writes the states, one at a time."""
        slot = self.slot
        if slot.group < 0:
            return
        for number, value in enumerate(self.values):
            if value is not None or self._written:
                _write(core, slot, number, value)
        core.set_steps_of(slot.parameter, self.steps)
        if slot.master:
            _write(core, slot, None, slot.local if self.master is None else self.master)


def take_written(slot: Slot, master: Any) -> None:
    """Replaces elements of a master that do not round to the parameter by the parameter's."""
    with torch.no_grad():
        written = slot.local.detach()
        master.copy_(torch.where(master.to(written.dtype) == written, master, written.float()))


def clear(core: _core.Optimizer, slot: Slot, count: int) -> None:
    """Writes zeros to the first ``count`` states of a parameter."""
    if slot.group >= 0:
        for number in range(count):
            _write(core, slot, number, None)


def _write(core: _core.Optimizer, slot: Slot, number: Optional[int], value: Optional[Any]) -> None:
    with torch.no_grad():
        if value is None:
            value = torch.zeros(slot.shape)
        plain = local_of(value).detach().to(device="cpu", dtype=torch.float32).contiguous()
    core.write_state(slot.parameter, number, plain.data_ptr(), slot.count)


def steps_of(slot: Slot, saved: Mapping[str, Any], where: str) -> int:
    """The number of steps among the states of a parameter. Raises InvalidArgument, which names ``where``."""
    if "step" not in saved:  # torch's SGD does not count: one that has a momentum has made a step
        return int(any(value is not None for value in saved.values()))
    steps = number_of(saved["step"])
    if steps is None:
        raise refuse(slot.name, f"has a 'step' in {where} that is no number")
    if not (0 <= steps <= _STEPS_MAX and steps.is_integer()):
        raise refuse(slot.name, f"has {steps} steps in {where}; they are whole, from 0 to 2**53")
    return int(steps)


def _check_value(slot: Slot, name: str, value: Any) -> None:
    kinds = isinstance(value, torch.Tensor) and (value.is_complex(), value.is_quantized, value.is_nested)
    if not kinds or any(kinds) or value.layout != torch.strided:
        raise refuse(slot.name, f"has a state '{name}' in the state dict that is no dense, real tensor")
    if local_of(value).device.type == "meta":
        raise refuse(slot.name, f"has a state '{name}' in the state dict that is on meta, without values")
    problem = problem_of_layout(value, slot.tensor)
    if problem is not None:
        raise refuse(slot.name, f"has a state '{name}' in the state dict that {problem}; "
                                "set_optimizer_state_dict of torch.distributed.checkpoint distributes "
                                "states")
    if tuple(local_of(value).shape) != slot.shape:
        raise refuse(slot.name, f"has shape {slot.shape}, its state '{name}' in the state dict "
                                f"{tuple(local_of(value).shape)}")
