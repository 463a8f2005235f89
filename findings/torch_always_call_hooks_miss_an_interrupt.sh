#!/usr/bin/env bash
# torch 2.13.0 (PyPI, CPU): neither kind of forward hook gives back in every case what the pre-hook before it took.
#
# A module that borrows something for its forward, such as a lease of its weights, takes it in a forward pre-hook and
# gives it back in a forward hook. Its documentation says of always_call=True that the hook runs "regardless of whether
# an exception is raised". A good guess is that this is a try/finally, and that without it only errors are missed. Both
# are wrong:
#
# - A plain hook is missed without any error of the program: torch.utils.checkpoint stops the recomputation by an
#   exception of its own once the last saved tensor is there. That is within the last module that saves something. So
#   this module, and every module around it, was entered and not left, at each backward.
# - A hook with always_call=True runs then, and after any Exception. It does not run after a KeyboardInterrupt, which is
#   none. After Ctrl-C in a notebook, all modules around the point of the interrupt hold what they took, and the next
#   call may find nothing left.
#
# Seen, entries less exits of a block and its two layers, in the recomputation or after the error:
#   checkpoint, plain 2;  checkpoint, always_call 0;  ValueError, always_call 0;  KeyboardInterrupt, always_call 2.
# The script fails when one of these changes. What helps: a forward that is wrapped in try/finally, or a count that the
# next entry of the outermost module settles.
#
# Needs: python3 3.11 with venv, PyPI.
set -euo pipefail

temporary=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.2.6

cat >balance.py <<'SOURCE'
import torch
from torch.utils.checkpoint import checkpoint


class Raises(torch.nn.Linear):
    error = None

    def forward(self, x):
        if self.error is not None:
            raise self.error
        return super().forward(x)


def watched(always_call):
    """A block of two layers, and a list whose only number is entries less exits."""
    block = torch.nn.Sequential(torch.nn.Linear(4, 4), Raises(4, 4))
    inside = [0]
    for module in (block, *block):
        module.register_forward_pre_hook(lambda *_: inside.__setitem__(0, inside[0] + 1))
        module.register_forward_hook(lambda *_: inside.__setitem__(0, inside[0] - 1), always_call=always_call)
    return block, inside


for always_call in (False, True):
    block, inside = watched(always_call)
    x = torch.ones(2, 4, requires_grad=True)
    loss = checkpoint(block, x, use_reentrant=False).sum()
    assert inside[0] == 0, "the first pass is left by all"
    loss.backward()
    print("checkpoint", "always_call" if always_call else "plain", inside[0])
for error in (ValueError(), KeyboardInterrupt()):
    block, inside = watched(True)
    block[1].error = error
    try:
        block(torch.ones(2, 4))
    except type(error):
        pass
    print(type(error).__name__, "always_call", inside[0])
SOURCE

venv/bin/python balance.py | tee seen
diff - seen <<'EXPECTED'
checkpoint plain 2
checkpoint always_call 0
ValueError always_call 0
KeyboardInterrupt always_call 2
EXPECTED
echo "as described, with torch $(venv/bin/python -c 'import torch; print(torch.__version__)')"
