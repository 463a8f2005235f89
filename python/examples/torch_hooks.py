"""Next token of a GPT-2 of transformers; accelerate's hooks take its weights from the files.

    python torch_hooks.py DIR "a text" 4GiB    # config, tokenizer and safetensors files; budget
"""

import sys

import accelerate
import sluice.torch
import torch
import transformers
from accelerate.hooks import attach_align_device_hook

TIED = {"lm_head.weight": "transformer.wte.weight"}  # key of the model: name in the files


def main(folder: str, text: str, dram: str) -> None:
    config = transformers.AutoConfig.from_pretrained(folder)
    with accelerate.init_empty_weights(include_buffers=False):
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with sluice.torch.WeightsMap(folder, dram=dram, names=TIED) as weights, torch.no_grad():
        attach_align_device_hook(model, execution_device=torch.device("cpu"), offload=True, weights_map=weights)
        token = int(model(**tokenizer(text, return_tensors="pt")).logits[0, -1].argmax())
        used = weights.stats()["tiers"]["dram"]["used_bytes"]
    print(f"next: {tokenizer.decode([token])}; {len(weights)} weights used {used >> 20} MiB of dram")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(f"Usage: {sys.argv[0]} DIR TEXT DRAM")
    main(*sys.argv[1:])
