#!/usr/bin/env bash
# torch 2.13.0 (PyPI, CPU): torch.distributed.checkpoint reads a whole saved tensor into memory for every rank that
# needs a part of it.
#
# A good guess is that loading with other ranks than saved reads each byte once: the metadata say where every element
# lies, and the loader plans which range goes where. But what a plan asks for is turned into a read of the whole item,
# a tensor or one rank's shard of it, from which a part is then copied. A checkpoint that one process wrote and four
# ranks load is read four times, and each rank holds the tensor beside its shard. So the largest tensor (an embedding,
# a flat parameter, stacked experts) decides the memory of a machine with many ranks: ranks x tensor, not the tensor.
# Ranks that saved it before read their own shards only.
#
# Seen for a tensor of 128 MiB and four ranks, MiB that a rank reads, and by which its peak grows: saved by one process
# 128 and 130 to 133; saved by the four ranks 32 and 33 to 36. A shard has 32 MiB.
# The script fails when a rank of the former reads or grows by less than 120, or one of the latter by more than 60.
#
# Needs: python3 3.11 with venv, PyPI.
set -euo pipefail

temporary=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.4.6

cat >load.py <<'SOURCE'
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, ones

SHAPE = (1 << 12, 1 << 13)


def of_process(file, key):
    with open(f"/proc/self/{file}") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(key))


def rank_main(rank, world, action, folder):
    dist.init_process_group("gloo", init_method=f"file://{os.path.abspath(folder)}.{action}", rank=rank,
                            world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    mine = ones(SHAPE, device_mesh=mesh, placements=[Shard(0)])
    if action == "save":
        checkpoint.save({"w": mine}, checkpoint_id=folder)
    else:
        read, peak = of_process("io", "rchar"), of_process("status", "VmHWM")
        checkpoint.load({"w": mine}, checkpoint_id=folder)
        read, peak = of_process("io", "rchar") - read, of_process("status", "VmHWM") - peak
        print(f"{folder} {read >> 20} {peak >> 10}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    checkpoint.save({"w": torch.ones(SHAPE)}, checkpoint_id="by_one")
    torch.multiprocessing.spawn(rank_main, (4, "save", "by_four"), nprocs=4)
    for folder in ("by_one", "by_four"):
        torch.multiprocessing.spawn(rank_main, (4, "load", folder), nprocs=4)
SOURCE

venv/bin/python load.py 2>/dev/null >seen
sort seen
[ "$(wc -l <seen)" = 8 ]
awk '$1 == "by_one" && ($2 < 120 || $3 < 120) || $1 == "by_four" && ($2 > 60 || $3 > 60) {exit 1}' seen
