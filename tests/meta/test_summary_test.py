"""Proves that scripts/test_summary.py counts gtest cases and shows every skip with its reason."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "test_summary.py"

PASSING = """1/3 Testing: base_test
1/3 Test: base_test
Output:
----------------------------------------------------------
[==========] 46 tests from 13 test suites ran. (50 ms total)
[  PASSED  ] 46 tests.
<end of output>
Test Passed.
"""
SKIPPING = """2/3 Testing: io_test
Output:
----------------------------------------------------------
tests/io/store/page_store_test.cc:12: Skipped
io_uring is refused by this kernel: EPERM

[==========] 3 tests from 1 test suite ran. (5 ms total)
[  PASSED  ] 2 tests.
[  SKIPPED ] 1 test, listed below:
<end of output>
Test Passed.
"""
FAILING = """3/3 Testing: core_test
Output:
----------------------------------------------------------
[  FAILED  ] CoreTest.A (1 ms)
[==========] 5 tests from 1 test suite ran. (5 ms total)
[  PASSED  ] 4 tests.
<end of output>
Test Failed.
"""
CRASHING = """1/2 Testing: crash_test
Output:
----------------------------------------------------------
Segmentation fault
<end of output>
Test Failed.
"""
CRASHING_AT_EXIT = """2/2 Testing: exit_test
Output:
----------------------------------------------------------
[==========] 5 tests from 1 test suite ran. (5 ms total)
[  PASSED  ] 5 tests.
leak
<end of output>
Test Failed.
"""
SCRIPTED = """1/1 Testing: tidy_self_test
Output:
----------------------------------------------------------
Ran 27 tests in 0.2s

OK
<end of output>
Test Passed.
"""


def summary(**logs):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in logs.items():
            (pathlib.Path(folder) / f"{name}.ctest").write_text(text)
        return subprocess.run([sys.executable, "-B", str(SCRIPT), folder], capture_output=True,
                              text=True, check=True).stdout.splitlines()


class TestSummaryTest(unittest.TestCase):

    def test_counts_cases(self):
        self.assertEqual(summary(release=PASSING), ["46 passed, 0 failed, 0 skipped"])

    def test_shows_a_skip_with_its_reason_and_place(self):
        self.assertEqual(summary(release=PASSING + SKIPPING), [
            "skipped: release io_test: io_uring is refused by this kernel: EPERM "
            "(tests/io/store/page_store_test.cc:12)",
            "48 passed, 0 failed, 1 skipped"])

    def test_counts_failures_and_crashes(self):
        self.assertEqual(summary(a=PASSING + SKIPPING + FAILING)[-1], "52 passed, 1 failed, 1 skipped")
        self.assertEqual(summary(a=CRASHING + CRASHING_AT_EXIT)[-1], "4 passed, 2 failed, 0 skipped")

    def test_shows_why_a_test_failed(self):
        text = FAILING.replace("[  FAILED", "tests/core_test.cc:7: Failure\nExpected: 1\n  Actual: 2\n[  FAILED")
        noise = "".join(f"line {i}\n" for i in range(50))
        text = text.replace("tests/core", noise + "tests/core", 1)
        self.assertEqual(summary(**{"tsan-2": text})[:-1], [
            f"failed: tsan core_test: {line}" for line in (
                "tests/core_test.cc:7: Failure", "Expected: 1", "  Actual: 2", "[  FAILED  ] CoreTest.A (1 ms)",
                "[==========] 5 tests from 1 test suite ran. (5 ms total)", "[  PASSED  ] 4 tests.")])

    def test_shows_every_failed_case_and_the_end_of_a_crash(self):
        cases = "".join(f"[  FAILED  ] CoreTest.{i} (1 ms)\n" for i in range(3))
        text = FAILING.replace("[  FAILED", "a.cc:7: Failure\n" + "more\n" * 30 + cases + "[  FAILED", 1)
        shown = summary(a=text)
        self.assertEqual(shown[0], "failed: a core_test: a.cc:7: Failure")
        self.assertEqual(shown[20:-1], [f"failed: a core_test: [  FAILED  ] CoreTest.{name} (1 ms)"
                                        for name in ("0", "1", "2", "A")])
        self.assertEqual(summary(a=CRASHING)[0], "failed: a crash_test: Segmentation fault")

    def test_counts_scripts_and_adds_logs_up(self):
        self.assertEqual(summary(a=SCRIPTED, b=PASSING), ["73 passed, 0 failed, 0 skipped"])


if __name__ == "__main__":
    unittest.main()
