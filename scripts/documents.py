#!/usr/bin/env python3
"""Holds documents against the command.

  scripts/documents.py SLUICE          exit 1 where a document differs from what the command says
  scripts/documents.py SLUICE --write  writes the command's help into docs/commands.md

docs/commands.md has a block for the command and each of its sub-commands, nested ones too: what `$ sluice ... --help`
prints. docs/configuration.md has a row for each key with its default. Links of all documents lead to files and headings
that exist. SLUICE is the built command.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMANDS = ROOT / "docs/commands.md"
CONFIGURATION = ROOT / "docs/configuration.md"
HELP = re.compile(r"^```text\n\$ sluice (.*)\n(?:.*\n)*?```$", re.MULTILINE)
LISTED = re.compile(r"^Sub-commands:\n((?:  .*\n)+)", re.MULTILINE)  # part of a help
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)")
ROW = re.compile(r"^\| `([a-z_.0-9]+)` \| (?:`([^`]*)`|processors) \|", re.MULTILINE)


def output(sluice, words):
    return subprocess.run([sluice, *words], check=True, capture_output=True, text=True).stdout


def with_help(sluice, page):
    def block(match):
        return f"```text\n$ sluice {match[1]}\n{output(sluice, match[1].split())}```"

    return HELP.sub(block, page)


def sub_commands(sluice, words=()):
    """Words of the command itself and of all its sub-commands, as the help of each lists them."""
    yield words
    listed = LISTED.search(output(sluice, [*words, "--help"]))
    for line in listed[1].splitlines() if listed else []:
        name = line.split()[0]
        if not name.startswith("-"):
            yield from sub_commands(sluice, (*words, name))


def missing_help(sluice, page):
    shown = {match[1] for match in HELP.finditer(page)}
    calls = [" ".join([*words, "--help"]) for words in sub_commands(sluice)]
    if len(calls) == 1:
        yield "sluice --help lists no sub-commands in a form that scripts/documents.py knows"
    for call in calls:
        if call not in shown:
            yield f"docs/commands.md has no block of `$ sluice {call}`: add an empty one, and run --write"


def defaults(sluice):
    lines = output(sluice, ["train", "--print-config"]).replace("'", '"').splitlines()
    keys = dict(line.split(" = ", 1) for line in lines)
    keys["train.compute_threads"] = ""  # the processors of this machine
    return keys


def anchors(page):
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=ROOT, check=True,
                            capture_output=True, text=True)
    for name in listed.stdout.split():
        page = ROOT / name
        for path, anchor in LINK.findall(page.read_text()):
            target = page.parent / path if path else page
            if not target.exists():
                yield f"{name}: {path} does not exist"
            elif anchor and anchor not in anchors(target.read_text()):
                yield f"{name}: {path} has no heading #{anchor}"


def differences(sluice):
    page = COMMANDS.read_text()
    if with_help(sluice, page) != page:
        yield f"docs/commands.md differs from --help: run scripts/documents.py {sluice} --write"
    yield from missing_help(sluice, page)
    yield from broken_links()
    said = dict(ROW.findall(CONFIGURATION.read_text()))
    true = defaults(sluice)
    for key in sorted(said.keys() | true.keys()):
        if said.get(key) != true.get(key):
            yield f"docs/configuration.md: {key} has the default {said.get(key)}; the command says {true.get(key)}"


def main():
    if len(sys.argv) < 2 or sys.argv[2:] not in ([], ["--write"]):
        sys.exit(__doc__)
    sluice = sys.argv[1]
    if sys.argv[2:]:
        COMMANDS.write_text(with_help(sluice, COMMANDS.read_text()))
    found = list(differences(sluice))
    sys.exit("\n".join(found) or 0)


main()
