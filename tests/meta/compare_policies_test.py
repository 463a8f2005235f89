#!/usr/bin/env python3
"""scripts/compare_policies.sh with a stand-in for `sluice`, and once with the command itself (its path is the argument)."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TINY = ROOT / "configs" / "train-gpt-tiny.toml"
command = None

# Takes 100 ms a step, then 200, then 300; lru half as long again, and its last run twice as long.
STAND_IN = """#!/bin/sh
echo "$@" >>{log}
runs=$(wc -l <{log})
round=$(((runs + 1) / 2))
case "$*" in
  *policy=lru) ms=$((150 * round + 150 * (round / 3))) loss={loss} ;;
  *policy=bad) echo 'sluice: "scheduler.policy" is "bad"' >&2; exit 2 ;;
  *) ms=$((100 * round)) loss=2.5 ;;
esac
echo "step lines" >&2
echo '{{"step_ms_median": '$ms', "stall_fraction": 0.25, "loss_first": 4.5, "loss_last": '$loss', "val_loss": 3.5}}'
"""


class ComparePoliciesTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.log = self.directory / "log"
        self.stand_in()

    def stand_in(self, loss="2.5"):
        self.sluice = self.directory / "sluice"
        self.sluice.write_text(STAND_IN.format(log=self.log, loss=loss))
        self.sluice.chmod(0o755)

    def compare(self, *words):
        script = ROOT / "scripts" / "compare_policies.sh"
        return subprocess.run([script, "--sluice", self.sluice, *words], cwd=self.directory,
                              capture_output=True, text=True)

    def test_runs_in_turn_and_compares_each_round_with_itself(self):
        run = self.compare("--policies", "planned lru", "--rounds=3", "--config", TINY, "--set", "train.seed=7")
        self.assertEqual(run.returncode, 0, run.stderr)
        words = f"train --config {TINY} --json --set train.steps=10 --set train.seed=7 --set scheduler.policy="
        self.assertEqual(self.log.read_text().splitlines(), [words + "planned", words + "lru"] * 3)
        rows = [line.split() for line in run.stdout.splitlines()[1:]]
        self.assertEqual(rows, [["planned", "200.0", "1.000", "1.000", "1.000", "25.0", "%"],
                                ["lru", "300.0", "1.500", "1.500", "2.000", "25.0", "%"]])

    def test_a_loss_that_differs_is_an_error(self):
        self.stand_in(loss="2.25")
        run = self.compare("--policies", "planned lru", "--rounds", "1")
        self.assertEqual(run.returncode, 1)
        self.assertIn("loss_last is 2.5, under lru 2.25", run.stderr)

    def test_a_run_that_fails_says_why(self):
        run = self.compare("--policies", "planned bad")
        self.assertEqual(run.returncode, 2)
        self.assertIn('sluice: "scheduler.policy" is "bad"\ncompare_policies: the run under bad failed', run.stderr)
        self.assertEqual(run.stdout, "")

    def test_bad_words_are_refused_before_any_run(self):
        for words, message in [(["--policies", " "], "--policies is empty"),
                               (["--policies", "lru min lru"], "lru is named twice"),
                               (["--rounds", "0"], '--rounds is "0"; allowed are 1 to 9999'),
                               (["--rounds=many"], '--rounds is "many"'),
                               (["--rounds"], "--rounds needs a value"),
                               (["--json"], "leave it out"),
                               (["--config", "none.toml"], "none.toml cannot be read"),
                               (["--sluice", "none"], "none is no program")]:
            with self.subTest(words=words):
                run = self.compare(*words)
                self.assertEqual((run.returncode, run.stdout), (2, ""))
                self.assertIn(message, run.stderr)
        self.assertFalse(self.log.exists())

    def test_compares_real_runs(self):
        self.sluice = command
        text = self.directory / "text"
        text.write_text("the quick brown fox and its page\n" * 600)
        run = self.compare("--policies", "lru min", "--rounds", "1", "--config", TINY, "--text", text, "--set",
                           "train.steps=2", "--set", f"tiers.nvme.directory={self.directory}")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual([line.split()[0] for line in run.stdout.splitlines()], ["policy", "lru", "min"])


if __name__ == "__main__":
    command = pathlib.Path(sys.argv.pop()).resolve()
    unittest.main()
