"""Proves what tests/mutants/run_mutants.py counts as caught, with a suite that is a script."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "mutants"))
import run_mutants  # noqa: E402

SUITE = """#!/bin/sh
case "$*" in *list_tests*) printf 'S.\\n  Plain\\n'; exit 0;; esac
echo '[ RUN      ] S.Plain'
if [ "$SLUICE_MUTANT" = plain ]; then echo '[  FAILED  ] S.Plain (0 ms)'; exit 1; fi
echo '[       OK ] S.Plain (0 ms)'
case "$*" in *filter=S.Plain*) exit 0;; esac
echo '[  SKIPPED ] S.Root (0 ms)'
echo '[ RUN      ] S.Each/0'
case "$SLUICE_MUTANT" in
  fails) echo '[  FAILED  ] S.Each/0, where GetParam() = 1 (0 ms)'; exit 1;;
  aborts) kill -KILL $$;;
  hangs) exec sleep 600;;
esac
echo '[       OK ] S.Each/0 (0 ms)'
if [ "$SLUICE_MUTANT" = exits ]; then exit 3; fi
"""


class RunMutantsTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.suite = self.folder / "suite"
        self.suite.write_text(SUITE)
        self.suite.chmod(0o700)

    def run_all(self, *mutants, needs=None):
        """What is printed, line by line in words, and the exit code."""
        sources = self.folder / "sources"
        sources.mkdir()
        text = "".join(f'SLUICE_MUTANT("{mutant}")\n' for mutant in mutants)
        (sources / "planted.cc").write_text(text)
        printed = io.StringIO()
        command = ["run_mutants.py", "--suite", str(self.suite), "--sources", str(sources)]
        with mock.patch.multiple(run_mutants, CLASSES={mutant: "1" for mutant in mutants},
                                 NEEDS=needs or {}, PLAIN=["S.Plain"]), \
                mock.patch.object(sys, "argv", command), \
                contextlib.redirect_stdout(printed), \
                self.assertRaises(SystemExit) as ended:
            run_mutants.main()
        lines = [" ".join(line.split()) for line in printed.getvalue().splitlines()]
        return lines, ended.exception.code

    def test_what_fails_or_aborts_is_caught_and_its_test_named(self):
        self.assertEqual(self.run_all("fails", "aborts"), ([
            "1 fails S.Each/0",
            "1 aborts aborts in S.Each/0",
            "mutants: caught 2 of 2"], 0))

    def test_what_nothing_finds_or_a_plain_test_finds_is_not_caught(self):
        self.assertEqual(self.run_all("harmless", "plain"), ([
            "1 harmless NOT CAUGHT",
            "1 plain S.Plain (and by a plain round trip: S.Plain)",
            "mutants: caught 0 of 2"], 1))

    def test_an_end_in_no_test_is_no_verdict(self):
        self.assertEqual(self.run_all("exits"), ([
            "1 exits NO VERDICT: the suite ended with 3, in no test",
            "mutants: caught 0 of 1"], 1))

    def test_a_hang_is_no_verdict(self):
        with mock.patch.object(run_mutants, "SECONDS", 0.2), \
                self.assertRaisesRegex(run_mutants.NoVerdict, "no end within"):
            run_mutants.run(str(self.suite), "hangs", "*")
        self.assertEqual(run_mutants.running_test("[ RUN      ] A.B\n[       OK ] A.B (0 ms)\n"
                                                  "[ RUN      ] C.D\n"), "C.D")

    def test_what_cannot_be_tried_has_a_line_of_its_own_and_does_not_count(self):
        self.assertEqual(self.run_all("fails", "other", needs={"other": "S.Root"}), ([
            "1 fails S.Each/0",
            "mutants: 1 not tried: other (S.Root is skipped here)",
            "mutants: caught 1 of 1"], 0))


if __name__ == "__main__":
    unittest.main()
