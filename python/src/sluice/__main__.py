"""``python -m sluice doctor|train|lab|bench|state``: the command, in place of this process."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from . import _command


def main() -> NoReturn:
    """Runs the command with the arguments of this process."""
    os.execv(_command.path(), ["sluice", *sys.argv[1:]])


if __name__ == "__main__":
    main()
