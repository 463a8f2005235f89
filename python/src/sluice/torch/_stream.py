"""Models whose weights stay in their files, and come to dram while a part of the model runs."""

from __future__ import annotations

import contextlib
import os
from types import TracebackType
from typing import Any, NoReturn, Optional

import torch

from .. import _options, errors
from .._options import Directory, Size
from .._runtime import Runtime
from .._weights import Weights, frames_bytes
from ._layout import Layout, layout_of
from ._match import Match, match_weights
from ._report import Report
from ._units import Forward, Passes, Room, Scope, Slot, Unit


class WeightStream:
    """A model that streams. ``close``, or the end of a ``with`` block, gives the model back.

    The model keeps the stream alive, so the object may be dropped.
    """

    def __init__(self, model: torch.nn.Module, runtime: Runtime, weights: Weights) -> None:
        match = match_weights(model, weights)
        layout = layout_of(model)
        self._runtime = runtime
        self._slots = match.slots
        self._forwards: list[tuple[torch.nn.Module, Forward]] = []
        for slot in self._slots:
            _show(slot)
        room = Room(runtime.page_bytes, runtime.stats()["tiers"]["dram"]["budget_bytes"])
        self._units, self._held = _units_of(runtime, layout, self._slots, room)
        _refuse_budget(room, self._units, self._held, runtime._share[1])
        self._passes = Passes(runtime._session, self._note_pass)
        self._report = Report(runtime, weights, match.unused, self._units, self._passes)
        self._expect_order(room)
        self._start(layout, match)

    def report(self) -> dict[str, Any]:
        """What has happened since the begin; after ``close``, until then.

        passes, seconds
            Calls of the model, and the time in them.
        leased_bytes, read_bytes
            Bytes of weights that modules used, and those read from the files, in whole pages.
        resident_share
            Share of leased_bytes that was in dram already: what no file was read for.
        gib_per_second, read_gib_per_second
            The two counts per second of the passes.
        stall_seconds, stall_share, bound_by
            Time in which modules waited for weights, its share of ``seconds``, and "reading" if that
            exceeds a tenth, else "compute".
        first_pass
            The same figures of the first pass, which is recorded; the others are of the passes
            after it, if there were any.
        units
            name, bytes, entries and stall_seconds of each unit. One that was never entered is not
            used, or by others: its weights are tied to theirs, or read through the page cache.
        unused
            Names of weights that the model has no place for.
        """
        return self._report.now()

    def close(self) -> dict[str, Any]:
        """Gives the model back, its parameters on meta, and returns the report; again: the report.

        Raises FailedPrecondition, and changes nothing, while the model runs. Raises it, too, while
        tensors of the program, a state dict say, use the weights' memory: drop them, and call again.
        """
        if self._passes.running or any(unit.running for unit in self._units):
            raise errors.FailedPrecondition("the model runs: close the stream after its forward")
        report = self._report.end()
        self._give_back()
        self._runtime.close()
        return report

    def __enter__(self) -> "WeightStream":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        # The frames of an exception may hold weights; it matters more than they do.
        with contextlib.suppress(*([] if kind is None else [errors.FailedPrecondition])):
            self.close()

    def __reduce__(self) -> NoReturn:
        raise errors.InvalidArgument("a stream cannot be copied or pickled: it belongs to its model")

    def _start(self, layout: Layout, match: Match) -> None:
        """Has the model stream. After an error it is as it was."""
        try:
            for slot in self._slots:
                slot.put(slot.shown)
            for unit in self._held:
                unit.hold()
            for unit, (_, module) in zip(self._units, layout.units):
                self._wrap(module, unit)
            for name, module in layout.above or layout.units[:1]:
                self._wrap(module, self._passes.through(name))
            with torch.no_grad():
                for buffer, weight in match.buffers:
                    buffer.copy_(weight.torch())
        except BaseException:
            self._unwrap()
            for slot in self._slots:
                slot.put(slot.original)
            self._end_leases()
            raise
        for slot in self._slots:  # a model in memory gives it back now
            slot.forget()

    def _wrap(self, module: torch.nn.Module, scope: Scope) -> None:
        forward = Forward(module.forward, scope)
        self._forwards.append((module, forward))
        module.forward = forward

    def _unwrap(self) -> None:
        while self._forwards:
            module, forward = self._forwards.pop()
            forward.end()
            if module.__dict__.get("forward") is forward:
                forward.restore(module)

    def _give_back(self) -> None:
        self._unwrap()
        for slot in self._slots:
            slot.put(slot.original)
        self._end_leases()

    def _end_leases(self) -> None:
        for unit in self._held:
            unit.release()
        for slot in self._slots:
            slot.end()
        self._slots = []

    def _expect_order(self, room: Room) -> None:
        """Until a pass is recorded, units are expected to run in the order of the modules."""
        for unit, other in zip(self._units, self._units[1:]):
            if room.bytes_of([unit, other]) <= room.budget_bytes:
                unit.next = other

    def _note_pass(self) -> None:
        self._report.note_pass()
        if self._passes.count == 1:
            for unit in self._units:
                unit.next = None


def stream_weights(model: torch.nn.Module, path: Directory, *, dram: Size,
                   hbm: Optional[Size] = None, **options: Any) -> WeightStream:
    """Runs a model whose weights exceed memory, from its safetensors files as they are.

        with accelerate.init_empty_weights(include_buffers=False):
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path))
        with sluice.torch.stream_weights(model, path, dram="4GiB") as stream:
            model.generate(**inputs)
        print(stream.report())

    model
        Any module on the CPU whose parameters are plain; they may be on meta. Buffers are not.
    path
        A safetensors file, an index of several, or a directory with one index or one file.
    dram
        Budget for weights, at least those of the largest unit. No more is taken than they have.
    options
        Further keys of docs/configuration.md, as ``sluice.Runtime`` takes them.

    Each parameter becomes a view of its weight, at one address, read-only, without requires_grad.
    A member of a ModuleList is a unit, and so is each module with parameters elsewhere. While a unit
    runs, its weights are in dram; the first pass over the model is recorded, and in later ones they
    come ahead of need, and the part that fits stays. Anywhere else the parameters show the files
    through the page cache, slowly. Buffers of the state dict are set from the files.

    Raises before anything runs, and leaves the model as it was: InvalidArgument (a weight that is
    missing, or of another dtype or shape; a conversion of transformers that is no renaming; hbm, a
    CUDA model), TierFull (dram is below the largest unit), FailedPrecondition (a model that streams
    or is compiled), NotFound. A forward raises as ``Runtime.lease``.
    """
    _refuse_options(hbm, options)
    _refuse_model(model)
    runtime = Runtime(dram=_budget(path, dram, options), **options)
    try:
        return WeightStream(model, runtime, runtime.open_weights(os.fspath(path)))
    except BaseException:
        with contextlib.suppress(errors.FailedPrecondition):  # frames of the error hold weights
            runtime.close()
        raise


def _budget(path: Directory, dram: Size, options: dict[str, Any]) -> int:
    """The bytes that were asked for, or what holds all files if that is less."""
    page = options.get("page_bytes", _options.default("page_bytes"))
    asked = _options.parse_size("dram", dram)
    _, processes = _options.share_of(options.get("share"), os.environ)
    held = frames_bytes(path, max(1, _options.parse_size("page_bytes", page)))
    return min(asked, held * processes if held else asked)


def _show(slot: Slot) -> None:
    view = slot.weight.torch()
    if view.data_ptr() % view.element_size() != 0:
        raise errors.InvalidArgument(
            f"weight '{slot.weight.name}' of {slot.weight.file} begins within an element "
            f"({view.dtype}): write the file again with safetensors"
        )
    slot.show(view)


def _units_of(runtime: Runtime, layout: Layout, slots: list[Slot],
              room: Room) -> tuple[list[Unit], list[Unit]]:
    """The units, and those that are always leased: what modules above others own themselves."""
    slot_of = {(id(module), name): slot for slot in slots for module, name in slot.places}

    def unit(name: str, modules: list[torch.nn.Module]) -> Unit:
        found = {}
        for module in modules:
            for each, parameter in module._parameters.items():
                if parameter is not None:
                    slot = slot_of[(id(module), each)]
                    found[id(slot)] = slot
        return Unit(runtime._session, name or "model", list(found.values()), room)

    units = [unit(name, list(module.modules())) for name, module in layout.units]
    held = [unit(name, [module]) for name, module in layout.above]
    room.held = room.held.union(*(each.pages for each in held))
    return units, [each for each in held if each.nbytes > 0]


def _refuse_budget(room: Room, units: list[Unit], held: list[Unit], processes: int) -> None:
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


def _refuse_options(hbm: Optional[Size], options: dict[str, Any]) -> None:
    if hbm is not None and _options.parse_size("hbm", hbm) > 0:
        raise errors.InvalidArgument(
            "hbm: models stream to dram and compute on the CPU; CUDA is not there yet. Leave hbm out"
        )
    for name in ("nvme", "nvme_bytes", "tiers"):
        if name in options:
            raise errors.InvalidArgument(f"{name}: weights are read from their files; leave it out")


def _refuse_model(model: torch.nn.Module) -> None:
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
