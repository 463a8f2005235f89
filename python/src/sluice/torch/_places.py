"""Places of an optimizer's saves: those of shards are in a folder for each rank."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator

import torch

from .. import errors
from ._shards import ranks

_FILE = "optimizer.sluice"
# Folder in that of a rank, in which its file waits until the files of all ranks are whole.
_NEXT = "next"
# Name there of the rank's file from before, until every rank has its new one.
_BEFORE = "before.sluice"
# Name of a file whose writer was killed.
_PARTIAL = re.compile(r"\.sluice-.*\.partial")
_RANK = re.compile(r"rank-\d+-of-(\d+)")


def make_next(directory: str) -> str:
    """The folder of a rank's new file, which is made. Raises NotFound without the directory."""
    aside = os.path.join(_place(directory, True), _NEXT)
    if not os.path.isdir(directory):
        raise errors.NotFound(f"there is no directory {directory}; make it first")
    with _named(f"'{aside}' cannot be made a folder"):
        os.makedirs(aside, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # a process that was killed has left it
            os.unlink(os.path.join(aside, _BEFORE))
    return aside


def take_next(directory: str) -> None:
    """Gives a rank's new file the name of the one from before."""
    place = _place(directory, True)
    file, before = os.path.join(place, _FILE), os.path.join(place, _NEXT, _BEFORE)
    with contextlib.suppress(OSError):  # some file systems have no second names
        os.link(file, before)
    with _named(f"'{place}' cannot take its new file"):
        os.replace(os.path.join(place, _NEXT, _FILE), file)
        _sync(place)


def put_back(directory: str) -> None:
    """Gives a rank the file from before again, as another rank could not take its new one."""
    place = _place(directory, True)
    file, before = os.path.join(place, _FILE), os.path.join(place, _NEXT, _BEFORE)
    with contextlib.suppress(OSError):
        if os.path.exists(before):
            os.replace(before, file)
            _sync(place)
    drop_next(directory)


def _sync(folder: str) -> None:
    """Makes names in the folder durable, on file systems that can."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(opened)


def drop_next(directory: str) -> None:
    """Removes a rank's new file, if it has one, and what it has set aside."""
    aside = os.path.join(_place(directory, True), _NEXT)
    for name in (_FILE, _BEFORE):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(aside, name))
    _drop_folder(aside)


def _drop_folder(aside: str) -> None:
    """Removes the folder with what a process that was killed has left in it."""
    with contextlib.suppress(OSError):
        for name in os.listdir(aside):
            if _PARTIAL.fullmatch(name):
                os.unlink(os.path.join(aside, name))
        os.rmdir(aside)


def of_rank(directory: str) -> tuple[str, str]:
    """The folder of this rank's file, and that in which its new one waits."""
    place = _place(directory, True)
    return place, os.path.join(place, _NEXT)


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


@contextlib.contextmanager
def _named(what: str) -> Iterator[None]:
    """Raises TierFull for a full disk, and InvalidArgument for any other OSError."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise (errors.TierFull if full else errors.InvalidArgument)(f"{what}: {error}") from error
