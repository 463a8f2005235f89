"""Runs the io suite and the short counter loop once for every planted bug: each must make a test
fail, and not the plain one.

Prints the table fault class x mutant x failing test, and `mutants: caught N of N`. Exit 1 when one
is not caught, when a plain round trip already finds it, or when the table and the sources differ.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

# What each stands for: the fault of docs/page-store.md that it mishandles.
CLASSES = {
    "accept-short-io": "short read or write",
    "resume-a-block-late": "short read or write",
    "drop-the-retry": "EINTR, EAGAIN, ENOMEM",
    "one-attempt-for-reads": "EIO of a read that passes",
    "report-done-when-attempts-are-used-up": "EIO of a read that stays",
    "reuse-a-lost-slot": "EIO of a read that stays",
    "full-is-an-internal-error": "ENOSPC of a write",
    "keep-a-failed-write": "EIO of a write",
    "skip-the-checksum": "flipped byte, torn write",
    "checksum-of-the-first-half": "flipped byte, torn write",
    "no-second-read": "flipped byte on the way",
    "checksum-without-page": "misdirected write",
    "checksum-without-generation": "lost write, stale page",
    "any-page-of-the-slot-will-do": "another identity asked for",
    "write-over-what-is-in-use": "completions out of order",
    "leave-it-to-the-page-cache": "O_DIRECT refused",
    "trust-the-kernel-with-alignment": "misaligned request",
    "old-writes-wait": "slow I/O: writes starve",
    "writes-starve-reads": "slow I/O: reads starve",
    "a-merged-request-is-whole": "short or failed merged request",
    "no-back-pressure": "more requests than room",
    "do-not-drain": "destruction with I/O in flight",
    "never-fence": "a drive that fails",
    "no-other-drive": "a drive refuses a write",
    "even-shares": "drives of different rates",
    "free-early": "slot given back while in use",
    "no-fallback": "io_uring refused",
    "the-end-is-done": "file truncated",
    "follow-the-link": "symlink in place of the directory",
    "share-the-directory": "world-writable directory",
    "leave-the-name": "killed: no file may stay",
    "claim-what-was-refused": "buffers not registered",
    "keep-what-is-registered": "memory given back while registered",
    "serve-a-child-of-fork": "fork",
    "keep-what-fallocate-left": "file system full",
    "claim-the-restriction": "ring does more than it should",
}
# What only such a test finds as the system does not allow everywhere; skipped there, and said.
NEEDS = {
    "keep-what-fallocate-left": "FullFileSystemTest.MoreThanIsFreeIsRefusedAndNothingIsKept",
    "claim-what-was-refused": "RegisteredMemoryTest.WhatTheLimitOfLockedMemoryRefusesWorksAsWell",
}
PLAIN = "*PageStoreContract.ReadReturnsWhatWasWrittenInEverySlot/Memory"
SECONDS = 600


def planted(sources):
    names = set()
    for path in sorted(sources.iterdir()):
        if path.suffix in (".cc", ".h") and path.name != "mutants.h":
            names.update(re.findall(r'SLUICE_MUTANT\("([^"]+)"\)', path.read_text()))
    return names


def run(suite, mutant, pattern):
    """The first failing test, None when all pass; and what was skipped."""
    command = [suite, "--gtest_brief=1", f"--gtest_filter={pattern}", "--gtest_fail_fast"]
    parent = os.environ.get("TEST_TMPDIR", os.environ.get("TMPDIR", "/var/tmp"))
    # A suite that stops in the middle leaves files behind.
    with tempfile.TemporaryDirectory(dir=parent) as place:
        environment = dict(os.environ, SLUICE_MUTANT=mutant, TMPDIR=place, TEST_TMPDIR=place)
        try:
            done = subprocess.run(command, env=environment, capture_output=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"no end within {SECONDS} s", set()
    skipped = set(re.findall(r"\[  SKIPPED \] (\S+)", done.stdout.decode()))
    if done.returncode == 0:
        return None, skipped
    failed = re.search(r"\[  FAILED  \] (\S+)", done.stdout.decode())
    return failed.group(1) if failed else f"the suite ended with {done.returncode}", skipped


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", required=True)
    parser.add_argument("--sources", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    names = planted(arguments.sources)
    wrong = sorted(names ^ set(CLASSES))
    if wrong:
        print("in the sources or in the table, but not in both:", *wrong)
    failed, skipped = run(arguments.suite, "", "*")
    if failed is not None:
        sys.exit(f"the suite fails without a planted bug: {failed}")
    caught = untried = 0
    for mutant, fault in CLASSES.items():
        if NEEDS.get(mutant) in skipped:
            untried += 1
            print(f"{fault:34} {mutant:38} NOT TRIED, {NEEDS[mutant]} is skipped here")
            continue
        plain, _ = run(arguments.suite, mutant, PLAIN)
        found, _ = run(arguments.suite, mutant, "*")
        good = found is not None and plain is None
        caught += good
        verdict = found or "NOT CAUGHT"
        print(f"{fault:34} {mutant:38} {verdict}{' (and by a plain round trip)' if plain else ''}")
        sys.stdout.flush()
    print(f"mutants: caught {caught} of {len(CLASSES)}, {untried} not tried")
    sys.exit(0 if caught + untried == len(CLASSES) and not wrong else 1)


if __name__ == "__main__":
    main()
