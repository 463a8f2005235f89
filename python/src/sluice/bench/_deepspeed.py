"""Steps against DeepSpeed's, whose optimizer states are on nvme too, with the same memory for them."""

from __future__ import annotations

import importlib.metadata
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, Callable

import torch

import sluice
import sluice.torch

from . import _alike
from ._machine import disk_bytes
from ._optimizer import PARAMETERS, both_ways
from ._peer import Peer
from ._rows import Row, Setting, Skipped, median, seconds_of

VERSION = "0.19.8"
_INSTALL = ("it needs Debian's libaio-dev, and: pip install ninja; DS_BUILD_OPS=0 pip install"
            f" --no-build-isolation deepspeed=={VERSION}")

# Elements of each of its 16 swap buffers, and layers of the GPT-2, by Setting.quick.
ELEMENTS = {True: 1 << 20, False: 4 << 20}
LAYERS = {True: 2, False: 7}

# Steps whose results are compared before any is timed.
_CHECKED = 3

# The first call waits for what DeepSpeed compiles, once per machine.
_BEGIN_SECONDS_MAX = 1800.0
_CALL_SECONDS_MAX = 300.0

# Room on nvme for biases, each of which has a page.
_SMALL = 256 << 20

# Losses of bfloat16 models may differ by this share; time beyond a step counts as that of a step.
_LOSS_SHARE = 0.01
_LEAST_BEYOND = 0.01


@contextmanager
def deepspeed(setting: Setting, **options: Any) -> "Iterator[Peer]":
    """DeepSpeed with the options of its class. Raises Skipped, which says how to install it."""
    try:
        found = importlib.metadata.version("deepspeed")
    except importlib.metadata.PackageNotFoundError:
        raise Skipped(f"DeepSpeed {VERSION} is not installed: {_INSTALL}") from None
    if found != VERSION:
        raise Skipped(f"DeepSpeed {found} is installed, and {VERSION} is compared with: {_INSTALL}")
    with tempfile.TemporaryDirectory(prefix="deepspeed-", dir=setting.directory) as directory:
        own = {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1",
               "LOCAL_SIZE": "1", "OMP_NUM_THREADS": str(torch.get_num_threads())}
        words = {"directory": directory, "elements": ELEMENTS[setting.quick], **options}
        with Peer(f"{__package__}._deepspeed_peer", words, own) as peer:
            yield peer


def step_fp32(setting: Setting) -> Row:
    """A step of bf16 parameters with masters and fp32 moments."""
    return _step(setting, "fp32")


def step_bf16(setting: Setting) -> Row:
    """A step of bf16 parameters with masters and bf16 moments; DeepSpeed's are fp32."""
    return _step(setting, "bf16")


def _step(setting: Setting, moments: str) -> Row:
    count = PARAMETERS[setting.quick] // (_alike.SHAPE[0] * _alike.SHAPE[1])
    with deepspeed(setting, parts=count) as peer:
        budget = peer.call("begun", _BEGIN_SECONDS_MAX)["buffer_bytes"]
        params = [torch.nn.Parameter(_alike.parameter(index)) for index in range(count)]
        size = sum(each.numel() for each in params)
        with closing(sluice.Runtime(dram=budget, nvme=setting.directory, nvme_bytes=20 * size,
                                    page_bytes="2MiB")) as runtime:
            optimizer = sluice.torch.AdamW(params, runtime=runtime, states=moments, **_alike.ADAMW)
            for number in range(_CHECKED):
                for index, each in enumerate(params):
                    each.grad = _alike.gradient(index, number)
                optimizer.step()
                peer.call("gradients_of", _CALL_SECONDS_MAX, number=number)
                peer.call("step", _CALL_SECONDS_MAX)
            path = peer.call("parameters", _CALL_SECONDS_MAX)["path"]
            figures = {"parameters": size, "budget_bytes": budget, "peer": f"DeepSpeed {VERSION}"}
            wrong = wrong_elements(torch.load(path), params if moments == "fp32" else [])
            if wrong:
                return Row("peer_wrong", "s", figures={**figures, "wrong_elements": wrong})
            row = _times(optimizer, peer, setting)
            optimizer.close()
    row.figures = {**figures, **row.figures}
    return row


def _times(optimizer: Any, peer: Peer, setting: Setting) -> Row:
    """Steps of both in turn. The bytes are those that the kernel moved for each process in its steps."""
    ours, theirs, moved, said = [], [], [], []
    for _ in range(setting.rounds):
        before = disk_bytes()
        ours.append(seconds_of(lambda: both_ways(optimizer)) / 2)
        moved.append((disk_bytes() - before) / 2)
        said.append(peer.call("step", _CALL_SECONDS_MAX))
        theirs.append(said[-1]["seconds"])
    peer_bytes = median(each["bytes"] for each in said)
    return Row(median(ours), "s", median(b / a for a, b in zip(ours, theirs)),
               0.9 * peer_bytes / median(moved), {
        "bytes": median(moved), "peer_seconds": median(theirs), "peer_bytes": peer_bytes,
        "bytes_of": "/proc/PID/io of each process, in its steps",
        "peer_backward_bytes": median(each["backward_bytes"] for each in said),
    })


def wrong_elements(theirs: list[torch.Tensor], ours: list[torch.Tensor]) -> int:
    """Elements of DeepSpeed's parameters that are not what torch gives.

    Raises RuntimeError if one of ours is not.
    """
    wrong = 0
    for index, found in enumerate(theirs):
        expected = _by_torch(index)
        wrong += _beyond(found, expected)
        if ours and _beyond(ours[index].detach(), expected):
            raise RuntimeError(f"parameter {index} is not what torch.optim.AdamW gives")
    return wrong


def _by_torch(index: int) -> torch.Tensor:
    """The fp32 master of a parameter after the steps that are checked."""
    master = torch.nn.Parameter(_alike.parameter(index).float())
    optimizer = torch.optim.AdamW([master], **_alike.ADAMW)
    for number in range(_CHECKED):
        master.grad = _alike.gradient(index, number).float()
        optimizer.step()
    return master.detach()


def _beyond(found: torch.Tensor, expected: torch.Tensor) -> int:
    """Elements that differ by more than rounding to bfloat16 and 1e-6 (|p| + 50 lr)."""
    size = expected.abs()
    allowed = size * 2**-8 + 1e-6 * (size + 50 * _alike.ADAMW["lr"])
    return int((~((found.float() - expected).abs() <= allowed)).sum())


def whole(setting: Setting) -> Row:
    """The time of a GPT-2's step beyond its forward and backward."""
    layers = LAYERS[setting.quick]

    def step() -> float:
        loss = training.forward_and_backward()
        optimizer.step()
        return loss

    with deepspeed(setting, layers=layers) as peer:
        plain, training = _alike.Training(layers), _alike.Training(layers)
        params = list(training.model.parameters())
        size = sum(each.numel() for each in params)
        budget = peer.call("begun", _BEGIN_SECONDS_MAX)["buffer_bytes"]
        figures = {"parameters": size, "budget_bytes": budget, "peer": f"DeepSpeed {VERSION}"}
        with closing(sluice.Runtime(dram=budget, nvme=setting.directory, nvme_bytes=20 * size + _SMALL,
                                    page_bytes="1MiB")) as runtime:
            optimizer = sluice.torch.AdamW(params, runtime=runtime, **_alike.ADAMW)
            losses = [(step(), peer.call("step", _CALL_SECONDS_MAX)["loss"]) for _ in range(_CHECKED)]
            figures |= {"losses": [ours for ours, _ in losses], "peer_losses": [b for _, b in losses]}
            if any(abs(ours - theirs) > _LOSS_SHARE * ours for ours, theirs in losses):
                return Row("peer_wrong", "s", figures=figures)
            row = _beyond_backward(plain, step, peer, setting)
            optimizer.close()
    row.figures = {**figures, **row.figures}
    return row


def _beyond_backward(plain: _alike.Training, step: Callable[[], float], peer: Peer,
                     setting: Setting) -> Row:
    """Whole steps of both in turn, less forward and backward of the same model in the same process."""

    def peer_plain() -> float:
        seconds: float = peer.call("plain", _CALL_SECONDS_MAX)["seconds"]
        return seconds

    plains, peer_plains, ours, theirs = [], [], [], []
    plain.forward_and_backward()
    peer_plain()
    for _ in range(setting.rounds):
        before, peer_before = seconds_of(plain.forward_and_backward), peer_plain()
        whole = seconds_of(step)
        said = peer.call("step", _CALL_SECONDS_MAX)
        plains.append((before + seconds_of(plain.forward_and_backward)) / 2)
        peer_plains.append((peer_before + peer_plain()) / 2)
        ours.append(max(whole - plains[-1], _LEAST_BEYOND * plains[-1]))
        theirs.append(said["backward_seconds"] + said["seconds"] - peer_plains[-1])
    return Row(median(ours), "s", median(b / a for a, b in zip(ours, theirs)), 1 / 0.6, {
        "plain_seconds": median(plains), "peer_seconds": median(theirs),
        "peer_plain_seconds": median(peer_plains),
    })
