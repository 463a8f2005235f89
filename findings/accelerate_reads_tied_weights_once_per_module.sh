#!/usr/bin/env bash
# accelerate 1.15.0, transformers 5.24.0, torch 2.13.0 (PyPI, CPU): a tied embedding that is offloaded to the disk is
# stored and read once for each module that has it, and whole for a single token.
#
# A good guess is that a pass reads the bytes of the parameters: parameters() has a tied weight once, and so has the
# checkpoint. But each module's hook brings what the module names. So the embedding comes whole, for the one row of a
# token, goes, and comes again as the head. disk_offload also writes it to the folder twice. Small models with large
# vocabularies pay most: in one of 1.2 billion parameters with 128 k tokens it is a fifth more bytes for each token,
# which is a fifth more time where the disk binds. device_map="disk" leaves the weights in the checkpoint, and reads
# as often.
#
# Seen for a model with 1352960 bytes of parameters, 1024000 of them the tied embedding, a pass over one token:
#   disk_offload: 2376960 bytes of weights stored, 2376960 read
#   device_map:         0 bytes of weights stored, 2376960 read
# The script fails when one of these changes.
#
# Needs: python3 3.11 with venv, PyPI.
set -euo pipefail

temporary=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.4.6 accelerate==1.15.0 transformers==5.24.0 safetensors==0.8.0

cat >tied.py <<'SOURCE'
import glob
import os

import torch
from accelerate import disk_offload
from accelerate.utils.offload import OffloadedWeightsLoader
from transformers import LlamaConfig, LlamaForCausalLM

CONFIG = LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                     num_key_value_heads=4, vocab_size=4000, tie_word_embeddings=True)
TOKEN = torch.tensor([[7]])
read = 0
read_one = OffloadedWeightsLoader.__getitem__


def counted(loader, name):
    global read
    weight = read_one(loader, name)
    read += weight.nbytes
    return weight


OffloadedWeightsLoader.__getitem__ = counted
torch.manual_seed(0)
LlamaForCausalLM(CONFIG).save_pretrained("checkpoint")
resident = LlamaForCausalLM.from_pretrained("checkpoint")
print("parameters:", sum(each.nbytes for each in resident.parameters()))


def by_disk_offload():
    model = LlamaForCausalLM.from_pretrained("checkpoint")
    disk_offload(model, "folder")
    return model


def by_device_map():
    return LlamaForCausalLM.from_pretrained("checkpoint", device_map={"": "disk"}, offload_folder="other")


with torch.no_grad():
    for make, folder in ((by_disk_offload, "folder"), (by_device_map, "other")):
        model = make()
        model(TOKEN)
        read = 0
        assert torch.equal(model(TOKEN).logits, resident(TOKEN).logits)
        stored = sum(os.stat(file).st_size for file in glob.glob(f"{folder}/*.dat"))
        print(f"{make.__name__}: {stored} stored, {read} read")
SOURCE

venv/bin/python tied.py 2>/dev/null >seen
cat seen
diff seen - <<'EXPECTED'
parameters: 1352960
by_disk_offload: 2376960 stored, 2376960 read
by_device_map: 0 stored, 2376960 read
EXPECTED
