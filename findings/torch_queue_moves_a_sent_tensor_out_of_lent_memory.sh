#!/usr/bin/env bash
# torch 2.13.0 (PyPI, CPU): putting a tensor into a torch.multiprocessing queue moves the sender's own tensor.
#
# A good guess is that put() copies: the receiver gets shared memory and the sender keeps what it had. torch moves the
# storage of the tensor that is sent, in place, into a new shared segment. A tensor that was made over somebody else's
# memory (torch.from_numpy, torch.from_dlpack) silently leaves that memory.
#
# Its data_ptr() changes, is_shared() becomes True, and what is written to it afterwards no longer reaches the array
# that lent the memory; nor do views of the same storage. Nothing is raised, and the lender is not told. Memory that a
# pager or a buffer pool lends as DLPack, and then writes, is not what the trainer goes on reading once a DataLoader
# worker or a metrics queue was handed such a tensor.
#
# Seen, for both: the address changed, shared True, 42 written to the tensor reads 0 in the array.
# The script fails when the address stays, or when the write reaches the array.
#
# Needs: python3 3.11 with venv, PyPI.
set -euo pipefail

temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.2.6

cat >put.py <<'SOURCE'
import numpy
import torch
import torch.multiprocessing


def send(name, lend):
    array = numpy.zeros(1024, dtype=numpy.float32)
    tensor = lend(array)
    view, before = tensor[:8], tensor.data_ptr()
    assert before == array.ctypes.data
    torch.multiprocessing.get_context("spawn").SimpleQueue().put(tensor)
    tensor[0] = 42.0
    moved = tensor.data_ptr() != before
    print(f"{name}: address changed {moved}, shared {tensor.is_shared()}, the array reads {array[0]:.0f}, "
          f"a view of before reads {view[0].item():.0f}")
    assert moved and tensor.is_shared() and array[0] == 0 and view[0].item() == 42


if __name__ == "__main__":
    send("from_numpy", torch.from_numpy)
    send("from_dlpack", torch.from_dlpack)
SOURCE
venv/bin/python put.py
