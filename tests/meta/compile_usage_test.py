#!/usr/bin/env python3
"""scripts/compile_usage.py finds usage blocks that do not compile, and headers without one.

    compile_usage_test.py [COMPILER]
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/compile_usage.py"
COMPILER = sys.argv.pop() if len(sys.argv) > 1 else "c++"
GOOD = ["int a = 1;", "int b = 2;", "", "Use(a);", "Use(a + b);"]
NAMES = "namespace absl { struct Status {}; inline Status OkStatus() { return {}; } }\nvoid Use(int);\n"


def header(lines):
    code = "".join(f"///   {line}".rstrip() + "\n" for line in lines)
    return f"#pragma once\n\n/// What it is for:\n///\n{code}\nnamespace sluice {{}}\n"


def run(files):
    with tempfile.TemporaryDirectory() as folder:
        for path, text in {"tests/meta/usage_names.h": NAMES, **files}.items():
            file = pathlib.Path(folder, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        done = subprocess.run([sys.executable, "-B", SCRIPT, "--compiler", COMPILER, "--root", folder],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout


class CompileUsageTest(unittest.TestCase):
    def test_blocks_of_headers_and_documents_compile(self):
        code, out = run({"include/sluice/x.h": header(GOOD), "README.md": "```cpp\nUse(3);\n```\n"})
        self.assertEqual((code, out), (0, "2 blocks\n"))

    def test_an_error_names_file_and_line(self):
        code, out = run({"include/sluice/x.h": header(GOOD[:-1] + ["Use(c);"])})
        self.assertEqual(code, 1)
        self.assertIn("include/sluice/x.h:9:", out)

    def test_an_error_in_a_document_names_file_and_line(self):
        code, out = run({"include/sluice/x.h": header(GOOD),
                         "docs/d.md": "# D\n\n```cpp\n#include <vector>\nUse(1);\nUse(c);\n```\n"})
        self.assertEqual(code, 1)
        self.assertIn("docs/d.md:6:", out)

    def test_a_header_without_a_block_is_refused(self):
        code, out = run({"include/sluice/x.h": header([])})
        self.assertEqual(code, 1)
        self.assertIn("a usage block of 0 lines; 5 to 15 are asked for", out)

    def test_a_block_that_is_too_long_is_refused(self):
        code, out = run({"include/sluice/x.h": header(["Use(1);"] * 16)})
        self.assertEqual(code, 1)
        self.assertIn("a usage block of 16 lines", out)

    def test_text_between_code_is_refused(self):
        text = header(GOOD).replace("///   Use(a);", "/// Then\n///   Use(a);")
        code, out = run({"include/sluice/x.h": text})
        self.assertEqual(code, 1)
        self.assertIn("x.h:8: text between two parts of the usage block", out)

    def test_a_block_that_is_a_file_is_left_out(self):
        text = "File `build/x.cc`:\n\n```cpp\nnonsense\n```\n"
        code, out = run({"include/sluice/x.h": header(GOOD), "docs/d.md": text})
        self.assertEqual((code, out), (0, "1 blocks\n"))


unittest.main()
