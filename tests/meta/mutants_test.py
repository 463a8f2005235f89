"""Proves what scripts/mutants.sh counts as found, in a tree of stand-ins."""

import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "mutants.sh"

# The stand-ins "compile" by copying, so that a test binary is its one source, a shell script.
NINJA = """#!/bin/sh
case "$*" in
  *targets*) echo 'io/CMakeFiles/io.dir/file/a.cc.o: CXX_COMPILER__io_unscanned_RelWithDebInfo';;
  *commands*a.cc.o) echo "./copy ROOT/io/file/a.cc io/CMakeFiles/io.dir/file/a.cc.o";;
  *commands*a_test) echo ": && ./link -o bin/a_test io/liba.a && :";;
esac
"""
SUITE = """#!/bin/sh
case "$1" in *skipped) echo '[  SKIPPED ] A.B';; esac
case "$1" in *none) echo '[==========] 0 tests from 0 test suites ran. (0 ms total)'; exit 0;; esac
echo '[==========] 1 test from 1 test suite ran. (0 ms total)'
exit 0
"""
PATCH = """--- a/io/file/a.cc
+++ b/io/file/a.cc
@@ -5,2 +5,2 @@
 echo '[==========] 1 test from 1 test suite ran. (0 ms total)'
-exit 0
+exit %s
"""


class MutantsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.write("scripts/mutants.sh", SCRIPT.read_text())
        self.write("io/file/a.cc", SUITE)
        self.write("path/cmake", "#!/bin/sh\n")
        self.write("path/ninja", NINJA.replace("ROOT", str(self.root)))
        self.write("build/mutants/copy", '#!/bin/sh\ncp "$1" "$2"\n')
        self.write("build/mutants/link", '#!/bin/sh\ncp "$1" "$3" && chmod +x "$3"\n')
        self.write("build/mutants/bin/a_test", SUITE)

    def write(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
        return file

    def plant(self, *bugs):
        """Each bug is a name, the exit status of its test, and the test's filter."""
        for name, status, _ in bugs:
            self.write(f"tests/mutants/io/file/{name}.patch", PATCH % status)
        table = "".join(f"io/file/{name} a_test {test}\n" for name, _, test in bugs)
        self.write("tests/mutants/mutants.txt", "# A heading.\n\n" + table)

    def run_script(self, *words):
        """The lines that it prints, sorted but for the last, and its exit status."""
        environment = {**os.environ, "TMPDIR": str(self.root), "PATH": f"{self.root / 'path'}:{os.environ['PATH']}"}
        run = subprocess.run([self.root / "scripts" / "mutants.sh", *words], env=environment,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return [" ".join(line.split()) for line in run.stdout.splitlines()], run.returncode

    def test_a_test_that_fails_has_found_the_bug(self):
        self.plant(("fails", "1", "A.B"))
        self.assertEqual(self.run_script(), (["io/file/fails found by A.B", "mutants: found 1 of 1"], 0))

    def test_a_test_that_passes_has_not(self):
        self.plant(("harmless", "0 # still", "A.B"))
        self.assertEqual(self.run_script(), (["io/file/harmless NOT FOUND by A.B", "mutants: found 0 of 1"], 1))

    def test_a_test_that_is_not_there_has_not(self):
        self.plant(("untested", "1", "none"))
        lines, status = self.run_script()
        self.assertIn("io/file/untested WRONG the test fails or is not there without the bug", lines[0])
        self.assertEqual((lines[-1], status), ("mutants: found 0 of 1", 1))

    def test_a_bug_that_does_not_build_is_not_found(self):
        self.plant(("broken", "1", "A.B"))
        self.write("build/mutants/copy", "#!/bin/sh\necho error: no such thing; exit 1\n")
        lines, status = self.run_script()
        self.assertEqual(lines, ["io/file/broken WRONG does not build: error: no such thing by A.B",
                                 "mutants: found 0 of 1"])
        self.assertEqual(status, 1)

    def test_a_skipped_test_does_not_count(self):
        self.plant(("untried", "1", "skipped"))
        self.assertEqual(self.run_script(), (["io/file/untried skipped here by skipped"] * 2 +
                                             ["mutants: found 0 of 0"], 0))

    def test_a_patch_that_does_not_apply_or_has_no_line_is_named(self):
        self.plant(("fails", "1", "A.B"))
        self.assertEqual(self.run_script("--check"), ([], 0))
        self.write("tests/mutants/io/alone.patch", PATCH % "1")
        lines, status = self.run_script("--check")
        self.assertEqual((lines, status), (["io/alone.patch has no line in tests/mutants/mutants.txt"], 1))
        (self.root / "tests/mutants/io/alone.patch").unlink()
        self.write("io/file/a.cc", "exit 7\n")
        lines, status = self.run_script("--check")
        self.assertIn("tests/mutants/io/file/fails.patch does not apply: make the change in io/file/a.cc by hand", lines[-1])
        self.assertEqual(status, 1)


if __name__ == "__main__":
    unittest.main()
