"""Contestants in processes of their own, which run in turn."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Optional

from ._cgroup import Group
from ._checkpoint import Checkpoint, module_of
from ._rows import Skipped

# Lines of a contestant's errors that are shown when it has ended by itself.
_SHOWN = 20


class Contestant:
    """A contestant's process. ``begin`` starts it, and the first call waits until it has begun.

    group
        The cgroup that it is in from its first instruction on; None: none.
    """

    def __init__(self, kind: str, checkpoint: Checkpoint, group: Optional[Group] = None,
                 **options: Any) -> None:
        words = {"kind": kind, "folder": checkpoint.folder, "files": checkpoint.files, **options}
        command = [sys.executable, "-m", f"{__package__}._contestant", json.dumps(words)]
        if group is not None:
            command = ["/bin/sh", "-c", 'echo $$ > "$0" && exec "$@"', group.procs, *command]
        self._kind = kind
        self._began = False
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=self._errors, text=True)

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Calls the contestant's method, and returns its result.

        Raises Skipped if its package is missing, RuntimeError with its errors if it fails or ends.
        """
        if not self._began:
            self._began = True
            self._answer()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps({"call": name, "arguments": arguments}), file=self._process.stdin,
                  flush=True)
        return self._answer()

    def end(self) -> None:
        """Ends the process, if it has not ended."""
        with contextlib.suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> "Contestant":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if kind is not None:
            self._process.kill()  # the contestant may be busy for long
        self.end()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            said = "".join(self._errors.readlines()[-_SHOWN:])
            raise RuntimeError(f"{self._kind} has ended with {self._process.wait()}:\n{said}")
        answer = json.loads(line)
        if "skipped" in answer:
            raise Skipped(answer["skipped"])
        if "error" in answer:
            raise RuntimeError(f"{self._kind}: {answer['error']}")
        value: dict[str, Any] = answer["value"]
        return value


@contextlib.contextmanager
def contestants(checkpoint: Checkpoint, kinds: dict[str, dict[str, Any]]
                ) -> Iterator[dict[str, Contestant]]:
    """Contestants by kind, started side by side, with the options of each."""
    module_of("accelerate", "accelerate")  # accelerate puts their models on meta
    with contextlib.ExitStack() as stack:
        yield {kind: stack.enter_context(Contestant(kind, checkpoint, **options))
               for kind, options in kinds.items()}
