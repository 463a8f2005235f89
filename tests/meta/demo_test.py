#!/usr/bin/env python3
"""scripts/demo.sh in a tree of stand-ins: where and with which words it runs the command."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

DEMO = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "demo.sh"


class DemoTest(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.root = pathlib.Path(self.directory.name).resolve() / "tree"
        self.elsewhere = self.root.parent / "elsewhere"
        self.elsewhere.mkdir()
        self.write("build/release/build.ninja", "")
        self.write("scripts/setup.sh", "#!/bin/sh\necho set up\n")
        self.write("path/ninja", "#!/bin/sh\necho built\n")
        self.write("build/release/bin/sluice", '#!/bin/sh\npwd\nprintf "%s\\n" "$@"\n')
        shutil.copy(DEMO, self.root / "scripts" / "demo.sh")

    def write(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)

    def run_demo(self, *words):
        """The command's directory, and its words."""
        path = f"{self.root / 'path'}:{os.environ['PATH']}"
        run = subprocess.run([self.root / "scripts" / "demo.sh", *words], cwd=self.elsewhere,
                             env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True)
        directory, *arguments = run.stdout.splitlines()
        return directory, arguments

    def test_runs_in_the_users_directory(self):
        directory, words = self.run_demo("--text", "mine")
        self.assertEqual(directory, str(self.elsewhere))
        config = str(self.root / "configs" / "train-gpt.toml")
        self.assertEqual(words, ["train", "--config", config, "--text", "mine"])

    def test_another_configuration_replaces_its_own(self):
        for words in (["--config", "mine.toml"], ["--json", "--config=mine.toml"]):
            self.assertEqual(self.run_demo(*words)[1], ["train", *words])


if __name__ == "__main__":
    unittest.main()
