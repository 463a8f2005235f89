"""Timelines in the Chrome trace event format."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from typing import Any

from . import _core, errors
from ._files import written_at_end

_log = logging.getLogger("sluice")


@contextlib.contextmanager
def trace(session: _core.Session, path: str) -> Iterator[None]:
    """Keeps the intervals that end in the block, and writes them at its end."""
    if not session.start_trace():
        raise errors.FailedPrecondition("the runtime is traced already")
    dropped = 0

    def text() -> list[str]:
        nonlocal dropped
        spans, dropped = session.stop_trace()
        return [json.dumps({"traceEvents": _events(spans)})]

    try:
        with written_at_end(path, text):
            yield
    finally:
        session.stop_trace()
    if dropped:
        _log.warning("%s: the last %d intervals are missing", path, dropped)


def _events(spans: list[tuple[str, str, float, float]]) -> list[dict[str, Any]]:
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
