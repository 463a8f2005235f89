"""Cost of a saved tensor that stays in PyTorch's memory."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing
from typing import Any, Callable

import torch

import sluice
import sluice.torch

from ._rows import Row, Setting, median, seconds_of

_MICROSECONDS_MAX = 10.0


def small_tensor(setting: Setting) -> Row:
    """A tensor that is smaller than a page, above an empty pair of hooks."""
    leaf = torch.ones(16, requires_grad=True)
    return _measure(setting, lambda value: value.sin(), leaf)


def parameter(setting: Setting) -> Row:
    """A parameter of a page, above an empty pair of hooks."""
    weight = torch.nn.Parameter(torch.eye(128), requires_grad=False)  # mv saves nothing else then
    return _measure(setting, lambda value: torch.mv(weight, value), torch.ones(128, requires_grad=True))


def _measure(setting: Setting, operation: Callable[[Any], Any], leaf: Any) -> Row:
    count = 2000
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # waits of threads for each other are no cost of hooks
    empty = torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)
    with closing(sluice.Runtime(dram="64MiB", nvme=setting.directory, nvme_bytes="256MiB",
                                page_bytes="64KiB")) as runtime:
        offload = sluice.torch.offload_activations(runtime)
        above = []
        for _ in range(1 + 3 * setting.rounds):
            plain = seconds_of(lambda: _chain(empty, operation, leaf, count))
            ours = seconds_of(lambda: _chain(offload, operation, leaf, count))
            above.append((ours - plain) / count * 1e6)
        if offload.stats()["stashed"] > 0:
            raise AssertionError("what is measured did not stay")
    torch.set_num_threads(threads)
    value = median(above[1:])
    return Row(value, "us", _MICROSECONDS_MAX / max(value, 1e-3), 1.0)


def _chain(hooks: AbstractContextManager[Any], operation: Callable[[Any], Any], leaf: Any,
           count: int) -> None:
    with hooks:
        value = leaf
        for _ in range(count):
            value = operation(value)
    value.sum().backward()
    leaf.grad = None
