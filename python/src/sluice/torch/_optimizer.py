"""What the optimizers have in common: a torch.optim.Optimizer whose states sluice pages."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NoReturn, Optional, Union

import torch

from .. import _core, errors
from . import _slots, _states
from ._slots import Slot

if TYPE_CHECKING:
    from .._runtime import Runtime

Rates = tuple[float, float, float, float, float]


class _Step:
    """A step that is under way, with the gradients that it reads."""

    def __init__(self, slots: list[Slot], gradients: list[Any]) -> None:
        self.slots = slots
        self.gradients = gradients
        self.versions = [gradient._version for gradient in gradients]
        self.failed = False

    def has(self, gradients: list[Any]) -> bool:
        """Whether it is the step of these gradients, as they are."""
        same = len(gradients) == len(self.gradients)
        return same and all(map(lambda a, b: a is b, gradients, self.gradients)) and self.unchanged

    @property
    def unchanged(self) -> bool:
        return [gradient._version for gradient in self.gradients] == self.versions


class PagedOptimizer(torch.optim.Optimizer):  # type: ignore[misc]
    """A torch.optim.Optimizer whose states a Runtime pages; the parameters stay in torch's memory.

    It is used as any: ``param_groups``, schedulers of the learning rate, ``clip_grad_norm_``,
    accumulation, ``GradScaler``, ``zero_grad``, ``add_param_group``. ``step`` blocks, and skips
    parameters without a gradient. Parameters are float32, bfloat16 or float16, dense, contiguous,
    and on the CPU; gradients may be of either type.

    A copy (deepcopy, pickle) is refused: use ``state_dict``. One thread at a time uses it.
    """

    # Of a subclass: kind in sluice._core, names of the states, options that must have one value.
    _kind = ""
    _state_names: tuple[str, ...] = ()
    _fixed: Mapping[str, Any] = {}

    state: "defaultdict[Any, dict[str, Any]]"

    def __init__(self, params: Any, defaults: dict[str, Any], *, runtime: "Runtime",
                 states: str, master: bool, clip_norm: Optional[float], seed: int,
                 threads: Optional[int], lowest: str) -> None:
        if clip_norm is not None and not clip_norm > 0:
            raise errors.InvalidArgument(f"clip_norm is {clip_norm}; it is above 0, or None")
        if threads is None:
            threads = min(len(os.sched_getaffinity(0)), 256)
        self._master = master
        self._slots: dict[int, Slot] = {}  # by id(tensor)
        self._step: Optional[_Step] = None
        self._numbers: dict[str, Any] = {}
        self._half_loaded = False
        self._session = runtime._session
        self._core = _core.create_optimizer(
            runtime._session, self._kind, states, lowest, clip_norm or 0.0, seed, threads
        )
        try:
            super().__init__(params, defaults)
        except BaseException:
            self.close()
            raise

    # --- of a subclass ---

    def _rates(self, group: Mapping[str, Any], steps: int) -> Rates:
        """Learning rate, beta1, beta2, eps and weight decay of a parameter's next step."""
        raise NotImplementedError

    # --- groups ---

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """As torch's. Raises InvalidArgument (names the parameter), TierFull."""
        super().add_param_group(param_group)
        try:
            self._adopt(self.param_groups[-1])
        except BaseException:
            del self.param_groups[-1]
            raise

    def _adopt(self, group: dict[str, Any]) -> None:
        self._finish()
        self._check_options(group)
        names = group.get("param_names")
        first = sum(len(other["params"]) for other in self.param_groups[:-1])
        new: list[Slot] = []
        for number, tensor in enumerate(group["params"]):
            name = f"{first + number}" if names is None else str(names[number])
            if any(tensor is slot.tensor for slot in new):
                raise _slots.refuse(name, "is in its group twice")
            if id(tensor) in self._slots:
                continue  # of a group that could not be added whole
            _slots.check_parameter(name, tensor, self._master)
            new.append(Slot(name, tensor, self._master))
        for slot in new:
            if slot.count > 0:
                slot.group, slot.parameter = self._core.add(
                    slot.name, _slots.DTYPES[slot.dtype], slot.shape, slot.address, slot.nbytes,
                    slot.master,
                )
                _slots.take(self, slot)
            self._slots[id(slot.tensor)] = slot
            if slot.count > 0:
                self._core.set_rates(slot.group, self._rates(group, 0))

    def _check_options(self, group: Mapping[str, Any]) -> None:
        for option, only in self._fixed.items():
            if group.get(option, only) != only:
                raise errors.InvalidArgument(
                    f"{type(self).__name__}: {option}={group[option]} is not supported; leave it "
                    f"{only}"
                )

    # --- steps ---

    def step(self, closure: None = None) -> None:
        """Updates every parameter that has a gradient; returns when that is done.

        Without any gradient nothing changes. Raises InvalidArgument (names the parameter; nothing
        has been updated), and Unavailable, TierFull or DataLoss (names the elements; others have
        been updated). Call it again then, with the same gradients: it updates what is missing.
        """
        if closure is not None:
            raise errors.InvalidArgument(
                "step: a closure is not supported, as it would compute gradients while parameters "
                "are updated; call it before step()"
            )
        slots, gradients, updates = self._gather()
        before = self._step
        repeats = before is not None and before.has(gradients)
        self._finish()
        if repeats or not slots:
            return
        if self._half_loaded:
            raise errors.FailedPrecondition(
                "load_state_dict ended in the middle: load a state dict first"
            )
        self._refresh_masters(slots)
        self._core.start(updates)
        self._step = _Step(slots, gradients)
        self._wait()

    @property
    def gradient_norm(self) -> Optional[float]:
        """Norm of the last step's gradients before they were clipped; None without clip_norm."""
        norm: Optional[float] = self._numbers.get("gradient_norm")
        return norm

    @property
    def last_step(self) -> dict[str, Any]:
        """Seconds of the last step: wait_seconds (reads, writes) and compute_seconds."""
        return dict(self._numbers)

    def _gather(self) -> tuple[list[Slot], list[Any], list[_core._Update]]:
        """What a step has: parameters, their gradients, and these as sluice._core takes them."""
        slots, gradients, updates = [], [], []
        for group in self.param_groups:
            self._check_options(group)
            for tensor in group["params"]:
                gradient = tensor.grad
                slot = self._slots[id(tensor)]
                if gradient is None or slot.group < 0:
                    continue
                _slots.check_unchanged(slot)
                _slots.check_gradient(slot, gradient)
                slots.append(slot)
                gradients.append(gradient)
                updates.append((slot.group, slot.parameter, _slots.DTYPES[gradient.dtype],
                                gradient.data_ptr(), gradient.nbytes,
                                self._rates(group, slot.steps)))
        return slots, gradients, updates

    def _refresh_masters(self, slots: Iterable[Slot]) -> None:
        """Masters of parameters that somebody else has written are taken anew."""
        for slot in slots:
            if slot.master and slot.tensor._version != slot.version:
                self._core.refresh_master(slot.parameter)
                slot.version = slot.tensor._version

    def _finish(self) -> None:
        """Completes a step that was interrupted, or that has failed."""
        step = self._step
        if step is None:
            return
        if step.failed:
            if not step.unchanged:
                raise errors.FailedPrecondition(
                    "the last step failed in part, and its gradients have been changed, so it cannot "
                    "be completed; load() a save"
                )
            self._core.repeat()
            step.failed = False
        self._wait()

    def _wait(self) -> None:
        step = self._step
        assert step is not None
        try:
            self._numbers = self._core.wait()
        except errors.Error:
            step.failed = True
            raise
        self._step = None
        for slot in step.slots:
            slot.steps += 1
            torch.autograd.graph.increment_version(slot.tensor)
            slot.version = slot.tensor._version
            self.state[slot.tensor]["step"] = torch.tensor(float(slot.steps))

    # --- checkpoints ---

    def state_dict(self) -> dict[str, Any]:
        """As torch's: states are fp32 tensors, mapped from an unnamed file beside the spill file.

        torch.optim's optimizer of the same name takes it. A parameter with a master has it as the
        state "master". Parameters that have made no step have no states. Raises TierFull.
        """
        self._finish()
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
        names = {id(slot): (*number_of, *((_states.MASTER,) if slot.master else ())) for slot in slots}
        spill = _states.Spill(self._session.spill_directory,
                              (slot.count for slot in slots for _ in names[id(slot)]))
        read: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
        for slot in slots:
            state = read[slot.tensor] = {"step": torch.tensor(float(slot.steps))}
            for name in names[id(slot)]:
                state[name] = spill.take(slot.shape, slot.count)
                self._core.read_state(slot.parameter, number_of.get(name), state[name].data_ptr(),
                                      slot.count)
        return read

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As torch's: takes its own state dict, and that of torch.optim's optimizer.

        Nothing is cast to the parameter's type. Parameters are loaded one at a time. A parameter
        with a master takes the one in the state dict where that rounds to the parameter, else the
        parameter. Raises InvalidArgument (names the parameter; nothing has changed).
        """
        self._finish()
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            result = hook(self, state_dict)
            state_dict = state_dict if result is None else result
        groups, saved_of = self._match_groups(state_dict)
        loads = []
        for index, slot in saved_of.items():
            _slots.check_unchanged(slot)
            saved = state_dict["state"].get(index, {})
            if slot.group >= 0:
                loads.append(_states.Loaded(slot, self._state_names, saved))
        self._half_loaded = True
        self.state = defaultdict(dict)
        for load in loads:
            load.write(self._core)
            self._loaded(load.slot, load.steps, bool(state_dict["state"]))
        self._half_loaded = False
        self.param_groups = groups
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _loaded(self, slot: Slot, steps: int, has_states: bool) -> None:
        slot.steps = steps
        slot.version = slot.tensor._version
        if has_states and steps > 0:
            self.state[slot.tensor]["step"] = torch.tensor(float(steps))

    def _match_groups(self, state_dict: Mapping[str, Any],
                      ) -> "tuple[list[dict[str, Any]], dict[Any, Slot]]":
        """The new param_groups, and the parameter of each number in the state dict."""
        if "param_groups" not in state_dict or "state" not in state_dict:
            raise errors.InvalidArgument("the state dict has no 'state' or no 'param_groups'")
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
            self._check_options(saved)
            options = {key: deepcopy(value) for key, value in saved.items() if key != "params"}
            groups.append({**own, **options, "params": own["params"]})
            for index, tensor in zip(saved["params"], own["params"]):
                saved_of[index] = self._slots[id(tensor)]
        return groups, saved_of

    def save(self, directory: Union[str, "os.PathLike[str]"], note: str = "") -> None:
        """Writes parameters, states, rates and steps to ``directory``/optimizer.sluice.

        The file has its name once it is whole. docs/optimizer.md says more of it.
        """
        self._finish()
        for group, slot in self._pairs():
            _slots.check_unchanged(slot)
            self._core.set_rates(slot.group, self._rates(group, slot.steps))
        self._refresh_masters(slot for _, slot in self._pairs())
        self._core.save(os.fspath(directory), _states.note_of(self.param_groups, note))

    def load(self, directory: Union[str, "os.PathLike[str]"]) -> str:
        """Reads what ``save`` wrote: parameters and options of groups too; returns its note.

        Any budgets, the same groups of parameters, and kind, states and seed. Raises NotFound,
        InvalidArgument (names what differs), DataLoss; nothing has changed then.
        """
        if self._step is not None and not self._step.failed:
            self._wait()
        for _, slot in self._pairs():
            _slots.check_unchanged(slot)
        options, note = _states.parse_note(self._core.load(os.fspath(directory)))
        self._step = None
        self._half_loaded = False
        self.state = defaultdict(dict)
        for _, slot in self._pairs():
            torch.autograd.graph.increment_version(slot.tensor)
            self._loaded(slot, self._core.steps_of(slot.parameter), True)
        for group, saved in zip(self.param_groups, options):
            group.update(saved)
        return note

    def _pairs(self) -> "list[tuple[dict[str, Any], Slot]]":
        """Each parameter that has elements, and its group."""
        pairs = [(group, self._slots[id(tensor)])
                 for group in self.param_groups for tensor in group["params"]]
        return [(group, slot) for group, slot in pairs if slot.group >= 0]

    # --- the end ---

    def close(self) -> None:
        """Ends the optimizer and frees its states; the parameters stay as they are.

        Closing the runtime does it, and so does the last use.
        """
        self._core.close()
        for slot in self._slots.values():
            _slots.give_back(slot)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise errors.InvalidArgument(
            f"{type(self).__name__} cannot be copied or pickled: its states are paged by a runtime of "
            "this process; use state_dict(), or save()"
        )

