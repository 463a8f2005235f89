"""State dicts of optimizers, as torch's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Optional

import torch

from .. import _core, errors
from . import _entries, _slots, _states
from ._compiled import not_compiled
from ._owners import follow
from ._shards import like, version_of
from ._slots import Slot
from ._step import Step

Rates = tuple[float, float, float, float, float]


class StateDicts(torch.optim.Optimizer):  # type: ignore[misc]
    """Part of an optimizer that reads and writes whole states. PagedOptimizer has the rest."""

    # Names of the states, in the order of the library; whether the update depends on the number of
    # steps. Set by a subclass.
    _state_names: tuple[str, ...] = ()
    _counted = True
    # Whether torch.optim's optimizer has states before the first step. Set by a subclass.
    _begins_with_states = False

    state: "defaultdict[Any, dict[str, Any]]"
    _session: _core.Session
    _core: _core.Optimizer
    _slots: _slots.Slots
    _step: Optional[Step]    # step that is under way, or has failed
    _half_loaded = False

    def _rates(self, group: Mapping[str, Any], steps: int) -> Rates:
        """Learning rate, beta1, beta2, eps and weight decay of a parameter's next step."""
        raise NotImplementedError

    def _keeps_states(self, rates: Rates) -> bool:
        """Whether torch.optim's optimizer has states after a step with these rates."""
        return True

    def _check_options(self, group: Mapping[str, Any], where: str) -> None:
        """Raises InvalidArgument for options of a group that no step can have."""
        raise NotImplementedError

    def _check_groups(self) -> None:
        for number, group in enumerate(self.param_groups):
            self._check_options(group, f"parameter group {number}")

    def _refresh_masters(self, slots: Iterable[Slot]) -> None:
        """Masters of parameters that somebody else has written are taken anew."""
        for slot in slots:
            if slot.master and version_of(slot.tensor) != slot.version:
                self._core.refresh_master(slot.parameter)
                slot.version = version_of(slot.tensor)

    def _finish(self) -> None:
        raise NotImplementedError

    def _wait(self) -> None:
        raise NotImplementedError

    def _wait_unless_failed(self) -> None:
        if self._step is not None and not self._step.failed:
            self._finish()

    def _listen(self, slot: Slot) -> None:
        raise NotImplementedError

    def _refuse_half_loaded(self) -> None:
        if self._half_loaded:
            raise errors.FailedPrecondition(
                "the last load ended in the middle, so states are of two times: load a state dict or a "
                "save first (set_optimizer_state_dict takes the same state dict again)"
            )

    @not_compiled
    def state_dict(self) -> dict[str, Any]:
        """The state dict as torch has it.

        torch.optim's optimizer of the same name takes it. States are fp32 tensors, mapped from an
        unnamed file beside the spill file. A parameter with a master has it as the state "master".
        Parameters that have made no step have no states. The states of a DTensor are DTensors as
        it is. Raises TierFull, and FailedPrecondition after a load that ended in the middle.
        """
        self._finish()
        follow(self, [])
        self._refuse_half_loaded()
        for _, slot in self._every():
            _slots.check_shape(slot)
        _entries.take(self, (slot for _, slot in self._every()))
        if not self.state:
            return dict(super().state_dict())
        light, self.state = self.state, self._read_states()
        try:
            return dict(super().state_dict())
        finally:
            self.state = light

    def _read_states(self) -> "defaultdict[Any, dict[str, Any]]":
        slots = [self._slots[id(tensor)] for tensor in self.state]
        number_of = {name: number for number, name in enumerate(self._state_names)}
        spill = _states.Spill(self._session.spill_directory,
                              (slot.count for slot in slots for _ in self._names_of(slot)))
        read: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for slot in slots:
            state = read[slot.tensor] = {"step": torch.tensor(float(slot.steps))}
            for name in self._names_of(slot):
                values = spill.take(slot.shape, slot.count)
                if slot.group >= 0:
                    self._core.read_state(slot.parameter, number_of.get(name), values.data_ptr(),
                                          slot.count)
                if name == _states.MASTER and slot.version != version_of(slot.tensor):
                    _states.take_written(slot, values)
                state[name] = like(slot.tensor, values)
        return read

    @not_compiled
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state dict as torch does: its own, or that of torch.optim's optimizer.

        Nothing is cast to the parameter's type. Parameters are loaded one at a time. A parameter
        with a master takes the one in the state dict where that rounds to the parameter of the next
        step, else the parameter: the model may be loaded before or after. Raises InvalidArgument
        (names the parameter; nothing has changed). A load that ends in the middle is repeated, or
        followed by another; steps, saves and state dicts are refused until one is whole.
        """
        self._finish()
        _states.check_form(state_dict)
        state_dict = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            result = hook(self, state_dict)
            state_dict = state_dict if result is None else result
        _states.check_form(state_dict)
        groups, saved_of = self._match_groups(state_dict)
        follow(self, saved_of.values())
        loads = []
        for index, slot in saved_of.items():
            _slots.check_unchanged(slot)
            saved = state_dict["state"].get(index, {})
            loads.append(_states.Loaded(slot, self._state_names, saved, self._half_loaded, self._counted))
        self._half_loaded = True
        before, self.state = self.state, defaultdict(dict)
        try:
            for load in loads:
                load.write(self._core)
                self._loaded(load.slot, load.steps, load.has_states)
                if load.master is not None:
                    load.slot.version = _slots.UNREAD  # the model may be loaded after its optimizer
        except BaseException:
            self.state = before
            self._note_all()
            raise
        self._half_loaded = False
        self.param_groups = groups
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _names_of(self, slot: Slot) -> tuple[str, ...]:
        names = self._state_names if slot.has_states else ()
        return (*names, _states.MASTER) if slot.master else names

    def _note_steps(self, slot: Slot) -> None:
        """Notes a parameter's steps in ``state``: their number, and the names of paged states."""
        state, names = self.state[slot.tensor], self._names_of(slot)
        if len(state) != len(names) + 1:
            state.clear()
            state.update({**dict.fromkeys(names), "step": torch.tensor(0.0)})
        state["step"].fill_(slot.steps)

    def _note_all(self) -> None:
        """Has ``state`` not empty: torch.distributed.checkpoint would take a step, with rates of 0."""
        if not self.state:
            for _, slot in self._every():
                self._note_steps(slot)

    def _loaded(self, slot: Slot, steps: int, has_states: bool) -> None:
        slot.steps = steps
        slot.has_states = has_states
        slot.version = version_of(slot.tensor)
        if steps > 0 or has_states:
            self._note_steps(slot)

    def _match_groups(self, state_dict: Mapping[str, Any],
                      ) -> "tuple[list[dict[str, Any]], dict[Any, Slot]]":
        """The new param_groups, and the parameter of each number in the state dict."""
        saved_groups = state_dict["param_groups"]
        if len(saved_groups) != len(self.param_groups):
            raise errors.InvalidArgument(
                f"the state dict has {len(saved_groups)} parameter groups, the optimizer "
                f"{len(self.param_groups)}"
            )
        groups: list[dict[str, Any]] = []
        saved_of: dict[Any, Slot] = {}
        for number, (saved, own) in enumerate(zip(saved_groups, self.param_groups)):
            if len(saved["params"]) != len(own["params"]):
                raise errors.InvalidArgument(
                    f"parameter group {number} has {len(saved['params'])} parameters in the state "
                    f"dict and {len(own['params'])} in the optimizer"
                )
            options = {key: deepcopy(value) for key, value in saved.items() if key != "params"}
            groups.append({**own, **options, "params": own["params"]})
            self._check_options(groups[-1], f"parameter group {number} of the state dict")
            for index, tensor in zip(saved["params"], own["params"]):
                slot = self._slots[id(tensor)]
                if index in saved_of:
                    raise _slots.refuse(slot.name, f"is number {index} in the state dict, as parameter "
                                                   f"'{saved_of[index].name}' is")
                saved_of[index] = slot
        return groups, saved_of

    def _pairs(self) -> "list[tuple[dict[str, Any], Slot]]":
        """Each parameter that has elements, and its group."""
        return [(group, slot) for group, slot in self._every() if slot.group >= 0]

    def _every(self) -> "list[tuple[dict[str, Any], Slot]]":
        """Each parameter, and its group."""
        return [(group, self._slots[id(tensor)])
                for group in self.param_groups for tensor in group["params"]]
