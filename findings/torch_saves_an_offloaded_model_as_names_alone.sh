#!/usr/bin/env bash
# torch 2.13.0 with accelerate 1.15.0 (PyPI, CPU): torch.save of the state_dict of an offloaded model writes names and
# shapes, says nothing, and the file loads with "All keys matched successfully".
#
# A good guess is that a state_dict has the weights, or that saving it fails. Outside a forward the parameters of a
# model behind accelerate's cpu_offload or disk_offload are on the meta device, and torch.save takes meta tensors: a
# model of 512 KiB becomes a file of 2 KiB. Loading it into an ordinary model is an error, after the run that could
# have saved the weights is over. Loading it with assign=True, as one does for large models, is no error at all: every
# key matches, and the error waits for the first forward. Every other way to save refuses (safetensors,
# torch.distributed.checkpoint: NotImplementedError) or reads the weights from where they are
# (Accelerator.save_model), so a training script that has worked with them shows nothing of it.
#
# Seen, for both kinds of offloading:
#   torch.save: 2 KiB; load: RuntimeError; load with assign: All keys matched; forward: RuntimeError
#   safetensors: NotImplementedError; torch.distributed.checkpoint: NotImplementedError
#   Accelerator.save_model: every weight
# The script fails when one of these changes.
#
# Needs: python3 3.11 with venv, PyPI.
set -euo pipefail

temporary=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.4.6 accelerate==1.15.0 safetensors==0.8.0

cat >save.py <<'SOURCE'
import os

import torch
import torch.distributed.checkpoint as checkpoint
from accelerate import Accelerator, cpu_offload, disk_offload
from safetensors.torch import load_file, save_file
from torch.distributed.checkpoint.api import CheckpointException


def new_model(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 256))


def outcome(action):
    try:
        return action()
    except CheckpointException as error:
        return type(next(iter(error.failures.values()))[0]).__name__
    except Exception as error:
        return type(error).__name__


def of_assigned():
    model = new_model(1)
    message = str(model.load_state_dict(torch.load("saved.pt"), assign=True)).strip("<>")
    return f"{message}; forward: {outcome(lambda: model(torch.ones(1, 256)))}"


def in_full(model, weights):
    Accelerator(cpu=True).save_model(model, model.kind)
    saved = load_file(f"{model.kind}/model.safetensors")
    return "every weight" if all(torch.equal(saved[name], weights[name]) for name in weights) else "others"


for kind, offload in (("cpu", cpu_offload), ("disk", lambda model: disk_offload(model, "offloaded"))):
    weights = new_model(0).state_dict()
    model = new_model(0)
    offload(model)
    model.kind = kind
    torch.save(model.state_dict(), "saved.pt")
    print("torch.save:", -(-os.stat("saved.pt").st_size // 1024), "KiB")
    print("load:", outcome(lambda: new_model(1).load_state_dict(torch.load("saved.pt"))))
    print("load with assign:", outcome(of_assigned))
    print("safetensors:", outcome(lambda: save_file(dict(model.state_dict()), "saved.safetensors")))
    print("torch.distributed.checkpoint:", outcome(lambda: checkpoint.save(
        {"model": model.state_dict()}, checkpoint_id="saved", no_dist=True)))
    print("Accelerator.save_model:", outcome(lambda: in_full(model, weights)))
SOURCE

venv/bin/python save.py 2>/dev/null >seen
cat seen
for kind in cpu disk; do
  cat <<'EXPECTED'
torch.save: 2 KiB
load: RuntimeError
load with assign: All keys matched successfully; forward: RuntimeError
safetensors: NotImplementedError
torch.distributed.checkpoint: NotImplementedError
Accelerator.save_model: every weight
EXPECTED
done | diff seen -
