#!/usr/bin/env bash
# torch 2.13.0 (PyPI, CPU): AdamW's weight decay does nothing at all to bf16 parameters, at usual rates.
#
# A good guess is that pure bf16 training loses small updates and keeps the large ones, decay among them, as 0.1 is a
# strong decay. torch.optim.AdamW first multiplies the parameter by 1 - lr * weight_decay in the parameter's own type.
# With lr 1e-3 and decay 0.1 that is 0.9999. Numbers of bf16 are 2^-8 to 2^-7 apart, so each product rounds back to the
# parameter.
#
# 300 steps with random gradients give the bits of weight_decay=0, where fp32 parameters lose 3 % of their norm.
# foreach=True and the plain loop do so; fused=True adds decay and step in fp32 before it rounds once, and then loses
# 0.01 %. Below lr * weight_decay of 2^-9 no decay gets through, in any number of steps. Who offloads optimizer states
# of bf16 parameters without an fp32 master meets this, and two back ends that both follow torch differ by it: one that
# decays in fp32 trains another model.
#
# Seen, norm after 300 steps over that without decay: fp32 0.9705; bf16 1.0 with the same bits; bf16 fused 0.99986.
# The script fails when bf16 parameters differ from those without decay, when fp32 ones lose less than 2 %, or when the
# fused ones lose more than 0.1 %.
#
# Needs: python3 3.11 with venv, PyPI.
set -euo pipefail

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.2.6

cat >decay.py <<'SOURCE'
import torch

torch.manual_seed(1)
start = torch.randn(100_000)
gradients = [torch.randn(100_000) for _ in range(20)]


def trained(dtype, decay, how):
    parameter = torch.nn.Parameter(start.to(dtype).clone())
    optimizer = torch.optim.AdamW([parameter], lr=1e-3, weight_decay=decay, **how)
    for step in range(300):
        parameter.grad = gradients[step % 20].to(dtype)
        optimizer.step()
    return parameter.detach()


def left(dtype, **how):
    decayed, plain = trained(dtype, 0.1, how), trained(dtype, 0.0, how)
    return (decayed.double().norm() / plain.double().norm()).item(), torch.equal(decayed, plain)


for how in ({"foreach": False}, {"foreach": True}):
    (full, _), (half, same) = left(torch.float32, **how), left(torch.bfloat16, **how)
    print(f"{how}: fp32 {full:.4f}, bf16 {half:.4f}, the same bits as without decay: {same}")
    assert full < 0.98 and same
share, same = left(torch.bfloat16, fused=True)
print(f"fused: bf16 {share:.5f}, the same bits: {same}")
assert 0.999 < share < 1 and not same
SOURCE
venv/bin/python decay.py
