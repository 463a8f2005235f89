#!/usr/bin/env python3
"""Says which part of the long mode is due, and keeps the record of the runs.

    scripts/long_runs.py next FILE        the part whose last run is the oldest
    scripts/long_runs.py newest FILE      the part of the last line, the first that is due if there is none
    scripts/long_runs.py add FILE PART COMMIT MINUTES

FILE holds a line per run, the newest last: part, commit that was tested, minutes. A line that begins
with # is a comment. Exit 2 when FILE names a part that does not exist.
"""

import pathlib
import sys

# Parts in the order in which they become due if they never ran.
PARTS = ["clang-tidy", "slow", "asan", "tsan", "fuzz"]


def runs(text):
    """The parts that ran, the oldest first."""
    named = [line.split()[0] for line in text.splitlines() if line.strip() and not line.startswith("#")]
    unknown = sorted(set(named) - set(PARTS))
    if unknown:
        raise ValueError(f"no such part: {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    return named


def next_part(text):
    named = runs(text)
    return min(PARTS, key=lambda part: len(named) - named[::-1].index(part) if part in named else 0)


def newest_part(text):
    named = runs(text)
    return named[-1] if named else next_part(text)


def main(arguments):
    try:
        action, file, *run = arguments
        text = pathlib.Path(file).read_text()
        if action == "add" and len(run) == 3:
            line = "{:<10} {} {:>3}\n".format(*run)
            runs(line)
            pathlib.Path(file).write_text(text + line)
        elif run or action not in ("next", "newest"):
            raise ValueError("usage: long_runs.py next|newest FILE, or add FILE PART COMMIT MINUTES")
        else:
            print(next_part(text) if action == "next" else newest_part(text))
    except (OSError, ValueError) as error:
        print(f"long_runs: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
