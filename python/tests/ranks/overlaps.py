"""Two ranks whose updates go on beside the next forward and backward. See cases.py."""

import contextlib

import cases
import optimizing
import torch
from torch.nn.parallel import DistributedDataParallel

import sluice.torch

WIDTH = 256

# Half of it, the part of a rank, is what optimizing.Held holds.
HELD = {"dram": "8MiB", "nvme_bytes": "64MiB", "page_bytes": "64KiB", "tiers.nvme.keep_free": 0}


class Sometimes(torch.nn.Module):
    """A layer that every forward uses, and one that only some do."""

    def __init__(self):
        super().__init__()
        self.always = torch.nn.Linear(WIDTH, WIDTH)
        self.sometimes = torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, rows, both):
        hidden = self.always(rows)
        return self.sometimes(hidden) if both else hidden


def unused_parameters(spill, seed, overlap):
    """Parameters after a step of all of them, beside which a backward without some of them runs."""
    torch.manual_seed(seed)
    model = DistributedDataParallel(Sometimes(), gradient_as_bucket_view=True, find_unused_parameters=True)
    with sluice.Runtime(nvme=spill, **HELD) as runtime:
        optimizer = cases.adamw(model, runtime, overlap=overlap)
        model(torch.ones(4, WIDTH), True).square().mean().backward()
        with optimizing.Held(runtime) if overlap else contextlib.nullcontext() as held:
            optimizer.step()
            optimizer.zero_grad()
            if overlap:
                held.let_go_later()
            model(torch.ones(4, WIDTH), False).square().mean().backward()
        optimizer.step()
        optimizer.wait()
        return cases.digest(model.parameters())
