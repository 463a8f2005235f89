"""The command that the package carries, and the example."""

import importlib.metadata
import json
import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

import sluice

TREE = pathlib.Path(__file__).resolve().parents[2]


def run(*words, **options):
    ran = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, **options)
    return ran.returncode, ran.stdout, ran.stderr


def test_the_versions_agree():
    assert sluice.__version__ == importlib.metadata.version("sluice")
    assert run("-m", "sluice", "--version") == (0, f"sluice {sluice.__version__}\n", "")


@pytest.mark.parametrize("name", ["doctor", "train", "lab", "bench", "state"])
def test_sub_commands_run(name):
    code, out, _ = run("-m", "sluice", name, "--help")
    assert code == 0 and out.startswith(f"Usage: sluice {name}")


def test_a_wrong_sub_command_exits_2():
    code, _, errors = run("-m", "sluice", "docter")
    assert code == 2 and 'did you mean "doctor"' in errors


def test_doctor_as_dicts(spill):
    sections = {section["section"]: section for section in sluice.doctor(spill)}
    assert {"cpu", "memory", "io_uring"} <= set(sections)
    json.dumps(sections)
    with pytest.raises(sluice.FailedPrecondition, match="no-such"):
        sluice.doctor(spill / "no-such")


def programs_of(page):
    """Programs of a document: blocks of Python, fenced or indented after a line."""
    text = (TREE / page).read_text()
    fenced = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    indented = re.findall(r"(?:^    .*\n|^\n(?=    ))+", text, re.MULTILINE)
    return fenced + [textwrap.dedent(block) for block in indented if "import sluice" in block]


@pytest.mark.parametrize(("page", "count"), [("docs/pytorch.md", 2), ("python/README.md", 1)])
def test_programs_of_the_documents_run(page, count, spill):
    programs = programs_of(page)
    assert len(programs) == count
    for each in programs:
        program = each.replace('"/data"', repr(str(spill)))
        assert str(spill) in program
        code, _, errors = run("-c", program)
        assert (code, errors) == (0, "")


def test_the_example_runs():
    code, out, errors = run(TREE / "python" / "examples" / "hello.py")
    assert code == 0, errors
    assert "0 of 4194304 elements are wrong" in out
