"""Rules of tools/tidy.py about folders, classes, documents, comments and commits: most are limits on counts."""

import collections
import pathlib
import re
import subprocess

# A count of something in a file (or folder, or named part of a file) and its limit.
Count = collections.namedtuple("Count", "path name line rule count limit message")

FOLDER_FILES_MAX = 25
CLASS_METHODS_MAX = 40
DOCUMENT_COLUMNS_MAX = 120
ARCHITECTURE = "ARCHITECTURE.md"

# A commit: abbreviated hash, author date in seconds, hashes of its parents, first line of its message.
Commit = collections.namedtuple("Commit", "name seconds parents subject")
COMMITS_CHECKED = 20
SUBJECT_COLUMNS_MAX = 72
# Author date from which subjects are checked: 2026-11-29 12:30 UTC. Older ones stay as they are.
SUBJECTS_SINCE = 1795955400

SOURCES = {".cc", ".h", ".cu", ".cuh"}
# A comment behind code begins with the noun that it describes.
_NO_NOUN = "(of|for|to|in|by|as|that|which|whose|what|those)"
TRAILING = re.compile(rf"^\s*[^/\s].*?//[/!<]*\s*{_NO_NOUN}\b")
TRAILING_HASH = re.compile(rf"^\s*[^#\s].*?\s#\s*{_NO_NOUN}\b")
ROW = re.compile(r"^\|\s*`([\w./-]+)/`\s*\|", re.M)
# A row of the table of layers: folder, what it is, what it sees.
LAYER_ROW = re.compile(r"^\|\s*`([\w./-]+)/`\s*\|[^|\n]*\|([^|\n]*)\|$", re.M)


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
    for path, text, pattern in _commented(tree):
        found = [number for number, line in enumerate(text.splitlines(), 1) if pattern.search(line)]
        yield Count(path, "", found[0] if found else 1, "trailing-comments", len(found), 0,
                    "a comment behind code begins with the noun that it describes")


def _commented(tree):
    """Files whose comments may stand behind code, with the pattern of a comment that may not."""
    for path, text in tree.sources():
        yield path, text, TRAILING
    for path, text in sorted(tree.files.items()):
        if path.endswith((".py", ".sh")):
            yield path, text, TRAILING_HASH


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
    """Each folder with files of its own has a row in ARCHITECTURE.md, and each row has a folder."""
    text = tree.files.get(ARCHITECTURE)
    if text is None:
        return
    rows = set(ROW.findall(text))
    folders = {str(pathlib.PurePosixPath(path).parent) for path in tree.files
               if pathlib.PurePosixPath(path).name != "CMakeLists.txt"}
    for folder in sorted(folders - {"."}):
        if folder not in rows and not _mirrors(folder, rows):
            yield folder, f"{folder}/ has no row in the table of {ARCHITECTURE}"
    for row in sorted(rows - tree.folders):
        yield ARCHITECTURE, f"{row}/ has a row and is no folder"


def _mirrors(folder, rows):
    """Tests are where what they test is; examples, patches and inputs are in folders of their own."""
    for above in ("examples", "tests/mutants", "tests/fuzz"):
        if folder.startswith(above + "/"):
            return above in rows
    return folder.startswith("tests/") and folder.removeprefix("tests/") in rows


def layer_rows(tree, layers):
    """The column "sees" of ARCHITECTURE.md says for each layer what it may include."""
    rows = LAYER_ROW.findall(tree.files.get(ARCHITECTURE, ""))
    told = {folder if folder in layers else folder.split("/")[0]: cell.strip() for folder, cell in rows}
    for layer, cell in told.items():
        differs = sorted(_seen(cell, layer, layers) ^ layers.get(layer, set()))
        if differs:
            yield f"{layer}/ sees {cell}: tools/tidy_layers.py says otherwise of {', '.join(differs)}"
    for layer in sorted(set(layers) - set(told)) if told else []:
        if layer.split("/")[0] not in told:
            yield f"{layer}/ has no row that says what it sees"


def _seen(cell, layer, layers):
    """The layers that a cell names: "nothing", "a, b" or "everything but a, b and c"."""
    listed = cell.removeprefix("everything but ")
    names = set(re.split(r", | and ", listed)) - {"nothing"}
    named = {each for each in layers if {each, each.removeprefix("runtime/"), each.split("/")[0]} & names}
    named |= {name for name in names if not {name, f"runtime/{name}"} & set(layers)}
    return named if listed == cell else set(layers) - named - {layer}


def commits_of(root):
    """The last commits of the repository; none without git."""
    git = subprocess.run(["git", "-C", str(root), "log", f"-{COMMITS_CHECKED}", "--format=%h%x09%at%x09%P%x09%s"],
                         capture_output=True, check=False)
    lines = git.stdout.decode(errors="replace").splitlines() if git.returncode == 0 else []
    fields = [line.split("\t", 3) for line in lines]
    return [Commit(name, int(seconds), parents.split(), subject) for name, seconds, parents, subject in fields]


def commit_subjects(commits):
    """A commit does one thing, and its subject says which in a line. A merge may name several."""
    for commit in commits:
        if commit.seconds < SUBJECTS_SINCE:
            continue
        if len(commit.subject) > SUBJECT_COLUMNS_MAX:
            yield commit.name, f"{len(commit.subject)} characters, limit {SUBJECT_COLUMNS_MAX}: {commit.subject}"
        if ";" in commit.subject and len(commit.parents) < 2:
            yield commit.name, f"names two things, make two commits: {commit.subject}"
