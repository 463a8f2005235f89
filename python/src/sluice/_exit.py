"""The end of the interpreter: runtimes that are open still are closed before it."""

from __future__ import annotations

import atexit
import threading

from . import _core

_open: list[_core.SessionAtExit] = []


def close_at_exit(session: _core.Session) -> None:
    """Has the session closed at exit, unless it has ended by then."""
    _open[:] = [each for each in _open if each.alive]
    _open.append(_core.SessionAtExit(session))


@atexit.register
def _close_all() -> None:
    _core.leave()
    # Threads that are left are daemons, which go on reading arrays until the process ends.
    daemons = threading.active_count() > 1
    for session in _open:
        session.close(daemons)
