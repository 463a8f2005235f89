"""Steps of AdamW: on nvme against disk and memory, and the Python layer over the library."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import torch

import sluice
import sluice.torch
from sluice.torch._gradients import gather

from ._machine import Disk, Memory
from ._rows import Row, Setting, control_of, median, seconds_of

_MIB = 1 << 20

# Parameters of a step, by Setting.quick.
PARAMETERS = {True: 32 * _MIB, False: 96 * _MIB}

# Bytes of a bf16 parameter with a master: kept on nvme, and moved by its update.
_KEPT, _MOVED = 12, 28


def _parameters(count: int) -> "list[torch.nn.Parameter]":
    """bf16 parameters with gradients, in tensors of 1 Mi."""
    shape = (1024, 1024)
    made = [torch.nn.Parameter(torch.randn(shape).bfloat16()) for _ in range(count // _MIB)]
    for each in made:
        each.grad = torch.randn(shape).bfloat16() * 0.01
    return made


def step_on_nvme(setting: Setting) -> Row:
    """A step of 100 M parameters under 256 MiB, against the greater time of disk and memory."""
    count = PARAMETERS[setting.quick]
    dram = count * _KEPT * 256 // 1200  # 256 MiB of the 1.2 GB of 100 M
    disk, memory = Disk(setting), Memory()
    crossing = 2 * (_KEPT * count - dram)  # the states that do not stay in dram, read and written

    def floor() -> float:
        return max(crossing / disk.bytes_per_second(),
                   (_MOVED * count + crossing) / memory.bytes_per_second())

    params = _parameters(count)
    with closing(sluice.Runtime(dram=dram, nvme=setting.directory, nvme_bytes=20 * count,
                                page_bytes="2MiB")) as runtime:
        optimizer = sluice.torch.AdamW(params, runtime=runtime)
        both_ways(optimizer)
        times, floors = [], []
        before = floor()
        for _ in range(setting.rounds):
            times.append(seconds_of(lambda: both_ways(optimizer)) / 2)
            after = floor()
            floors.append((before + after) / 2)
            before = after
        numbers = optimizer.last_step
        crossed = runtime.stats()["links"]["dram-nvme"]
        optimizer.close()
    steps = 2 * (setting.rounds + 1)
    ratios = [least / ours for least, ours in zip(floors, times)]
    return Row(median(times), "s", median(ratios), 0.85, {
        "parameters": count, "budget_bytes": dram, "floor_bytes": crossing,
        "bytes": (crossed["in"]["bytes"] + crossed["out"]["bytes"]) / steps,
        "wait_seconds": numbers["wait_seconds"], "compute_seconds": numbers["compute_seconds"],
        **control_of(floors),
    })


def layer_over_library(setting: Setting) -> Row:
    """step() against the same updates given to the library, with all states in dram."""
    count = PARAMETERS[True]
    params = _parameters(count)
    with closing(sluice.Runtime(dram=14 * count, nvme=setting.directory, nvme_bytes=14 * count,
                                page_bytes="2MiB")) as runtime:
        optimizer = sluice.torch.AdamW(params, runtime=runtime, lowest="dram")
        both_ways(optimizer)

        def of_library() -> None:
            updates = gather(optimizer).updates
            times.append(seconds_of(lambda: _run(optimizer._core, updates)))

        layer, library = [], []
        for _ in range(10 * setting.rounds):  # the case's steps are short
            layer.append(seconds_of(lambda: both_ways(optimizer)))
            times: list[float] = []
            of_library()
            of_library()
            library.append(sum(times))
        optimizer.close()
    ratios = [theirs / ours for theirs, ours in zip(library, layer)]
    return Row(median(layer) / 2, "s", median(ratios), 1 / 1.03, {
        "parameters": count, "tensors": len(params), "library_seconds": median(library) / 2,
        **control_of(library),
    })


def _run(core: Any, updates: Any) -> None:
    core.start(updates, None)
    core.wait()


def both_ways(optimizer: Any) -> None:
    """A step in each direction of the sweep."""
    optimizer.step()
    optimizer.step()
