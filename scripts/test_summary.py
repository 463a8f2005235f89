#!/usr/bin/env python3
"""Counts the tests in ctest logs, and lists every skipped one with its reason.

    scripts/test_summary.py LOG_FOLDER

Reads the files *.ctest of the folder (copies of Testing/Temporary/LastTest.log). A gtest binary counts
as its cases, any other test as one. The last line is "N passed, N failed, N skipped".
"""

import pathlib
import re
import sys

TEST = re.compile(r"^\d+/\d+ Testing: (\S+)$", re.M)
RAN = re.compile(r"^\[=+\] (\d+) tests? from \d+ test suites? ran", re.M)
PASSED = re.compile(r"^\[  PASSED  \] (\d+) test", re.M)
SKIPPED = re.compile(r"^\[  SKIPPED \] (\d+) test", re.M)
UNITTEST = re.compile(r"^Ran (\d+) tests? in", re.M)
REASON = re.compile(r"^(\S+:\d+): Skipped\n(.*)$", re.M)


def count(section):
    """(passed, failed, skipped) of the log of one ctest."""
    succeeded = "\nTest Passed.\n" in section
    ran = RAN.search(section)
    if not ran:
        cases = UNITTEST.search(section)
        number = int(cases.group(1)) if cases and succeeded else 1
        return (number, 0, 0) if succeeded else (0, 1, 0)
    number, passed, skipped = (int(m.group(1)) if m else 0
                               for m in (ran, PASSED.search(section), SKIPPED.search(section)))
    # A binary that ends badly after its last case has failed even so.
    failed = max(number - passed - skipped, 0 if succeeded else 1)
    return number - failed - skipped, failed, skipped


def sections(text):
    starts = list(TEST.finditer(text))
    for start, end in zip(starts, starts[1:] + [None]):
        yield start.group(1), text[start.end():end.start() if end else len(text)]


def main(folder):
    totals, reasons = [0, 0, 0], []
    for log in sorted(pathlib.Path(folder).glob("*.ctest")):
        for name, section in sections(log.read_text(errors="replace")):
            totals = [total + part for total, part in zip(totals, count(section))]
            reasons += [f"{log.stem.split('-')[0]} {name}: {reason or 'no reason given'} ({place})"
                        for place, reason in REASON.findall(section)]
    for reason in reasons:
        print(f"skipped: {reason}")
    print("%d passed, %d failed, %d skipped" % tuple(totals))


if __name__ == "__main__":
    main(sys.argv[1])
