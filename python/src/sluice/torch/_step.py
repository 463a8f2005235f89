"""A step of an optimizer that is under way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Optional

from .. import errors
from ._gradients import Gathered
from ._shards import version_of
from ._slots import Slot

if TYPE_CHECKING:
    from ._optimizer import PagedOptimizer


def numbers_of_nothing(norm: Optional[float]) -> dict[str, Any]:
    """The numbers of a step in which this rank has no element; ``norm``: of all ranks."""
    seconds = ("wait_seconds", "wait_read_seconds", "wait_write_seconds", "compute_seconds")
    return {"groups": 0, "gradient_norm": norm, **dict.fromkeys(seconds, 0.0)}


class Step:
    """Parameters of a step, and their gradients, which stay while it reads them.

    ``over``: step() was called. Updates that begin in backward come before it. ``before``: number
    of steps that the core had started before this one; -1: updates begin one by one.
    """

    over = True

    def __init__(self, slots: Iterable[Slot] = (), gradients: Iterable[Any] = (), before: int = -1) -> None:
        self.before = before
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


def start(optimizer: "PagedOptimizer", gathered: Gathered, norm: Optional[float]) -> None:
    """Starts a step. Ctrl-C may come right before or after the core's call: the step is known before."""
    optimizer._step = Step(gathered.slots, gathered.gradients, optimizer._core.started)
    try:
        optimizer._core.start(gathered.updates, norm)
    except errors.Error:
        optimizer._step = None
        raise


def begun(optimizer: "PagedOptimizer") -> Optional[Step]:
    """The step that is under way, or has failed."""
    step: Optional[Step] = optimizer._step
    if step is not None and step.before == optimizer._core.started:  # Ctrl-C came before its begin
        step = optimizer._step = None
    return step
