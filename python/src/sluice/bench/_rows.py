"""Rows that a case gives, and helpers that all cases share."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Union


class Skipped(Exception):
    """The machine lacks what a case needs; the text says what."""


@dataclass
class Setting:
    """Place and length of measurements."""

    directory: str
    quick: bool

    @property
    def rounds(self) -> int:
        """Rounds of each case."""
        return 3 if self.quick else 11


@dataclass
class Row:
    """Medians over the rounds of a case.

    value
        The median, or "peer_wrong" if the results of a peer differ from torch's: nothing is compared.
    ratio
        The allowed value over the measured one, or the peer's over ours: more is better. None: the
        case is only reported.
    target
        The least ratio that counts as reached.
    at_limit
        Whether the machine limited the measured value, so that the target counts as reached. None:
        the limit does not count here.
    """

    value: Union[float, str]
    unit: str
    ratio: Optional[float] = None
    target: Optional[float] = None
    figures: dict[str, Any] = field(default_factory=dict)
    at_limit: Optional[bool] = None

    def as_dict(self, case: str) -> dict[str, Any]:
        """The JSON line."""
        line: dict[str, Any] = {"case": case, "value": self.value, "unit": self.unit}
        if self.ratio is not None and self.target is not None:
            reached = self.ratio >= self.target or bool(self.at_limit)
            line |= {"ratio": self.ratio, "target": self.target, "reached": reached}
            line |= {} if self.at_limit is None else {"at_limit": self.at_limit}
        return {**line, **self.figures}


# Rows of a case by the suffix of their names: some cases measure several things at once. A row that
# the machine cannot run says why.
Rows = dict[str, Union[Row, Skipped]]


def seconds_of(call: Callable[[], object]) -> float:
    """Seconds that the call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


median = statistics.median


def control_of(ceilings: Sequence[float]) -> dict[str, float]:
    """The noise of the machine: each round's ceiling over that of the round before, median and lower quartile.

    Fewer than three rounds have none.
    """
    if len(ceilings) < 3:
        return {}
    ratios = [after / before for before, after in zip(ceilings, ceilings[1:])]
    low = statistics.quantiles(ratios, n=4, method="inclusive")[0]
    return {"control": median(ratios), "control_low": low}
