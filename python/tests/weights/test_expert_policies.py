"""Policies by which experts stay in dram: what they read, one of a program's own, and its errors."""

import json
import pathlib
import re
import subprocess
import textwrap
import threading

import checkpoints
import pytest
import sluice
import sluice.torch
import torch
from checkpoints import leases_of
from sluice import _command
from sluice.torch._streaming import _expert_trace
from sluice.torch._streaming._expert_policies import Frequency, Guarded, Recency

pytestmark = pytest.mark.usefixtures("one_thread")

PAGE = 4096
DOCUMENT = pathlib.Path(__file__).parents[3] / "docs" / "experts.md"


def stream_of(model, path, share=0.3, **options):
    return checkpoints.stream_of(model, path, share, **{"page_bytes": PAGE, "experts": "lfu", **options})


@pytest.fixture(scope="module")
def folder(module_path):
    """A layer of 64 experts, in the form of published checkpoints."""
    return checkpoints.write_model(module_path, CONFIG)


CONFIG = checkpoints.qwen3_moe(num_hidden_layers=1)


def zipf(calls, count, chosen, seed=0):
    """Experts of each call: by a Zipf law of exponent 1 over a fixed order."""
    generator = torch.Generator().manual_seed(seed)
    weights = 1 / torch.arange(1, count + 1, dtype=torch.float64)
    order = torch.randperm(count, generator=generator)
    return order[torch.multinomial(weights.expand(calls, count), chosen, generator=generator)]


def run(model, calls):
    """Has the first layer's experts compute for a token per call."""
    with torch.no_grad():
        for numbers in calls:
            model.model.layers[0].mlp.experts(
                torch.ones(1, 64), numbers[None], torch.ones(1, len(numbers)))


def read_by(policy, folder, calls):
    model = checkpoints.on_meta(CONFIG)
    with stream_of(model, folder, experts=policy) as stream:
        run(model, calls)
        figures = stream.report()["experts"]
    assert figures["tokens"] == len(calls) and figures["leases"] == calls.numel()
    return figures["read_bytes"]


def example():
    """The policy of the document, an object."""
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", DOCUMENT.read_text(), re.MULTILINE)
    (block,) = [block for block in blocks if "def choose" in block]
    names = {}
    exec(textwrap.dedent(block.partition("    sluice.torch")[0]), names)
    return names["LeastRecentlyUsed"]()


def test_frequency_beats_recency_and_the_documents_policy_is_lru(folder):
    calls = zipf(300, 64, 8)
    read = {name: read_by(policy, folder, calls)
            for name, policy in {"lru": "lru", "lfu": "lfu", "own": example()}.items()}
    assert read["own"] == read["lru"]
    assert read["lfu"] < 0.8 * read["lru"], read


def misses(policy, layers, room):
    """The number of experts that were not there, for each token."""
    there, counts = set(), []
    for token in zip(*(calls.tolist() for calls in layers)):
        counts.append(0)
        for expert in ((layer, number) for layer, numbers in enumerate(token) for number in numbers):
            policy.touch(*expert)
            if expert not in there:
                counts[-1] += 1
                if len(there) == room:
                    there.remove(policy.choose(tuple(there)))
                there.add(expert)
    return counts


@pytest.mark.parametrize(("layers", "count", "chosen"), [(6, 8, 2), (2, 64, 8)])
def test_frequency_follows_a_law_that_changes(layers, count, chosen):
    calls = [torch.cat([zipf(300, count, chosen, seed) for seed in (layer, layer + layers)])
             for layer in range(layers)]
    room = int(0.3 * layers * count)
    lfu = misses(Frequency(), calls, room)
    lru = sum(misses(Recency(), calls, room)[200:300])
    settled, soon, later = sum(lfu[200:300]), sum(lfu[350:450]), sum(lfu[500:600])
    assert settled < 0.8 * lru, (settled, lru)
    assert soon < 1.25 * settled and later < 1.1 * settled, (settled, soon, later)


class Own:
    """Evicts the first candidate, unless it is told otherwise."""

    def __init__(self):
        self.answer = self.error = None

    def touch(self, layer, expert):
        if self.answer == "in touch":
            raise KeyError(expert)

    def choose(self, candidates):
        if self.error is not None:
            raise self.error
        return candidates[0] if self.answer is None else self.answer


@pytest.mark.parametrize(("answer", "error", "kind", "message"), [
    ((0, 99), None, sluice.InvalidArgument,
     r"experts: Own.choose has returned \(0, 99\), which is none of its \d+ candidates: return one"),
    ([0, 1], None, sluice.InvalidArgument, r"has returned \[0, 1\]"),
    ((torch.zeros(2), 1), None, sluice.InvalidArgument, r"has returned \(tensor\(\[0., 0.\]\), 1\)"),
    (None, ValueError("no"), sluice.InvalidArgument, "experts: Own.choose has raised ValueError: no"),
    ("in touch", None, sluice.InvalidArgument, "experts: Own.touch has raised KeyError"),
    (None, KeyboardInterrupt(), KeyboardInterrupt, None),
])
def test_a_policy_that_fails_is_named_and_leaves_no_lease(answer, error, kind, message, folder):
    own, model, calls = Own(), checkpoints.on_meta(CONFIG), zipf(40, 64, 4)
    stream = stream_of(model, folder, experts=own)
    run(model, calls)
    assert stream.report()["experts"]["policy"] == "Own"
    own.answer, own.error = answer, error
    for _ in range(3):
        with pytest.raises(kind, match=message) as raised:
            run(model, calls)
        assert not leases_of(stream)
    own.answer = own.error = None
    run(model, calls)
    # The frames that the error holds have no weights.
    assert raised.value.__traceback__ is not None and stream.close()["experts"]["leases"] > 160


def test_a_candidate_may_be_given_as_tensors():
    own = Own()
    own.answer = torch.tensor(0), torch.tensor(7)
    victim = Guarded(own).choose(((0, 3), (0, 7)))
    assert victim == (0, 7) and type(victim[1]) is int


def test_objects_that_are_no_policy_are_refused(folder):
    class Half:
        def touch(self, layer, expert):
            """Notes nothing."""

    for experts, message in [
            (Own, r"is the class Own, and an object decides: Own\(\)"),
            (Half(), r"Half has no choose\(\); a policy has touch\(layer, expert\)"),
            ("gdsf", 'experts is "gdsf"; allowed are lfu, lru, or an object')]:
        model = checkpoints.on_meta(CONFIG)
        with pytest.raises(sluice.InvalidArgument, match=message):
            stream_of(model, folder, experts=experts)
        assert model.model.layers[0].mlp.experts.config is model.config


def test_two_threads_share_room_for_one_expert(folder):
    model = checkpoints.on_meta(CONFIG)
    with pytest.raises(sluice.TierFull) as error:
        stream_of(model, folder, dram=PAGE)
    least = int(str(error.value).rpartition("dram=")[2].split()[0])
    with stream_of(model, folder, dram=least) as stream:
        threads = [threading.Thread(target=run, args=(model, zipf(60, 64, 4, seed))) for seed in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        figures = stream.report()["experts"]
        assert not leases_of(stream) and figures["leases"] == 480
        assert figures["budget_bytes"] < 2 * figures["leased_bytes"] / figures["leases"]


def test_a_trace_is_a_schedule_of_the_lab(folder, tmp_path):
    model, calls = checkpoints.on_meta(CONFIG), zipf(40, 64, 4)
    path = tmp_path / "experts.jsonl"
    with stream_of(model, folder) as stream:
        run(model, calls[:5])
        with stream.trace_experts(path):
            run(model, calls)
        run(model, calls[:5])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    names = {line["tensor"]: line["name"] for line in lines if "tensor" in line}
    used = [names[line["reads"][0]] for line in lines if "op" in line]
    assert used == [f"model.layers.0.mlp.experts.{number}" for call in calls.tolist()
                    for number in sorted(call)]
    assert all(line["bytes"] == 3 * 64 * 32 * 4 for line in lines if "tensor" in line)
    ran = subprocess.run([_command.path(), "lab", "show", path, "--json"], capture_output=True,
                         text=True, check=True)
    assert json.loads(ran.stdout.splitlines()[0])["persistent_bytes"] == len(names) * 3 * 64 * 32 * 4
    with stream_of(model, folder, share=2.0, experts=None) as stream:
        with pytest.raises(sluice.InvalidArgument, match="no experts are leased one by one"):
            stream.trace_experts(path)


def test_a_trace_is_refused_before_the_block_or_written_whole(folder, tmp_path):
    model, calls = checkpoints.on_meta(CONFIG), zipf(5, 64, 4)
    path = tmp_path / "experts.jsonl"
    with stream_of(model, folder) as stream:
        with pytest.raises(FileNotFoundError, match="nowhere"):
            with stream.trace_experts(tmp_path / "nowhere" / "experts.jsonl"):
                pytest.fail("the block has run")
        with pytest.raises(KeyboardInterrupt):
            with stream.trace_experts(path):
                run(model, calls)
                raise KeyboardInterrupt
        assert sum('"op"' in line for line in path.read_text().splitlines()) == 20
    with pytest.raises(sluice.FailedPrecondition, match="the stream is closed"):
        stream.trace_experts(path)


def test_a_trace_ends_while_another_thread_runs_the_model(folder, tmp_path, monkeypatch):
    model, calls = checkpoints.on_meta(CONFIG), torch.arange(64).view(16, 4)
    lines = _expert_trace._lines

    def lines_later(used):
        run(model, calls)  # a run that another thread might make
        return lines(used)

    monkeypatch.setattr(_expert_trace, "_lines", lines_later)
    path, other = tmp_path / "experts.jsonl", tmp_path / "other.jsonl"
    with stream_of(model, folder) as stream, stream.trace_experts(other):
        with stream.trace_experts(path):
            run(model, calls[:2])
    assert json.loads(path.read_text().splitlines()[0])["ops"] == 8
    assert json.loads(other.read_text().splitlines()[0])["ops"] == 8 + 64
