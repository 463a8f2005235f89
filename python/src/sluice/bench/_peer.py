"""A peer in a process of its own, which answers lines of JSON with lines of JSON."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from types import TracebackType
from typing import Any, Callable, Optional

from ._rows import Skipped

# Lines of a peer's errors that a row shows.
_SHOWN = 3


class Peer:
    """The process of a module that calls ``serve``.

    module
        Its full name. Its one word on the command line is `options` as JSON.
    environment
        Variables that the process has beside ours.
    """

    def __init__(self, module: str, options: dict[str, Any], environment: dict[str, str]) -> None:
        tools = os.path.dirname(sys.executable)  # tools that pip has installed beside this Python
        path = os.pathsep.join([tools, os.environ.get("PATH", os.defpath)])
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, json.dumps(options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
            env={**os.environ, "PATH": path, **environment},
            start_new_session=True)  # a session, so that the peer's compilers end with it

    def call(self, name: str, seconds_max: float, **arguments: Any) -> dict[str, Any]:
        """Result of the peer's method. Raises Skipped if the peer fails or is silent too long."""
        assert self._process.stdin is not None and self._process.stdout is not None
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self._kill()

        timer = threading.Timer(seconds_max, give_up)
        timer.start()
        try:
            with contextlib.suppress(BrokenPipeError):
                print(json.dumps({"call": name, "arguments": arguments}), file=self._process.stdin,
                      flush=True)
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if late.is_set():
            raise Skipped(f"the peer has not answered {name} in {seconds_max:.0f} s")
        if not line:
            raise Skipped(f"the peer has ended in {name}: {self._last_errors()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """Ends the process and what it has started."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.end()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _last_errors(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors if line.strip()]
        return " / ".join(lines[-_SHOWN:]) or f"exit code {self._process.returncode}"


def serve(make: Callable[[], Any]) -> None:
    """The peer's side: makes an object, and calls its methods until standard input ends.

    What it prints goes to the errors. An exception ends the process; its traceback is in the errors.
    """
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        peer = make()
        for line in sys.stdin:
            request = json.loads(line)
            answer = getattr(peer, request["call"])(**request["arguments"])
            print(json.dumps(answer), file=answers, flush=True)
