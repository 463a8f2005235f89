"""Keys of the configuration that Runtime has arguments for."""

from __future__ import annotations

import re

# Keys by argument.
KEY_OF = {
    "hbm": "tiers.hbm.bytes",
    "dram": "tiers.dram.bytes",
    "nvme": "tiers.nvme.directory",
    "nvme_bytes": "tiers.nvme.bytes",
}

_ARGUMENT_OF = {key: name for name, key in KEY_OF.items()}
# A key in a message, with the field of C++ if that follows. One in parentheses has been replaced.
_KEY = re.compile(r"(?<![(\"])\b(%s)\b(?: \(RuntimeOptions::\w+\))?" % "|".join(map(re.escape, _ARGUMENT_OF)))


def with_arguments(message: str) -> str:
    """The message with "dram (tiers.dram.bytes)" in place of the key alone."""
    return _KEY.sub(lambda found: f"{_ARGUMENT_OF[found[1]]} ({found[1]})", message)
