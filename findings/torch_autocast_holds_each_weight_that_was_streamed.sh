#!/usr/bin/env bash
# torch 2.13.0 with accelerate 1.15.0 (PyPI, CPU): autocast undoes both usual ways to stream fp32 weights. A model that
# is offloaded to the disk stays in memory as a whole, and a block that is given new weights computes with its first.
#
# A good guess is that autocast casts what an operation reads, and that under no_grad nothing outlives its layer. But
# autocast keeps the cast of each parameter until its region ends. The cast is made with a history, even under no_grad,
# and so it keeps the parameter, too. The cast is found again by the parameter object. A write to it goes unnoticed.
#
# accelerate makes new parameters for each visit of a layer, so no cast is ever found again. Each pass adds 1.5 times
# the model: its weights and their casts. A loop that generates tokens within one region adds that for each token.
# Accelerator(mixed_precision="bf16") opens a region for each forward: at the last layer the whole model is there.
#
# One block into which load_state_dict copies the weights of each layer takes no more memory. It computes every layer
# with the weights of the first, and says nothing. requires_grad_(False) or cache_enabled=False prevents both, as only
# casts of parameters that require gradients are kept. eval() prevents neither.
#
# Seen, 8 layers of 4 MiB, MiB by which anonymous memory has grown after 1, 2 and 3 passes over the offloaded model:
#   no autocast 0, 0, 0; autocast 48, 96, 144, and 0 when its region has ended; frozen 0, 0, 0; no cache 0, 0, 0
#   after the last layer of a forward by Accelerator: no mixed precision 0, bf16 48
# Seen, layers that the block computes with their own weights: no autocast 8; autocast 1; frozen 8; no cache 8.
# The script fails when memory differs from that by more than 4 MiB, or a number of layers at all.
#
# Needs: python3 3.11 with venv, PyPI, glibc 2.36.
set -euo pipefail

temporary=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.4.6 accelerate==1.15.0

cat >stream.py <<'SOURCE'
import contextlib
import sys

import torch
from accelerate import Accelerator, disk_offload

LAYERS, WIDTH = 8, 1024
INPUT = torch.ones(4, WIDTH)


def anonymous():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


def new_layers(frozen=False):
    torch.manual_seed(0)
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)]
    return torch.nn.Sequential(*layers).requires_grad_(not frozen).eval()


def offloaded(frozen=False):
    model = disk_offload(new_layers(frozen), "folder")
    for _ in range(2):
        model(INPUT)
    return model


def growth(region, frozen):
    model = offloaded(frozen)
    before, grown = anonymous(), []
    with region:
        for _ in range(3):
            model(INPUT)
            grown.append(anonymous() - before)
    return [*grown, anonymous() - before]


def at_the_last_layer(precision):
    model = Accelerator(cpu=True, mixed_precision=precision, device_placement=False).prepare(offloaded())
    model(INPUT)
    seen = []
    model[-1].register_forward_hook(lambda *_: seen.append(anonymous()))
    before = anonymous()
    model(INPUT)
    return seen[0] - before


def own_weights(region, frozen):
    """How many layers a block computes as they do, if it is given the weights of one after the other."""
    block = torch.nn.Linear(WIDTH, WIDTH, bias=False).requires_grad_(not frozen)
    count = 0
    for layer in (layers := new_layers()):
        layer.right = layer(INPUT)
    with region:
        for layer in layers:
            block.load_state_dict(layer.state_dict())
            count += torch.allclose(block(INPUT).float(), layer.right, atol=0.05)
    return count


REGIONS = {
    "no autocast": (contextlib.nullcontext(), False),
    "autocast": (torch.autocast("cpu", torch.bfloat16), False),
    "frozen": (torch.autocast("cpu", torch.bfloat16), True),
    "no cache": (torch.autocast("cpu", torch.bfloat16, cache_enabled=False), False),
}
EXPECTED = {"no autocast": ([0, 0, 0, 0], 8), "autocast": ([48, 96, 144, 0], 1), "frozen": ([0, 0, 0, 0], 8),
            "no cache": ([0, 0, 0, 0], 8), "no": [0], "bf16": [48]}


def near(found, expected):
    return all(abs(one - other) <= 4 for one, other in zip(found, expected, strict=True))


torch.set_num_threads(1)
kind = sys.argv[1]
with torch.no_grad():
    if kind in REGIONS:
        grown, count = growth(*REGIONS[kind]), own_weights(*REGIONS[kind])
        print(f"{kind}: {', '.join(f'{each:.0f}' for each in grown)} MiB; {count} layers by their own weights")
        right = near(grown, EXPECTED[kind][0]) and count == EXPECTED[kind][1]
    else:
        grown = at_the_last_layer(kind)
        print(f"Accelerator, {kind}: {grown:.0f} MiB")
        right = near([grown], EXPECTED[kind])
raise SystemExit(not right)
SOURCE

# Freed blocks of 1 MiB and more go back to the system at once.
export MALLOC_MMAP_THRESHOLD_=1048576
for kind in "no autocast" autocast frozen "no cache" no bf16; do
  venv/bin/python stream.py "$kind" 2>>log
done
