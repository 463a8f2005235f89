"""The project's files as tools/tidy.py reads them, and what a rule finds there."""

import os
import pathlib
import subprocess

import tidy_text

SOURCE_SUFFIXES = {".cc", ".h", ".cu", ".cuh"}
TEXT_SUFFIXES = SOURCE_SUFFIXES | {
    ".py", ".sh", ".md", ".toml", ".txt", ".cmake", ".json", ".jsonl", ".patch", ""}


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
