"""Rules of tools/tidy.py about folders, classes, documents and comments: most are limits on counts."""

import collections
import pathlib
import re

# A count of something in a file (or folder, or named part of a file) and its limit.
Count = collections.namedtuple("Count", "path name line rule count limit message")

FOLDER_FILES_MAX = 25
CLASS_METHODS_MAX = 40
DOCUMENT_COLUMNS_MAX = 120
ARCHITECTURE = "ARCHITECTURE.md"

SOURCES = {".cc", ".h", ".cu", ".cuh"}
# A comment behind code begins with the noun that it describes.
TRAILING = re.compile(r"^\s*[^/\s].*?//[/!<]*\s*(of|for|to|in|by|as|that|which|whose|what|those)\b")
ROW = re.compile(r"^\|\s*`([\w./-]+)/`\s*\|", re.M)


def folder_files(tree):
    counts = {}
    for path in tree.files:
        folder = str(pathlib.PurePosixPath(path).parent)
        counts[folder] = counts.get(folder, 0) + 1
    for folder, files in sorted(counts.items()):
        yield Count(folder, "", 1, "folder-files", files, FOLDER_FILES_MAX,
                    f"{files} files, limit {FOLDER_FILES_MAX}: make rooms")


def document_lines(tree):
    for path, text in sorted(tree.files.items()):
        if path.endswith(".md"):
            long = sum(len(line) > DOCUMENT_COLUMNS_MAX for line in text.splitlines())
            yield Count(path, "", 1, "document-lines", long, 0,
                        f"{long} lines of more than {DOCUMENT_COLUMNS_MAX} characters")


def trailing_comments(tree):
    for path, text in tree.sources():
        found = [number for number, line in enumerate(text.splitlines(), 1) if TRAILING.search(line)]
        yield Count(path, "", found[0] if found else 1, "trailing-comments", len(found), 0,
                    "a comment behind code begins with the noun that it describes")


def class_methods(tree, strip_code):
    for path, text in tree.sources():
        code = strip_code(text)
        for name, body in _classes(code):
            methods = _methods(body)
            yield Count(path, name, 1, "class-methods", methods, CLASS_METHODS_MAX,
                        f"{name}: {methods} methods, limit {CLASS_METHODS_MAX}: split it")


_CLASS = re.compile(r"\b(?:class|struct)\s+(?:[A-Z_]{2,}(?:\([^)]*\))?\s+)?(?!final\b)([\w:]+)\s*(?:final\s*)?(?::[^;{]*)?\{")


def _classes(code):
    for match in _CLASS.finditer(code):
        if re.search(r"\benum\s*$", code[:match.start()]):
            continue
        depth, position = 1, match.end()
        while depth and position < len(code):
            depth += {"{": 1, "}": -1}.get(code[position], 0)
            position += 1
        yield match.group(1), code[match.end():position - 1]


def _methods(body):
    """Member functions: statements at the class's own depth that have parameters in parentheses."""
    flat, depth = [], 0
    for character in body:
        if character == "}":
            depth -= 1
            if depth == 0:
                flat.append(";")
        elif character == "{":
            depth += 1
        elif depth == 0:
            flat.append(character)
    statements = "".join(flat).split(";")
    return sum(bool(re.search(r"[\w\])>]\s*\(", re.sub(r"\b(?:ABSL_\w+|alignas)\s*\([^()]*\)|=.*", "", s, flags=re.S)))
               and not re.match(r"\s*(?:using|typedef|friend|static_assert)\b", s) for s in statements)


def folder_rows(tree):
    """Each folder with sources has a row in ARCHITECTURE.md, and each row has a folder."""
    text = tree.files.get(ARCHITECTURE)
    if text is None:
        return
    rows = set(ROW.findall(text))
    folders = {str(pathlib.PurePosixPath(path).parent) for path, _ in tree.sources()}
    for folder in sorted(folders):
        if folder not in rows and not _mirrors(folder, rows):
            yield folder, f"{folder}/ has no row in the table of {ARCHITECTURE}"
    for row in sorted(rows - tree.folders):
        yield ARCHITECTURE, f"{row}/ has a row and is no folder"


def _mirrors(folder, rows):
    """Tests are where what they test is; each example is a folder of its own."""
    if folder.startswith("examples/"):
        return "examples" in rows
    return folder.startswith("tests/") and folder.removeprefix("tests/") in rows
