#!/usr/bin/env python3
"""scripts/changed_units.py in a small tree: which sources it calls changed, and what it compiles."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "changed_units.py"


class ChangedUnitsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.batch = self.root / "build/tidy/io/Unity/unity_0.cxx"
        for name in ("io/a.cc", "io/a.h", "io/b.cc", "io/alone.cc", "include/sluice/api.h"):
            self.write(name, "int first;\n")
        self.write("io/b.cc", '#include "sluice/api.h"\n')
        self.write(self.batch.relative_to(self.root),
                   "".join(f'#include "{self.root}/io/{name}.cc"\n' for name in "ab"))
        commands = [{"directory": str(self.root), "file": str(file), "command": f"c++ -O1 -c {file}"}
                    for file in (self.batch, self.root / "io/alone.cc")]
        self.write("build/tidy/compile_commands.json", json.dumps(commands))
        self.write(".gitignore", "/build/\n")
        self.git("init", "-q")
        self.commit()

    def write(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=self.root,
                       check=True, capture_output=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-qm", "change")

    def units(self, base="HEAD"):
        """The sources of each unit, by their names."""
        run = subprocess.run([sys.executable, SCRIPT, "build/tidy", base, "build/changed"],
                             cwd=self.root, capture_output=True, text=True, check=True)
        commands = json.loads((self.root / "build/changed/compile_commands.json").read_text())
        units = []
        for entry in commands:
            self.assertTrue(entry["command"].endswith(f"-c {entry['file']}"))
            file = pathlib.Path(entry["file"])
            names = [line.split('"')[1] for line in file.read_text().splitlines()
                     if line.startswith("#include")] if "build" in file.parts else [str(file)]
            units.append([str(pathlib.Path(name).relative_to(self.root)) for name in names])
        self.assertEqual(int(run.stdout), sum(len(unit) for unit in units))
        return units

    def test_nothing_has_changed(self):
        self.assertEqual(self.units(), [])

    def test_a_batch_is_reduced_to_what_changed(self):
        self.write("io/a.cc", "int second;\n")
        self.assertEqual(self.units(), [["io/a.cc"]])

    def test_other_comments_are_no_change(self):
        self.write("io/alone.cc", "// A comment.\nint  first;  // another\n")
        self.assertEqual(self.units(), [])
        self.write("io/alone.cc", "int first;  // NOLINT\n")
        self.assertEqual(self.units(), [["io/alone.cc"]])
        self.write("io/alone.cc", 'auto first = "//x";\n')
        self.commit()
        self.write("io/alone.cc", 'auto first = "//y";\n')
        self.assertEqual(self.units(), [["io/alone.cc"]])

    def test_a_committed_change_counts_too(self):
        self.write("io/alone.cc", "int second;\n")
        self.commit()
        self.assertEqual(self.units("HEAD~1"), [["io/alone.cc"]])

    def test_a_header_counts_as_its_source_or_as_the_first_that_includes_it(self):
        self.write("io/a.h", "int second;\n")
        self.assertEqual(self.units(), [["io/a.cc"]])
        self.write("include/sluice/api.h", "int second;\n")
        self.assertEqual(self.units(), [["io/a.cc", "io/b.cc"]])

    def test_a_history_that_is_too_short_is_compared_as_a_whole(self):
        self.write("io/a.cc", "int second;\n")
        self.commit()
        self.assertEqual(self.units("HEAD~20"), [["io/a.cc"]])


if __name__ == "__main__":
    unittest.main()
