#!/usr/bin/env python3
"""Counts the tests in ctest logs, and lists every skipped one with its reason and what failed ones say.

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
FAILED_CASE = re.compile(r"^\[  FAILED  \] \S+ \(", re.M)
FAILURE = re.compile(r": Failure$|Sanitizer|runtime error: |^(FAIL|ERROR): |Fatal Python error")
# Lines shown of a failed test, from the first that says why.
WHY_LINES = 20
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


def why(section):
    """Lines that tell why a ctest failed: some from the first failure on, and its gtest cases."""
    output = re.split(r"^-{20,}\n", section, maxsplit=1, flags=re.M)[-1].split("<end of output>")[0]
    lines = [line for line in output.splitlines() if line.strip()]
    first = next((i for i, line in enumerate(lines) if FAILURE.search(line)), len(lines) - WHY_LINES)
    shown = lines[max(0, first):][:WHY_LINES]
    return shown + [line for line in lines if FAILED_CASE.match(line) and line not in shown]


def sections(text):
    starts = list(TEST.finditer(text))
    for start, end in zip(starts, starts[1:] + [None]):
        yield start.group(1), text[start.end():end.start() if end else len(text)]


def main(folder):
    totals, reasons, failures = [0, 0, 0], [], []
    for log in sorted(pathlib.Path(folder).glob("*.ctest")):
        for name, section in sections(log.read_text(errors="replace")):
            totals = [total + part for total, part in zip(totals, count(section))]
            preset = log.stem.split("-")[0]
            reasons += [f"{preset} {name}: {reason or 'no reason given'} ({place})"
                        for place, reason in REASON.findall(section)]
            if "\nTest Passed.\n" not in section:
                failures += [f"{preset} {name}: {line}" for line in why(section)]
    for reason in reasons:
        print(f"skipped: {reason}")
    for line in failures:
        print(f"failed: {line}")
    print("%d passed, %d failed, %d skipped" % tuple(totals))


if __name__ == "__main__":
    main(sys.argv[1])
