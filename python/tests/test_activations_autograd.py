"""Saved tensors in a runtime and the rest of autograd: in-place changes, nesting, double backward,
exceptions, threads, processes."""

import contextlib
import os
import signal
import threading

import pytest
import torch
from test_activations import (Held, NeverEnds, all_go_down, chain, copied_down, gradient_of, leaf,  # noqa: F401
                              nothing_left, offload, pager_of, small)
from torch.autograd.graph import save_on_cpu

import sluice
from sluice.torch import offload_activations
from sluice.torch._order import Orders

CHANGED = "changed in place after it was saved: torch.float32 of shape .* is at version 1, saved at"


def product(x):
    y = x * 2
    return y, (y * y).sum()  # saves y, twice


def test_a_copied_stash_stays_right_after_a_change_in_place(offload):
    x = leaf(64, 64)
    with offload:
        y, loss = product(x)
        copied_down(offload)
        y.zero_()
    loss.backward()
    assert torch.equal(x.grad, gradient_of(lambda x: product(x)[1], x))


def test_a_change_in_place_before_the_copy_raises(offload, monkeypatch):
    monkeypatch.setattr(pager_of(offload), "_down", NeverEnds())
    with offload:
        y, loss = product(leaf(64, 64))
        y.zero_()
    with pytest.raises(sluice.FailedPrecondition, match=CHANGED):
        loss.backward()


def test_a_change_that_may_have_met_the_copy_raises(small, offload):
    with offload:
        y, loss = product(leaf(64, 64))
        y.zero_()
    pager_of(offload)._down.wait_for_room(0)
    with pytest.raises(sluice.FailedPrecondition, match=CHANGED):
        loss.backward()
    del y, loss
    assert nothing_left(small)


@pytest.mark.parametrize("seen_to_be_changed", [False, True])
def test_a_tensor_with_a_version_of_its_own_shares_no_changed_stash(offload, seen_to_be_changed):
    values, seen = torch.zeros(64, 64), []
    with offload:
        out = Held.apply(leaf(4), seen, values)
        alias = values.data  # at version 0, too, and its counter stays there
        values.add_(1)
        if seen_to_be_changed:
            copied_down(offload)
        other = Held.apply(leaf(4), seen, alias)
    other.sum().backward()
    assert float(seen[0].mean()) == 1
    with pytest.raises(sluice.FailedPrecondition, match=CHANGED):
        out.sum().backward()


def test_a_change_of_a_tensor_that_stayed_raises(offload):
    with offload:
        y, loss = product(leaf(8, 8))
        y.zero_()
    assert offload.stats()["stashed"] == 0
    with pytest.raises(sluice.FailedPrecondition, match=CHANGED):
        loss.backward()


def test_versions_of_one_storage_have_stashes_of_their_own(offload):
    seen, values = [], torch.zeros(64, 64)
    with offload:
        outs = []
        for i in range(3):
            values.add_(1)
            outs.append(Held.apply(leaf(4), seen, values))
            copied_down(offload)
    assert offload.stats()["stashed"] == 3 and offload.stats()["shared"] == 0
    for out in outs:
        out.sum().backward()
    assert [float(each.mean()) for each in seen] == [1, 2, 3]


def test_a_change_of_what_came_back_is_seen_by_nobody_else(offload):
    class Scribbles(Held):
        @staticmethod
        def backward(ctx, gradient):
            result = Held.backward(ctx, gradient)
            ctx.seen.append(ctx.seen[-1].clone())
            ctx.seen[-2].zero_()
            return result

    seen, values = [], torch.ones(64, 64)
    with offload:
        a = Scribbles.apply(leaf(4), seen, values)
        b = Scribbles.apply(leaf(4), seen, values)
    copied_down(offload)
    a.sum().backward()
    b.sum().backward()
    assert float(seen[1].mean()) == float(seen[3].mean()) == 1


def test_nested_contexts_and_the_same_one_twice(small, offload):
    x = leaf(64, 64)
    least = offload_activations(small, min_bytes=1 << 30)
    with offload, offload:
        y = torch.sin(x)
        with least:
            y = torch.sin(y)  # stays
        with save_on_cpu():
            y = torch.sin(y)
        y = torch.sin(y)
    assert offload.stats()["stashed"] == 2
    y = torch.sin(y)
    y.sum().backward()

    def sines(x):
        for _ in range(5):
            x = torch.sin(x)
        return x.sum()

    assert torch.equal(x.grad, gradient_of(sines, x))


def test_a_context_within_backward(small, offload):
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return chain(x.detach(), 3)

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            with torch.enable_grad(), offload:
                x = x.detach().requires_grad_()
                loss = chain(x, 3)
            return torch.autograd.grad(loss, x)[0] * gradient

    x = leaf(64, 64)
    with offload:
        loss = Inner.apply(torch.sin(x)) + Inner.apply(torch.cos(x))
    loss.backward()

    def plain(x):
        return chain(torch.sin(x), 3) + chain(torch.cos(x), 3)

    assert torch.allclose(x.grad, gradient_of(plain, x))
    del loss
    assert nothing_left(small)


def second_derivative(function, x, within=None):
    x = x.detach().clone().requires_grad_()
    if within is None:
        loss = function(x)
        (first,) = torch.autograd.grad(loss, x, create_graph=True)
        first.square().sum().backward()
        return x.grad
    with within:
        loss = function(x)
        copied_down(within)
        (first,) = torch.autograd.grad(loss, x, create_graph=True)
    first.square().sum().backward()
    return x.grad


def test_double_backward(small, offload):
    x = leaf(64, 64)
    expected = second_derivative(lambda x: chain(x, 4), x)
    assert torch.equal(second_derivative(lambda x: chain(x, 4), x, offload), expected)
    assert nothing_left(small)


def test_backward_twice_through_a_graph_that_is_retained(small, offload):
    x = leaf(64, 64)
    with offload:
        loss = chain(x)
    copied_down(offload)
    loss.backward(retain_graph=True)
    loss.backward()
    assert torch.equal(x.grad, 2 * gradient_of(chain, x))
    assert offload.stats()["fetched"] == 24, "the bytes stay for a while"
    del loss
    assert nothing_left(small)


def test_copies_back_that_are_gone_are_forgotten(offload, monkeypatch):
    monkeypatch.setattr("sluice.torch._pager._WINDOW_BYTES", 1)  # one tensor
    with offload:
        loss = chain(leaf(64, 64), 4)
    copied_down(offload)
    for _ in range(10):
        loss.backward(retain_graph=True)
    assert len(pager_of(offload).known) <= 2 * 4


def test_tensors_that_are_never_used_are_freed(small, offload):
    with offload:
        losses = [chain(leaf(64, 64)) for _ in range(3)]
    del losses[1]
    copied_down(offload)
    assert small.stats()["live_bytes"] == 2 * 24 * 64 * 64 * 4
    del losses
    assert nothing_left(small)


def test_exceptions_in_the_middle_leave_nothing(small, offload):
    def fails(gradient):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        with offload:
            loss = chain(leaf(64, 64)) / 0
            raise ZeroDivisionError
    with offload:
        x = torch.sin(leaf(64, 64))
        x.register_hook(fails)
        loss = chain(x)
    with pytest.raises(ZeroDivisionError):
        loss.backward()
    del loss, x
    assert nothing_left(small)
    with offload:
        x = leaf(64, 64)
        loss = chain(x)
    loss.backward()
    assert torch.equal(x.grad, gradient_of(chain, x))


def test_the_order_of_a_pass_is_that_of_the_last_one(offload):
    class Item:
        def __init__(self, orders):
            self.size = 1
            orders.add(self)

    orders = Orders()
    items = [Item(orders) for _ in range(5)]
    orders.use(items[3])
    assert list(orders.coming(items[0].run)) == [items[2], items[1], items[0]], "last first"
    for index in (4, 1, 0, 2):
        orders.use(items[index])
    again = [Item(orders) for _ in range(5)]
    assert again[0].run is not items[0].run
    orders.use(again[3])
    assert list(orders.coming(again[0].run)) == [again[4], again[1], again[0], again[2]]
    orders.use(again[1])
    del again[2]
    assert list(orders.coming(again[0].run)) == [again[0]]
    fewer = [Item(orders) for _ in range(3)]
    orders.use(fewer[2])
    assert list(orders.coming(fewer[0].run)) == [fewer[1], fewer[0]]


class Disturbed:
    """A stash. Another thread uses ``other`` as this one is counted to its pass, or as that ends."""

    class Size(int):
        disturb = None

        def __hash__(self):
            if self.disturb is not None:
                self.disturb()
            return int(self)

    def __init__(self, orders, other=None, at=None):
        self.orders, self.other, self.at = orders, other, at
        self.size = Disturbed.Size(1)
        if at == "ending":
            self.size.disturb = self.use_other
        orders.add(self)

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        if name == "run" and self.at == "saving":
            self.use_other()

    def use_other(self):
        self.size.disturb = None
        self.orders.use(self.other)


@pytest.mark.parametrize("at", ["saving", "ending"])
def test_another_thread_ends_a_pass(at):
    orders = Orders()
    first = Disturbed(orders)
    second = Disturbed(orders, first, at)
    orders.use(second)
    orders.use(first)
    for count in (1, 2):
        again = [Disturbed(orders) for _ in range(count)]
        orders.use(again[-1])
        assert list(orders.coming(again[0].run)) == again[:-1], "as without the disturbance"
        orders.use(again[0])


def test_backward_asks_ahead(offload):
    for _ in range(2):
        with offload:
            loss = chain(leaf(64, 64))
        copied_down(offload)
        loss.backward()
    assert offload.stats()["fetched"] == 48 and offload.stats()["ahead"] == 46, "all but the first"


def test_threads_on_one_runtime(small, offload):
    wrong = []

    def work(seed):
        for step in range(4):
            x = leaf(64, 64, seed=10 * seed + step)
            with offload:
                loss = chain(x)
            loss.backward()
            if not torch.equal(x.grad, gradient_of(chain, x)):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert nothing_left(small)


def run_in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_a_stash_that_goes_is_not_used_again_by_another_thread(small, offload, monkeypatch):
    pager, shared, seen, outs = pager_of(offload), torch.ones(64, 64), [], []

    def save():
        with offload:
            outs.append(Held.apply(leaf(4), seen, shared))
        copied_down(offload)

    def forget(*arguments):
        monkeypatch.undo()
        run_in_thread(save)
        pager._forget(*arguments)

    save()
    monkeypatch.setattr(pager, "_forget", forget)
    outs.clear()
    assert len(outs) == 1, "saved while the first stash went"
    assert offload.stats()["stashed"] == 2
    with pytest.raises(sluice.FailedPrecondition, match="1 saved tensors"):
        small.close()
    outs.pop().sum().backward()
    assert torch.equal(seen[0], shared)
    assert nothing_left(small) and not pager._back


def test_no_other_thread_gets_a_stash_before_it_is_whole(offload, monkeypatch):
    shared, seen, start = torch.ones(64, 64), [], pager_of(offload)._down.start

    def use_in_thread():
        with offload:
            out = Held.apply(leaf(4), seen, shared)
        out.sum().backward()

    class Slow(NeverEnds):
        def start(self, *arguments):
            monkeypatch.undo()
            run_in_thread(use_in_thread)
            return start(*arguments)

    monkeypatch.setattr(pager_of(offload), "_down", Slow())
    use_in_thread()
    assert len(seen) == 2 and all(torch.equal(each, shared) for each in seen)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_stash_with_the_id_of_one_whose_end_was_interrupted(offload, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt  # Python prints and ignores it, as it does in a __del__

    seen = []
    for value in range(30):
        with offload:
            out = Held.apply(leaf(4), seen, torch.full((64, 64), float(value)))
        copied_down(offload)
        out.sum().backward(retain_graph=True)
        assert float(seen.pop().mean()) == value
        with monkeypatch.context() as patch:
            patch.setattr(pager_of(offload), "_forget", interrupted)
            del out


@contextlib.contextmanager
def pages_held(offload):
    """A thread holds the pages of every stash until the event is set."""
    stashes = [reference() for reference in pager_of(offload).known.values()]
    states = [(stash.state, 0, stash.size, "rw", None) for stash in stashes]
    del stashes
    held, release = threading.Event(), threading.Event()

    def hold():
        op = sluice._core.Op(pager_of(offload)._session, "hold", None)
        leases = op.acquire(states, None)
        held.set()
        release.wait()
        del leases
        op.end()
        states.clear()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    yield release
    release.set()
    thread.join()


def test_a_waiting_backward_lets_other_threads_run(small, offload):
    x = leaf(64, 64)
    with offload:
        loss = chain(x)
    copied_down(offload)
    with pages_held(offload) as release:
        threading.Timer(0.2, release.set).start()
        loss.backward()
    assert torch.equal(x.grad, gradient_of(chain, x))
    del loss
    assert nothing_left(small)


def test_ctrl_c_ends_a_waiting_backward(small, offload):
    x = leaf(64, 64)
    with offload:
        loss = chain(x)
    copied_down(offload)
    with pages_held(offload), pytest.raises(KeyboardInterrupt):
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        loss.backward(retain_graph=True)
    loss.backward()
    assert torch.equal(x.grad, gradient_of(chain, x))
    del loss
    assert nothing_left(small)


PROGRAM = """
import torch
from sluice.torch import _pager, offload_activations
_pager._LATEST_BYTES = 0
runtime = sluice.Runtime(**SMALL)
offload = offload_activations(runtime, min_bytes=4096)
def chain(x):
    for _ in range(24):
        x = torch.sin(x)
    return x.sum()
x = torch.ones(SIDE, SIDE, requires_grad=True)
with offload:
    loss = chain(x)
"""


def test_a_child_of_fork_is_refused_and_leaving_in_flight_is_clean(run_program):
    # PyTorch's own threads hang in a child of fork.
    code, out, err = run_program("import torch\ntorch.set_num_threads(1)\n" +
                                 PROGRAM.replace("SIDE", "64") + """
pid = os.fork()
if pid == 0:
    try:
        with offload:
            chain(x)
        print("no error")
    except sluice.FailedPrecondition as error:
        print("belongs to the parent" in str(error))
    try:
        loss.backward()
        print("no error")
    except sluice.FailedPrecondition as error:
        print("belongs to the parent" in str(error))
    sys.stdout.flush()
    del loss
    sys.exit(0)
print(os.waitpid(pid, 0)[1])
loss.backward()
print(float(x.grad.sum()) != 0)
with offload:
    loss = chain(torch.ones(512, 512, requires_grad=True))
""")
    assert (code, out, err) == (0, "True\nTrue\n0\nTrue\n", "")
