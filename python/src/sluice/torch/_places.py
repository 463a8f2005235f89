"""Places of an optimizer's saves: those of shards are in a folder for each rank."""

from __future__ import annotations

import os
import re

import torch

from .. import errors
from ._shards import ranks

_FILE = "optimizer.sluice"
_RANK = re.compile(r"rank-\d+-of-(\d+)")


def make(directory: str, sharded: bool) -> str:
    """The folder of this rank's save, which is made where the directory is there."""
    place = _place(directory, sharded)
    if place != directory and os.path.isdir(directory):
        try:
            os.makedirs(place, exist_ok=True)
        except OSError as error:
            raise errors.InvalidArgument(f"'{place}' cannot be made a folder: {error}") from error
    return place


def find(directory: str, sharded: bool) -> str:
    """The folder of this rank's save. Raises InvalidArgument if the save is of other ranks."""
    place = _place(directory, sharded)
    if not os.path.exists(os.path.join(place, _FILE)):
        here, counts = ranks() if sharded else 1, _ranks_saved(directory)
        if counts and here not in counts:
            saved = max(counts)
            raise errors.InvalidArgument(
                f"'{directory}' has the save of {saved} {_noun(saved)}, and this optimizer has the "
                f"parameters of {here}: load it with as many, or carry it over with "
                "torch.distributed.checkpoint (get_state_dict, dcp.save, dcp.load, set_state_dict)"
            )
    return place


def _place(directory: str, sharded: bool) -> str:
    if not sharded or ranks() == 1:
        return directory
    return os.path.join(directory, f"rank-{torch.distributed.get_rank()}-of-{ranks()}")


def _ranks_saved(directory: str) -> set[int]:
    """Ranks of each of the saves in a directory."""
    try:
        names = os.listdir(directory)
    except OSError:
        return set()
    matches = [match for match in map(_RANK.fullmatch, names) if match is not None]
    return {int(match[1]) for match in matches} | ({1} if _FILE in names else set())


def _noun(count: int) -> str:
    return "rank" if count == 1 else "ranks"
