"""Uses of experts as a schedule that ``sluice lab run`` reads."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

from ..._checks import path_of
from ..._files import written_at_end
from ..._options import Directory
from ._expert_cache import Cache
from ._residents import Expert

# Seconds that an op computes. The lab is asked for bytes, which do not depend on it.
_SECONDS = 1e-3


@contextlib.contextmanager
def tracing(cache: Cache, path: Directory) -> Iterator[None]:
    """Writes the experts that are used in the ``with`` block to a schedule file, when that ends.

    Raises OSError before anything runs, and where the file cannot be written. None is left then.
    """
    used: list[Expert] = []
    with written_at_end(path_of("path", path), lambda: (json.dumps(line) + "\n" for line in _lines(used))):
        try:
            cache.begin_trace(used)
            yield
        finally:
            cache.end_trace(used)


def _lines(used: list[Expert]) -> list[dict[str, object]]:
    """Lines of a schedule: a tensor for each expert, and an op for each use."""
    numbers = {expert: number for number, expert in enumerate(dict.fromkeys(used))}
    lines: list[dict[str, object]] = [{"schedule": "experts", "version": 1, "key": "experts",
                                       "tensors": len(numbers), "ops": len(used)}]
    lines += [{"tensor": number, "bytes": expert.nbytes, "persistent": True, "home": "file",
               "kind": "parameter", "name": expert.name} for expert, number in numbers.items()]
    lines += [{"op": at, "name": expert.name, "seconds": _SECONDS, "tier": "dram",
               "reads": [numbers[expert]], "writes": []} for at, expert in enumerate(used)]
    return lines
