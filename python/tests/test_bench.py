"""The benchmarks of the PyTorch layer run, in small, and judge what they measure."""

import json
import math

import pytest

from sluice.bench import __main__ as bench
from sluice.bench import _activations, _machine, _optimizer
from sluice.bench._rows import Row, Setting, Skipped, control_of


def run(monkeypatch, capsys, *words):
    monkeypatch.setattr("sys.argv", ["sluice.bench", *words])
    code = bench.main()
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_line_per_case_says_what_was_reached(monkeypatch, capsys, spill):
    cases = {
        "good": lambda setting: Row(2.0, "s", 1.0, 1.0, {"rounds": setting.rounds}),
        "reported": lambda setting: Row(3.0, "us"),
        "skipped": lambda setting: _raise(Skipped("fio is not installed")),
    }
    monkeypatch.setattr(bench, "CASES", cases)
    code, lines = run(monkeypatch, capsys, "--dir", str(spill), "--quick")
    assert code == 0 and lines == [
        {"case": "good", "value": 2.0, "unit": "s", "ratio": 1.0, "target": 1.0, "reached": True,
         "rounds": 3},
        {"case": "reported", "value": 3.0, "unit": "us"},
        {"case": "skipped", "skipped": "fio is not installed"},
    ]
    cases["bad"] = lambda setting: Row(2.0, "s", 0.5, 1.0)
    code, lines = run(monkeypatch, capsys, "--dir", str(spill), "--case", "b*")
    assert code == 1 and [line["reached"] for line in lines] == [False]
    assert not any(spill.iterdir())
    monkeypatch.chdir(spill)  # the place of a run without --dir
    cases["part/several"] = lambda setting: {"/one": Row(1.0, "s"), "": Skipped("no package")}
    code, lines = run(monkeypatch, capsys, "part")
    assert code == 0 and lines == [{"case": "part/several/one", "value": 1.0, "unit": "s"},
                                   {"case": "part/several", "skipped": "no package"}]
    with pytest.raises(SystemExit):
        run(monkeypatch, capsys, "--dir", str(spill), "--case", "no such")
    assert "no case matches 'no such'; there are good," in capsys.readouterr().err


def _raise(error):
    raise error


class SlowDisk:
    def __init__(self, setting):
        pass

    def bytes_per_second(self):
        return 1.0


def test_each_case_measures(monkeypatch, spill):
    monkeypatch.setattr(Setting, "rounds", 3)
    monkeypatch.setattr(_optimizer, "PARAMETERS", {True: 4 << 20, False: 4 << 20})
    monkeypatch.setitem(_activations.SHAPE, "n_layer", 1)
    monkeypatch.setitem(_activations.SHAPE, "vocab_size", 256)
    monkeypatch.setattr(_optimizer, "Disk", SlowDisk)
    monkeypatch.setattr(_activations, "Disk", SlowDisk)
    for name, case in bench.CASES.items():
        if name.startswith("stream/") or "deepspeed" in name:
            continue  # test_bench_stream.py, bench/test_bench_deepspeed.py
        line = case(Setting(str(spill), True)).as_dict(name)
        assert math.isfinite(line["value"]) and math.isfinite(line["ratio"]), name
        # What torch.save adds is a difference of times, which other processes can make negative.
        assert line["ratio"] > 0 or name == "activations/torch.save", name
        if name in ("step/nvme", "activations/offload"):
            assert line["reached"], "a disk of 1 B/s is the floor"
        if name in ("step/nvme", "step/layer", "activations/offload"):
            assert 0 < line["control_low"] <= line["control"], name
        if name == "step/nvme":
            assert line["bytes"] == pytest.approx(line["floor_bytes"], rel=0.2)


def test_the_control_is_of_rounds_that_follow_each_other():
    # The ratios are 2, 1, 0.5 and 1. Their lower quartile lies between 0.5 and 1.
    assert control_of([1.0, 2.0, 2.0, 1.0, 1.0]) == {"control": 1.0, "control_low": 0.875}
    assert control_of([1.0, 2.0]) == {}


def test_without_fio_the_disk_is_not_judged(monkeypatch, spill):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Skipped, match="fio is not installed"):
        _machine.Disk(Setting(str(spill), True))


def test_memory_on_huge_pages_has_them():
    with open("/sys/kernel/mm/transparent_hugepage/enabled", encoding="ascii") as file:
        if "[never]" in file.read():
            pytest.skip("the system gives no huge pages")
    before = _huge_bytes()
    memory = _machine.on_huge_pages(16 << 20)
    memory[:] = bytes(16 << 20)
    assert _huge_bytes() - before >= 8 << 20


def _huge_bytes():
    """Bytes of this process on transparent huge pages."""
    with open("/proc/self/smaps_rollup", encoding="ascii") as file:
        (line,) = (line for line in file if line.startswith("AnonHugePages:"))
    return int(line.split()[1]) << 10
