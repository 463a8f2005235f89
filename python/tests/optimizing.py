"""Parts that the tests of optimizers share: parameters of odd sizes and recorded gradients."""

import os
import threading

import torch

# More states than the dram of the small runtimes: 1.3 million elements of 8 bytes against 4 MiB.
SHAPES = [(1000, 1152), (1152,), (37, 41, 100), (), (1, 3), (300,)]


def parameters(seed, dtype=torch.float32, shapes=tuple(SHAPES)):
    generator = torch.Generator().manual_seed(seed)
    values = [torch.randn(shape, generator=generator) for shape in shapes]
    return [torch.nn.Parameter(value.to(dtype)) for value in values]


def gradients(seed, step, params, through=None):
    """The recorded gradients of a step, the same for each set of parameters; rounded to a type."""
    generator = torch.Generator().manual_seed(seed * 1000 + step)
    made = [torch.randn(p.shape, generator=generator) * 0.1 for p in params]
    return [each.to(through or p.dtype).to(p.dtype) for each, p in zip(made, params)]


def run(optimizer, params, seed, steps, first=0, through=None):
    """Steps of recorded gradients, from number `first` on."""
    for step in range(first, first + steps):
        for param, gradient in zip(params, gradients(seed, step, params, through)):
            param.grad = gradient
        optimizer.step()
    optimizer.zero_grad()


def same(these, those):
    """Whether tensors have the same bits."""
    return all(a.dtype == b.dtype and torch.equal(a, b) for a, b in zip(these, those, strict=True))


def off_by(these, those, lr):
    """The largest difference, in units of |p| + 50 lr."""
    return max(each.max().item() for each in _differences(these, those, lr))


def share_beyond(limit, these, those, lr):
    """The share of elements that differ by more than `limit`, in units of |p| + 50 lr."""
    differences = _differences(these, those, lr)
    beyond = sum((each > limit).sum().item() for each in differences)
    return beyond / sum(each.numel() for each in differences)


def _differences(these, those, lr):
    return [(a.double() - b.double()).abs() / (b.double().abs() + 50 * lr)
            for a, b in zip(these, those, strict=True)]


class Held:
    """All of dram but a page, held by a thread until the block ends: no update goes on meanwhile."""

    def __init__(self, runtime):
        self._held = runtime.tensor((16 * 63, 1024), "float32", name="held")
        self._runtime = runtime
        self._taken, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._hold)

    def _hold(self):
        with self._runtime.lease(self._held, mode="w", tier="dram"):
            self._taken.set()
            self._over.wait(60)

    def __enter__(self):
        self._thread.start()
        self._taken.wait()
        return self

    def let_go_later(self, seconds=0.2):
        threading.Timer(seconds, self._over.set).start()

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


class Interrupting:
    """A core that Ctrl-C meets in one call, right before or right after what it does."""

    def __init__(self, core, name, does):
        self._core, self._name, self._does = core, name, does

    def __getattr__(self, name):
        call = getattr(self._core, name)
        return self._interrupt if name == self._name else call

    def _interrupt(self, *arguments):
        if self._does:
            getattr(self._core, self._name)(*arguments)
        raise KeyboardInterrupt


def lose_states(spill):
    """Empties the spill file: what is not in dram is lost."""
    for descriptor in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{descriptor}"
        if os.path.islink(path) and os.readlink(path).startswith(str(spill)):
            os.truncate(path, 0)
