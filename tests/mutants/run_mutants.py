"""Runs the io suite and the short counter loop once for every planted bug: each must make a test
fail, and not a plain one.

Prints the table fault class x mutant x failing test ("aborts in TEST" where the suite ends in the
middle of it), what cannot be tried here, and `mutants: caught N of N`. Exit 1 when one is not caught,
when a plain round trip already finds it, when a run does not end or names no test, or when the table
and the sources differ.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# What each stands for: the fault of docs/page-store.md that it mishandles, with its number there.
CLASSES = {
    "accept-short-io": "1 short read or write",
    "resume-a-block-late": "1 short read or write",
    "drop-the-retry": "2 EINTR, EAGAIN, ENOMEM",
    "one-attempt-for-reads": "3 EIO of a read that passes",
    "report-done-when-attempts-are-used-up": "4 EIO of a read that stays",
    "reuse-a-lost-slot": "5 EIO of a read that stays",
    "full-is-an-internal-error": "6 ENOSPC of a write",
    "keep-a-failed-write": "6 EIO of a write",
    "skip-the-checksum": "7 flipped byte, torn write",
    "checksum-of-the-first-half": "7 flipped byte, torn write",
    "no-second-read": "7 flipped byte on the way",
    "checksum-without-page": "8 misdirected write",
    "swap-two-slots": "8 misdirected write",
    "checksum-without-generation": "8 lost write, stale page",
    "a-page-of-any-segment-will-do": "8 another identity asked for",
    "tell-the-oldest": "15 completions out of order",
    "write-over-what-is-in-use": "15 slot written while in use",
    "leave-it-to-the-page-cache": "16 O_DIRECT refused",
    "trust-the-kernel-with-alignment": "16 misaligned request",
    "give-up-what-is-late": "14 slow I/O: done before it has moved",
    "report-no-stall": "14 slow I/O: nobody is told",
    "old-writes-wait": "14 slow I/O: writes starve",
    "writes-starve-reads": "14 slow I/O: reads starve",
    "a-merged-request-is-whole": "1 short or failed merged request",
    "no-back-pressure": "13 more requests than room",
    "fill-the-ring": "13 more requests than the ring holds",
    "do-not-drain": "20 destruction with I/O in flight",
    "never-fence": "6 a drive that fails",
    "no-other-drive": "6 a drive refuses a write",
    "even-shares": "14 drives of different rates",
    "free-early": "15 slot given back while in use",
    "no-fallback": "11 io_uring refused",
    "the-end-is-done": "24 file truncated",
    "follow-the-link": "23 symlink in place of the directory",
    "share-the-directory": "23 world-writable directory",
    "leave-the-name": "27 killed: no file may stay",
    "leave-files-to-the-ring": "27 ended: space comes back later",
    "claim-what-was-refused": "12 buffers not registered",
    "keep-what-is-registered": "12 memory given back while registered",
    "serve-a-child-of-fork": "21 fork",
    "keep-what-fallocate-left": "6 file system full",
    "claim-the-restriction": "23 ring does more than it should",
}
# What only such a test finds as the system does not allow everywhere; skipped there, and said.
NEEDS = {
    "claim-what-was-refused": "RegisteredMemoryTest.WhatTheLimitOfLockedMemoryRefusesWorksAsWell",
}
# Of a store on every engine, and of several drives as one.
PLAIN = [
    "*PageStoreContract.ReadReturnsWhatWasWrittenInEverySlot/*",
    "DriveSetTest.PagesComeBackFromWhicheverDriveHasThem",
]
ALL = "*-Slow*:*/Slow*"
SECONDS = 600

BEGUN = re.compile(r"\[ RUN      \] (\S+)")
ENDED = re.compile(r"\[(?:       OK |  FAILED  |  SKIPPED )\] ([^\s,]+)")
FAILED = re.compile(r"\[  FAILED  \] ([^\s,]+)")
SKIPPED = re.compile(r"\[  SKIPPED \] ([^\s,]+)")


class NoVerdict(Exception):
    """A run that says nothing about the planted bug."""


def planted(folders):
    names = set()
    for path in sorted(path for folder in folders for path in folder.rglob("*")):
        if path.suffix in (".cc", ".h") and path.name != "mutants.h":
            names.update(re.findall(r'SLUICE_MUTANT\("([^"]+)"\)', path.read_text()))
    return names


def running_test(output):
    """That had not ended when the suite did, or None."""
    begun = BEGUN.findall(output)
    return begun[-1] if begun and begun[-1] not in ENDED.findall(output) else None


def failing_test(output, code):
    """The first one by its name, None when all pass."""
    if code == 0:
        return None
    failed = FAILED.search(output)
    if failed:
        return failed.group(1)
    running = running_test(output)
    if running is None:
        raise NoVerdict(f"the suite ended with {code}, in no test")
    return f"aborts in {running}"


def run(suite, mutant, pattern):
    """The first failing test, None when all pass; and what was skipped."""
    command = [suite, f"--gtest_filter={pattern}", "--gtest_fail_fast", "--gtest_brief=0"]
    parent = os.environ.get("TEST_TMPDIR", os.environ.get("TMPDIR", "/var/tmp"))
    # A suite that stops in the middle leaves files behind.
    with tempfile.TemporaryDirectory(dir=parent) as place:
        environment = dict(os.environ, SLUICE_MUTANT=mutant, TMPDIR=place, TEST_TMPDIR=place)
        try:
            done = subprocess.run(command, env=environment, capture_output=True, timeout=SECONDS)
        except subprocess.TimeoutExpired as stopped:
            running = running_test((stopped.stdout or b"").decode(errors="replace"))
            raise NoVerdict(f"no end within {SECONDS} s, in {running}") from None
    output = done.stdout.decode(errors="replace")
    return failing_test(output, done.returncode), set(SKIPPED.findall(output))


def skipped_without_bug(suite):
    """Ends the program where the suite or the plain tests are not as they must be."""
    for pattern in PLAIN:
        listed = subprocess.run([suite, "--gtest_list_tests", f"--gtest_filter={pattern}"],
                                capture_output=True, check=True, text=True).stdout
        if "\n  " not in listed:
            sys.exit(f"there is no plain round trip {pattern}")
    try:
        failed, skipped = run(suite, "", ALL)
    except NoVerdict as none:
        failed = none
    if failed is not None:
        sys.exit(f"the suite fails without a planted bug: {failed}")
    return skipped


def is_caught(suite, mutant):
    """Prints by what."""
    try:
        plain, _ = run(suite, mutant, ":".join(PLAIN))
        found, _ = run(suite, mutant, ALL)
    except NoVerdict as none:
        print(f"{CLASSES[mutant]:38} {mutant:38} NO VERDICT: {none}", flush=True)
        return False
    verdict = found or "NOT CAUGHT"
    seen = f" (and by a plain round trip: {plain})" if plain else ""
    print(f"{CLASSES[mutant]:38} {mutant:38} {verdict}{seen}", flush=True)
    return found is not None and plain is None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--sources", required=True, nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    wrong = sorted(planted(arguments.sources) ^ set(CLASSES))
    if wrong:
        print("in the sources or in the table, but not in both:", *wrong)
    skipped = skipped_without_bug(arguments.suite)
    untried = [f"{mutant} ({test} is skipped here)"
               for mutant, test in NEEDS.items() if test in skipped]
    tried = [mutant for mutant in CLASSES if NEEDS.get(mutant) not in skipped]
    caught = sum(is_caught(arguments.suite, mutant) for mutant in tried)
    if untried:
        print(f"mutants: {len(untried)} not tried:", ", ".join(untried))
    print(f"mutants: caught {caught} of {len(tried)}")
    sys.exit(0 if caught == len(tried) and not wrong else 1)


if __name__ == "__main__":
    main()
