#!/usr/bin/env python3
"""Compiles the usage blocks of the public headers, and the C++ blocks of the documents.

  scripts/compile_usage.py [--compiler c++] [--include DIR ...] [--root DIR]

A public header opens with a usage block: 5 to 15 lines of code in the comment above its namespace. A block of a
document is one of language `cpp`; a block below a line "File `PATH`:" is left out, since scripts/run_document.py builds
it. Each block is the body of a function that returns absl::Status, in one translation unit with
tests/meta/usage_names.h, which declares the names of the reader's program. Nothing is linked or run. Exit 1 if a block
does not compile, or a header has none.
"""

import argparse
import pathlib
import re
import subprocess
import sys

LINES_MIN, LINES_MAX = 5, 15
NAMES = "tests/meta/usage_names.h"
FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-missing-field-initializers",
         "-Wno-unused-variable", "-Wno-unused-but-set-variable"]
CODE = re.compile(r"///(?:   (.*)|$)")
FENCED = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_LINE = re.compile(r"File `[^`]+`:\n\n\Z")


class Block:
    """Lines of code and the place of the first one."""

    def __init__(self, path, line, lines):
        self.path, self.line, self.lines = path, line, lines

    def as_function(self, number):
        code = "\n".join(" " * bool(line) + line for line in self.lines if not line.startswith("#include"))
        line = self.line + sum(line.startswith("#include") for line in self.lines)
        return (f"absl::Status Usage{number}() {{\n#line {line} \"{self.path}\"\n{code}\n"
                f"return absl::OkStatus();\n}}\n")


def header_block(path, text):
    """The lines from the first to the last one of code in the comments above the namespace."""
    lines = text.split("\nnamespace ", 1)[0].splitlines()
    code = [number for number, line in enumerate(lines) if line.startswith("///   ")]
    if not code:
        return Block(path, 1, [])
    found = [CODE.match(line) for line in lines[code[0]:code[-1] + 1]]
    if None in found:
        sys.exit(f"{path}:{code[0] + 1 + found.index(None)}: text between two parts of the usage block")
    return Block(path, code[0] + 1, [match.group(1) or "" for match in found])


def document_blocks(path, text):
    for match in FENCED.finditer(text):
        if not FILE_LINE.search(text[:match.start()]):
            yield Block(path, text[:match.start(1)].count("\n") + 1, match.group(1).splitlines())


def find_blocks(root):
    """Returns the blocks, and a line for each header whose block is missing, too short or too long."""
    blocks, wrong = [], []
    for header in sorted((root / "include/sluice").glob("*.h")):
        path = header.relative_to(root).as_posix()
        block = header_block(path, header.read_text())
        blocks.append(block)
        if not LINES_MIN <= len(block.lines) <= LINES_MAX:
            wrong.append(f"{path}:{block.line}: a usage block of {len(block.lines)} lines; "
                         f"{LINES_MIN} to {LINES_MAX} are asked for")
    for document in sorted([*root.glob("*.md"), *root.glob("docs/*.md")]):
        blocks.extend(document_blocks(document.relative_to(root).as_posix(), document.read_text()))
    return blocks, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--include", nargs="*", default=[])
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    blocks, wrong = find_blocks(arguments.root)
    headers = "".join(f'#include "{block.path.removeprefix("include/")}"\n' for block in blocks
                      if block.path.endswith(".h"))
    unit = f'{headers}#include "{NAMES}"\n' + "".join(block.as_function(i) for i, block in enumerate(blocks))
    folders = [f"-I{folder}" for folder in ["include", ".", *filter(None, arguments.include)]]
    compiled = subprocess.run([arguments.compiler, *FLAGS, *folders, "-x", "c++", "-"], cwd=arguments.root,
                              input=unit, text=True, check=False)
    for line in wrong:
        print(line)
    print(f"{len(blocks)} blocks", flush=True)
    sys.exit(1 if wrong or compiled.returncode else 0)


if __name__ == "__main__":
    main()
