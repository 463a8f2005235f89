"""The command `sluice`, which the package carries."""

from __future__ import annotations

import json
import pathlib
import subprocess
from typing import Any, Optional

from . import errors
from ._checks import path_of
from ._options import Directory


def path() -> str:
    """The command's file."""
    return str(pathlib.Path(__file__).parent / "bin" / "sluice")


def doctor(directory: Optional[Directory] = None, *, measure: bool = False) -> list[dict[str, Any]]:
    """Report of this machine's features, sluice's choices and their reasons: a dict per section.

    directory
        The spill directory to look at; None: /var/tmp/sluice-<uid>.
    measure
        Measures the links, too: about two seconds.

    ``python -m sluice doctor`` prints the same for people. Raises FailedPrecondition if the
    directory cannot be used.
    """
    words = [path(), "doctor", "--json"]
    if measure:
        words.append("--measure")
    if directory is not None:
        words += ["--directory", path_of("directory", directory)]
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise errors.FailedPrecondition(ran.stderr.strip().removeprefix("sluice: "))
    return [json.loads(line) for line in ran.stdout.splitlines()]
