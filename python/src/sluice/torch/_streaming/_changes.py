"""Waiting for another thread in a way that Ctrl-C cannot break."""

from __future__ import annotations

import threading


class Changes:
    """A lock, and threads that wait for what it guards to change.

    An interrupt may end a call anywhere, and leaves the lock free. threading.Condition would keep it:
    its entry is Python code, in which an interrupt may come once the lock is taken. ``with lock`` is
    not.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._waiting: list[threading.Lock] = []

    def next(self) -> threading.Lock:
        """Returns a lock that can be acquired after the next ``tell``. REQUIRES: ``lock`` is held."""
        waiting = threading.Lock()
        waiting.acquire()
        self._waiting.append(waiting)
        return waiting

    def tell(self) -> None:
        """Wakes all that wait. After an interrupt it must come again. REQUIRES: ``lock`` is held."""
        for waiting in self._waiting:
            if waiting.locked():
                waiting.release()
        self._waiting.clear()
