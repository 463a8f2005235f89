#!/usr/bin/env python3
"""Checks habits that no compiler checks: layers, file and function length, orphan sources, leftovers.

    tools/tidy.py [--root DIR]

Prints one line per finding, "file:line: [rule] what"; exit 1 when there is one. CONTRIBUTING.md
lists the rules, ARCHITECTURE.md the layers. tools/tidy_ratchet.txt may allow more than a limit; it
may only shrink: an entry that is no longer needed is a finding too.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys

import tidy_text

FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 500
RATCHET = "tools/tidy_ratchet.txt"

# Layers: the folders that each may include and link. A folder always sees itself.
LAYERS = {
    "include": set(),
    "base": {"include"},
    "numa": {"include", "base"},
    "io": {"include", "base"},
    "runtime/core": {"include", "base"},
    "runtime/device": {"include", "base", "numa"},
    "runtime/optim": {"include", "base"},
    "runtime/engine": {"include", "base", "numa", "io", "runtime/core", "runtime/device"},
    "runtime/analysis": {"include", "base"},
    "runtime/sim": {"include", "base", "runtime/core", "runtime/analysis"},
    "workloads": {"include", "runtime/optim"},
    "examples": {"include"},
    "python": {"include"},
}
RUNTIME = set(LAYERS) - {"examples", "python"}
LAYERS["bench"] = RUNTIME
LAYERS["tools"] = RUNTIME | {"bench"}
LAYERS["tests/support"] = RUNTIME
LAYERS["tests"] = RUNTIME | {"tests/support", "tools", "bench"}

# The public API is declared in include and made in runtime/engine: who calls it links the engine, and
# sees no header of its.
LINKS_UNSEEN = {"runtime/optim": {"runtime/engine"}}

# Headers that only some folders may include: a pattern of the include, and the folders.
CONFINED = [
    (re.compile(r"liburing\.h|linux/io_uring\.h"), {"io", "tools", "tests", "bench"}),
    (re.compile(r"hwloc(/.*)?\.h|numa(if)?\.h"), {"numa", "tools", "tests", "bench"}),
    (re.compile(r"cuda.*\.h|cublas.*\.h"), {"runtime/device", "runtime/optim", "tools", "tests", "bench"}),
    (re.compile(r"nvtx3/.*"), {"runtime/engine", "tests"}),
    (re.compile(r"zlib\.h"), {"runtime/sim", "tools", "tests", "bench"}),
    (re.compile(r"(gtest|gmock)/.*"), {"tests", "tests/support"}),
]
# Headers that the public contract may include beside the standard library and itself.
PUBLIC_THIRD_PARTY = {"absl/status/status.h", "absl/status/statusor.h"}
# The core owns no thread, no clock and no file.
CORE_FORBIDDEN_INCLUDES = {
    "atomic", "barrier", "condition_variable", "fcntl.h", "filesystem", "fstream", "future",
    "latch", "mutex", "pthread.h", "random", "semaphore", "shared_mutex", "stop_token",
    "thread", "time.h", "ctime", "unistd.h", "base/mutex.h",
    "base/worker_pool.h",
}
CORE_FORBIDDEN_WORDS = re.compile(
    r"\b(steady_clock|system_clock|high_resolution_clock|random_device|getenv)\b")

# Words of the glossary, and others that readers met twice: each is at most one type. A ticket of
# the core is the public one's other half.
TERM = re.compile(
    r"^\s*(?:class|struct|enum class|using) (Completion|Drive|Frame|Iteration|Lane|Lease|Link|Op|OpState|"
    r"Page|Place|Plan|Policy|Reservation|Schedule|Segment|Slot|Stall|Step|SubCommand|Task|Ticket|Tier|Transfer|"
    r"Use)\b(?=[^;]*[{=:]|\s*$)")
SHARED_TERMS = {"Ticket": {"include/sluice/op.h", "runtime/core/state/page.h"}}

SOURCE_SUFFIXES = {".cc", ".h", ".cu", ".cuh"}
TEXT_SUFFIXES = SOURCE_SUFFIXES | {
    ".py", ".sh", ".md", ".toml", ".txt", ".cmake", ".json", ".jsonl", ".patch", ""}
LENGTH_SUFFIXES = SOURCE_SUFFIXES | {".py", ".sh"}

# Spelled in pieces so that this file does not find itself.
PROMISE = re.compile(r"\b(TO" + "DO|FIX" + "ME|X" + "XX|HA" + r"CK)\b")
MACHINE_PATH = re.compile(r"(?<![\w.$}{)-])/(work|home|root|farm|mnt|media|Users|tm" + r"p)/")
COMMENTED_TEST = re.compile(
    r"^\s*(//+|/?\*+)\s*(TEST(_[FP])?|TYPED_TEST(_P)?|INSTANTIATE_\w+)\s*\(")
DISABLED_TEST = re.compile(r"\bDISABLED" + r"_\w+|^\s*#\s*if\s+0\b")
COMMENTED_CMAKE = re.compile(r"^\s*#\s*(sluice_test|add_test|add_subdirectory)\s*\(")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')


class Finding:
    """One violation of one rule."""

    def __init__(self, path, line, rule, message):
        self.path, self.line, self.rule, self.message = path, line, rule, message

    def __str__(self):
        return f"{self.path}:{self.line}: [{self.rule}] {self.message}"


class Tree:
    """The files that belong to the project (path -> text), and its last commits."""

    def __init__(self, files, commits=()):
        self.files = dict(files)
        self.commits = commits
        self.folders = {str(parent) for path in self.files
                        for parent in pathlib.PurePosixPath(path).parents}

    @staticmethod
    def load(root):
        """Files that git tracks or would track; without git, all outside hidden and build folders."""
        root = pathlib.Path(root)
        files = {}
        for name in _list_files(root):
            path = root / name
            if path.suffix in TEXT_SUFFIXES and path.is_file() and path.name != "LICENSE":
                files[name] = path.read_text(encoding="utf-8", errors="replace")
        return Tree(files, tidy_text.commits_of(root))

    def sources(self):
        return ((path, text) for path, text in sorted(self.files.items())
                if pathlib.PurePosixPath(path).suffix in SOURCE_SUFFIXES)


def _list_files(root):
    git = subprocess.run(["git", "-C", str(root), "ls-files", "-co", "--exclude-standard", "-z"],
                         capture_output=True, check=False)
    if git.returncode == 0:
        return sorted({name for name in git.stdout.decode().split("\0") if name})
    names = []
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if not f.startswith(".") and f != "build"]
        names += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return sorted(names)


def layer_of(path):
    """The layer a path belongs to (the longest matching folder), or None."""
    parts = pathlib.PurePosixPath(path).parts
    for length in (2, 1):
        folder = "/".join(parts[:length])
        if len(parts) > length and folder in LAYERS:
            return folder
    return None


# --- include directions -----------------------------------------------------------------------


def check_includes(tree):
    for path, text in tree.sources():
        layer = layer_of(path)
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            for rule, message in _include_problems(tree, path, layer, *match.groups()):
                yield Finding(path, number, rule, message)


def _include_problems(tree, path, layer, bracket, included):
    target = _resolve(tree, included)
    if target is None and bracket == '"' and _beside(path, included) in tree.files:
        yield "include-path", f'write "{_beside(path, included)}": includes start at the root'
        return
    if target is not None:
        yield from _direction_problems(layer, layer_of(target), included)
    elif layer == "include" and _is_third_party(bracket, included):
        yield "public-header", f"public headers include only std, absl status and sluice: {included}"
    for pattern, folders in CONFINED:
        if layer and pattern.fullmatch(included) and layer not in folders:
            yield "confined-header", f"{layer} may not include {included}"
    if layer == "runtime/core" and included in CORE_FORBIDDEN_INCLUDES:
        yield "core-purity", f"runtime/core owns no thread, clock or file: {included}"


def _direction_problems(layer, target_layer, included):
    if layer is None or target_layer is None or layer == target_layer:
        return
    if target_layer not in LAYERS[layer]:
        yield "include-direction", f"{layer} may not include {target_layer} ({included})"


def _resolve(tree, included):
    for candidate in (f"include/{included}", included):
        if candidate in tree.files:
            return candidate
    return None


def _beside(path, included):
    return str(pathlib.PurePosixPath(path).parent / included)


def _is_third_party(bracket, included):
    is_std = bracket == "<" and re.fullmatch(r"[a-z_0-9]+", included) is not None
    return not is_std and included not in PUBLIC_THIRD_PARTY


def check_terms(tree):
    """A term names one type: two that a reader has to tell apart have two names."""
    homes = {}
    for path, text in tree.sources():
        if layer_of(path) not in RUNTIME | {"bench", "tools", "python"}:
            continue
        for number, line in enumerate(strip_code(text).splitlines(), 1):
            match = TERM.match(line)
            if match and path not in SHARED_TERMS.get(match.group(1), ()):
                homes.setdefault(match.group(1), []).append((path, number))
    for term, places in homes.items():
        for path, number in places[1 if term not in SHARED_TERMS else 0:]:
            yield Finding(path, number, "two-types", f"another type is named {term}; give this one a name of its own")


def check_core_words(tree):
    for path, text in tree.sources():
        if layer_of(path) != "runtime/core":
            continue
        for number, line in enumerate(strip_code(text).splitlines(), 1):
            match = CORE_FORBIDDEN_WORDS.search(line)
            if match:
                yield Finding(path, number, "core-purity",
                              f"the core is deterministic (I7): {match.group(1)}")


# --- the link graph ---------------------------------------------------------------------------

LIBRARY_CALL = re.compile(r"\bsluice(?:_test)?_library\s*\(\s*(\w+)([^)]*)\)")
LINK_CALL = re.compile(r"\btarget_link_libraries\s*\(\s*(\w+)([^)]*)\)")
OWN_TARGET = re.compile(r"\bsluice(?:_|::)(\w+)")
# Helper targets that are no layer.
NO_LAYER = {"warnings", "umbrella", "sluice"}


def _cmake_lists(tree):
    for path, text in sorted(tree.files.items()):
        if pathlib.PurePosixPath(path).name == "CMakeLists.txt":
            yield path, re.sub(r"#[^\n]*", "", text)


def _links_of(body):
    keywords = re.search(r"\b(PUBLIC|PRIVATE|INTERFACE)\b.*", body, re.S)
    return OWN_TARGET.findall(keywords.group(0)) if keywords else []


def check_links(tree):
    """Every library may link only the layers that its folder may include."""
    folder_of = {"headers": "include"}
    for path, text in _cmake_lists(tree):
        for match in LIBRARY_CALL.finditer(text):
            folder_of[match.group(1).removeprefix("sluice_")] = layer_of(path)
    for path, text in _cmake_lists(tree):
        for call in (LIBRARY_CALL, LINK_CALL):
            for match in call.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                for message in _link_problems(match, layer_of(path), folder_of):
                    yield Finding(path, line, "link-direction", message)


def _link_problems(match, layer, folder_of):
    for name in _links_of(match.group(2)):
        if name in NO_LAYER or layer is None:
            continue
        if name not in folder_of:
            yield f"{match.group(1)} links sluice_{name}, which no sluice_library() makes"
        elif folder_of[name] not in LAYERS[layer] | LINKS_UNSEEN.get(layer, set()) | {layer}:
            yield f"{match.group(1)} ({layer}) may not link {folder_of[name]} (sluice_{name})"


def check_orphans(tree):
    """Every source is named in some CMakeLists.txt, relative to the folder of that file."""
    named = {os.path.normpath(os.path.join(os.path.dirname(path), name))
             for path, text in _cmake_lists(tree)
             for name in re.findall(r"[\w./-]+\.(?:cc|cu)\b", text)}
    for path, _ in tree.sources():
        if not path.endswith((".h", ".cuh")) and path not in named:
            yield Finding(path, 1, "orphan-source", "named in no CMakeLists.txt")


# --- functions --------------------------------------------------------------------------------


_TOKENS = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"'
    r"|\"(?:\\.|[^\"\\\n])*\"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"
    r"|(?m:^[ \t]*#(?:[^\n]*\\\n)*[^\n]*)", re.S)


def strip_code(text):
    """`text` with comments, literals and preprocessor lines blanked; line numbers stay."""
    return _TOKENS.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


_CONTAINER = re.compile(r"\b(namespace|class|struct|union|enum|extern)\b")


def functions(text):
    """(name, first line, last line) of every function body, nested lambdas counted as its part."""
    code = strip_code(text)
    head_start = position = 0
    while position < len(code):
        character = code[position]
        if character in ";}":
            head_start = position + 1
        elif character == "{":
            head = code[head_start:position]
            name = _function_name(head)
            if name is not None:
                end = _body_end(code, position)
                first = code.count("\n", 0, _body_start(code, position, end)) + 1
                yield name, first, code.count("\n", 0, end) + 1
                position = end
            elif not _CONTAINER.search(head):
                position = _matching(code, position)
            head_start = position + 1
        position += 1


def _function_name(head):
    """The name of the function whose head this is; None for a class, namespace or initialiser."""
    flat = re.sub(r"<[^<>()]*>", "", head)
    match = re.search(r"(~?[\w:]+|operator\s*\S+?)\s*\((?!\s*\))?", flat)
    if not match or "(" not in flat or re.search(r"=\s*$", flat):
        return None
    if _CONTAINER.search(flat.split("(")[0]) and "(" not in _after_container(flat):
        return None
    argument = re.match(r"\s*TEST(?:_[FP])?\s*\(([^)]*)\)", flat)
    return re.sub(r"\s+", "", argument.group(1)) if argument else match.group(1)


def _after_container(flat):
    # An attribute or annotation before a class name carries parentheses of its own.
    return re.sub(r"\b(class|struct|union|enum)\b(\s*[A-Z_]{4,}(\([^)]*\))?)?", "", flat)


def _matching(code, start):
    depth = 0
    for position in range(start, len(code)):
        depth += {"{": 1, "}": -1}.get(code[position], 0)
        if depth == 0:
            return position
    return len(code) - 1


def _body_end(code, start):
    """The last brace of the body; brace-initialised members before the body are passed over."""
    end = _matching(code, start)
    while True:
        rest = re.compile(r"\s*(,[^;{}]*)?\{").match(code, end + 1)
        if not rest:
            return end
        end = _matching(code, rest.end() - 1)


def _body_start(code, start, end):
    position = start
    while _matching(code, position) != end:
        position = code.index("{", _matching(code, position))
    return position


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
    for message in tidy_text.layer_rows(tree, LAYERS):
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
        if pathlib.PurePosixPath(path).suffix in LENGTH_SUFFIXES and lines > FILE_LINES_MAX:
            yield Finding(path, lines, "file-length", f"{lines} lines, limit {FILE_LINES_MAX}")


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


CHECKS = [check_includes, check_terms, check_core_words, check_links, check_orphans, check_limits, check_rows,
          check_file_length, check_lines, check_pragma_once, check_content, check_commits]


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
