#!/usr/bin/env python3
"""Makes a compilation database of what a change touches, for clang-tidy.

    scripts/changed_units.py DATABASE_FOLDER BASE OUTPUT_FOLDER

DATABASE_FOLDER holds the compile_commands.json of a batched build (several sources are one
compilation). The units of OUTPUT_FOLDER are the same, reduced to the sources that differ from commit
BASE in more than comments (a comment with NOLINT counts). A header counts as the source of the same
name, else as the first source that includes it. Prints the number of sources; run at the root of the
tree.
"""

import json
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
# A literal, which stays, or a comment.
LITERAL_OR_COMMENT = re.compile(r'''('"'|"(?:\\.|[^"\\\n])*")|//(?!.*NOLINT)[^\n]*''')


def git(*words):
    return subprocess.run(["git", *words], capture_output=True, check=True, text=True).stdout.split("\n")


def changed_files(base):
    """Sources and headers that differ from `base`, as far back as the history goes."""
    if subprocess.run(["git", "rev-parse", "-q", "--verify", base], capture_output=True).returncode:
        base = git("rev-list", "--max-parents=0", "HEAD")[0]
    changed = git("diff", "--name-only", base, "--", "*.cc", "*.h")
    new = git("ls-files", "-o", "--exclude-standard", "--", "*.cc", "*.h")
    there = {name for name in changed if name and pathlib.Path(name).exists()}
    return {name for name in there if differs(name, base)} | {name for name in new if name}


def code_of(text):
    """The words of a source without its comments."""
    return LITERAL_OR_COMMENT.sub(lambda found: found[1] or " ", text).split()


def differs(name, base):
    """Whether the file has other code than in `base`. One with raw literals counts as different."""
    old = subprocess.run(["git", "show", f"{base}:{name}"], capture_output=True, text=True)
    now = pathlib.Path(name).read_text()
    return old.returncode != 0 or 'R"' in now + old.stdout or code_of(old.stdout) != code_of(now)


def source_of(header, sources):
    """The source that stands for a header: `sources` maps each source to its text."""
    own = re.sub(r"\.h$", ".cc", header)
    if own in sources:
        return own
    line = '#include "' + header.removeprefix("include/") + '"'
    return next((name for name, text in sorted(sources.items()) if line in text), None)


def sources_of(entry):
    """The sources of one compilation: those that a batch includes, else its file."""
    text = pathlib.Path(entry["file"]).read_text()
    included = INCLUDE.findall(text) if "/Unity/" in entry["file"] else [entry["file"]]
    root = str(pathlib.Path.cwd()) + "/"
    return [name.removeprefix(root) for name in included]


def reduced(entry, wanted, batch):
    """The compilation of the wanted sources of `entry`, which the file `batch` includes."""
    if "/Unity/" not in entry["file"]:
        return entry
    batch.write_text("".join(f'#include "{pathlib.Path(name).resolve()}"\n' for name in wanted))
    return {**entry, "file": str(batch), "command": entry["command"].replace(entry["file"], str(batch))}


def main(database, base, output):
    entries = json.loads((pathlib.Path(database) / "compile_commands.json").read_text())
    entries = [(entry, sources_of(entry)) for entry in entries]
    texts = {name: pathlib.Path(name).read_text() for _, names in entries for name in names}
    changed = changed_files(base)
    changed |= {source_of(name, texts) for name in changed if name.endswith(".h")}
    output = pathlib.Path(output).resolve()
    output.mkdir(parents=True, exist_ok=True)
    units = [(entry, [name for name in names if name in changed]) for entry, names in entries]
    units = [reduced(entry, wanted, output / f"batch_{number}.cc")
             for number, (entry, wanted) in enumerate(units) if wanted]
    (output / "compile_commands.json").write_text(json.dumps(units))
    print(len(changed & set(texts)))


if __name__ == "__main__":
    main(*sys.argv[1:])
