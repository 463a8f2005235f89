"""A limit on the memory of a process, page cache included."""

from __future__ import annotations

import contextlib
import os
import pathlib
import uuid
from collections.abc import Iterator

from ._rows import Skipped

_ROOT = pathlib.Path("/sys/fs/cgroup")


class Group:
    """A cgroup of version 1 or 2 for processes that are started in it."""

    def __init__(self, limit_bytes: int) -> None:
        old = _ROOT / "memory"
        self._old = old.is_dir()
        self._path = (old if self._old else _ROOT) / f"sluice-bench-{uuid.uuid4().hex}"
        self.limit_bytes = limit_bytes
        self.procs = str(self._path / "cgroup.procs")

    def make(self) -> None:
        """Makes the group. Raises Skipped where that is not possible."""
        if os.geteuid() != 0:
            raise Skipped("a cap on memory needs root, to make a cgroup")
        try:
            self._path.mkdir()
        except OSError as error:
            raise Skipped(f"no cgroup can be made: {error}") from None
        try:
            limit = "memory.limit_in_bytes" if self._old else "memory.max"
            (self._path / limit).write_text(str(self.limit_bytes))
            if not self._old:
                (self._path / "memory.swap.max").write_text("0")
        except OSError as error:
            self.remove()
            raise Skipped(f"the memory controller is missing: {error}") from None

    def peak_bytes(self) -> int:
        """The most memory at once, page cache included."""
        return int(self._read("memory.max_usage_in_bytes" if self._old else "memory.peak"))

    def limit_hits(self) -> int:
        """Number of times that the kernel reclaimed memory to stay below the limit."""
        if self._old:
            return int(self._read("memory.failcnt"))
        events = dict(line.split() for line in self._read("memory.events").splitlines())
        return int(events["max"])

    def remove(self) -> None:
        """Removes the group, whose processes have ended."""
        self._path.rmdir()

    def _read(self, name: str) -> str:
        return (self._path / name).read_text()


@contextlib.contextmanager
def group_of(limit_bytes: int) -> Iterator[Group]:
    """A group for a ``with`` block. Raises Skipped where none can be made."""
    group = Group(limit_bytes)
    group.make()
    try:
        yield group
    finally:
        group.remove()
