#!/usr/bin/env bash
# torch 2.13.0 (PyPI, CPU) on glibc 2.36 (Debian 12): an operation whose result has 32 MiB costs several times as much
# per byte as one whose result has 31 MiB.
#
# A good guess is that the allocator keeps freed blocks, as torch's for CUDA does. On the CPU torch has no allocator of
# its own: each result is a posix_memalign. glibc raises its threshold for blocks that are mapped by themselves as such
# blocks are freed, so a loop soon runs on memory that is there. But the threshold stops at 32 MiB. A result of that
# size is mapped, filled with zeros by the kernel page by page (4 KiB each), written once, and unmapped: 8193 page
# faults for `x + 1`, at every call. Logits (batch x positions x vocabulary) and hidden layers of a GPT reach 32 MiB
# early, and so do copies that offloading brings back.
#
# MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_ together take all faults away. The former alone does not: it also
# fixes the limit at which free memory goes back to the system, at 128 KiB. Huge pages for malloc (a tunable of glibc)
# or for torch (THP_MEM_ALLOC_ENABLE=1) leave a sixteenth of the faults, but the kernel zeroes as many bytes.
#
# Seen on 2 cores of an AMD EPYC, us per MiB and faults per call: 31 MiB 113 and 0; 32 MiB 973 and 8193; both variables
# 117 and 0; huge pages of glibc 233 and 528.
# The script fails when 32 MiB fault less or cost less than twice of 31, or a remedy changes its faults.
#
# Needs: python3 3.11 with venv, PyPI, glibc 2.36, transparent huge pages ("madvise" or "always").
set -euo pipefail

temporary=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.4.6

cat >add.py <<'SOURCE'
import resource
import sys
import time

import torch

torch.set_num_threads(1)
mebibytes = int(sys.argv[1])
x = torch.ones(mebibytes << 18)
times, faults = [], []
for call in range(41):
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
    y = x + 1
    del y
    times.append(time.perf_counter() - start)
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(int(sorted(times)[20] / mebibytes * 1e6), sorted(faults)[20])
SOURCE

# Medians of a call's time (us per MiB) and faults; further words are variables of the environment.
add() { env "${@:2}" venv/bin/python add.py "$1"; }
read -r below_us below < <(add 31)
read -r at_us at < <(add 32)
read -r both_us both < <(add 32 MALLOC_MMAP_THRESHOLD_=1073741824 MALLOC_TRIM_THRESHOLD_=4294967296)
read -r huge_us huge < <(add 32 GLIBC_TUNABLES=glibc.malloc.hugetlb=1)
echo "31 MiB: $below_us us/MiB, $below faults; 32 MiB: $at_us us/MiB, $at faults"
echo "both variables: $both_us us/MiB, $both faults; huge pages: $huge_us us/MiB, $huge faults"
[ "$below" -le 100 ] && [ "$at" -ge 8000 ] && [ "$at_us" -ge $((2 * below_us)) ]
[ "$both" -le 100 ] && [ "$huge" -le 1000 ]
