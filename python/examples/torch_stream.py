"""Likelihood of a text for a model of transformers that is larger than memory.

    python torch_stream.py DIR "a text" 4GiB    # config, tokenizer and safetensors files; budget
"""

import sys

import accelerate
import sluice.torch
import torch
import transformers


def main(folder: str, text: str, dram: str) -> None:
    config = transformers.AutoConfig.from_pretrained(folder)
    with accelerate.init_empty_weights(include_buffers=False):
        model = transformers.AutoModelForCausalLM.from_config(config).eval()
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")["input_ids"]
    with sluice.torch.stream_weights(model, folder, dram=dram) as stream, torch.no_grad():
        for _ in range(2):  # the first pass is recorded, the second one reads ahead
            loss = model(tokens, labels=tokens).loss.item()
        report = stream.report()
    print(f"{loss:.4f} nats per token; {report['read_bytes'] >> 20} of {report['weight_bytes'] >> 20} MiB "
          f"were read in the second pass, at {report['read_gib_per_second']:.2f} GiB/s")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(f"Usage: {sys.argv[0]} DIR TEXT DRAM")
    main(*sys.argv[1:])
