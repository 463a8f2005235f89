"""The training of torch_train.py by transformers' Trainer, which also saves and resumes.

    python torch_trainer.py --dram 8MiB --steps 40

Trainer takes the optimizer as it takes any. A subclass of three lines keeps activations in the tiers.
"""

import tempfile
import time

import torch
import torch_train
import transformers

import sluice.torch


class Offloading(transformers.Trainer):
    """A Trainer whose saved tensors are in the tiers of a runtime."""

    def __init__(self, *arguments, offload, **options):
        super().__init__(*arguments, **options)
        self.offload = offload

    def training_step(self, *arguments, **options):
        with self.offload:
            return super().training_step(*arguments, **options)


class Waits(transformers.TrainerCallback):
    """Adds up the seconds that steps of the optimizer wait for pages."""

    def __init__(self, optimizer):
        self.optimizer, self.seconds = optimizer, 0.0

    def on_optimizer_step(self, *_arguments, **_options):
        self.seconds += self.optimizer.last_step["wait_seconds"]


def sequences(corpus):
    """The corpus, cut into sequences as Trainer takes them."""
    rows = corpus[: len(corpus) // torch_train.TOKENS * torch_train.TOKENS].view(-1, torch_train.TOKENS)
    return [{"input_ids": row, "labels": row} for row in rows]


def train(chosen, runtime, folder):
    network = torch_train.model()
    optimizer = sluice.torch.AdamW(network.parameters(), lr=1e-3, runtime=runtime)
    waits = Waits(optimizer)
    arguments = transformers.TrainingArguments(
        output_dir=folder, max_steps=chosen.steps, per_device_train_batch_size=8, logging_steps=10,
        save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True, seed=chosen.seed,
    )
    trainer = Offloading(
        network, arguments, train_dataset=sequences(torch_train.text()), optimizers=(optimizer, None),
        callbacks=[waits], offload=sluice.torch.offload_activations(runtime),
    )
    start = time.monotonic()
    trainer.train()
    seconds = time.monotonic() - start
    optimizer.close()
    return seconds, waits.seconds


def main():
    chosen = torch_train.options("Trains a small GPT-2 by transformers' Trainer.")
    torch.manual_seed(chosen.seed)
    with torch_train.open_runtime(chosen) as runtime, tempfile.TemporaryDirectory() as folder:
        seconds, waited = train(chosen, runtime, folder)
        print(torch_train.binding(runtime.stats(), seconds, waited))


if __name__ == "__main__":
    main()
