"""What a program changes in ``optimizer.state`` by itself."""

from collections import defaultdict

import optimizing
import pytest
import torch

import sluice.torch


def _clear(optimizer, _):
    optimizer.state.clear()


def _replace(optimizer, _):
    optimizer.state = defaultdict(dict)


def _delete(optimizer, weight):
    del optimizer.state[weight]


def _empty(optimizer, weight):
    optimizer.state[weight].clear()


def _steps_in_place(optimizer, weight):
    optimizer.state[weight]["step"].zero_()


def _other_steps(optimizer, weight):
    optimizer.state[weight] = {**optimizer.state[weight], "step": torch.tensor(40.0)}


CHANGES = [_clear, _replace, _delete, _empty, _steps_in_place, _other_steps]
OPTIMIZERS = [
    (sluice.torch.AdamW, torch.optim.AdamW, {"lr": 1e-2}, CHANGES),
    # torch's SGD counts no steps.
    (sluice.torch.SGD, torch.optim.SGD, {"lr": 1e-2, "momentum": 0.9}, CHANGES[:4]),
    # Its rate depends on the steps. torch's has no sums without an entry.
    (sluice.torch.Adagrad, torch.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.5}, CHANGES[4:]),
]
CASES = [(ours, theirs, options, change) for ours, theirs, options, changes in OPTIMIZERS for change in changes]


@pytest.mark.parametrize("own", [{}, {"overlap": True}, {"step_in_backward": True}], ids=str)
@pytest.mark.parametrize("ours,theirs,options,change", CASES,
                         ids=[f"{case[1].__name__}-{case[3].__name__}" for case in CASES])
def test_changes_of_the_state_are_those_of_torch(runtime, seed, ours, theirs, options, change, own):
    mine, reference = optimizing.parameters(seed), optimizing.parameters(seed)
    optimizers = (ours(mine, runtime=runtime, **options, **own), theirs(reference, **options))
    for params, each in zip((mine, reference), optimizers):
        optimizing.run(each, params, seed, 4)
        change(each, params[0])
        optimizing.run(each, params, seed, 3, first=4)
    optimizers[0].state_dict()  # waits for the last step
    assert optimizing.off_by(mine, reference, 1e-2) <= 1e-6
    if theirs is not torch.optim.SGD:
        for a, b in zip(mine, reference):
            assert optimizers[0].state[a]["step"] == optimizers[1].state[b]["step"]


def test_a_cleared_state_is_not_in_state_dicts_nor_saves(runtime, spill, seed):
    first, second = optimizing.parameters(seed), optimizing.parameters(seed)
    optimizer = sluice.torch.AdamW(first, runtime=runtime)
    optimizing.run(optimizer, first, seed, 3)
    optimizer.state.clear()
    optimizer.save(spill)
    assert optimizer.state_dict()["state"] == {}
    loaded = sluice.torch.AdamW(second, runtime=runtime)
    loaded.load(spill)
    assert loaded.state_dict()["state"] == {}
    for params, each in ((first, optimizer), (second, loaded)):
        optimizing.run(each, params, seed, 2)
    assert optimizing.same(first, second)


def test_a_cleared_state_keeps_the_master(runtime, seed):
    """A master is no state of torch's: it is the parameter itself."""
    weights = optimizing.parameters(seed, dtype=torch.bfloat16)
    reference = [torch.nn.Parameter(weight.detach().float()) for weight in weights]
    optimizer = sluice.torch.AdamW(weights, lr=1e-2, runtime=runtime)
    torchs = torch.optim.AdamW(reference, lr=1e-2)
    for params, each in ((weights, optimizer), (reference, torchs)):
        optimizing.run(each, params, seed, 3, through=torch.bfloat16)
        each.state.clear()
        optimizing.run(each, params, seed, 3, first=3, through=torch.bfloat16)
    masters = [optimizer.state_dict()["state"][number]["master"] for number in range(len(weights))]
    assert optimizing.off_by(masters, reference, 1e-2) <= 1e-6


@pytest.mark.parametrize("value,message", [
    ({"exp_avg": torch.zeros(300)}, "parameter '0' has a value for 'exp_avg' in optimizer.state"),
    ({"mine": 1}, "parameter '0' has a value for 'mine' in optimizer.state"),
    ({"step": 1.5}, "parameter '0' has 1.5 steps in optimizer.state; they are whole"),
    ({"step": "3"}, "parameter '0' has a 'step' in optimizer.state that is no number"),
])
def test_what_an_entry_cannot_have_is_named(runtime, spill, seed, value, message):
    (weight,) = weights = optimizing.parameters(seed, shapes=[(300,)])
    optimizer = sluice.torch.AdamW(weights, runtime=runtime)
    optimizing.run(optimizer, weights, seed, 2)
    before, entry = weight.detach().clone(), dict(optimizer.state[weight])
    optimizer.state[weight].update(value)
    weight.grad = torch.ones(300)
    for call in (optimizer.step, optimizer.state_dict, lambda: optimizer.save(spill)):
        with pytest.raises(sluice.InvalidArgument, match=message):
            call()
    assert torch.equal(weight, before)
    optimizer.state[weight] = entry
    optimizer.step()
    assert optimizer.state[weight]["step"] == 3


def test_ctrl_c_while_a_parameter_begins_anew_repeats_it(runtime, seed, monkeypatch):
    weights, reference = optimizing.parameters(seed), optimizing.parameters(seed)
    optimizer, torchs = sluice.torch.AdamW(weights, runtime=runtime), torch.optim.AdamW(reference)
    for params, each in ((weights, optimizer), (reference, torchs)):
        optimizing.run(each, params, seed, 3)
        each.state.clear()
    for param, gradient in zip(weights, optimizing.gradients(seed, 3, weights)):
        param.grad = gradient
    for does in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(optimizer, "_core", optimizing.Interrupting(optimizer._core, "set_steps_of", does))
            with pytest.raises(KeyboardInterrupt):
                optimizer.step()
    for params, each in ((weights, optimizer), (reference, torchs)):
        optimizing.run(each, params, seed, 3, first=3)
    assert optimizing.off_by(weights, reference, 1e-3) <= 1e-6
