"""Saves of optimizers in the library's format: one file, or one of each rank."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any, Optional, Union

from .. import _core, errors
from .._checks import path_of
from . import _entries, _notes, _places, _ranks, _slots
from ._compiled import not_compiled
from ._owners import follow
from ._shards import check_group, increment_version, is_dtensor, ranks, reshard
from ._state_dicts import StateDicts


class Saves(StateDicts):
    """Part of an optimizer that saves and loads. PagedOptimizer has the rest."""

    @not_compiled
    def save(self, directory: Union[str, "os.PathLike[str]"], note: str = "") -> None:
        """Writes parameters, states, rates and steps to ``directory``/optimizer.sluice.

        The file has its name once it is whole. docs/optimizer.md says more of it. With DTensors of
        several ranks each rank calls it and writes its own file, to ``directory``/rank-0-of-2 and so
        on: those of the mesh from which the DTensors' meshes are cut. It returns once all are whole,
        and raises the error of one rank on each. Every rank's file from before stays if one could not
        be written, as on a full disk. If the processes end while the files take their names, the next
        load or save completes this one.
        """
        team = self._team()
        if team is not None:
            place = team.together("save", lambda: self._prepare_save(directory, note))
            _ranks.settle(team, place)
            self._save_together(team, place, note)
        else:
            self._write(self._prepare_save(directory, note), note, None)

    def _prepare_save(self, directory: Any, note: Any) -> str:
        """Checks all that a save needs. Returns the directory."""
        place = path_of("the directory of a save", directory)
        _notes.check_note(note)
        self._finish()
        follow(self, self._slots.values())
        self._refuse_half_loaded()
        _entries.take(self, (slot for _, slot in self._every()))
        self._check_groups()
        pairs = [(slot, self._rates(group, slot.steps)) for group, slot in self._pairs()]
        for slot, _ in pairs:
            _slots.check_unchanged(slot)
        for slot, rates in pairs:
            _entries.clear_left(self, slot, rates)
            self._core.set_rates(slot.group, rates)
        self._refresh_masters(slot for slot, _ in pairs)
        return place

    def _save_together(self, team: _ranks.Team, directory: str, note: str) -> None:
        """Every rank's file is whole before one replaces the file from before."""
        mark = _ranks.mark(team, self._slots.values())
        try:
            team.together("save", lambda: self._write(_places.make_next(directory), note, mark))
        except BaseException:
            _places.drop_next(directory)
            raise
        try:
            team.together("save", lambda: _places.take_next(directory))
        except errors.Error:
            _places.put_back(directory)
            raise
        _places.drop_next(directory)

    def _write(self, place: str, note: str, mark: Optional[dict[str, Any]]) -> None:
        empty = {slot.name: slot.steps for slot in self._slots.values() if slot.group < 0}
        changed = [slot.name for group, slot in self._every() if slot.steps > 0
                   and slot.has_states != self._keeps_states(self._rates(group, slot.steps))]
        self._core.save(place, _notes.note_of(self.param_groups, empty, changed, note, mark))

    @not_compiled
    def load(self, directory: Union[str, "os.PathLike[str]"]) -> str:
        """Reads what ``save`` wrote: parameters and options of groups too; returns its note.

        Any budgets, the same groups of parameters, and kind, states and seed; of DTensors the same
        ranks, meshes and placements, and each rank calls it. Raises NotFound, InvalidArgument (names
        what differs), DataLoss; nothing has changed then. It raises the error of one rank on each.
        If only some ranks' states cannot be read, all ranks refuse steps until the next load.
        """
        team = self._team()
        if team is not None:
            folder = team.together("load", lambda: path_of("the directory of a save", directory))
            _ranks.settle(team, folder)
            place, note = team.together("load", lambda: self._read_note(folder, True))
            assert note.mark is not None
            _ranks.check_whole(team, folder, note.mark)
            self._load_together(team, place)
        else:
            place, note = self._read_note(path_of("the directory of a save", directory), False)
            self._load_whole(place)
        self._take_note(note)
        return note.text

    def _read_note(self, directory: str, spread: bool) -> tuple[str, _notes.Note]:
        """The folder of this rank's save and its note, which has been checked."""
        place = _places.find(directory, spread)
        self._wait_unless_failed()
        follow(self, self._slots.values())
        for _, slot in self._pairs():
            _slots.check_unchanged(slot)
        note = _notes.parse_note(_core.read_note(place))
        if note.groups and len(note.groups) != len(self.param_groups):
            raise errors.InvalidArgument(f"the save has {len(note.groups)} parameter groups, the "
                                         f"optimizer {len(self.param_groups)}")
        if spread:
            _ranks.check_layouts(note.mark, self._slots.values())
        return place, note

    def _load_whole(self, place: str) -> None:
        """Loads; Ctrl-C between the load and the note leaves half a load."""
        before, self._half_loaded = self._half_loaded, True
        try:
            self._load_parameters(place)
        except errors.Error:  # nothing has changed
            self._half_loaded = before
            raise
        except BaseException:
            self._note_all()
            raise

    def _load_together(self, team: _ranks.Team, place: str) -> None:
        """Loads what this rank has. Where only some ranks could, half a load is left on all."""
        before, self._half_loaded = self._half_loaded, True
        try:
            _, failures = team.outcomes("load", lambda: self._load_parameters(place))
            if all(failures):  # nothing has changed
                self._half_loaded = before
            _ranks.raise_first(failures)
        except BaseException:
            if self._half_loaded:
                self._note_all()
            raise

    def _load_parameters(self, place: str) -> None:
        reshard(self._slots.tensors)
        self._core.load(place)

    def _take_note(self, note: _notes.Note) -> None:
        """Takes steps and the options of groups after a load."""
        self._step = None
        self.state = defaultdict(dict)
        changed = set(note.changed)
        for group, saved in zip(self.param_groups, note.groups):
            group.update(saved)
        for group, slot in self._every():
            empty = slot.group < 0
            steps = note.empty.get(slot.name, 0) if empty else self._core.steps_of(slot.parameter)
            rates = self._rates(group, steps) if empty else self._core.rates(slot.group)
            if not empty:
                increment_version(slot.tensor)
            has_states = self._keeps_states(rates) != (slot.name in changed)
            self._loaded(slot, steps, has_states and (steps > 0 or self._begins_with_states))
        self._half_loaded = False

    def _team(self) -> Optional[_ranks.Team]:
        """The ranks that have a save together; None: a rank has its own.

        Raises FailedPrecondition without their group, and as ``_ranks.Team``.
        """
        if not any(is_dtensor(slot.tensor) for slot in self._slots.values()):
            return None
        check_group(self._slots.tensors)
        return _ranks.Team(self._slots.values()) if ranks() > 1 else None
