#!/usr/bin/env bash
# torch 2.13.0 (PyPI, CPU) on glibc 2.36 (Debian 12): a StorageWeakRef to a storage that is gone costs as much memory as
# the storage did.
#
# A good guess is that a weak reference is free: torch's own table of shared storages holds StorageWeakRefs, and so does
# code that must know whether it has met a storage, such as hooks that offload each saved tensor once. expired() says
# True, and the bytes have been freed. But the reference keeps the storage's small object, and that lies between two
# tensors: 16 bytes behind one and 112 before the next, in 49 of 50 cases.
#
# So two freed neighbours cannot join, and each alone is too small for the next request of the same size, to which
# posix_memalign adds some bytes for the alignment. Every new tensor takes new memory, and the process grows as if
# nothing were freed. 200 tensors of 4 MiB, four of them alive at a time: hardly any growth. With a weak reference to
# each: 776 MiB, though all 200 have expired. Without tcache (a tunable of glibc), or with blocks of 1 MiB and more
# mapped by themselves, the same program does not grow.
#
# Seen, MiB after the run beyond those before: plain 0 to 36, weak 748 to 776, weak without tcache -7 to 12, weak with
# mapped blocks -4.
# The script fails when "weak" grows by less than 400 MiB, or one of the others by more than 100.
#
# Needs: python3 3.11 with venv, PyPI, glibc 2.36.
set -euo pipefail

temporary=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.2.6

cat >grow.py <<'SOURCE'
import sys

import torch
from torch.multiprocessing.reductions import StorageWeakRef


def resident():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmRSS"))


torch.set_num_threads(1)
kept, alive = [], []
x = torch.ones(1 << 20)
for _ in range(3):
    x = x + 1
before = resident()
for _ in range(200):
    x = x + 1
    if sys.argv[1] == "weak":
        kept.append(StorageWeakRef(x.untyped_storage()))
    alive.append(x)
    del alive[:-4]
del alive, x
assert all(each.expired() for each in kept)
print(resident() - before)
SOURCE

# MiB by which the program grows; further words are variables of its environment.
growth() { env "${@:2}" venv/bin/python grow.py "$1"; }
plain=$(growth plain)
weak=$(growth weak)
without_tcache=$(growth weak GLIBC_TUNABLES=glibc.malloc.tcache_count=0)
mapped=$(growth weak MALLOC_MMAP_THRESHOLD_=1048576)
echo "plain: $plain MiB, weak: $weak MiB, without tcache: $without_tcache MiB, mapped: $mapped MiB"
[ "$weak" -ge 400 ]
for other in "$plain" "$without_tcache" "$mapped"; do [ "$other" -le 100 ]; done
