"""Policies by which experts of a mixture stay in dram."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Optional, Protocol, Union

from ... import errors

# The number of an expert's layer among those that have experts, and its own number there.
Key = tuple[int, int]

# Uses of each expert, on average, in which a count of "lfu" is halved.
_HALF_LIFE_USES = 8


class ExpertPolicy(Protocol):
    """A policy that decides which experts stay in dram; docs/experts.md has an example.

    An expert is (number of its layer, own number). Layers that have experts count from 0. One thread
    calls at a time. The policy serves one stream, and must not run the model.
    """

    def touch(self, layer: int, expert: int) -> None:
        """Notes a use. It comes before ``choose`` makes room for that expert."""

    def choose(self, candidates: Sequence[Key]) -> Key:
        """Returns the expert that leaves. All candidates are in dram, and have been touched."""


class Frequency:
    """Least frequently used, with decay. Experts that have left keep their counts.

    Time runs in half-lives. A use at time t weighs 2**t, so the order of the sums changes at uses
    alone. A score is the logarithm of a sum.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._scores: dict[Key, float] = {}

    def touch(self, layer: int, expert: int) -> None:
        """Adds a use to the expert's count."""
        score = self._scores.setdefault((layer, expert), -math.inf)
        self._now += 1 / (_HALF_LIFE_USES * len(self._scores))
        self._scores[layer, expert] = self._now + math.log2(1 + 2 ** (score - self._now))

    def choose(self, candidates: Sequence[Key]) -> Key:
        """The expert with the least count."""
        return min(candidates, key=self._scores.__getitem__)


class Recency:
    """Least recently used."""

    def __init__(self) -> None:
        self._now = 0
        self._last: dict[Key, int] = {}

    def touch(self, layer: int, expert: int) -> None:
        """Notes when the expert is used."""
        self._now += 1
        self._last[layer, expert] = self._now

    def choose(self, candidates: Sequence[Key]) -> Key:
        """The expert whose last use is longest ago."""
        return min(candidates, key=self._last.__getitem__)


# Policies that ``experts=`` knows by name.
_NAMED: dict[str, Callable[[], ExpertPolicy]] = {"lfu": Frequency, "lru": Recency}

# The policy of a model that was made with the implementation "sluice", where none is given.
DEFAULT = "lfu"


class Guarded:
    """A policy with its name, which each error of the policy has. Threads: one at a time.

    Raises InvalidArgument where ``experts`` is neither a known name nor a policy.
    """

    def __init__(self, experts: Union[str, ExpertPolicy]) -> None:
        if isinstance(experts, str):
            if experts not in _NAMED:
                raise errors.InvalidArgument(
                    f'experts is "{experts}"; allowed are {", ".join(_NAMED)}, or an object with touch '
                    "and choose (docs/experts.md)"
                )
            self.name, self._policy = experts, _NAMED[experts]()
            return
        of = experts.__name__ if isinstance(experts, type) else type(experts).__name__
        if isinstance(experts, type):
            raise errors.InvalidArgument(f"experts is the class {of}, and an object decides: {of}()")
        for method in ("touch", "choose"):
            if not callable(getattr(experts, method, None)):
                raise errors.InvalidArgument(
                    f"experts: {of} has no {method}(); a policy has touch(layer, expert) and "
                    "choose(candidates) (docs/experts.md)"
                )
        self.name, self._policy = of, experts

    def touch(self, key: Key) -> None:
        """Calls ``ExpertPolicy.touch``. Raises InvalidArgument."""
        try:
            self._policy.touch(*key)
        except Exception as error:
            raise self._raised("touch", error) from error

    def choose(self, candidates: tuple[Key, ...]) -> Key:
        """Calls ``ExpertPolicy.choose``. Raises InvalidArgument."""
        try:
            victim = self._policy.choose(candidates)
        except Exception as error:
            raise self._raised("choose", error) from error
        at = _index_of(victim, candidates)
        if at is None:
            raise errors.InvalidArgument(
                f"experts: {self.name}.choose has returned {victim!r}, which is none of its "
                f"{len(candidates)} candidates: return one of them"
            )
        return candidates[at]

    def _raised(self, method: str, error: Exception) -> errors.InvalidArgument:
        return errors.InvalidArgument(
            f"experts: {self.name}.{method} has raised {type(error).__name__}: {error}"
        )


def _index_of(victim: object, candidates: tuple[Key, ...]) -> Optional[int]:
    """The place of a victim. Its parts are any objects, which may be equal and have other hashes."""
    try:
        return candidates.index(victim) if isinstance(victim, tuple) else None
    except Exception:  # none is equal, or arrays of several elements, say, are no truth
        return None
