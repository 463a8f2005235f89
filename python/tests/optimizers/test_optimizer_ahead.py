"""States of the next step come in while backward runs."""

import time
import types

import optimizing
import pytest
import torch

import sluice.torch
from sluice.torch import _ahead

# 64 pages of states, twice half of dram.
WIDTH, LAYERS = 256, 8
PAGE = 64 << 10


def model_of(seed):
    torch.manual_seed(seed)
    layers = (torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))
    return torch.nn.Sequential(*layers)


def backward(model, times=1):
    for _ in range(times):
        model(torch.ones(4, WIDTH)).square().mean().backward()


def take_dram(runtime):
    """Leaves at most one page of the optimizer in dram."""
    with runtime.lease(runtime.tensor((63, 16384)), mode="w", tier="dram"):
        pass


def read_bytes(runtime):
    return runtime.stats()["links"]["dram-nvme"]["in"]["bytes"]


def wait_until(condition):
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    pytest.fail("10 s have passed")


@pytest.mark.parametrize("passes", [1, 3])
def test_half_of_dram_comes_in_during_the_last_pass(runtime, make_runtime, seed, passes):
    model, reference = model_of(seed), model_of(seed)
    optimizer = sluice.torch.AdamW(model.parameters(), lr=1e-3, runtime=runtime)
    resident = sluice.torch.AdamW(reference.parameters(), lr=1e-3, runtime=make_runtime(dram="16MiB"))
    for step in range(3):
        take_dram(runtime)
        before = read_bytes(runtime)
        backward(model, passes - 1)
        assert read_bytes(runtime) == before
        backward(model)
        if step > 0:  # the first has no step before it, which it could be like
            wait_until(lambda: read_bytes(runtime) - before >= 31 * PAGE)
            assert read_bytes(runtime) - before <= 32 * PAGE
        hits = runtime.stats()["prefetch"]["hit"]
        optimizer.step()
        assert runtime.stats()["prefetch"]["hit"] - hits in ((31, 32) if step > 0 else (0,))
        optimizer.zero_grad()
        backward(reference, passes)
        resident.step()
        resident.zero_grad()
    assert optimizing.same(model.parameters(), reference.parameters())


@pytest.mark.parametrize("free", [0, 1, 3])
def test_pages_in_dram_stay_there(runtime, seed, free):
    model = model_of(seed)
    optimizer = sluice.torch.AdamW(model.parameters(), runtime=runtime)
    backward(model)
    optimizer.step()
    other, last = (runtime.tensor((pages, 16384)) for pages in (64 - free, free or 1))
    for tensor in (last, other)[not free:]:
        with runtime.lease(tensor, mode="w", tier="dram"):
            pass
    last.free()
    before, ahead = read_bytes(runtime), (free // 2 * 2) * PAGE  # an update reads two states
    backward(model)
    wait_until(lambda: read_bytes(runtime) - before >= ahead)
    time.sleep(0.2)  # no more is to happen
    with runtime.lease(other, tier="dram"):
        assert read_bytes(runtime) - before == ahead
    optimizer.step()


@pytest.mark.parametrize("waiting, room", [(0, 4), (3, 1), (6, 0)])
def test_frames_that_earlier_hints_wait_for_are_not_free(waiting, room):
    asked = []
    dram = {"budget_bytes": 64 * PAGE, "used_bytes": 58 * PAGE, "transit_bytes": 2 * PAGE}
    stats = {"tiers": {"dram": dram}, "prefetch": {"waiting": waiting}}
    core = types.SimpleNamespace(prefetch=lambda groups, most: asked.append(most) or most)
    session = types.SimpleNamespace(stats=lambda: stats, page_bytes=PAGE)
    ahead = _ahead.Ahead(core, session)
    slot = types.SimpleNamespace(group=0, nbytes=1)
    ahead.add_gradient(slot)
    ahead.begin_step([slot])
    ahead.add_gradient(slot)
    assert asked == [room * PAGE]


def test_hints_end_with_the_optimizer(runtime, make_runtime, seed):
    model = model_of(seed)
    optimizer = sluice.torch.AdamW(model.parameters(), runtime=runtime)
    for _ in range(2):
        backward(model)
        optimizer.step()
    optimizer.close()
    assert not any(parameter._post_accumulate_grad_hooks for parameter in model.parameters())
    second = sluice.torch.AdamW(model.parameters(), runtime=make_runtime(dram="8MiB"))
    backward(model)
    second.step()
    second._session.close()
    backward(model)  # a hint is no reason to fail


def test_a_frozen_parameter_gives_no_hints_until_it_has_gradients(runtime, seed):
    model = model_of(seed)
    model[3].requires_grad_(False)
    optimizer = sluice.torch.AdamW(model.parameters(), runtime=runtime)
    frozen = model[3].weight.detach().clone()
    for step in range(4):
        if step == 2:
            model[3].requires_grad_(True)
        assert bool(model[3].weight._post_accumulate_grad_hooks) == (step == 3)
        backward(model)
        optimizer.step()
        optimizer.zero_grad()
        assert torch.equal(model[3].weight, frozen) == (step < 2)
