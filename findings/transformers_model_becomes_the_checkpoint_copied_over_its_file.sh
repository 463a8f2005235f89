#!/usr/bin/env bash
# transformers 5.24.0, safetensors 0.8.0, torch 2.13.0 (PyPI, CPU): a model that from_pretrained has loaded changes when
# another checkpoint is copied over its file.
#
# A good guess is that loading reads. On the CPU, in the dtype of the file, nothing is read: every parameter is a view
# of the file, mapped privately and writable. What private protects is the file from the model, not the model from the
# file: a page that the process has not written shows what the file holds now. `cp new.safetensors old.safetensors`
# (or rsync --inplace, or a program that opens the file with "r+b") keeps the inode, and the running model becomes the
# other one, bit for bit, with no error. Where a step of an optimizer has written, the old bytes stay: a fine-tuned
# layer on top of another model's frozen ones. save_pretrained into the same folder does no harm, as it makes a new
# file; nor does a model in another dtype than the file's, whose parameters are copies.
#
# Seen: loaded as fp32 "becomes B"; with its last layer trained "a mixture of both"; loaded as bf16 "stays A";
# after save_pretrained "stays A".
# The script fails when one of these changes.
#
# Needs: python3 3.11 with venv, PyPI.
set -euo pipefail

temporary=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.4.6 transformers==5.24.0 safetensors==0.8.0

cat >follow.py <<'SOURCE'
import copy
import shutil

import torch
from transformers import LlamaConfig, LlamaForCausalLM

CONFIG = LlamaConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=4, vocab_size=1000)
TOKENS = torch.arange(20)[None]
models = {}
for name, seed in (("A", 0), ("B", 1)):
    torch.manual_seed(seed)
    models[name] = LlamaForCausalLM(CONFIG).eval()
    models[name].save_pretrained(name)


def logits(model):
    with torch.no_grad():
        return model(TOKENS).logits


def loaded(dtype):
    shutil.rmtree("running", ignore_errors=True)
    shutil.copytree("A", "running")
    return LlamaForCausalLM.from_pretrained("running", dtype=dtype).eval()


def copy_over():
    with open("B/model.safetensors", "rb") as source, open("running/model.safetensors", "r+b") as target:
        shutil.copyfileobj(source, target)


def verdict(model, before):
    after = logits(model)
    if torch.equal(after, before):
        return "stays A"
    return "becomes B" if torch.equal(after, logits(models["B"])) else "a mixture of both"


def train_last_layer(model):
    last = list(model.model.layers[-1].parameters())
    for each in last:
        each.grad = torch.ones_like(each)
    torch.optim.SGD(last, lr=1e-3).step()


model = loaded(torch.float32)
before = logits(model)
copy_over()
print("fp32:", verdict(model, before))

model = loaded(torch.float32)
train_last_layer(model)
trained = copy.deepcopy(model.model.layers[-1].state_dict())
before = logits(model)
copy_over()
now = model.model.layers[-1].state_dict()
assert all(torch.equal(now[name], trained[name]) for name in now), "what was trained stays"
assert torch.equal(model.model.embed_tokens.weight, models["B"].model.embed_tokens.weight), "the rest is B's"
print("trained:", verdict(model, before))

model = loaded(torch.bfloat16)
before = logits(model)
copy_over()
print("bf16:", verdict(model, before))

model = loaded(torch.float32)
before = logits(model)
models["B"].save_pretrained("running")
print("saved:", verdict(model, before))
SOURCE

venv/bin/python follow.py 2>/dev/null >seen
cat seen
diff seen - <<'EXPECTED'
fp32: becomes B
trained: a mixture of both
bf16: stays A
saved: stays A
EXPECTED
