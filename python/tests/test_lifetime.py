"""Lifetime: memory that is lent outlives the objects it came from, and close names who has it."""

import gc
import threading

import numpy as np
import pytest
import torch

import sluice


def test_arrays_and_torch_tensors_outlive_the_runtime_object(make_runtime, spill):
    runtime = sluice.Runtime(dram="4MiB", page_bytes="64KiB", nvme=spill, nvme_bytes="8MiB",
                             **{"tiers.nvme.keep_free": 0})
    tensor = runtime.tensor(1000)
    lease = runtime.lease(tensor, mode="w")
    view = lease.__enter__()
    array, kept = view.numpy(), view.torch()
    array[:] = 7
    session = runtime._session
    del runtime, tensor, view
    gc.collect()
    assert not session.closed
    assert kept.sum() == 7000 and array.sum() == 7000
    lease.__exit__(None, None, None)
    del lease
    assert session.in_use() == ["'tensor': 1 NumPy array, 1 torch storage"]
    del array, kept
    assert session.in_use() == []


def test_a_dropped_runtime_ends_by_itself(spill):
    import os

    def open_files():
        return len(os.listdir("/proc/self/fd"))

    before = open_files()
    runtime = sluice.Runtime(dram="4MiB", page_bytes="64KiB", nvme=spill, nvme_bytes="8MiB",
                             **{"tiers.nvme.keep_free": 0})
    tensor = runtime.tensor(1000)
    assert open_files() > before
    del runtime, tensor
    gc.collect()
    assert open_files() == before


def test_close_names_what_is_in_use(make_runtime):
    runtime = make_runtime()
    a, b, c = (runtime.tensor(10, name=name) for name in "abc")
    with runtime.lease(a) as view:
        array = view.numpy()
    with runtime.lease(b) as view:
        kept = view.torch()[3:]
    with runtime.lease(c):
        with pytest.raises(sluice.FailedPrecondition) as caught:
            runtime.close()
    assert str(caught.value) == (
        "the runtime is in use: 'a': 1 NumPy array; 'b': 1 torch storage; 'c': 1 lease"
    )
    assert not runtime.closed
    a.read()
    del array, kept, view, caught
    runtime.close()
    assert runtime.closed
    runtime.close()


def test_a_closed_runtime_refuses_every_call(make_runtime):
    runtime = make_runtime()
    tensor = runtime.tensor(10, name="t")
    runtime.close()
    for use in (runtime.stats, runtime.health, lambda: runtime.tensor(4), tensor.read, tensor.free,
                tensor.discard, runtime.lease(tensor).__enter__, runtime.op("x").__enter__,
                runtime.iteration("k").__enter__, lambda: runtime.set_budget("dram", "2MiB"),
                lambda: runtime.prefetch(tensor), lambda: runtime.schedule("k")):
        with pytest.raises(sluice.FailedPrecondition, match="the runtime is closed"):
            use()


def test_free_is_refused_while_memory_is_lent(runtime):
    tensor = runtime.tensor(10, name="weights")
    with runtime.lease(tensor) as view:
        array = view.numpy()
    with pytest.raises(sluice.FailedPrecondition, match="'weights' is in use: 1 NumPy array"):
        tensor.free()
    del array
    tensor.free()


def test_a_dropped_tensor_gives_its_place_back(runtime):
    for _ in range(20):  # 20 times 32 MiB in 48 MiB
        tensor = runtime.tensor(32 << 20, "uint8")
        del tensor
    held = runtime.tensor(32 << 20, "uint8", name="held")
    with runtime.lease(held[: 1 << 20]) as view:
        kept = view.torch()
    del held, view
    with pytest.raises(sluice.TierFull):
        runtime.tensor(32 << 20, "uint8")
    del kept
    runtime.tensor(32 << 20, "uint8")


def test_another_thread_may_drop_the_last_torch_tensor(make_runtime):
    runtime = make_runtime()
    tensor = runtime.tensor(10)
    with runtime.lease(tensor) as view:
        kept = [view.torch()]
    del view
    thread = threading.Thread(target=kept.clear)
    thread.start()
    thread.join()
    runtime.close()


def test_an_autograd_thread_may_drop_the_last_torch_tensor(make_runtime):
    runtime = make_runtime()
    tensor = runtime.tensor(10)

    class Times(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, values):
            ctx.save_for_backward(values)
            return x * values

        @staticmethod
        def backward(ctx, gradient):
            return gradient * ctx.saved_tensors[0], None

    x = torch.ones(10, requires_grad=True)
    with runtime.lease(tensor, mode="rw") as view:
        view.torch().fill_(3)
        Times.apply(x, view.torch()).sum().backward()
    assert x.grad.tolist() == [3.0] * 10
    runtime.close()


def test_the_block_of_a_runtime_closes_it(make_runtime):
    with make_runtime() as runtime:
        tensor = runtime.tensor(10)
        np.copyto(np.zeros(10, np.float32), tensor.read())
    assert runtime.closed
    with pytest.raises(ZeroDivisionError):
        with make_runtime() as runtime:
            tensor = runtime.tensor(10)
            with runtime.lease(tensor) as view:
                array = view.numpy()
            1 / 0
    assert not runtime.closed, "the exception matters more than the array"
    del array
