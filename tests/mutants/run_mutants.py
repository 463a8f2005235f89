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
    "give-up-what-is-late": "14 slow I/O: done before its bytes moved",
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
    "claim-what-was-refused": "12 buffers not registered",
    "keep-what-is-registered": "12 memory given back while registered",
    "serve-a-child-of-fork": "21 fork",
    "keep-what-fallocate-left": "6 file system full",
    "claim-the-restriction": "23 ring does more than it should",
}
# What only such a test finds as the system does not allow everywhere; skipped there, and said.
NEEDS = {
    "keep-what-fallocate-left": "FullFileSystemTest.MoreThanIsFreeIsRefusedAndNothingIsKept",
    "claim-what-was-refused": "RegisteredMemoryTest.WhatTheLimitOfLockedMemoryRefusesWorksAsWell",
}
# On every engine.
PLAIN = "*PageStoreContract.ReadReturnsWhatWasWrittenInEverySlot/*"
SECONDS = 600


def planted(folders):
    names = set()
    for path in sorted(path for folder in folders for path in folder.iterdir()):
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
    parser.add_argument("--sources", required=True, nargs="+", type=pathlib.Path)
    arguments = parser.parse_args()
    names = planted(arguments.sources)
    wrong = sorted(names ^ set(CLASSES))
    if wrong:
        print("in the sources or in the table, but not in both:", *wrong)
    failed, skipped = run(arguments.suite, "", "*")
    if failed is not None:
        sys.exit(f"the suite fails without a planted bug: {failed}")
    listed = subprocess.run([arguments.suite, "--gtest_list_tests", f"--gtest_filter={PLAIN}"],
                            capture_output=True, check=True, text=True).stdout
    if "ReadReturnsWhatWasWritten" not in listed:
        sys.exit(f"there is no plain round trip {PLAIN}")
    caught = untried = 0
    for mutant, fault in CLASSES.items():
        if NEEDS.get(mutant) in skipped:
            untried += 1
            print(f"{fault:38} {mutant:38} NOT TRIED, {NEEDS[mutant]} is skipped here")
            continue
        plain, _ = run(arguments.suite, mutant, PLAIN)
        found, _ = run(arguments.suite, mutant, "*")
        good = found is not None and plain is None
        caught += good
        verdict = found or "NOT CAUGHT"
        print(f"{fault:38} {mutant:38} {verdict}{' (and by a plain round trip)' if plain else ''}")
        sys.stdout.flush()
    print(f"mutants: caught {caught} of {len(CLASSES)}, {untried} not tried")
    sys.exit(0 if caught + untried == len(CLASSES) and not wrong else 1)


if __name__ == "__main__":
    main()
