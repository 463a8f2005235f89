"""Timelines in the Chrome trace event format."""

from __future__ import annotations

import contextlib
import json
import logging
import time
from collections.abc import Iterator
from typing import Any, Optional

from . import _core, errors
from ._files import written_at_end

_log = logging.getLogger("sluice")


# A track, a name, and begin and end in seconds of time.monotonic().
_Span = tuple[str, str, float, float]
# Intervals of the program's blocks that a trace has at most.
_SPANS_MAX = 1 << 20


class Blocks:
    """Intervals of the program's own ``with`` blocks: its ops, leases and iterations. Threads: any."""

    def __init__(self) -> None:
        self._spans: Optional[list[_Span]] = None  # None: nothing is traced
        self._dropped = 0
        self._started = 0.0

    def start(self) -> None:
        """Keeps the blocks that begin from now on."""
        self._started = time.monotonic()
        self._spans, self._dropped = [], 0

    def stop(self) -> tuple[list[_Span], int]:
        """The intervals, and how many more there were."""
        spans, self._spans = self._spans, None
        return spans or [], self._dropped

    def begin(self) -> Optional[float]:
        """The time, for ``end``; None while nothing is traced."""
        return None if self._spans is None else time.monotonic()

    def end(self, track: str, name: str, begin: Optional[float]) -> None:
        """Notes a block that began at ``begin``."""
        spans = self._spans
        if spans is None or begin is None or begin < self._started:
            return
        if len(spans) >= _SPANS_MAX:
            self._dropped += 1
        else:
            spans.append((track, name, begin, time.monotonic()))


@contextlib.contextmanager
def trace(session: _core.Session, blocks: Blocks, path: str) -> Iterator[None]:
    """Keeps the intervals of the block, and writes them at its end."""
    if not session.start_trace():
        raise errors.FailedPrecondition("the runtime is traced already")
    blocks.start()
    dropped = 0

    def text() -> list[str]:
        nonlocal dropped
        spans, dropped = session.stop_trace()
        own, more = blocks.stop()
        dropped += more
        return [json.dumps({"traceEvents": _events(spans + own)})]

    try:
        with written_at_end(path, text):
            yield
    finally:
        blocks.stop()
        session.stop_trace()
    if dropped:
        _log.warning("%s: the last %d intervals are missing", path, dropped)


def _events(spans: list[_Span]) -> list[dict[str, Any]]:
    """Intervals, and names of tracks. One track holds no two intervals at once."""
    events: list[dict[str, Any]] = []
    idle_from: dict[str, list[tuple[int, float]]] = {}
    tracks = 0
    origin = min((begin for _, _, begin, _ in spans), default=0.0)
    for track, name, begin, end in sorted(spans, key=lambda span: span[2]):
        rows = idle_from.setdefault(track, [])
        row = next((i for i, (_, idle) in enumerate(rows) if idle <= begin), len(rows))
        if row == len(rows):
            tracks += 1
            rows.append((tracks, end))
            label = track if row == 0 else f"{track} ({row + 1})"
            events.append({"ph": "M", "pid": 1, "tid": tracks, "name": "thread_name",
                           "args": {"name": label}})
        number, rows[row] = rows[row][0], (rows[row][0], end)
        events.append({"ph": "X", "pid": 1, "tid": number, "name": name,
                       "ts": (begin - origin) * 1e6, "dur": (end - begin) * 1e6})
    return events
