"""Trainer, accelerate and distributed checkpoints use the optimizers of sluice as torch's."""

import importlib
import pathlib
import re

import accelerate
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import sluice.torch

EXAMPLES = pathlib.Path(__file__).resolve().parents[1] / "examples"

LR = 1e-2


def gpt2(seed):
    torch.manual_seed(seed)
    return GPT2LMHeadModel(GPT2Config(
        n_layer=2, n_head=2, n_embd=96, n_positions=16, vocab_size=128, bos_token_id=0, eos_token_id=0,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    ))


def examples(seed, count=64):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 128, (count, 16), generator=generator)
    return [{"input_ids": each, "labels": each} for each in tokens]


@pytest.fixture
def paged(make_runtime):
    """AdamW with 2 MB of states under 1 MiB; its pages have gone to the disk and come back."""
    runtime = make_runtime(dram="1MiB")
    yield lambda params: sluice.torch.AdamW(params, lr=LR, runtime=runtime)
    assert runtime.stats()["links"]["dram-nvme"]["in"]["bytes"] > 1 << 20


def resident(params):
    return torch.optim.AdamW(params, lr=LR)


def decay(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step)


def close_to(losses):
    return pytest.approx(losses, rel=1e-6, abs=0)


class Recording(Trainer):
    """Keeps the exact losses, which logs may round."""

    def training_step(self, *arguments, **options):
        loss = super().training_step(*arguments, **options)
        self.losses = [*getattr(self, "losses", ()), loss.item()]
        return loss


def train(make_optimizer, folder, seed, resume=None):
    """Losses of 6 steps of 2 batches, and the rates and norms that Trainer logs."""
    model = gpt2(seed if resume is None else seed + 1)
    optimizer = make_optimizer(model.parameters())
    arguments = TrainingArguments(
        output_dir=folder, max_steps=6, per_device_train_batch_size=4, gradient_accumulation_steps=2,
        save_steps=3, logging_steps=1, report_to=[], use_cpu=True, disable_tqdm=True, seed=seed,
    )
    trainer = Recording(model, arguments, train_dataset=examples(seed),
                        optimizers=(optimizer, decay(optimizer)))
    trainer.train(resume_from_checkpoint=resume)
    logs = [log for log in trainer.state.log_history if "grad_norm" in log]
    return trainer.losses, [(log["learning_rate"], log["grad_norm"]) for log in logs]


def test_trainer(paged, spill, seed):
    seed %= 1 << 31  # more than numpy's seeds is refused
    losses, logs = train(paged, spill / "ours", seed)
    expected, expected_logs = train(resident, spill / "theirs", seed)
    assert len(losses) == 12 and losses == close_to(expected)
    assert len(logs) == 6 and all(norm > 0 for _, norm in logs)
    assert [rate for rate, _ in logs] == [rate for rate, _ in expected_logs]
    resumed, _ = train(paged, spill / "ours", seed, resume=str(spill / "ours" / "checkpoint-3"))
    assert resumed == losses[6:]


def accelerated(make_optimizer, seed):
    """An accelerator, and what it has made of a model, an optimizer, a scheduler and batches."""
    model = gpt2(seed)
    optimizer = make_optimizer(model.parameters())
    batches = torch.utils.data.DataLoader(examples(1), batch_size=4)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    return accelerator, accelerator.prepare(model, optimizer, decay(optimizer), batches)


def go_on(accelerator, prepared, batches):
    """Losses of these batches."""
    model, optimizer, scheduler, _ = prepared
    losses = []
    for batch in batches:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            losses.append(loss.item())
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    return losses


def test_accelerate(paged, spill, seed):
    accelerator, prepared = accelerated(paged, seed)
    batches = list(prepared[3])
    losses = go_on(accelerator, prepared, batches[:6])
    accelerator.save_state(spill / "state")
    losses += go_on(accelerator, prepared, batches[6:12])
    assert losses == close_to(go_on(*accelerated(resident, seed), batches[:12]))
    accelerator, prepared = accelerated(paged, seed + 1)
    accelerator.load_state(spill / "state")
    assert go_on(accelerator, prepared, batches[6:12]) == losses[6:]


def steps(model, optimizer, data):
    for each in data:
        model(**{name: value[None] for name, value in each.items()}).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def test_a_distributed_checkpoint_of_one_rank(paged, spill, seed):
    data = examples(seed, 6)
    model = gpt2(seed)
    optimizer = paged(model.parameters())
    steps(model, optimizer, data[:3])
    before = [parameter.detach().clone() for parameter in model.parameters()]
    states = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
    dcp.save(states, checkpoint_id=spill / "checkpoint")
    assert all(map(torch.equal, before, model.parameters()))
    steps(model, optimizer, data[3:])
    resumed = gpt2(seed + 1)
    second = paged(resumed.parameters())
    states = dict(zip(("model", "optimizer"), get_state_dict(resumed, second)))
    dcp.load(states, checkpoint_id=spill / "checkpoint")
    set_state_dict(resumed, second, model_state_dict=states["model"],
                   optim_state_dict=states["optimizer"])
    assert {state["step"].item() for state in second.state.values()} == {3.0}
    steps(resumed, second, data[3:])
    assert all(map(torch.equal, model.parameters(), resumed.parameters()))


@pytest.mark.parametrize("name", ["torch_train", "torch_trainer"])
def test_examples(name, spill, monkeypatch, capsys):
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr("sys.argv", [name, "--steps", "2", "--nvme", str(spill), "--dram", "8MiB"])
    importlib.import_module(name).main()
    said = capsys.readouterr().out
    assert re.search(r"^bound by .*: .* s, .*dram-nvme in [1-9]\d* MiB", said, re.MULTILINE), said
