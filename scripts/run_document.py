#!/usr/bin/env python3
"""Runs a document: its `sh` blocks in order, in the folder of the project.

  scripts/run_document.py docs/getting-started.md

A line "File `PATH`:" before another block says where the block is written. The first command that fails ends the run
with its exit code. The output of the blocks goes to standard output.
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(?:^File `([^`]+)`:\n\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(path, language, text):
    if path:
        file = ROOT / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    elif language == "sh":
        print(text, end="", flush=True)
        subprocess.run(["bash", "-eu", "-c", text], cwd=ROOT, check=True)
    else:
        sys.exit(f"a {language} block without a file: {text.splitlines()[0]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("document", type=argparse.FileType())
    document = parser.parse_args().document
    blocks = BLOCK.findall(document.read())
    if not blocks:
        parser.error(f"{document.name} has no blocks")
    for block in blocks:
        try:
            run(*block)
        except subprocess.CalledProcessError as error:
            sys.exit(error.returncode)


main()
