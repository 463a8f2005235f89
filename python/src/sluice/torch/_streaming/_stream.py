"""Models whose weights stay in their files, and come to dram while a part of the model runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, NoReturn, Optional, Union

import torch

from ... import _options, errors
from ..._checks import path_of
from ..._options import Directory, Size
from ..._runtime import Runtime
from ..._weights import Weights
from ._budgets import open_cache, open_runtime
from ._expert_cache import Cache
from ._expert_policies import DEFAULT, ExpertPolicy, Guarded
from ._expert_trace import tracing
from ._experts import switch
from ._layout import Layout, UnitMaker, layout_of, refuse_budget, refuse_model
from ._match import Match, match_weights
from ._parts import BUDGET_SHARE, scopes_of
from ._passes import Passes
from ._report import Report
from ._slots import renew_lists, show
from ._units import Forward, Room, Scope


class WeightStream:
    """A model that streams. ``close``, or the end of a ``with`` block, gives the model back.

    The model keeps the stream alive, so the object may be dropped.
    """

    def __init__(self, model: torch.nn.Module, runtime: Runtime, weights: Weights,
                 experts: Optional[Cache], undo: Optional[Callable[[], None]]) -> None:
        match = match_weights(model, weights)
        layout = layout_of(model)
        self._runtime = runtime
        self._experts = experts
        self._slots = match.slots
        self._leases = [] if experts is None else experts.lease(match.slots)
        self._undo = undo
        self._forwards: list[tuple[torch.nn.Module, Forward]] = []
        for slot in self._slots:
            show(slot, weights)
        room = Room(runtime.page_bytes, runtime.stats()["tiers"]["dram"]["budget_bytes"])
        maker = UnitMaker(runtime._session, self._slots, room)
        self._held = maker.held(layout)
        scopes = scopes_of(maker, layout, self._slots, room)
        self._units = scopes.units
        self._divided = scopes.divided
        refuse_budget(room, self._units, self._held, runtime._share[1])
        self._passes = Passes(runtime._session, self._note_pass)
        self._report = Report(runtime, weights, match.unused, self._units, self._passes, experts)
        self._expect_order(room)
        self._start(layout, scopes.modules, match)

    def report(self) -> dict[str, Any]:
        """Figures since the begin; after ``close``, until then.

        passes, seconds
            Calls of the model, and the time in them.
        leased_bytes, read_bytes
            Bytes of weights that modules used, and those read from the files, in whole pages.
        resident_share
            Share of leased_bytes that was in dram already, so that no file was read.
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
            used, or by others: its weights are tied to theirs, or read through the page cache. A
            divided one has its parts here, each with its small weights, and itself once it is whole.
        unused
            Names of weights that the model has no place for.
        experts
            Figures of experts that are leased one by one: policy, budget_bytes and weight_bytes;
            leases, leased_bytes, read_bytes, tokens, bytes_per_token (read), stall_seconds; and
            hit_ratio, the share of the leased bytes that was in dram. They are in the counts above.
        """
        return self._report.now()

    def trace_experts(self, path: Directory) -> AbstractContextManager[None]:
        """Writes the experts that are used in the ``with`` block to a schedule file.

        ``sluice lab run`` compares policies on it; docs/experts.md says how. Raises InvalidArgument
        for a model whose experts are not leased one by one, FailedPrecondition after ``close``, and
        OSError, all before anything runs. An OSError at the end of the block, as by a full disk,
        leaves no part of a file, and the model goes on.
        """
        if self._experts is None:
            raise errors.InvalidArgument(
                'no experts are leased one by one: stream_weights(..., experts="lfu")'
            )
        if not self._leases:
            raise errors.FailedPrecondition("the stream is closed: trace experts while the model streams")
        return tracing(self._experts, path)

    def close(self) -> dict[str, Any]:
        """Gives the model back, its parameters on meta, and returns the report; again: the report.

        Raises FailedPrecondition, and changes nothing, while the model runs. Raises it, too, while
        tensors of the program, a state dict say, use the weights' memory: drop them, and call again.
        """
        if self._runs():
            raise errors.FailedPrecondition("the model runs: close the stream after its forward")
        report = self._report.end()
        self._give_back()
        try:
            self._runtime.close()
        finally:
            if self._experts is not None:
                self._experts.close()
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

    def _start(self, layout: Layout, scopes: list[tuple[torch.nn.Module, Scope]], match: Match) -> None:
        """Has the model stream. After an error it is as it was."""
        try:
            for slot in self._slots:
                slot.put(slot.idle)
                slot.guard()
            for module, leases in self._leases:
                leases.begin(module)
            for unit in self._held:
                unit.hold()
            for module, scope in scopes:
                self._wrap(module, scope)
            for name, module in layout.above or layout.units[:1]:
                self._wrap(module, self._passes.through(name))
            with torch.no_grad():
                for buffer, weight in match.buffers:
                    buffer.copy_(weight.torch())
        except BaseException:
            self._unwrap()
            self._end_leases()
            raise
        for slot in self._slots:  # a model in memory gives it back now
            slot.forget()
        renew_lists(self._slots)

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

    def _runs(self) -> bool:
        """Whether the model runs, or a module of it that was called by itself."""
        units = any(unit.running for unit in self._units)
        if self._passes.running or units or any(member.running for member in self._divided):
            return True
        return self._experts is not None and bool(self._experts.residents.in_use)

    def _give_back(self) -> None:
        self._unwrap()
        self._end_leases()
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def _end_leases(self) -> None:
        while self._leases:
            module, leases = self._leases.pop()
            leases.end(module)
            del module, leases
        for unit in self._held:
            unit.release()
        for slot in self._slots:
            slot.put(slot.original)
            slot.end()
        renew_lists(self._slots)
        self._slots = []

    def _expect_order(self, room: Room) -> None:
        """Expects units to run in the order of the modules, until a pass is recorded. A unit asks for
        the next one, and for more while those have a small share of the budget.
        """
        units, end = self._units, 0
        enough = room.budget_bytes * BUDGET_SHARE
        for i, unit in enumerate(units):
            unit.again_after = len(units)
            begin = end = max(end, i + 1)
            while (end < len(units) and sum(each.nbytes for each in units[i + 1:end]) < enough
                   and room.bytes_of(units[i:end + 1]) <= room.budget_bytes):
                end += 1
            unit.then = units[begin:end]

    def _note_pass(self) -> None:
        self._report.note_pass()
        if self._passes.count == 1:
            for unit in self._units:
                unit.then, unit.again_after = [], 0


def stream_weights(model: torch.nn.Module, path: Directory, *, dram: Size,
                   hbm: Optional[Size] = None,
                   experts: Union[None, str, ExpertPolicy] = None,
                   **options: Any) -> WeightStream:
    """Runs a model whose weights exceed memory, from its safetensors files as they are.

        with accelerate.init_empty_weights(include_buffers=False):
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path)).eval()
        with sluice.torch.stream_weights(model, path, dram="4GiB") as stream:
            model.generate(**inputs)
        print(stream.report())

    model
        Any module on the CPU whose parameters are plain; they may be on meta. Buffers are not.
    path
        A safetensors file, an index of several, or a directory with one index or one file.
    dram
        Budget for weights, at least those of the largest unit or part. No more is taken than they have.
    experts
        Policy by which experts of a mixture stay in dram: "lfu" (least frequently used, with decay),
        "lru", or an ExpertPolicy of your own. Each expert is leased by itself, in transformers'
        eager loop; docs/experts.md has the models. None: all experts of a layer are leased with it.
    options
        Further keys of docs/configuration.md, as ``sluice.Runtime`` takes them.

    Each parameter becomes a view of its weight, at one address, read-only, without requires_grad.
    A member of a ModuleList is a unit, and so is each module with parameters elsewhere. The weights
    of a unit are in dram while it runs. Large units are divided (docs/pytorch.md says which ones): the
    weights of a module in one are in dram until the next module begins. The first pass over the model
    is recorded. In later ones weights come ahead of need, and the part that fits stays.

    Anywhere else the parameters show the files through the page cache, slowly. Parameters that
    transformers fuses are on meta there, and state dicts that would have them raise
    FailedPrecondition. Buffers of the state dict are set from the files.

    Raises before anything runs, and leaves the model as it was: InvalidArgument (a weight that is
    missing, or of another dtype or shape; a conversion of transformers that is more than renaming
    or fusing rows; hbm, a CUDA model; experts that cannot be leased one by one), TierFull (dram is
    below the largest unit or part), FailedPrecondition (a model that streams or is compiled), NotFound. A
    forward raises as ``Runtime.lease``.
    """
    _refuse_options(hbm, options)
    path = path_of("path", path)
    refuse_model(model)
    policy = Guarded(DEFAULT if experts is None else experts)
    undo = switch(model) if experts is not None else None
    opened: list[Runtime] = []
    try:
        cache, dram_bytes = open_cache(model, path, policy, dram, options, opened)
        opened.append(open_runtime(dram_bytes, options))
        return WeightStream(model, opened[-1], opened[-1].open_weights(path), cache, undo)
    except BaseException:
        if undo is not None:
            undo()
        for runtime in opened:
            with contextlib.suppress(errors.FailedPrecondition):  # frames of the error hold weights
                runtime.close()
        raise


def _refuse_options(hbm: Optional[Size], options: dict[str, Any]) -> None:
    if hbm is not None and _options.parse_size("hbm", hbm) > 0:
        raise errors.InvalidArgument(
            "hbm: models stream to dram and compute on the CPU; CUDA is not there yet. Leave hbm out"
        )
    for name in ("nvme", "nvme_bytes", "tiers"):
        if name in options:
            raise errors.InvalidArgument(f"{name}: weights are read from their files; leave it out")
