"""A step of an optimizer that is under way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Optional

from .. import errors
from ._gradients import Gathered
from ._shards import version_of
from ._slots import Slot, check_in_place, check_no_part

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

    def __init__(self, gathered: Gathered, before: int = -1) -> None:
        self.before = before
        self.slots = list(gathered.slots)
        self.gradients: list[Any] = list(gathered.gradients)  # None: used up
        self.rates = list(gathered.rates)
        self.after = [slot.steps + 1 for slot in self.slots]  # steps of each parameter once it is over
        self.counted = False  # the parameters have them
        self.versions = [version_of(gradient) for gradient in self.gradients]
        self.failed = False
        # Number of steps that the core had started when a part of this one was left; None: no part is.
        self.left: Optional[int] = None

    def has(self, gradients: list[Any]) -> bool:
        """Whether it is the step of these gradients, as they are."""
        same = len(gradients) == len(self.gradients)
        return same and all(map(lambda a, b: a is b, gradients, self.gradients)) and self.unchanged

    @property
    def is_empty(self) -> bool:
        """Whether no update of it has begun."""
        return False

    @property
    def unchanged(self) -> bool:
        """Whether the gradients are as they were."""
        return all(gradient is None or version_of(gradient) == version
                   for gradient, version in zip(self.gradients, self.versions))


def start(optimizer: "PagedOptimizer", gathered: Gathered, norm: Optional[float]) -> Step:
    """Starts a step. Ctrl-C may come right before or after the core's call: the step is known before."""
    step = optimizer._step = Step(gathered, optimizer._core.started)
    if optimizer._overlap is not None:
        optimizer._overlap.begin(gathered.with_elements)
    try:
        optimizer._core.start(gathered.updates, norm)
    except errors.Error:
        optimizer._step = None
        if optimizer._overlap is not None:
            optimizer._overlap.end()
        raise
    return step


def begun(optimizer: "PagedOptimizer") -> Optional[Step]:
    """The step that is under way, or has failed."""
    step: Optional[Step] = optimizer._step
    # Ctrl-C, or an error in backward, may come before its begin.
    if step is not None and (step.before == optimizer._core.started or step.is_empty):
        step = optimizer._step = None
        if optimizer._overlap is not None:
            optimizer._overlap.end()
    return step


def may_repeat(optimizer: "PagedOptimizer", needed: Iterable[Slot]) -> bool:
    """Whether the next call of step() may repeat one that has failed or was interrupted.

    Raises FailedPrecondition if a parameter of that, or one that is needed, has other memory then.
    """
    step = begun(optimizer)
    if step is None or (step.counted and not step.failed):
        return False
    check_places(optimizer, step)
    for slot in needed:
        check_no_part(slot)
    return True


def check_places(optimizer: "PagedOptimizer", step: Step) -> None:
    """Raises FailedPrecondition if a parameter, whose update may not be over, has other memory."""
    for slot in step.slots if optimizer._overlap is None else optimizer._overlap.unread:
        check_in_place(slot)


def go_on(optimizer: "PagedOptimizer", step: Step) -> None:
    """Starts the part of a step that is left, once. Ctrl-C may come right after the core's call."""
    if step.left == optimizer._core.started:
        optimizer._core.go_on()
    step.failed = False
    step.left = None
