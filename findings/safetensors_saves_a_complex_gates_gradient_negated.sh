#!/usr/bin/env bash
# safetensors 0.8.0, numpy 2.4.6 and torch 2.13.0 (PyPI, CPU): gradients of a learned complex scalar are saved negated.
#
# A good guess is that the gradient of a float32 parameter, contiguous and on the CPU, has its values in its memory. But
# torch conjugates lazily, and the imaginary part of a lazy conjugate is a view that negates what it reads. Backward
# hands such a view to the parameter as it is, if the layout fits, which is so for tensors of one element: the gate or
# the decay of a layer whose state is complex. Larger ones have the stride of complex numbers and are copied.
#
# Whoever reads gradients by their address has the wrong sign: an optimizer on the host, a file of spilled gradients, a
# checkpoint for exact resumption. Tensor.numpy() refuses and says why, and torch.save and torch.optim read what torch
# reads. safetensors writes the bytes as they are, and DLPack hands them out as they are. Neither says a word, and the
# sign is wrong for some of the parameters of a model: the real part's gradient is right.
#
# Seen, (real + i imag), conjugated, times 3 + 4i, its real part differentiated by `imag`, of shapes () and (1,):
#   tolist 4.0; torch.save 4.0; safetensors -4.0; numpy.from_dlpack -4.0; .numpy() RuntimeError
#   of shape (2,), and by `real`: the same value by each of the five
# The script fails when one of these is otherwise.
#
# Needs: python3 3.11 with venv, PyPI.
set -euo pipefail

temporary=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.4.6 safetensors==0.8.0

cat >gate.py <<'SOURCE'
import io

import numpy
import safetensors.torch
import torch


def by_torch_save(gradient):
    file = io.BytesIO()
    torch.save(gradient, file)
    file.seek(0)
    return torch.load(file)


def by_numpy(gradient):
    try:
        return torch.from_numpy(gradient.numpy())
    except RuntimeError:
        return None


READS = {
    "tolist": lambda gradient: torch.tensor(gradient.tolist()),
    "torch.save": by_torch_save,
    "safetensors": lambda gradient: safetensors.torch.load(safetensors.torch.save({"g": gradient}))["g"],
    "from_dlpack": lambda gradient: torch.from_numpy(numpy.from_dlpack(gradient).copy()),
    "numpy": by_numpy,
}

failed = False
for shape in ((), (1,), (2,)):
    real, imag = (torch.nn.Parameter(torch.full(shape, 0.5)) for _ in range(2))
    (torch.complex(real, imag).conj() * torch.tensor(3 + 4j)).real.sum().backward()
    for name, parameter, value in (("real", real, 3.0), ("imag", imag, 4.0)):
        read = {each: call(parameter.grad) for each, call in READS.items()}
        seen = {each: None if got is None else got.flatten()[0].item() for each, got in read.items()}
        lazy = name == "imag" and parameter.numel() == 1
        wanted = dict.fromkeys(READS, value)
        if lazy:
            wanted.update({"safetensors": -value, "from_dlpack": -value, "numpy": None})
        print(name, shape, parameter.grad.dtype, parameter.grad.is_contiguous(), seen)
        failed |= seen != wanted
raise SystemExit(1 if failed else 0)
SOURCE

venv/bin/python gate.py
