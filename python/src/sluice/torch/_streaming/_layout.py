"""A model as a stream sees it: whether it can stream, and the modules that are leased together."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

import torch

from ... import _core, errors
from ._slots import Slot
from ._units import Forward, Room, Unit


@dataclasses.dataclass
class Layout:
    """The modules of a model by what they are to a stream, each with its name."""

    # Modules whose weights, with those of all modules below, are leased while they run.
    units: list[tuple[str, torch.nn.Module]] = dataclasses.field(default_factory=list)
    # Modules above units, in which a pass may begin. Parameters of their own are always leased.
    above: list[tuple[str, torch.nn.Module]] = dataclasses.field(default_factory=list)


def layout_of(model: torch.nn.Module) -> Layout:
    """The units of a model: members of ModuleLists, and what owns the other parameters."""
    layout = Layout()
    seen: set[int] = set()

    def visit(name: str, module: torch.nn.Module, listed: bool) -> None:
        if id(module) in seen or next(module.parameters(), None) is None:
            return
        seen.add(id(module))
        owns = any(each is not None for each in module._parameters.values())
        is_list = isinstance(module, torch.nn.ModuleList) and not owns
        if not is_list and (listed or (owns and _is_whole(module))):
            layout.units.append((name, module))
            return
        if not is_list:
            layout.above.append((name, module))
        for child_name, child in module.named_children():
            visit(f"{name}.{child_name}" if name else child_name, child, is_list)

    visit("", model, False)
    return layout


def _is_whole(module: torch.nn.Module) -> bool:
    """Whether the module's forward alone uses the parameters below it."""
    if isinstance(module, torch.nn.MultiheadAttention):  # uses out_proj.weight itself
        return True
    return all(next(child.parameters(), None) is None for child in module.children())


class UnitMaker:
    """Makes units of modules."""

    def __init__(self, session: _core.Session, slots: list[Slot], room: Room) -> None:
        self._session = session
        self._room = room
        self._slot_of = {(id(module), name): slot for slot in slots for module, name in slot.places}

    def unit(self, name: str, modules: Iterable[torch.nn.Module]) -> Unit:
        """A unit of what the modules own themselves."""
        found = {}
        for module in modules:
            for each, parameter in module._parameters.items():
                slot = self._slot_of.get((id(module), each))  # none: the parameter stays in memory
                if parameter is not None and slot is not None:
                    found[id(slot)] = slot
        return Unit(self._session, name or "model", list(found.values()), self._room)

    def units(self, layout: Layout) -> list[Unit]:
        """The units of a layout."""
        return [self.unit(name, module.modules()) for name, module in layout.units]

    def held(self, layout: Layout) -> list[Unit]:
        """What is always leased, which the room notes: what modules above others own themselves."""
        held = [self.unit(name, [module]) for name, module in layout.above]
        self._room.held = self._room.held.union(*(each.pages for each in held))
        return [each for each in held if each.nbytes > 0]


def refuse_budget(room: Room, units: list[Unit], held: list[Unit], processes: int) -> None:
    """Raises TierFull for a budget below the largest unit; it names that of all processes."""
    largest = max(units, key=lambda unit: room.bytes_of([unit]), default=None)
    if largest is None:
        raise errors.InvalidArgument("the model has no parameters, so there is nothing to stream")
    least = room.bytes_of([largest])
    if least > room.budget_bytes:
        beside = f", and {sum(unit.nbytes for unit in held)} bytes that are always used" if held else ""
        raise errors.TierFull(
            f"dram is {room.budget_bytes} bytes, and the weights of '{largest.name}' "
            f"({largest.nbytes} bytes) are used at once{beside}: dram={least * processes} is the least in "
            f"pages of {room.page_bytes} bytes"
        )


def refuse_model(model: torch.nn.Module) -> None:
    """Raises InvalidArgument or FailedPrecondition for a model that cannot stream."""
    if not isinstance(model, torch.nn.Module):
        raise errors.InvalidArgument(
            f"stream_weights takes a torch.nn.Module, not {type(model).__name__}"
        )
    for name, module in model.named_modules():
        if isinstance(module.__dict__.get("forward"), Forward):
            raise errors.FailedPrecondition("the model streams already: close that stream first")
        compiled = getattr(module, "_compiled_call_impl", None) is not None
        if compiled or type(module).__name__ == "OptimizedModule":
            raise errors.FailedPrecondition(
                f"module '{name or 'model'}' is compiled (torch.compile): what it has compiled would "
                "not lease weights. Stream the model that was compiled"
            )
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.device.type not in ("cpu", "meta"):
            raise errors.InvalidArgument(
                f"'{name}' is on {tensor.device}: a model that streams computes on the CPU; CUDA is "
                "not there yet. Make the model on the CPU, or on meta"
            )
    for name, buffer in model.named_buffers():
        if buffer.device.type == "meta":
            raise errors.InvalidArgument(
                f"buffer '{name}' is on meta, and buffers are computed with the model: make it with "
                "accelerate.init_empty_weights(include_buffers=False)"
            )
