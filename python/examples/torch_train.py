"""A GPT-2 learns the manual of Python, with less memory than its states and activations take.

    python torch_train.py --dram 8MiB --steps 40

The states of AdamW and the tensors that autograd saves are in the tiers of a runtime: a few MiB of
memory, the rest in files on a disk. The model is built here, and its weights are random.
"""

import argparse
import time

import pydoc_data.topics
import torch
import transformers

import sluice.torch

TOKENS = 128  # a sequence; a token is a byte


def text():
    """The manual of Python that `help()` shows, as bytes."""
    manual = "\n".join(pydoc_data.topics.topics.values()).encode()
    return torch.frombuffer(bytearray(manual), dtype=torch.uint8).long()


def model():
    """A GPT-2 of 3.3 million parameters."""
    config = transformers.GPT2Config(
        vocab_size=256, n_positions=TOKENS, n_embd=256, n_layer=4, n_head=4,
        bos_token_id=0, eos_token_id=0, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )
    network = transformers.GPT2LMHeadModel(config)
    network.loss_type = "ForCausalLM"  # the default, named so that transformers does not warn
    return network


def options(description):
    """The flags of a run."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--dram", default="8MiB", help="memory of the runtime (%(default)s)")
    parser.add_argument("--nvme", help="directory of the runtime's files (/var/tmp/sluice-<uid>)")
    parser.add_argument("--nvme-bytes", default="1GiB", help="size of these (%(default)s)")
    parser.add_argument("--steps", type=int, default=40, help="steps (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches (%(default)s)")
    chosen = parser.parse_args()
    if chosen.steps < 1:
        parser.error(f"--steps is {chosen.steps}; it is at least 1")
    return chosen


def open_runtime(chosen):
    """The runtime that the flags describe."""
    return sluice.Runtime(dram=chosen.dram, nvme=chosen.nvme, nvme_bytes=chosen.nvme_bytes,
                          page_bytes="256KiB")


def binding(stats, seconds, waited):
    """A line about what a run of so many seconds was bound by, `waited` of them in steps."""
    busy = {(link, way): stats["links"][link][way] for link in stats["links"] for way in ("in", "out")}
    (link, way), most = max(busy.items(), key=lambda item: item[1]["busy_seconds"])
    moved = "; ".join(f"{link} {way} {each['bytes'] >> 20} MiB in {each['busy_seconds']:.1f} s"
                      for (link, way), each in busy.items() if each["bytes"])
    if most["busy_seconds"] > 0.8 * seconds:
        what = f"{link} {way}"
    elif waited < 0.5 * seconds:
        what = "compute"
    else:
        what = "waiting"
    return f"bound by {what}: {seconds:.1f} s, of which steps waited {waited:.1f} s; {moved or 'no moves'}"


def train(network, corpus, runtime, steps):
    """Trains; gives the seconds that it took, and those of them that steps waited for pages."""
    optimizer = sluice.torch.AdamW(network.parameters(), lr=1e-3, runtime=runtime, clip_norm=1.0)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, steps)
    offload = sluice.torch.offload_activations(runtime)
    start, waited = time.monotonic(), 0.0
    for step in range(1, steps + 1):
        first = torch.randint(len(corpus) - TOKENS, (8,)).tolist()
        batch = torch.stack([corpus[at : at + TOKENS] for at in first])
        with offload:
            loss = network(input_ids=batch, labels=batch).loss
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        waited += optimizer.last_step["wait_seconds"]
        if step % 10 == 0 or step in (1, steps):
            print(f"step {step} of {steps}: loss {loss.item():.3f}, norm {optimizer.gradient_norm:.2f}, "
                  f"{(time.monotonic() - start) / step:.2f} s a step", flush=True)
    seconds = time.monotonic() - start
    optimizer.close()
    print(f"saved tensors: {offload.stats()['stashed_bytes'] // steps >> 20} MiB a step")
    return seconds, waited


def main():
    chosen = options("Trains a small GPT-2 with its states and activations in tiers.")
    torch.manual_seed(chosen.seed)
    network = model()
    states = 8 * sum(parameter.numel() for parameter in network.parameters())
    print(f"states of AdamW: {states >> 20} MiB; memory of the runtime: {chosen.dram}")
    with open_runtime(chosen) as runtime:
        seconds, waited = train(network, text(), runtime, chosen.steps)
        print(binding(runtime.stats(), seconds, waited))


if __name__ == "__main__":
    main()
