#!/usr/bin/env bash
# transformers 5.24.0 and torch 2.13.0 (PyPI, CPU): activation_checkpointing_enable(offload=True) offloads nothing of
# Llama 4's vision encoder, as its layers get their input by name.
#
# A good guess is that layer(hidden_state=x) and layer(x) are the same call, and that offload=True holds the inputs of
# all checkpointed layers in host memory, as documented. But transformers binds named arguments to the function that is
# checkpointed, and torch saves the positional ones alone. A tensor within the function stays where it is: save_on_cpu,
# or any other hook for saved tensors, never meets it. The text layers of Llama 4 get their input by position. So one
# call offloads half of a multimodal model and says nothing of the other half.
#
# torch.utils.checkpoint(layer, hidden=x, use_reentrant=False) treats its named arguments alike. The check for writes is
# lost, too. `hidden += layer(hidden)` is right without checkpointing where the layer casts first, as RMSNorm does with
# bf16. Checkpointed by position, its backward raises. By name the layer is recomputed from the new values, and the
# gradient is wrong without a word: by 14 % here. The documentation asks for positions under use_reentrant=True only.
#
# Seen, 6 layers each, inputs of layers that a hook got, and inputs that are still in place after forward:
#   text: 6 offloaded, 0 in place; vision: 0 offloaded, 6 in place
# Seen, gradient after a write in place: plain right; by position RuntimeError; by name wrong.
# The script fails when one of these changes. Pinned memory needs an accelerator, so hooks that copy stand in for it.
#
# Needs: python3 3.11 with venv, PyPI.
set -euo pipefail

temporary=$(mktemp -d -p "${TMPDIR:-/var/tmp}")
trap 'rm -rf "$temporary"' EXIT
cd "$temporary"
python3 -m venv venv
venv/bin/pip install --quiet torch==2.13.0 numpy==2.4.6 transformers==5.24.0

cat >named.py <<'SOURCE'
import weakref

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint
from transformers import Llama4TextConfig, Llama4TextModel, Llama4VisionConfig, Llama4VisionModel, modeling_utils
from transformers.modeling_layers import GradientCheckpointingLayer

SIZES = {"hidden_size": 64, "intermediate_size": 256, "num_hidden_layers": 6, "num_attention_heads": 4}
offloaded = 0


def copied(tensor):
    global offloaded
    offloaded += 1
    return tensor.clone()


modeling_utils.save_on_cpu = lambda **_: saved_tensors_hooks(copied, lambda copy: copy)


def show_offloaded(name, model, inputs):
    global offloaded
    offloaded = 0
    model.train().activation_checkpointing_enable(offload=True)
    entered = []

    def note(_, args, kwargs):
        entered.append(weakref.ref(args[0] if args else kwargs["hidden_state"]))

    for module in model.modules():
        if isinstance(module, GradientCheckpointingLayer):
            module.register_forward_pre_hook(note, with_kwargs=True)
    loss = model(inputs).last_hidden_state.square().mean()
    in_place = sum(each() is not None for each in entered)
    print(f"{name}: {len(entered)} layers, {offloaded} offloaded, {in_place} in place")
    loss.backward()


torch.manual_seed(0)
show_offloaded("text", Llama4TextModel(Llama4TextConfig(
    **SIZES, num_key_value_heads=4, head_dim=16, intermediate_size_mlp=128, num_local_experts=2, vocab_size=100,
    use_cache=False,
)), torch.arange(64).reshape(1, 64))
show_offloaded("vision", Llama4VisionModel(Llama4VisionConfig(
    **SIZES, image_size=112, patch_size=14, vision_output_dim=64, projector_input_dim=64, projector_output_dim=64,
)), torch.randn(1, 3, 112, 112))


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 64, dtype=torch.bfloat16)

    def forward(self, hidden):
        return self.linear(torch.nn.functional.rms_norm(hidden.float(), (64,)).bfloat16())


layer = Layer()
inputs = torch.randn(32, 64, dtype=torch.bfloat16)


def gradient(call):
    leaf = inputs.clone().requires_grad_()
    hidden = leaf + 0
    hidden += call(hidden)
    try:
        hidden.float().square().sum().backward()
    except RuntimeError:
        return None
    return leaf.grad.float()


def verdict(found, right):
    if found is None:
        return "RuntimeError"
    return "right" if (found - right).norm() < 0.01 * right.norm() else "wrong"


right = gradient(layer)
for name, call in (
    ("plain", layer),
    ("by position", lambda x: checkpoint(layer, x, use_reentrant=False)),
    ("by name", lambda x: checkpoint(layer, hidden=x, use_reentrant=False)),
):
    print(f"{name}: {verdict(gradient(call), right)}")
SOURCE

venv/bin/python named.py 2>/dev/null >seen
cat seen
diff seen - <<'EXPECTED'
text: 6 layers, 6 offloaded, 0 in place
vision: 6 layers, 0 offloaded, 6 in place
plain: right
by position: RuntimeError
by name: wrong
EXPECTED
