#!/usr/bin/env python3
"""scripts/gpu_check.sh beside stand-ins for gpu_test and sluice: which cases run, and what counts as passed."""

import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

CHECK = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu_check.sh"

FATAL = "Running main() from a file\nGpu/CudaFatalTruthTest.\n  First/0  # GetParam() = 1\n  Second/0\n"
PASSED = "[  PASSED  ] 3 tests.\n"
CASES = ["addresses", "truths", "contract", "engine", "rates", "page-in", "weights", "fatal truth First/0",
         "fatal truth Second/0"]


class GpuCheckTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        shutil.copy(CHECK, self.root / "gpu_check.sh")
        self.stand_in()
        self.write("sluice", '#!/bin/sh\necho \'{"case":"row"}\'\n')

    def write(self, name, text):
        (self.root / name).write_text(text)
        (self.root / name).chmod(0o755)

    def stand_in(self, fatal=FATAL, contract=PASSED, status=0):
        """A gpu_test with these fatal truths, and this output and exit status of the contract suite."""
        self.write("gpu_test", f"""#!/bin/sh
case "$*" in
  *Fatal*list_tests*) printf '%s' '{fatal}' ;;
  *list_tests*) printf '%sGpuTest.\\n  One\\n' '{fatal}' ;;
  *ACaptured*) printf 'file:1: Skipped\\nno driver here\\n' ;;
  *DeviceContract*) printf '%s' '{contract}'; exit {status} ;;
  *) echo "$*" >>'{self.root}/calls'; printf '%s' '{PASSED}' ;;
esac
""")

    def check(self, *words, seconds=0, path="/usr/bin:/bin"):
        """The exit status, and the lines by case."""
        run = subprocess.run(["bash", self.root / "gpu_check.sh", *words, "out.jsonl"], cwd=self.root,
                             env={"PATH": path, "SECONDS": str(seconds)}, capture_output=True,
                             text=True)
        self.errors = run.stderr
        file = self.root / "out.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        self.assertEqual([json.loads(line) for line in run.stdout.splitlines()], lines)
        return run.returncode, {line["case"]: line for line in lines}

    def test_every_case_passes(self):
        status, lines = self.check()
        self.assertEqual((status, self.errors), (0, ""))
        self.assertEqual([case for case in lines if case not in ("machine", "row", "nvme", "memcheck")], CASES)
        self.assertEqual(lines["nvme"], {"case": "nvme", "left_out": "no --dir"})
        self.assertEqual(lines["memcheck"]["left_out"], "no compute-sanitizer")
        for case in CASES:
            self.assertEqual(lines[case]["status"], 0)
        self.assertEqual(lines["contract"]["passed"], 3)
        calls = (self.root / "calls").read_text()
        self.assertIn("--gtest_filter=Gpu/CudaFatalTruthTest.Second/0", calls)

    def test_a_case_that_fails_is_counted_and_logged(self):
        self.stand_in(contract="[  FAILED  ] 2 tests, listed below:\nwhy", status=1)
        status, lines = self.check()
        self.assertEqual(status, 1)
        self.assertEqual((lines["contract"]["status"], lines["contract"]["failed"]), (1, 2))
        self.assertIn("== contract\n", (self.root / "out.jsonl.log").read_text())
        self.assertEqual(lines["fatal truth Second/0"]["status"], 0)

    def test_a_case_without_a_passed_test_has_failed(self):
        self.stand_in(contract="[  SKIPPED ] 4 tests, listed below:\n")
        status, lines = self.check()
        self.assertEqual((status, lines["contract"]["status"], lines["contract"]["skipped"]), (1, 1, 4))

    def test_rows_that_are_none_have_failed(self):
        self.write("sluice", "#!/bin/sh\necho nothing to measure >&2\n")
        status, lines = self.check()
        self.assertEqual((status, lines["rates"]["status"], lines["weights"]["status"]), (1, 1, 1))
        self.assertIn("nothing to measure", (self.root / "out.jsonl.log").read_text())

    def test_a_row_below_its_target_has_failed(self):
        self.write("sluice", '#!/bin/sh\necho \'{"case":"row","ratio":0.5,"reached":false}\'\n')
        status, lines = self.check()
        self.assertEqual((status, lines["rates"]["status"]), (1, 1))
        self.assertIn('"ratio":0.5', (self.root / "out.jsonl.log").read_text())

    def test_memcheck_runs_where_there_is_one(self):
        self.write("compute-sanitizer", f'#!/bin/sh\necho "$*" >>"{self.root}/calls"\nprintf "%s" "{PASSED}"\n')
        status, lines = self.check(path=f"/usr/bin:/bin:{self.root}")
        self.assertEqual((status, lines["memcheck"]["passed"]), (0, 3))
        self.assertIn("--report-api-errors no --error-exitcode 9", (self.root / "calls").read_text())

    def test_nothing_begins_after_five_minutes(self):
        status, lines = self.check(seconds=300)
        self.assertEqual(status, 1)
        for case in CASES:
            self.assertEqual((lines[case]["status"], lines[case]["limit_s"]), (124, 0))
        self.assertFalse((self.root / "calls").exists())

    def test_without_a_gpu_nothing_is_written(self):
        self.stand_in(fatal="")
        self.assertEqual(self.check(), (2, {}))
        self.assertEqual(self.errors, "gpu_check.sh: no driver here\n")


if __name__ == "__main__":
    unittest.main()
