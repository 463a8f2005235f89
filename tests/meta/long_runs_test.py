#!/usr/bin/env python3
"""Proves which part of the long mode scripts/long_runs.py calls due, and how it keeps the record."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "long_runs.py"
PARTS = ["clang-tidy", "slow", "asan", "tsan", "fuzz"]


class LongRunsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "runs.txt"
        self.write()

    def write(self, *parts):
        lines = ["# a comment", ""] + [f"{part} 0123456789 7" for part in parts]
        self.file.write_text("\n".join(lines) + "\n")

    def call(self, action, *words):
        """Exit code, and what was printed."""
        run = subprocess.run([sys.executable, SCRIPT, action, self.file, *words],
                             capture_output=True, text=True)
        return run.returncode, (run.stdout + run.stderr).strip()

    def test_a_part_that_never_ran_is_due_first(self):
        self.assertEqual(self.call("next"), (0, PARTS[0]))
        self.write("asan", "clang-tidy")
        self.assertEqual(self.call("next"), (0, "slow"))

    def test_then_the_part_whose_last_run_is_the_oldest(self):
        self.write(*PARTS)
        self.assertEqual(self.call("next"), (0, PARTS[0]))
        self.write(*PARTS, PARTS[0], PARTS[2])
        self.assertEqual(self.call("next"), (0, PARTS[1]))

    def test_five_runs_in_turn_are_the_five_parts(self):
        named = []
        for _ in PARTS:
            named.append(self.call("next")[1])
            self.assertEqual(self.call("add", named[-1], "0123456789", "7"), (0, ""))
        self.assertEqual(sorted(named), sorted(PARTS))

    def test_the_newest_is_that_of_the_last_line(self):
        self.assertEqual(self.call("newest"), self.call("next"))
        self.write("fuzz", "tsan")
        self.assertEqual(self.call("newest"), (0, "tsan"))

    def test_a_run_is_added_below_the_others(self):
        self.write("fuzz")
        before = self.file.read_text()
        self.assertEqual(self.call("add", "asan", "abcdef0123", "11")[0], 0)
        self.assertEqual(self.file.read_text(), before + "asan       abcdef0123  11\n")

    def test_what_is_wrong_is_named(self):
        self.write("speed")
        code, text = self.call("next")
        self.assertEqual(code, 2)
        self.assertIn("no such part: speed; the parts are clang-tidy", text)
        self.write()
        self.assertIn("no such part: speed", self.call("add", "speed", "0123456789", "7")[1])
        self.assertEqual(self.call("forget")[0], 2)


if __name__ == "__main__":
    unittest.main()
