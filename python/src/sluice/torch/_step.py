"""A step of an optimizer that is under way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._slots import Slot


class Step:
    """Parameters of a step, and their gradients, which stay while it reads them.

    ``over``: step() was called. Updates that begin in backward come before it.
    """

    over = True

    def __init__(self, slots: Iterable[Slot] = (), gradients: Iterable[Any] = ()) -> None:
        self.slots = list(slots)
        self.gradients = list(gradients)  # None: used up
        self.versions = [gradient._version for gradient in self.gradients]
        self.failed = False

    def add(self, slot: Slot, gradient: Any) -> None:
        """One more parameter."""
        self.slots.append(slot)
        self.gradients.append(gradient)
        self.versions.append(gradient._version)

    def has(self, gradients: list[Any]) -> bool:
        """Whether it is the step of these gradients, as they are."""
        same = len(gradients) == len(self.gradients)
        return same and all(map(lambda a, b: a is b, gradients, self.gradients)) and self.unchanged

    @property
    def unchanged(self) -> bool:
        """Whether the gradients are as they were."""
        return all(gradient is None or gradient._version == version
                   for gradient, version in zip(self.gradients, self.versions))
