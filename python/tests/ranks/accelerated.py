"""Two ranks of accelerate, which gives parameters other memory. See cases.py."""

import os
import unittest.mock

import accelerate
import cases
import torch
import torch.distributed as dist

import sluice.torch


def prepared(seed, make_optimizer):
    """An accelerator, what it has made of a model and an optimizer, and whether parameters have moved."""
    model = cases.layers(seed)
    optimizer = make_optimizer(model.parameters())
    before = [parameter.data_ptr() for parameter in model.parameters()]
    accelerator = accelerate.Accelerator(cpu=True)
    wrapped = accelerator.prepare(model, optimizer)
    return accelerator, wrapped, before != [parameter.data_ptr() for parameter in model.parameters()]


def steps(accelerator, wrapped, numbers):
    model, optimizer = wrapped
    losses = []
    for number in numbers:
        loss = cases.loss_of(model, number)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def train(directory, seed):
    """Losses of sluice's optimizer and torch's, and those after a state that accelerate has saved."""
    environment = {"RANK": str(dist.get_rank()), "WORLD_SIZE": str(dist.get_world_size())}
    with unittest.mock.patch.dict(os.environ, environment), sluice.Runtime(**cases.RESIDENT) as runtime:
        def paged(params):
            return sluice.torch.AdamW(params, lr=cases.LR, runtime=runtime)

        accelerator, wrapped, moved = prepared(seed, paged)
        losses = steps(accelerator, wrapped, range(3))
        accelerator.save_state(directory)
        accelerator.wait_for_everyone()
        losses += steps(accelerator, wrapped, range(3, 6))
        other, others, _ = prepared(seed, lambda params: torch.optim.AdamW(params, lr=cases.LR))
        expected = steps(other, others, range(6))
        second, resumed, _ = prepared(seed + 1, paged)
        second.load_state(directory)
        return {"type": accelerator.distributed_type.name, "moved": moved, "losses": losses,
                "expected": expected, "again": steps(second, resumed, range(3, 6))}
