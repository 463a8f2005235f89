"""Saved tensors of autograd in a runtime: what is stashed, shared, kept and given back."""

import gc
import logging
import unittest.mock

import pytest
import torch

import sluice
from sluice import errors
from sluice.torch import _pager, offload_activations

LEAST = 4096


@pytest.fixture(autouse=True)
def all_go_down():
    """Has the latest tensors go down, too: those of tests are so small that all would stay."""
    with unittest.mock.patch.object(_pager, "_LATEST_BYTES", 0):
        yield


@pytest.fixture
def small(make_runtime):
    """A runtime whose dram is far smaller than what the tests save."""
    return make_runtime(dram="1MiB", nvme_bytes="64MiB", page_bytes="4KiB")


@pytest.fixture
def offload(small):
    return offload_activations(small, min_bytes=LEAST)


def pager_of(offload):
    return offload._pager


def copied_down(offload):
    """Waits until every stash has been copied and seen to be."""
    pager_of(offload)._down.wait_for_room(0)
    pager_of(offload)._settle()


def nothing_left(runtime):
    gc.collect()
    runtime._activations._down.wait_for_room(0)
    runtime._activations._up.wait_for_room(0)
    runtime._activations._settle()
    return runtime.stats()["live_bytes"] == 0 and runtime._activations.known == {}


def leaf(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator).requires_grad_()


def chain(x, depth=24):
    """Saves `depth` tensors of the size of x."""
    for _ in range(depth):
        x = torch.sin(x) * 1.01
    return x.sum()


def gradient_of(function, x):
    x = x.detach().clone().requires_grad_()
    function(x).backward()
    return x.grad


class Held(torch.autograd.Function):
    """Saves tensors, and gives them to a list in backward."""

    @staticmethod
    def forward(ctx, x, seen, *tensors):
        ctx.save_for_backward(*tensors)
        ctx.seen, ctx.count = seen, len(tensors)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.seen.extend(ctx.saved_tensors)
        return (gradient, None, *[None] * ctx.count)


class NeverEnds:
    """A copier down whose copies do not end, or fail at once."""

    def __init__(self, error=None):
        self.error, self.ended = error, error is not None

    def start(self, tensor, buffer, urgent):
        return self

    def wait(self):
        raise self.error

    def expect(self, size):
        pass

    def wait_for_room(self, size):
        pass

    stop = wait_for_room


def test_gradients_are_equal_and_bytes_go_to_the_disk(small, offload):
    x = leaf(256, 1024)  # 1 MiB: as large as dram
    with offload:
        loss = chain(x)
    loss.backward()
    assert torch.equal(x.grad, gradient_of(chain, x))
    stats = offload.stats()
    assert stats["stashed"] == 24 and stats["fetched"] > 0 and stats["full"] == 0
    assert stats["stashed_bytes"] == 24 << 20
    assert small.stats()["links"]["dram-nvme"]["out"]["bytes"] > 0
    del loss
    assert nothing_left(small)


def test_nothing_of_a_storage_that_is_gone_stays(small, offload):
    """Small objects of a dead storage would lie between blocks of the heap, which could not join."""
    x = leaf(64, 1024)
    with offload:
        y = torch.sin(x)
        z = torch.sin(y)
        copied_down(offload)
        assert len(pager_of(offload).known) == 2  # x and y may be saved again
        del y
        copied_down(offload)
    assert len(pager_of(offload).known) == 1
    with pytest.raises(errors.FailedPrecondition, match="2 saved tensors"):
        small.close()
    z.sum().backward()
    assert torch.equal(x.grad, gradient_of(lambda x: torch.sin(torch.sin(x)).sum(), x))


def test_memory_goes_back_to_torch_once_the_copy_has_ended(offload):
    x = leaf(64, 1024)
    with offload:
        y = torch.sin(x)
        z = torch.sin(y)
        storage = torch.multiprocessing.reductions.StorageWeakRef(y.untyped_storage())
        del y
        copied_down(offload)
    assert storage.expired()
    z.sum().backward()
    assert torch.equal(x.grad, gradient_of(lambda x: torch.sin(torch.sin(x)).sum(), x))


def test_an_output_that_stays_does_not_keep_its_graph(offload):
    with offload:
        y = torch.exp(leaf(8, 8))  # saves y itself
    storage = torch.multiprocessing.reductions.StorageWeakRef(y.untyped_storage())
    del y
    assert storage.expired()


@pytest.mark.parametrize("make", [
    lambda: torch.arange(5000, dtype=torch.int64),
    lambda: torch.arange(5000) % 3 == 0,
    lambda: torch.randn(60, 100).bfloat16(),
    lambda: torch.randn(60, 100, dtype=torch.complex64),
    lambda: torch.randn(60, 100, dtype=torch.float64).t(),
    lambda: torch.randn(40, 3, 100)[:, 1],
    lambda: torch.randn(100, 100)[3:60, 2:90].permute(1, 0),
    lambda: torch.randn(2000).expand(7, 2000),
    lambda: torch.randn(100000)[777:7000:3],
    lambda: torch.randn(10001).view(torch.uint8)[1:40001],
    lambda: torch.randn(()).expand(100, 100),
    lambda: torch.randn(50, 50, dtype=torch.complex64).conj(),
    lambda: torch.randn(50, 50, 2).to_sparse(),
    lambda: torch.zeros(3, 0),
])
def test_every_kind_of_tensor_comes_back_as_it_was(small, offload, make):
    tensor, seen = make(), []
    before = tensor.clone()
    with offload:
        out = Held.apply(leaf(4), seen, tensor)
    copied_down(offload)
    out.sum().backward()
    (back,) = seen
    assert back.dtype == tensor.dtype and back.shape == tensor.shape and back.layout == tensor.layout
    if tensor.layout == torch.strided:
        assert back.stride() == tensor.stride() and torch.equal(back, before)
    del back, seen[:], out
    assert nothing_left(small)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_nested_tensors_stay(offload):
    def loss_of(x):
        nested = torch.nested.as_nested_tensor([x, x[:20]], layout=torch.strided)
        return torch.relu(nested).to_padded_tensor(0).sum()  # saves its result

    x = leaf(64, 64)
    with offload:
        loss = loss_of(x)
    loss.backward()
    assert torch.equal(x.grad, gradient_of(loss_of, x))


def test_a_small_view_of_a_large_storage_is_stashed_alone(offload):
    table, seen = torch.randn(1000, 1000), []
    with offload:
        out = Held.apply(leaf(4), seen, table[10:20], table[10:20])
    assert offload.stats()["stashed_bytes"] == 40000 and offload.stats()["shared"] == 1
    out.sum().backward()
    assert torch.equal(seen[0], table[10:20]) and torch.equal(seen[1], table[10:20])


def test_tensors_on_one_storage_share_a_stash(offload):
    whole, seen = torch.randn(64, 3, 64), []
    parts = whole.unbind(1)
    with offload:
        out = Held.apply(leaf(4), seen, *parts, whole, whole.view(-1))
    assert (offload.stats()["stashed"], offload.stats()["shared"]) == (1, 4)
    copied_down(offload)
    out.sum().backward()
    assert offload.stats()["fetched"] == 1
    for back, tensor in zip(seen, [*parts, whole, whole.view(-1)]):
        assert torch.equal(back, tensor)


def test_a_new_tensor_at_an_old_address_is_another_one(offload):
    seen, expected, outs = [], [], []
    with offload:
        for i in range(50):
            tensor = torch.full((4096,), float(i))
            expected.append(tensor.sum())
            outs.append(Held.apply(leaf(4), seen, tensor))
            del tensor
            copied_down(offload)
    for out in outs:
        out.sum().backward()
    assert [each.sum() for each in seen] == expected


def test_parameters_that_are_gone_are_forgotten(offload):
    kept = [torch.nn.Parameter(torch.ones(1024)) for _ in range(10)]
    for _ in range(30):
        with offload:
            for weight in [*kept, *(torch.nn.Parameter(torch.ones(1024)) for _ in range(10))]:
                torch.sin(weight)
    assert 10 <= len(pager_of(offload)._parameters._known) <= 2 * 20 + 64
    assert offload.stats()["stashed"] == 0


def test_parameters_stay_by_their_storage(offload):
    layer, frozen = torch.nn.Linear(64, 128), torch.nn.Linear(128, 64).requires_grad_(False)
    raw = torch.nn.Parameter(torch.randn(64, 64))
    x = leaf(8, 64)
    with offload:
        y = frozen(layer(x)) @ raw.t() @ raw[:, :32]
        z = (x @ layer.weight.detach().t()).sum()  # known by now
    assert offload.stats()["stashed"] == 0
    (y.sum() + z).backward()


def test_a_tensor_on_its_way_down_is_handed_back_from_memory(offload, monkeypatch):
    monkeypatch.setattr(pager_of(offload), "_down", NeverEnds())
    x = leaf(64, 64)
    with offload:
        loss = chain(x, 3)
    loss.backward()
    assert torch.equal(x.grad, gradient_of(lambda x: chain(x, 3), x))
    assert (offload.stats()["from_memory"], offload.stats()["fetched"]) == (3, 0)


def test_a_storage_that_moved_beside_its_copy_is_handed_back_from_memory(small, offload, monkeypatch):
    class Copied(NeverEnds):
        ended = True

        def __init__(self):
            pass

        def wait(self):
            tensor.share_memory_()  # frees the memory that the copy reads

    tensor, seen = torch.ones(64, 64), []
    monkeypatch.setattr(pager_of(offload), "_down", Copied())
    with offload:
        out = Held.apply(leaf(4), seen, tensor)
    out.sum().backward()
    assert torch.equal(seen[0], tensor) and offload.stats()["from_memory"] == 1
    assert small.stats()["live_bytes"] == 0


def test_a_copy_that_fails_leaves_the_tensor_in_memory_and_says_so_once(offload, monkeypatch, caplog):
    down = NeverEnds(errors.Unavailable("the disk is away"))
    monkeypatch.setattr(pager_of(offload), "_down", down)
    x = leaf(64, 64)
    with caplog.at_level(logging.WARNING, "sluice"), offload:
        loss = chain(x, 3)
        loss.backward()
    assert torch.equal(x.grad, gradient_of(lambda x: chain(x, 3), x))
    assert [record.getMessage() for record in caplog.records] == [
        "offload_activations: saved tensors stay in PyTorch's memory, as they cannot be stored: "
        "the disk is away"
    ]


def test_few_stashes_are_ahead_of_use_or_kept_after_it(make_runtime, monkeypatch):
    """Each use looks at these, so they are bounded by number where the bytes of each are few."""
    offload = offload_activations(make_runtime(dram="8MiB", nvme_bytes="64MiB", page_bytes="4KiB"), min_bytes=LEAST)
    pager, most = pager_of(offload), _pager._WINDOW_STASHES
    ahead, kept = [], []
    keep_back = pager._keep_back

    def watch(stash, base):
        keep_back(stash, base)
        ahead.append(len(pager._coming_up))
        kept.append(len(pager._back))

    monkeypatch.setattr(pager, "_keep_back", watch)
    x = leaf(1024)
    with offload:
        loss = chain(x, depth=3 * most)
    copied_down(offload)
    loss.backward(retain_graph=True)
    assert offload.stats()["fetched"] == 3 * most
    assert max(ahead) == max(kept) == most
    del loss


def test_copies_that_have_ended_make_room_for_more_of_them(offload, monkeypatch):
    """Backward may need more at once than half of dram holds."""
    pager, ahead = pager_of(offload), [0]
    ask = pager._ask_ahead

    def watch(used):
        pager._up.wait_for_room(0)
        ask(used)
        ahead.append(sum(pager._coming_up.values()))

    monkeypatch.setattr(pager, "_ask_ahead", watch)
    with offload:
        loss = chain(leaf(64, 1024))  # 256 KiB each, and dram has 1 MiB
    copied_down(offload)
    loss.backward()
    assert max(ahead) > 1 << 20
    assert max(after - before for before, after in zip(ahead, ahead[1:])) <= 1 << 19


def test_what_cannot_come_ahead_comes_when_it_is_used(small, offload, monkeypatch):
    x, start = leaf(256, 1024), pager_of(offload)._start

    def start_urgent(stash, urgent):
        if not urgent:
            raise RuntimeError("no memory for a copy ahead")
        return start(stash, urgent)

    monkeypatch.setattr(pager_of(offload), "_start", start_urgent)
    with offload:
        loss = chain(x)
    loss.backward()
    assert torch.equal(x.grad, gradient_of(chain, x))
    assert offload.stats()["ahead"] == 0 and offload.stats()["fetched"] > 0
    del loss
    assert nothing_left(small)


def test_full_tiers_leave_tensors_in_memory_and_say_so_once(make_runtime, caplog):
    runtime = make_runtime(dram="1MiB", nvme_bytes="4MiB", page_bytes="64KiB")
    offload, x = offload_activations(runtime), leaf(256, 1024)
    with caplog.at_level(logging.WARNING, "sluice"), offload:
        loss = chain(x)
    loss.backward()
    assert torch.equal(x.grad, gradient_of(chain, x))
    stats = offload.stats()
    assert stats["full"] > 0 and stats["stashed"] > 0 and stats["full"] + stats["stashed"] == 24
    assert len(caplog.records) == 1 and "nvme" in caplog.records[0].getMessage()
    del loss
    assert nothing_left(runtime)


def test_close_names_saved_tensors(make_runtime):
    runtime = make_runtime()
    x = leaf(128, 1024)
    with offload_activations(runtime):
        loss = chain(x, 2)
    with pytest.raises(sluice.FailedPrecondition, match="2 saved tensors of autograd .1048576 bytes"):
        runtime.close()
    loss.backward()
    del loss
    runtime.close()
    with pytest.raises(sluice.FailedPrecondition, match="closed"):
        offload_activations(runtime)


def test_threads_that_close_at_once_beside_a_copy_all_return(run_program):
    code, out, err = run_program("""
import torch
from sluice.torch import _pager, offload_activations
for _ in range(8):
    runtime = sluice.Runtime(**SMALL)
    with offload_activations(runtime):
        y = torch.sqrt(torch.ones(4 << 20, requires_grad=True))
    del y
    threads = [threading.Thread(target=runtime.close) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
""", timeout=40)
    assert (code, out, err) == (0, "", "")


def test_wrong_arguments_are_named(small):
    with pytest.raises(sluice.InvalidArgument, match="takes a sluice.Runtime, not str"):
        offload_activations("runtime")
    with pytest.raises(sluice.InvalidArgument, match="min_bytes"):
        offload_activations(small, min_bytes="much")
    x = leaf(32, 32)
    with offload_activations(small) as offload:  # a page
        loss = chain(x, 2)
    assert offload.stats()["stashed"] == 2
    loss.backward()
