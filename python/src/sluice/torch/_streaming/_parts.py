"""Large members of ModuleLists, whose modules are leased one by one: frames serve the next one sooner."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Iterable
from typing import Optional

import torch

from ._layout import Layout, UnitMaker
from ._slots import Slot
from ._units import Leaving, Room, Scope, Unit

# A unit is divided if it has more than this share of the budget, and more than so many pages: a lease
# takes time, and frames for a smaller one are few.
BUDGET_SHARE = 1 / 16
_PAGES = 32
# If this share of the weights fits, units have few parts: there reading seldom binds, and leases cost
# more. If all of them fit, units stay whole.
_FITTING_SHARE = 2 / 3
_FEW_PARTS = 2
# Modules that use weights of the modules below them themselves.
_WHOLE = (torch.nn.MultiheadAttention, torch.nn.TransformerEncoderLayer)


@dataclasses.dataclass
class Scopes:
    """The units of a model in the order of the modules, and the scope of each module that has one."""

    units: list[Unit] = dataclasses.field(default_factory=list)
    modules: list[tuple[torch.nn.Module, Scope]] = dataclasses.field(default_factory=list)
    # Scopes of units that are divided.
    divided: list[MemberRuns] = dataclasses.field(default_factory=list)


def scopes_of(maker: UnitMaker, layout: Layout, slots: list[Slot], room: Room) -> Scopes:
    """The scopes of units. Large ones are divided unless all weights fit, into few parts if most do."""
    scopes = Scopes()
    wholes = maker.units(layout)
    fitting = room.budget_bytes / max(room.bytes_of(wholes), 1)
    divider = Divider(layout, slots, room)
    for whole, (name, module) in zip(wholes, layout.units):
        member = None if fitting >= 1 else divider.divided(name, module)
        if member is None:
            scopes.units.append(whole)
            scopes.modules.append((module, whole))
            continue
        if fitting >= _FITTING_SHARE and room.bytes_of([whole]) <= room.budget_bytes:
            member.parts = divider.joined(member.parts, _FEW_PARTS)
        runs = MemberRuns(whole, scopes.units, room)
        for part in member.parts:
            below = [each for module in part.modules for each in module.modules()]
            unit = maker.unit(part.name, [*below, *member.small])
            scopes.units.append(unit)
            scopes.modules += [(module, runs.scope_of(unit)) for module in part.modules]
        scopes.divided.append(runs)
        scopes.modules.append((module, runs))
    return scopes


@dataclasses.dataclass
class Part:
    """Modules whose weights are leased together, from the first forward of one of them on."""

    name: str
    modules: list[torch.nn.Module]


@dataclasses.dataclass
class Member:
    """A unit as it is divided."""

    parts: list[Part] = dataclasses.field(default_factory=list)
    # The other modules, whose weights are small: they are leased with each part.
    small: list[torch.nn.Module] = dataclasses.field(default_factory=list)


class Divider:
    """Divides units. Parts are taken to be used by their forwards alone, until a run shows otherwise."""

    def __init__(self, layout: Layout, slots: Iterable[Slot], room: Room) -> None:
        self._page_bytes = room.page_bytes
        self._large_bytes = max(room.budget_bytes * BUDGET_SHARE, _PAGES * room.page_bytes)
        # Modules that have a scope already: members may share one.
        self._known = {id(module) for _, module in [*layout.units, *layout.above]}
        self._slots: dict[int, list[Slot]] = {}
        for slot in slots:
            for module in {id(module) for module, _ in slot.places}:
                self._slots.setdefault(module, []).append(slot)

    def divided(self, name: str, module: torch.nn.Module) -> Optional[Member]:
        """The parts of a unit; None: it stays whole."""
        if not self._is_divisible(module):
            return None
        member, known = Member(), set(self._known)
        self._divide(member, name, module)
        if len(member.parts) > 1 and self._bytes_of(member.small) < self._page_bytes:
            return member
        self._known = known
        return None

    def joined(self, parts: list[Part], count: int) -> list[Part]:
        """Neighbours as one, so that `count` parts of about the same size are left."""
        sizes = [self._bytes_of(each for module in part.modules for each in module.modules())
                 for part in parts]
        found: list[Part] = []
        for at, part in enumerate(parts):
            middle = sum(sizes[:at]) + sizes[at] / 2
            if middle * count >= len(found) * sum(sizes):
                found.append(part)
            else:
                name = f"{found[-1].name.split(' to ')[0]} to {part.name}"
                found[-1] = Part(name, [*found[-1].modules, *part.modules])
        return found

    def _divide(self, member: Member, name: str, module: torch.nn.Module) -> None:
        member.small.append(module)
        for child_name, child in module.named_children():
            full = f"{name}.{child_name}" if name else child_name
            if self._bytes_of(child.modules()) < self._page_bytes:
                member.small += child.modules()
            elif _is_place(child) or self._is_divisible(child):
                self._divide(member, full, child)
            elif id(child) not in self._known:
                self._known.add(id(child))
                member.parts.append(Part(full, [child]))

    def _is_divisible(self, module: torch.nn.Module) -> bool:
        below = list(module.modules())
        places = [each for each in below if _is_place(each)]
        return (
            not isinstance(module, _WHOLE)
            and self._bytes_of(below) > self._large_bytes
            and self._bytes_of([module]) < self._page_bytes
            and self._bytes_of(places) == 0
            # Such hooks, as of weight_norm, run before the forward.
            and not any(each._forward_pre_hooks for each in below)
            # Outside a lease such weights are on meta.
            and not any(slot.hidden is not None for slot in self._slots_of(below))
        )

    def _bytes_of(self, modules: Iterable[torch.nn.Module]) -> int:
        """Bytes of weights that are leased with the modules."""
        found = {id(slot): slot for slot in self._slots_of(modules) if not slot.by_expert}
        return sum(slot.weight.nbytes for slot in found.values())

    def _slots_of(self, modules: Iterable[torch.nn.Module]) -> list[Slot]:
        return [slot for module in modules for slot in self._slots.get(id(module), [])]


def _is_place(module: torch.nn.Module) -> bool:
    """Whether the module, such as a list, has no forward, and is only a place for others."""
    return type(module).forward is torch.nn.Module.forward


@dataclasses.dataclass
class Run:
    """A run of a member that is divided."""

    entry: object
    leased: Optional[Unit] = None
    # The unit before and its leases, until `leased` has taken over.
    leaving: Optional[Leaving] = None
    # Scopes of the modules that have begun, in their order.
    begun: list[PartScope] = dataclasses.field(default_factory=list)
    # Entry of the module that runs, and whether another one has begun within one.
    inside: Optional[object] = None
    nested: bool = False


class MemberRuns:
    """Scope of a divided member: it leases the first part from the begin on, and then each part from
    the begin of its first module to that of the next part.

    Some forwards use weights of a module without a call of it, or call one several times, or not each
    time. After a run that shows it the member is leased whole, if dram has room for that. Threads: any.
    """

    def __init__(self, whole: Unit, units: list[Unit], room: Room) -> None:
        self._whole = whole
        self._parts: list[PartScope] = []
        self._units = units
        self._may_be_whole = room.bytes_of([whole]) <= room.budget_bytes
        self._order: list[PartScope] = []
        self._lock = threading.Lock()
        self._is_whole = False
        self._entries: set[object] = set()
        # Entries of modules that have a lease of their own.
        self._alone: set[object] = set()
        self._local = threading.local()

    def scope_of(self, unit: Unit) -> PartScope:
        """The scope of one more module, whose part is `unit`."""
        self._parts.append(PartScope(self, unit))
        return self._parts[-1]

    @property
    def running(self) -> bool:
        """Whether the member runs."""
        return bool(self._entries)

    def enter(self, entry: object) -> None:
        """Leases the first part. Raises as ``Runtime.lease``."""
        run = Run(entry)
        self._entries.add(entry)
        self._runs().append(run)
        self._lease(run, self._whole if self._is_whole else (self._order or self._parts)[0].unit)

    def leave(self, entry: object, done: bool = False) -> None:
        """Ends the lease, and looks at the parts that have run."""
        for run in [each for each in self._runs() if each.entry is entry]:
            if run.leaving is not None:
                run.leaving.unit.leave(entry)
                run.leaving.give_back()
            if run.leased is not None:
                run.leased.leave(entry)
            self._runs().remove(run)
            if done and run.leased is not self._whole:
                self._judge(run)
        self._entries.discard(entry)

    def begin(self, entry: object, part: PartScope) -> None:
        """The module of a part begins. One that is called by itself, or within that of another part,
        has a lease of its own.
        """
        runs = self._runs()
        run = runs[-1] if runs else None
        if run is not None:
            run.begun.append(part)
            run.nested |= run.inside is not None
            if run.leased is self._whole or (run.inside is not None and run.leased is part.unit):
                return
        if run is None or run.inside is not None:
            self._alone.add(entry)
            part.unit.enter(entry)
            return
        run.inside = entry
        if run.leased is not part.unit:
            self._lease(run, part.unit)

    def end(self, entry: object, part: PartScope) -> None:
        """The module of a part ends. It may come again, and where ``begin`` has raised."""
        for run in self._runs():
            if run.inside is entry:
                run.inside = None
        if entry in self._alone:
            part.unit.leave(entry)
            self._alone.discard(entry)

    def _runs(self) -> list[Run]:
        """The runs in this thread, the inner ones last."""
        runs: list[Run] = self._local.__dict__.setdefault("runs", [])
        return runs

    def _lease(self, run: Run, unit: Unit) -> None:
        if run.leased is not None:
            run.leaving = Leaving(run.leased)
        run.leased = unit
        unit.enter(run.entry, run.leaving)
        run.leaving = None

    def _judge(self, run: Run) -> None:
        with self._lock:
            each_once = len(run.begun) == len(self._parts) == len(set(run.begun)) and not run.nested
            leased = [unit for unit, _ in itertools.groupby(part.unit for part in run.begun)]
            if each_once and len(leased) == len(set(leased)) and self._order in ([], run.begun):
                self._order = run.begun
            elif self._may_be_whole and not self._is_whole:
                if self._whole not in self._units:
                    self._units.insert(self._units.index(self._parts[0].unit), self._whole)
                self._is_whole = True


class PartScope:
    """Scope of a module of a part."""

    def __init__(self, runs: MemberRuns, unit: Unit) -> None:
        self.unit = unit
        self._runs = runs

    def enter(self, entry: object) -> None:
        """Calls ``MemberRuns.begin``."""
        self._runs.begin(entry, self)

    def leave(self, entry: object, done: bool = False) -> None:
        """Calls ``MemberRuns.end``."""
        self._runs.end(entry, self)
