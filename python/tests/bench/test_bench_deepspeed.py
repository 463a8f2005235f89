"""The cases against DeepSpeed: what they say without it, and what they judge of a peer's results."""

import contextlib
import importlib.metadata
import os

import pytest
import torch

from sluice.bench import _alike, _deepspeed, _peer
from sluice.bench import __main__ as bench
from sluice.bench._rows import Setting, Skipped

CASES = [name for name in bench.CASES if "deepspeed" in name]


@pytest.mark.parametrize("version", [None, "0.17.0"])
def test_an_absent_peer_says_how_to_install_it(monkeypatch, spill, version):
    real = importlib.metadata.version

    def found(name):
        if name == "deepspeed" and version is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return version if name == "deepspeed" else real(name)

    monkeypatch.setattr(importlib.metadata, "version", found)
    assert len(CASES) == 3
    for name in CASES:
        with pytest.raises(Skipped, match="libaio-dev.* pip install .*deepspeed==0.19.8"):
            bench.CASES[name](Setting(str(spill), True))


class Stand:
    """Steps of torch in this process, slower than any of ours, in place of DeepSpeed's."""

    bytes = 1000

    def __init__(self, spill, parts=0, layers=0):
        self.path = str(spill / "parameters.pt")
        self.model = _alike.Sums(parts) if parts else _alike.gpt2(layers)
        self.parts, self.layers = parts, layers
        self.masters = [torch.nn.Parameter(each.detach().float()) for each in self.model.parameters()]
        self.optimizer = torch.optim.AdamW(self.masters, **_alike.ADAMW)

    def call(self, name, seconds_max, **arguments):
        return getattr(self, name)(**arguments)

    def begun(self):
        return {"buffer_bytes": 16 << 20}

    def gradients_of(self, number):
        self.gradients = [_alike.gradient(index, number) for index in range(self.parts)]

    def step(self):
        self.model.zero_grad()
        if self.parts:
            loss = self.model(self.gradients)
        else:
            tokens = _alike.tokens()
            loss = self.model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        for master, each in zip(self.masters, self.model.parameters()):
            master.grad = each.grad.float()
        self.optimizer.step()
        with torch.no_grad():
            for master, each in zip(self.masters, self.model.parameters()):
                each.copy_(master)
        return {"seconds": 60.0, "bytes": self.bytes, "loss": loss.item(), "backward_seconds": 60.0,
                "backward_bytes": 0}

    def plain(self):
        return {"seconds": 1.0}

    def parameters(self):
        torch.save([each.detach() for each in self.model.parameters()], self.path)
        return {"path": self.path}


class Lost(Stand):
    """A peer that loses the update of the last 128 elements, as DeepSpeed does at some widths."""

    def step(self):
        last = [*self.model.parameters()][-1].detach().view(-1)[-128:]
        before = last.clone()
        said = super().step()
        last.copy_(before)
        return said


class Differing(Stand):
    """A peer that has another gradient, so that its losses are others."""

    def step(self):
        said = super().step()
        return {**said, "loss": said["loss"] * 1.02}


@pytest.fixture
def against(monkeypatch, spill):
    """Runs a case against a stand-in; its line."""
    monkeypatch.setattr(Setting, "rounds", 1)
    monkeypatch.setattr(_deepspeed, "PARAMETERS", {True: 4 << 20})
    monkeypatch.setattr(_deepspeed, "LAYERS", {True: 1})
    monkeypatch.setattr(_alike, "WIDTH", 128)

    def run(case, stand):
        @contextlib.contextmanager
        def deepspeed(setting, **options):
            yield stand(spill, **options)

        monkeypatch.setattr(_deepspeed, "deepspeed", deepspeed)
        return bench.CASES[case](Setting(str(spill), True)).as_dict(case)

    return run


@pytest.mark.parametrize("case", CASES)
def test_a_right_peer_is_compared(against, case):
    line = against(case, Stand)
    assert line["reached"] and line["ratio"] > 1, line
    if "step" in line["case"]:
        kept = 12 if case == "step/deepspeed" else 8
        crossing = 2 * (kept * (4 << 20) - (16 << 20))
        assert line["bytes"] == pytest.approx(crossing, rel=0.25)
        assert line["target"] == pytest.approx(0.9 * Stand.bytes / line["bytes"])


@pytest.mark.parametrize("case,stand", [("step/deepspeed", Lost), ("step/deepspeed/bf16", Lost),
                                        ("train/deepspeed", Differing)])
def test_a_wrong_peer_is_not_compared(against, case, stand):
    line = against(case, stand)
    assert line["value"] == "peer_wrong" and not {"ratio", "target", "reached"} & line.keys()
    assert case.startswith("train") or 100 <= line["wrong_elements"] <= 128


def test_wrong_results_of_ours_are_an_error():
    wrong = [torch.nn.Parameter(_alike.parameter(0))]
    with pytest.raises(RuntimeError, match="parameter 0 is not what torch.optim.AdamW gives"):
        _deepspeed.wrong_elements([_deepspeed._by_torch(0).bfloat16()], wrong)


PEER = """
import json, sys, time
from sluice.bench._peer import serve

class Echo:
    def __init__(self, word):
        print("noise")
        self.word = word
    def say(self, times):
        return {"said": self.word * times}
    def fail(self):
        raise ValueError("no such drive")
    def sleep(self):
        time.sleep(60)

serve(lambda: Echo(json.loads(sys.argv[1])["word"]))
"""


@pytest.fixture
def echo(tmp_path):
    """A process of Echo."""
    (tmp_path / "echo.py").write_text(PEER)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    with _peer.Peer("echo", {"word": "no"}, {"PYTHONPATH": path}) as peer:
        yield peer


def test_a_peer_answers_in_a_process_of_its_own(echo):
    assert [echo.call("say", 60, times=times) for times in (1, 2)] == [{"said": "no"},
                                                                       {"said": "nono"}]
    with pytest.raises(Skipped, match="the peer has ended in fail: .*ValueError: no such drive"):
        echo.call("fail", 60)


def test_a_peer_that_hangs_is_ended(echo):
    echo.call("say", 60, times=1)
    with pytest.raises(Skipped, match="the peer has not answered sleep in 1 s"):
        echo.call("sleep", 1)
    assert echo._process.wait(timeout=10) < 0
