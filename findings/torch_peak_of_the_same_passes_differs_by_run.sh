#!/usr/bin/env bash
# torch 2.13.0 (PyPI, CPU) on glibc 2.36 (Debian 12): forward and backward of one program take twice what they save, and
# nearly half more in some runs than in others.
#
# A good guess is that the peak of a run is a number: measured once without offloading, it is the base against which
# offloading is judged, or the cap that plain training cannot keep. But the C library gives blocks of 4 MiB out of one
# heap, where small objects of Python and torch lie between them. Where these come to lie depends on the start of the
# heap and on the seed of Python's hashes, both random. Freed blocks that cannot join are of no use for the next step.
#
# Two steps of 120 layers save 480 MiB, and the processes take between two and three times that. With a fixed seed and
# without randomised addresses all take the same. With blocks of 1 MiB and more mapped by themselves they take 490 MiB.
# So one measured pair may show offloading to save hundreds of MiB that it did not, or hide as much.
#
# Seen, MiB: default 1012 to 1460 (16 processes); fixed seed and addresses 1460, four times; mapped blocks 490.
# The script fails when the default peaks differ by less than a tenth or one is below 800, when the fixed ones differ,
# or when mapped blocks take more than 560.
#
# Needs: python3 3.11 with venv, PyPI, glibc 2.36, setarch -R (personality must be allowed).
set -euo pipefail

temporary=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.2.6

cat >peak.py <<'SOURCE'
import torch


def anonymous():
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("RssAnon"))


torch.set_num_threads(1)
before, peak = anonymous(), 0
for _ in range(2):
    y = x = torch.ones(1024, 1024, requires_grad=True)
    for _ in range(120):
        y = y + torch.nn.functional.gelu(y * 0.5)
    peak = max(peak, anonymous() - before)
    y.sum().backward()
print(peak)
SOURCE

# peaks RUNS COMMAND...: MiB of each run of the program under the command, sorted.
peaks() { for _ in $(seq "$1"); do "${@:2}" venv/bin/python peak.py; done | sort -n; }
default=$(peaks 16 env)
fixed=$(peaks 4 env PYTHONHASHSEED=0 setarch -R)
mapped=$(peaks 4 env MALLOC_MMAP_THRESHOLD_=1048576)
least=$(head -n 1 <<<"$default") most=$(tail -n 1 <<<"$default")
echo "default: $least to $most MiB, fixed: $(tr '\n' ' ' <<<"$fixed")mapped: $(tail -n 1 <<<"$mapped") MiB"
[ "$least" -ge 800 ] && [ $((10 * most)) -ge $((11 * least)) ]
[ "$(head -n 1 <<<"$fixed")" = "$(tail -n 1 <<<"$fixed")" ]
[ "$(tail -n 1 <<<"$mapped")" -le 560 ]
