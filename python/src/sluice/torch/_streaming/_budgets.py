"""Budgets of a model that streams: of what is leased with its units, and of its experts."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, Optional

import torch

from ... import _options
from ..._options import Directory, Size
from ..._runtime import Runtime
from ..._weights import Weights, frames_bytes
from ._conversions import may_fuse
from ._expert_cache import Cache, Modules, Needs, shares
from ._expert_policies import DEFAULT, Guarded
from ._experts import modules_of
from ._layout import UnitMaker, layout_of
from ._match import match_weights
from ._slots import show
from ._units import Room

def open_cache(model: torch.nn.Module, path: Directory, policy: Guarded, dram: Size,
               options: dict[str, Any], opened: list[Runtime],
               ) -> tuple[Optional[Cache], int]:
    """The cache of the experts that are leased one by one, if any, and the budget of the rest.

    No more is taken than the weights have. Budgets here are this process's.
    """
    processes = _processes(options)
    asked = _options.parse_size("dram", dram) // processes
    modules = modules_of(model)
    if not modules and not may_fuse(model):
        return None, min(asked, frames_bytes(path, _page_bytes(options)) or asked)
    opened.append(open_runtime(16 * _page_bytes(options), options))
    needs = _needs(model, modules, opened[-1], opened[-1].open_weights(os.fspath(path)))
    opened.pop().close()
    if not modules:
        return None, min(asked, needs.dense)
    dense, experts = shares(asked, needs, processes)
    # Pages of experts that have left go before those that were asked for.
    flat: dict[str, Any] = {**dict(_options.flat(options)), "scheduler.policy": "lru"}
    opened.append(open_runtime(experts, flat))
    weights = opened[-1].open_weights(os.fspath(path))
    return Cache(opened[-1], policy, modules, weights), dense


def _needs(model: torch.nn.Module, modules: Modules, runtime: Runtime,
           weights: Weights) -> Needs:
    """Bytes of pages that a model has. It lays the weights out as a stream does."""
    slots = match_weights(model, weights).slots
    experts = Cache(runtime, Guarded(DEFAULT), modules, weights)
    pages = [pages for _, leases in experts.lease(slots) for pages in leases.pages]
    for i, slot in enumerate(slots):
        if slot.by_expert or len(slot.parts) == 1:
            show(slot, weights)
        else:  # pages of its own, at an address that no other has
            slot.weight = dataclasses.replace(slot.parts[0], nbytes=slot.original.nbytes)
            slot.address = (i + 1) << 50
    room = Room(runtime.page_bytes, 0)
    maker, layout = UnitMaker(runtime._session, slots, room), layout_of(model)
    units = maker.units(layout)
    maker.held(layout)
    return Needs(
        dense=room.bytes_of(units),
        unit=max((room.bytes_of([unit]) for unit in units), default=0),
        experts=len(set().union(*pages)) * runtime.page_bytes,
        expert=max(map(len, pages), default=0) * runtime.page_bytes,
    )


def _processes(options: dict[str, Any]) -> int:
    """Processes that divide the budgets of the host."""
    return _options.share_of(options.get("share"), os.environ)[1]


def open_runtime(dram: int, options: dict[str, Any]) -> Runtime:
    """Opens a runtime whose share for this process has ``dram`` bytes."""
    return Runtime(dram=dram * _processes(options), **options)


def _page_bytes(options: dict[str, Any]) -> int:
    page = options.get("page_bytes", _options.default("page_bytes"))
    return max(1, _options.parse_size("page_bytes", page))
