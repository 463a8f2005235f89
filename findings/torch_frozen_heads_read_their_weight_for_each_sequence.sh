#!/usr/bin/env bash
# torch 2.13.0 and transformers 5.24.0 (PyPI, CPU): under no_grad, a frozen head gives other logits, and takes longer.
#
# A good guess is that requires_grad_(False) changes nothing within torch.no_grad(), where nothing is recorded anyway.
# But a product of three dimensions and two is folded to one of two dimensions by rules that ask the second factor for
# requires_grad, whatever the grad mode. They fold for it to spare the backward a gradient per sequence. Otherwise an
# input that is not contiguous is multiplied sequence by sequence, and the weight is read once for each.
#
# Such an input is the last position of each sequence, hidden[:, -1:], of which generate() takes the logits. With random
# Llama-like weights and 4 prompts, the logits of model and model.requires_grad_(False) differ in most elements, and in
# none with 1 prompt, or if the input is made contiguous first. So a model that is compared bit for bit with its
# offloaded twin must be frozen as that is. A head of 1024 x 16384 took 88 ms frozen and 48 ms not, for 16 sequences on
# 2 cores (not judged here): where weights are paged or large, the reads are what counts.
#
# Seen, prompts of 8 tokens, logits_to_keep=1, under no_grad; products are of the head alone, named by the profiler:
#   4 prompts: equal False; frozen aten::bmm, else aten::mm
#   1 prompt: equal True; 4 prompts whose last positions are contiguous: equal True, aten::mm twice
# The script fails when one of these is otherwise.
#
# Needs: python3 3.11 with venv, PyPI.
set -euo pipefail

temporary=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.4.6 transformers==5.24.0

cat >head.py <<'SOURCE'
import torch
import transformers

torch.manual_seed(0)
model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
    hidden_size=512, intermediate_size=1024, num_hidden_layers=2, num_attention_heads=8, vocab_size=4096,
    tie_word_embeddings=False)).eval()


def logits(prompts):
    tokens = torch.arange(prompts * 8).reshape(prompts, 8)
    return model(tokens, logits_to_keep=1).logits


def head(hidden):
    with torch.profiler.profile() as profile:
        result = model.lm_head(hidden)
    (product,) = {event.name for event in profile.events()} & {"aten::mm", "aten::bmm"}
    return result, product


def frozen_and_not(call):
    with torch.no_grad():
        return [call() for _ in map(model.requires_grad_, (False, True))]


for prompts in (4, 1):
    frozen, other = frozen_and_not(lambda: logits(prompts))
    print(f"{prompts} prompts: equal {torch.equal(frozen, other)}, {(frozen != other).float().mean():.0%} differ")
    assert torch.equal(frozen, other) == (prompts == 1)

last = torch.randn(4, 8, 512)[:, -1:]
for name, hidden, wanted in (("as they are", last, "aten::bmm"), ("contiguous", last.contiguous(), "aten::mm")):
    (frozen, product), (other, product_else) = frozen_and_not(lambda: head(hidden))
    print(f"last positions {name}: equal {torch.equal(frozen, other)}; frozen {product}, else {product_else}")
    assert (product, product_else) == (wanted, "aten::mm")
    assert torch.equal(frozen, other) == (name == "contiguous")
SOURCE

venv/bin/python head.py
