"""The tensors saved last, which stay in PyTorch's memory."""

import gc
from collections import OrderedDict

import pytest
import torch
from test_activations import (LEAST, Held, chain, copied_down, gradient_of, leaf, nothing_left,  # noqa: F401
                              offload, pager_of, small)

import sluice
from sluice.torch import _pager, offload_activations


@pytest.fixture
def latest(monkeypatch):
    """Has tensors of as many bytes stay."""
    return lambda size: monkeypatch.setattr(_pager, "_LATEST_BYTES", size)


def test_the_latest_tensors_never_go_down(small, offload, latest):
    latest(3 << 20)
    x = leaf(256, 1024)  # 1 MiB
    for step in (1, 2):
        with offload:
            loss = chain(x)
        loss.backward()
        stats = offload.stats()
        assert stats["stashed"] == 21 * step and stats["stashed_bytes"] == 21 * step << 20
        assert stats["from_memory"] >= 3 * step
    assert torch.equal(x.grad, 2 * gradient_of(chain, x))
    del loss
    assert nothing_left(small) and not pager_of(offload)._latest


def test_few_small_tensors_are_the_latest(offload, latest, monkeypatch):
    latest(64 << 20)
    monkeypatch.setattr(_pager, "_WINDOW_STASHES", 5)
    x = leaf(64, 64)
    with offload:
        loss = chain(x)
    assert offload.stats()["stashed"] == 24 - 5
    loss.backward()
    assert torch.equal(x.grad, gradient_of(chain, x))


def test_tensors_that_go_first_take_no_place_of_the_latest(offload, latest):
    latest(2 << 20)
    x = leaf(256, 1024)
    for _ in range(8):
        with offload:
            loss = chain(x, 2)
        del loss
    assert offload.stats()["stashed"] == 0 and not pager_of(offload)._latest


def test_a_change_in_place_of_a_tensor_that_stays_raises(offload, latest):
    latest(1 << 20)
    values, seen = torch.zeros(256, 1024), []
    with offload:
        out = Held.apply(leaf(4), seen, values)
        values.add_(1)
        loss = chain(leaf(256, 1024), 3)  # it would go down now
    assert offload.stats()["stashed"] == 2
    with pytest.raises(sluice.FailedPrecondition, match="changed in place after it was saved"):
        out.sum().backward()
    loss.backward()


def test_a_storage_that_is_freed_for_a_while_stays(offload, latest):
    """As those of gathered parameters are, which come again before backward."""
    latest(1 << 20)
    values, seen = torch.ones(256, 1024), []
    with offload:
        out = Held.apply(leaf(4), seen, values)
        values.untyped_storage().resize_(0)
        loss = chain(leaf(256, 1024), 3)
    assert offload.stats()["stashed"] == 2 and values.untyped_storage().nbytes() == 0
    values.untyped_storage().resize_(1 << 20)
    with torch.no_grad():
        values.data.fill_(2)
    out.sum().backward()
    assert torch.equal(seen[0], torch.full((256, 1024), 2.0))
    loss.backward()


def test_saves_of_all_storages_that_stay_count(offload, latest):
    """A view keeps its whole storage."""
    latest(1 << 20)
    views, seen = [torch.ones(64, 1024)[:4] for _ in range(12)], []  # 256 KiB each, of which 16 are saved
    with offload:
        out = Held.apply(leaf(4), seen, *views)
    storages = [torch.multiprocessing.reductions.StorageWeakRef(view.untyped_storage()) for view in views]
    del views
    copied_down(offload)
    assert sum(not storage.expired() for storage in storages) == 4
    out.sum().backward()
    assert all(torch.equal(each, torch.ones(4, 1024)) for each in seen)


def test_memory_goes_back_before_the_next_tensor_goes_down(offload, latest, monkeypatch):
    latest(1 << 20)
    pager, held = pager_of(offload), []
    start = pager._down.start

    def watch(state, buffer, urgent):
        stashes = [reference() for reference in list(pager._stashes.values())]
        held.append(sum(stash.source is not None for stash in stashes if stash is not None))
        return start(state, buffer, urgent)

    monkeypatch.setattr(_pager, "_WINDOW_BYTES", 1 << 20)
    monkeypatch.setattr(pager, "_down", Watched(pager._down, start=watch))
    with offload:
        loss = chain(leaf(256, 1024))  # 1 MiB each
    assert max(held) == 2, "one goes down, and one is the latest"
    loss.backward()


class Watched:
    """A copier with other members."""

    def __init__(self, copier, **members):
        self.__dict__.update(members)
        self._copier = copier

    def __getattr__(self, name):
        return getattr(self._copier, name)


class Collecting(OrderedDict):
    """A dict whose items come with garbage collections, as their tuples may start one."""

    def items(self):
        for item in super().items():
            gc.collect()
            yield item


def test_graphs_in_cycles_may_go_while_tensors_are_saved(offload, latest):
    """A garbage collection forgets stashes of them."""
    latest(64 << 20)
    pager_of(offload)._latest = Collecting()
    x = leaf(32, 32)
    for _ in range(3):
        with offload:
            loss = chain(x, 4)
        loss.cycle = [loss]
        del loss
    gc.collect()
    assert not pager_of(offload)._latest


def test_a_closed_runtime_takes_no_save(make_runtime, latest):
    latest(64 << 20)
    runtime = make_runtime()
    offload = offload_activations(runtime)
    runtime.close()
    with pytest.raises(sluice.FailedPrecondition, match="closed"), offload:
        chain(leaf(128, 1024), 1)


def test_a_runtime_that_has_nothing_of_them_may_close(make_runtime, latest):
    latest(64 << 20)
    runtime, x = make_runtime(), leaf(128, 1024)
    with offload_activations(runtime) as offload:
        loss = chain(x, 2)
    runtime.close()
    loss.backward()
    assert torch.equal(x.grad, gradient_of(lambda x: chain(x, 2), x)) and offload.stats()["stashed"] == 0
