"""A step of an optimizer that is under way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Optional

from ._shards import version_of
from ._slots import Slot


def numbers_of_nothing(norm: Optional[float]) -> dict[str, Any]:
    """The numbers of a step in which this rank has no element; ``norm``: of all ranks."""
    seconds = ("wait_seconds", "wait_read_seconds", "wait_write_seconds", "compute_seconds")
    return {"groups": 0, "gradient_norm": norm, **dict.fromkeys(seconds, 0.0)}


class Step:
    """Parameters of a step, and their gradients, which stay while it reads them.

    ``over``: step() was called. Updates that begin in backward come before it.
    """

    over = True

    def __init__(self, slots: Iterable[Slot] = (), gradients: Iterable[Any] = ()) -> None:
        self.slots = list(slots)
        self.gradients = list(gradients)  # None: used up
        self.versions = [version_of(gradient) for gradient in self.gradients]
        self.failed = False

    def add(self, slot: Slot, gradient: Any) -> None:
        """One more parameter."""
        self.slots.append(slot)
        self.gradients.append(gradient)
        self.versions.append(version_of(gradient))

    def has(self, gradients: list[Any]) -> bool:
        """Whether it is the step of these gradients, as they are."""
        same = len(gradients) == len(self.gradients)
        return same and all(map(lambda a, b: a is b, gradients, self.gradients)) and self.unchanged

    @property
    def unchanged(self) -> bool:
        """Whether the gradients are as they were."""
        return all(gradient is None or version_of(gradient) == version
                   for gradient, version in zip(self.gradients, self.versions))
