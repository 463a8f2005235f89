"""`python -m sluice generate`: the text of the resident model, as it comes."""

import io
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

import checkpoints
import pytest
import tokenizers
import torch
import transformers

from sluice import _generate


@pytest.fixture(scope="module")
def folder():
    """A small GPT-2 with a tokenizer whose tokens are words."""
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(
        {f"w{i}": i for i in range(512)}, unk_token="w0"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="w0")
    with tempfile.TemporaryDirectory(prefix="sluice-python-") as directory:
        folder = pathlib.Path(directory)
        checkpoints.write_model(folder, checkpoints.gpt2())
        tokenizer.save_pretrained(folder)
        yield folder


def generate(*words):
    ran = subprocess.run([sys.executable, "-m", "sluice", "generate", *map(str, words)],
                         capture_output=True, text=True, check=False, timeout=300)
    return ran.returncode, ran.stdout, ran.stderr


def wanted(folder, prompt, tokens):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer([prompt], return_tensors="pt")
    with torch.no_grad():
        output = checkpoints.resident(folder).generate(**inputs, max_new_tokens=tokens)
    return tokenizer.decode(output[0, inputs["input_ids"].shape[1]:])


def test_the_text_is_that_of_the_resident_model(folder):
    code, out, errors = generate("--model", folder, "--prompt", "w3 w99 w5", "--dram", "4MiB",
                                 "--tokens", 7)
    assert code == 0, errors
    text, tokens, weights, bound = out.splitlines()
    assert text == wanted(folder, "w3 w99 w5", 7)
    assert tokens.startswith("7 tokens, the first after ") and tokens.endswith(" a second")
    assert " MiB of weights in 4 MiB; a token reads " in weights
    assert bound.startswith("bound by ")


def test_json_is_one_object_and_the_text_goes_elsewhere(folder):
    code, out, errors = generate("--model", folder, "--prompt", "w3 w99 w5", "--dram", "4MiB",
                                 "--tokens", 5, "--json")
    assert code == 0, errors
    result = json.loads(out)
    assert result["text"] == wanted(folder, "w3 w99 w5", 5) and result["text"] in errors
    assert result["tokens"] == 5 and result["budget_bytes"] == 4 << 20
    assert result["leased_bytes_per_token"] >= result["weight_bytes"]
    assert result["bound_by"] in ("reading", "compute")


def test_a_mixture_leases_its_experts(folder, tmp_path):
    checkpoints.write_model(tmp_path, checkpoints.mixtral(vocab_size=512))
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    code, out, errors = generate("--model", tmp_path, "--prompt", "w3 w99 w5", "--dram", "16MiB",
                                 "--tokens", 5, "--experts", "lru", "--json")
    assert code == 0, errors
    result = json.loads(out)
    assert result["text"] == wanted(tmp_path, "w3 w99 w5", 5)
    assert result["experts"]["policy"] == "lru" and result["experts"]["tokens"] == 7


@pytest.mark.parametrize(("words", "message"), [
    (("--dram", "512KiB"), "dram (tiers.dram.bytes) is 512 KiB"),
    (("--dram", "much"), "dram"),
    (("--dram", "2MiB"), "is the least"),
    (("--dram", "4MiB", "--experts", "lru"), "GPT2LMHeadModel has no experts"),
])
def test_the_users_errors_exit_2(folder, capsys, words, message):
    assert _generate.main(["--model", str(folder), "--prompt", "w3", *words]) == 2
    said = capsys.readouterr()
    assert said.out == "" and message in said.err


def test_progress_is_for_terminals():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    asked = threading.Event()

    def report():
        asked.set()
        return {"units": [{"entries": 1}, {"entries": 0}, {"entries": 0}]}

    terminal, file = Terminal(), io.StringIO()
    with _generate.progress(report, terminal) as end:
        assert asked.wait(30)
        end()
        assert terminal.getvalue() == "\r\x1b[Kfirst pass: 1 of 3 units\r\x1b[K"
    with _generate.progress(report, file) as end:
        end()
    assert file.getvalue() == ""


def test_the_example_reads_what_memory_lacks(folder):
    example = pathlib.Path(__file__).parents[2] / "examples" / "torch_stream.py"
    ran = subprocess.run([sys.executable, example, folder, "w3 w99 w5 w77 w1", "4MiB"],
                         capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr
    inputs = transformers.AutoTokenizer.from_pretrained(folder)("w3 w99 w5 w77 w1", return_tensors="pt")
    with torch.no_grad():
        loss = checkpoints.resident(folder)(**inputs, labels=inputs["input_ids"]).loss.item()
    assert ran.stdout.startswith(f"{loss:.4f} nats per token; ")
    assert " of 6 MiB were read in the second pass" in ran.stdout


def test_the_example_of_hooks_finds_the_next_token(folder):
    example = pathlib.Path(__file__).parents[2] / "examples" / "torch_hooks.py"
    ran = subprocess.run([sys.executable, example, folder, "w3 w99 w5", "8MiB"],
                         capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr
    found = re.fullmatch(r"next: (.*); [0-9]+ weights used ([0-9]+) MiB of dram\n", ran.stdout)
    assert found and found[1] == wanted(folder, "w3 w99 w5", 1) and 0 < int(found[2]) <= 8


@pytest.mark.parametrize(("prompt", "message"), [
    ("", "--prompt '' has no token"),
    (b"\xff\xfe".decode(errors="surrogateescape"), "--prompt has bytes that are no UTF-8"),
])
def test_a_prompt_without_text_exits_2(folder, capsys, prompt, message):
    assert _generate.main(["--model", str(folder), "--prompt", prompt, "--dram", "4MiB"]) == 2
    assert message in capsys.readouterr().err


def test_a_tokenizer_that_cannot_be_read_is_named(folder, tmp_path, capsys):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (tmp_path / "tokenizer.json").write_text("{")
    assert _generate.main(["--model", str(tmp_path), "--prompt", "w3", "--dram", "4MiB"]) == 2
    assert f"--model '{tmp_path}': its tokenizer cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize(("output", "expected", "message"), [
    ("/dev/full", 3, "No space left on device"),
    ("| true", 141, ""),
])
def test_an_output_that_takes_nothing_has_its_exit_code(folder, output, expected, message):
    command = f"'{sys.executable}' -m sluice generate --model '{folder}' --prompt w3 --dram 4MiB"
    shell = f"{command} > {output}" if output.startswith("/") else f"set -o pipefail; {command} {output}"
    ran = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == expected and message in ran.stderr and "Traceback" not in ran.stderr


def test_a_model_that_is_no_directory_exits_2(capsys):
    assert _generate.main(["--model", "/no/such", "--prompt", "w3", "--dram", "4MiB"]) == 2
    assert "--model '/no/such' is no directory" in capsys.readouterr().err


def test_a_folder_without_a_model_exits_2(tmp_path):
    code, _, errors = generate("--model", tmp_path, "--prompt", "w3", "--dram", "4MiB")
    assert code == 2 and errors.startswith("sluice: ") and str(tmp_path) in errors
