#!/usr/bin/env bash
# torch 2.13.0 (PyPI, CPU) and numpy 2.4.6: a look at a parameter with .numpy() ends training under FSDP2.
#
# A good guess is that .numpy() only makes a view, and that the tensor is as before once the view is gone. But the call
# marks the tensor's storage as one that is never resized again. The mark is kept by the storage, so it also holds for
# every other tensor on it, and no call of Python takes it away. numpy.from_dlpack gives the same view and no mark.
#
# FSDP2 (fully_shard) gives the gathered parameters back by resizing their storages to 0. Within a module's forward the
# parameters are plain tensors, of which .numpy() is allowed. So a forward pre-hook that logs the largest weight of a
# layer by .numpy() works for the hook, and the next reshard raises "Trying to resize storage that is not resizable",
# in a line of FSDP that names neither the hook nor the layer. The same holds for whatever frees a tensor's memory and
# keeps the tensor, as offloading by resized storages does.
#
# Seen, 2 ranks on gloo, 2 steps, the weight's maximum taken in a forward pre-hook of the first layer:
#   torch's max: 2 steps; from_dlpack: 2 steps; .numpy(): RuntimeError in step 0, on both ranks
#   resizable after .numpy() and del of the array: False; after from_dlpack: True
# The script fails when one of these is otherwise.
#
# Needs: python3 3.11 with venv, PyPI.
set -euo pipefail

temporary=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.4.6

cat >mark.py <<'SOURCE'
import numpy
import torch

for name, view_of in {"numpy": torch.Tensor.numpy, "from_dlpack": numpy.from_dlpack}.items():
    tensor = torch.ones(1000)
    view = view_of(tensor)
    del view
    print(name, tensor.untyped_storage().resizable())
SOURCE

cat >train.py <<'SOURCE'
import os
import sys

import numpy
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

rank, folder, look = int(sys.argv[1]), sys.argv[2], sys.argv[3]
torch.distributed.init_process_group(
    "gloo", store=torch.distributed.FileStore(os.path.join(folder, look), 2), rank=rank, world_size=2)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
mesh = init_device_mesh("cpu", (2,))
for module in (model[0], model[2], model):
    fully_shard(module, mesh=mesh)

LOOKS = {
    "torch": lambda weight: float(weight.max()),
    "from_dlpack": lambda weight: float(numpy.from_dlpack(weight).max()),
    "numpy": lambda weight: float(weight.numpy().max()),
}
model[0].register_forward_pre_hook(lambda module, _: LOOKS[look](module.weight.detach()) and None)
steps = 0
try:
    for _ in range(2):
        model(torch.ones(4, 64)).sum().backward()
        steps += 1
    said = "completed"
except RuntimeError as error:
    said = str(error).splitlines()[0]
print(f"{look}: {steps} steps, {said}", flush=True)
os._exit(0)  # the other rank may wait in a collective
SOURCE

train() {
  venv/bin/python train.py 1 "$PWD" "$1" >one 2>err1 &
  venv/bin/python train.py 0 "$PWD" "$1" 2>err0
  wait
  cat one
}

venv/bin/python mark.py | tee seen
for look in torch from_dlpack numpy; do train "$look"; done | tee -a seen
diff seen - <<'EXPECTED'
numpy False
from_dlpack True
torch: 2 steps, completed
torch: 2 steps, completed
from_dlpack: 2 steps, completed
from_dlpack: 2 steps, completed
numpy: 0 steps, Trying to resize storage that is not resizable
numpy: 0 steps, Trying to resize storage that is not resizable
EXPECTED
