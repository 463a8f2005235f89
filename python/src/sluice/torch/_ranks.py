"""Facts that the ranks of a save share: one id, one number of steps, an outcome, a layout."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any, Optional, TypeVar

import torch

from .. import _core, errors
from . import _notes, _places
from ._shards import is_dtensor, ranks, root_of
from ._slots import Slot, refuse

_Result = TypeVar("_Result")

_CARRY = ("carry it over with torch.distributed.checkpoint (get_state_dict, dcp.save, dcp.load, "
          "set_state_dict)")


class Team:
    """The ranks that save and load together: those of the mesh from which their parameters' meshes are cut."""

    def __init__(self, slots: Iterable[Slot]) -> None:
        """Takes parameters of which one at least is a DTensor. Raises InvalidArgument where no mesh has all ranks."""
        names: dict[Any, str] = {}
        for slot in slots:
            if is_dtensor(slot.tensor):
                names.setdefault(root_of(slot.tensor.device_mesh), slot.name)
        members = {mesh: sorted(mesh.mesh.flatten().tolist()) for mesh in names}
        largest = max(members, key=lambda mesh: len(members[mesh]))
        self.ranks: list[int] = members[largest]
        for mesh, name in names.items():
            if not set(members[mesh]) <= set(self.ranks):
                raise refuse(name, f"is on a mesh of the ranks {members[mesh]}, and parameter '{names[largest]}' on "
                                   f"one of {self.ranks}; save and load need a mesh of all of them: slice both from "
                                   f"one, or {_CARRY}")
        whole = len(self.ranks) == ranks()
        self._groups = [None] if whole else [largest.get_group(dim) for dim in range(largest.ndim)]

    def together(self, name: str, call: Callable[[], _Result]) -> _Result:
        """Result of the call. An error of one rank is raised on all. A collective call of that name."""
        result, failures = self.outcomes(name, call)
        raise_first(failures)
        return result  # type: ignore[return-value]

    def outcomes(self, name: str, call: Callable[[], _Result],
                 ) -> tuple[Optional[_Result], list[Optional[errors.Error]]]:
        """Result of the call, and each rank's error. A collective call of that name."""
        result: Optional[_Result] = None
        error: Optional[errors.Error] = None
        try:
            result = call()
        except errors.Error as raised:
            error = raised
        failures: list[Optional[errors.Error]] = []
        own = None if error is None else (type(error).__name__, str(error))
        for rank, each in zip(self.ranks, self.gathered(name, own)):
            failures.append(None if each is None else getattr(errors, each[0])(f"rank {rank}: {each[1]}"))
        return result, failures

    def gathered(self, name: str, value: Any) -> list[Any]:
        """The values of all ranks. Raises FailedPrecondition where a rank is in a call of another name."""
        values: dict[int, Any] = {torch.distributed.get_rank(): (name, value)}
        for group in self._groups:  # after each the rank has the values of one more dimension of the mesh
            parts: list[Any] = [None] * torch.distributed.get_world_size(group)
            torch.distributed.all_gather_object(parts, values, group=group)
            values = {rank: each for part in parts if isinstance(part, dict) for rank, each in part.items()}
        for rank in self.ranks:
            each = values.get(rank)
            if not (isinstance(each, tuple) and each[:1] == (name,)):
                raise errors.FailedPrecondition(
                    f"rank {rank} is in another call than this one ({name}): one of its calls was interrupted, "
                    "and the ranks do not call in one order any more; end them, and load a save"
                )
        return [values[rank][1] for rank in self.ranks]


def raise_first(failures: Iterable[Optional[errors.Error]]) -> None:
    """Raises the error of the first rank that has one."""
    for failure in failures:
        if failure is not None:
            raise failure


def mark(team: Team, slots: Iterable[Slot]) -> dict[str, Any]:
    """Entries of a rank's note about the save of all ranks. A collective call."""
    slots = list(slots)
    return {
        "id": team.gathered("id of a save", uuid.uuid4().hex)[0],
        "steps": max((slot.steps for slot in slots), default=0),
        "layouts": {slot.name: _layout_of(slot.tensor) for slot in slots},
    }


def settle(team: Team, directory: str) -> None:
    """Completes a save whose processes ended while its files took their names. A collective call.

    The files of all ranks were whole before that: each has its name, or waits beside it. Nothing
    changes where the files with names belong together. Raises as ``Team.together``.
    """
    own = tuple(_saved_in(place) for place in _places.of_rank(directory))
    every = team.gathered("files of a save", own)
    if len({named for named, _ in every}) == 1:
        return
    whole = set.intersection(*({saved for saved in each if saved is not None} for each in every))
    if not whole:
        return
    last = max(whole, key=lambda saved: saved[1])
    team.together("files of a save", lambda: _places.take_next(directory) if own[0] != last else None)
    _places.drop_next(directory)


def _saved_in(place: str) -> Optional[tuple[str, int]]:
    """Id and steps of the save of several ranks in a folder; None: there is none."""
    try:
        saved = _notes.parse_note(_core.read_note(place)).mark
    except errors.Error:
        return None
    return None if saved is None else (saved["id"], saved["steps"])


def check_whole(team: Team, directory: str, saved: dict[str, Any]) -> None:
    """Raises DataLoss, on every rank, if the ranks' files are of several saves. A collective call."""
    each = team.gathered("save to load", (saved["id"], saved["steps"]))
    if len(set(each)) > 1:
        steps = ", ".join(f"{steps} of rank {rank}" for rank, (_, steps) in zip(team.ranks, each))
        raise errors.DataLoss(
            f"'{directory}' has files of several saves, of which none has those of all ranks (steps: "
            f"{steps}): load another save, and give each save a directory of its own"
        )


def check_layouts(saved: Optional[dict[str, Any]], slots: Iterable[Slot]) -> None:
    """Raises InvalidArgument if a parameter's elements of this rank are others than when it was saved."""
    if saved is None:
        raise errors.InvalidArgument(
            "the save does not say how its elements are spread over ranks, so it was not made by "
            "several ranks in Python: load it where it was made"
        )
    for slot in slots:
        before, now = saved["layouts"].get(slot.name), _layout_of(slot.tensor)
        if before != now:
            raise refuse(slot.name, f"is {_described(now)}, and was {_described(before)} when it was "
                                    f"saved: load it with that layout, or {_CARRY}")


def _layout_of(tensor: Any) -> Optional[dict[str, Any]]:
    """Description of a rank's elements, as JSON gives it back; None: a plain tensor has all."""
    if not is_dtensor(tensor):
        return None
    mesh = tensor.device_mesh
    return {
        "shape": list(tensor.shape),
        "mesh": list(mesh.shape),
        "coordinate": list(mesh.get_coordinate() or ()),
        "placements": [_name_of(each) for each in tensor.placements],
    }


def _name_of(placement: Any) -> str:
    if placement.is_replicate():
        return "Replicate()"
    return f"Shard({placement.dim})" if type(placement).__name__ == "Shard" else repr(placement)


def _described(layout: Optional[dict[str, Any]]) -> str:
    if layout is None:
        return "a plain tensor"
    return (f"a DTensor of shape {layout['shape']} at {layout['coordinate']} of the mesh "
            f"{layout['mesh']} with placements [{', '.join(layout['placements'])}]")
