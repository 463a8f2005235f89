#!/usr/bin/env python3
"""Checks habits that no compiler checks: layers, file and function length, orphan sources, leftovers.

    tools/tidy.py [--root DIR]

Prints one line per finding, "file:line: [rule] what"; exit 1 when there is one. CONTRIBUTING.md
lists the rules, ARCHITECTURE.md the layers. tools/tidy_ratchet.txt may allow more than a limit; it
may only shrink: an entry that is no longer needed is a finding too.
"""

import argparse
import pathlib
import re
import sys

import tidy_layers
import tidy_text
from tidy_functions import functions, strip_code
from tidy_tree import SOURCE_SUFFIXES, Finding, Tree

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 300
TEST_LINES_MAX = 500
RATCHET = "tools/tidy_ratchet.txt"

LENGTH_SUFFIXES = SOURCE_SUFFIXES | {".py", ".sh"}

# Spelled in pieces so that this file does not find itself.
PROMISE = re.compile(r"\b(TO" + "DO|FIX" + "ME|X" + "XX|HA" + r"CK)\b")
MACHINE_PATH = re.compile(r"(?<![\w.$}{)-])/(work|home|root|farm|mnt|media|Users|tm" + r"p)/")
COMMENTED_TEST = re.compile(
    r"^\s*(//+|/?\*+)\s*(TEST(_[FP])?|TYPED_TEST(_P)?|INSTANTIATE_\w+)\s*\(")
DISABLED_TEST = re.compile(r"\bDISABLED" + r"_\w+|^\s*#\s*if\s+0\b")
COMMENTED_CMAKE = re.compile(r"^\s*#\s*(sluice_test|add_test|add_subdirectory)\s*\(")


def check_limits(tree):
    """Counts above their limit: each is a finding, unless the ratchet allows exactly as many."""
    allowed = _ratchet(tree)
    used = set()
    for found in _counts(tree):
        if found.count <= found.limit:
            continue
        key = f"{found.path}{':' if found.name else ''}{found.name} [{found.rule}]"
        used.add(key)
        if found.count > allowed.get(key, found.limit):
            yield Finding(found.path, found.line, found.rule, found.message)
        elif found.count < allowed[key]:
            yield Finding(RATCHET, 1, "ratchet", f"{key}: lower {allowed[key]} to {found.count}")
    for key in sorted(set(allowed) - used):
        yield Finding(RATCHET, 1, "ratchet", f"{key}: no longer needed, remove it")


def _counts(tree):
    """Everything that has a limit."""
    for path, text in tree.sources():
        for name, first, last in functions(text):
            lines = last - first + 1
            yield tidy_text.Count(path, name, first, "function-length", lines, FUNCTION_LINES_MAX,
                                  f"{name}: {lines} lines, limit {FUNCTION_LINES_MAX}")
    yield from tidy_text.folder_files(tree)
    yield from tidy_text.document_lines(tree)
    yield from tidy_text.trailing_comments(tree)
    yield from tidy_text.class_methods(tree, strip_code)


def check_rows(tree):
    for path, message in tidy_text.folder_rows(tree):
        yield Finding(path, 1, "folder-row", message)
    for message in tidy_text.layer_rows(tree, tidy_layers.LAYERS):
        yield Finding(tidy_text.ARCHITECTURE, 1, "layer-row", message)


def check_commits(tree):
    for name, message in tidy_text.commit_subjects(tree.commits):
        yield Finding(name, 1, "commit-subject", message)


def _ratchet(tree):
    """Lines of "path [rule] count" or "path:name [rule] count"; # begins a comment."""
    allowed = {}
    for line in tree.files.get(RATCHET, "").splitlines():
        words = line.split("#")[0].split()
        if words:
            allowed[" ".join(words[:2])] = int(words[2])
    return allowed


# --- lines ------------------------------------------------------------------------------------


def check_file_length(tree):
    for path, text in sorted(tree.files.items()):
        lines = text.count("\n")
        limit = TEST_LINES_MAX if path.startswith(("tests/", "python/tests/")) else FILE_LINES_MAX
        if pathlib.PurePosixPath(path).suffix in LENGTH_SUFFIXES and lines > limit:
            yield Finding(path, lines, "file-length", f"{lines} lines, limit {limit}")


def check_lines(tree):
    for path, text in sorted(tree.files.items()):
        pure = pathlib.PurePosixPath(path)
        for number, line in enumerate(text.splitlines(), 1):
            for rule, message in _line_problems(pure, line):
                yield Finding(path, number, rule, message)


def _line_problems(pure, line):
    if PROMISE.search(line):
        yield "promise", "do it or file it; the tree holds no promises"
    if MACHINE_PATH.search(line):
        yield "machine-path", "a path of one machine"
    if pure.suffix in SOURCE_SUFFIXES:
        if COMMENTED_TEST.match(line):
            yield "commented-test", "a test that is commented out"
        if DISABLED_TEST.search(line):
            yield "commented-test", "a test or code that is switched off"
    if pure.name == "CMakeLists.txt" and COMMENTED_CMAKE.match(line):
        yield "commented-test", "a test or folder that is commented out"


# A header compiled once per SIMD target is included as often: its guard follows the target.
TARGET_GUARD = re.compile(r"^#if defined\(\w+\) == defined\(HWY_TARGET_TOGGLE\)$", re.M)


def check_content(tree):
    """A test without a line passes as one that was never written."""
    for path, text in tree.sources():
        if not text.strip():
            yield Finding(path, 1, "empty-source", "the file is empty: restore it, or remove it")


def check_pragma_once(tree):
    for path, text in tree.sources():
        if path.endswith("-inl.h") and TARGET_GUARD.search(text):
            continue
        if path.endswith((".h", ".cuh")) and not re.search(r"^#pragma once$", text, re.M):
            yield Finding(path, 1, "pragma-once", "a header begins with #pragma once")


CHECKS = [*tidy_layers.CHECKS, check_limits, check_rows, check_file_length,
          check_lines, check_pragma_once, check_content, check_commits]


def run(tree):
    return [finding for check in CHECKS for finding in check(tree)]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=pathlib.Path(__file__).resolve().parent.parent)
    options = parser.parse_args(arguments)
    tree = Tree.load(options.root)
    findings = run(tree)
    for finding in findings:
        print(finding)
    print(f"tidy: {len(tree.files)} files, {len(findings)} findings")
    return 1 if findings or not tree.files else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
