"""``python -m sluice doctor|train|lab|bench|state|weights``: the command, in place of this process.

``python -m sluice generate`` is a program of the package itself.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from . import _command


def main() -> NoReturn:
    """Runs the command with the arguments of this process."""
    if sys.argv[1:2] == ["generate"]:
        from . import _generate

        sys.exit(_generate.main(sys.argv[2:]))
    os.execv(_command.path(), ["sluice", *sys.argv[1:]])


if __name__ == "__main__":
    main()
