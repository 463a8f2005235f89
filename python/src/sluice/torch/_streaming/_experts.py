"""The implementation "sluice" of transformers' experts: each is leased while it computes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any, Optional

import torch

from ... import errors
from ._expert_cache import LEASES, Leases, Modules

# The name in transformers' ALL_EXPERTS_FUNCTIONS.
NAME = "sluice"


def modules_of(model: torch.nn.Module) -> Modules:
    """The modules of experts that run by the implementation here, each with its name."""
    return [(name, module) for name, module in model.named_modules()
            if hasattr(module, "_is_expert_parallel") and hasattr(type(module).forward, "__wrapped__")
            and getattr(module.config, "_experts_implementation", None) == NAME]


def switch(model: Any) -> Callable[[], None]:
    """Has the experts of a model of transformers run by the implementation here.

    Returns what undoes it. Raises InvalidArgument for a model without experts, or with other ones.
    """
    transformers = sys.modules.get("transformers")
    if transformers is None or not isinstance(model, transformers.PreTrainedModel):
        raise errors.InvalidArgument("experts: only models of transformers have experts to lease")
    from transformers.integrations import moe

    moe.ALL_EXPERTS_FUNCTIONS.register(NAME, forward)
    before = model.get_experts_implementation()
    model.set_experts_implementation(NAME)
    if not modules_of(model):
        model.set_experts_implementation(before)
        raise errors.InvalidArgument(
            f"experts: {type(model).__name__} has no experts that transformers lets others run: leave "
            "it out"
        )
    return lambda: model.set_experts_implementation(before)


def forward(self: Any, hidden_states: torch.Tensor, top_k_index: torch.Tensor,
            top_k_weights: torch.Tensor) -> torch.Tensor:
    """The eager loop of transformers, with the rows of each expert leased while it computes."""
    leases: Optional[Leases] = self.__dict__.get(LEASES)
    if leases is None:  # a resident model
        outputs: torch.Tensor = type(self).forward.__wrapped__(
            self, hidden_states, top_k_index, top_k_weights)
        return outputs
    final = torch.zeros_like(hidden_states)
    with torch.no_grad():
        mask = torch.nn.functional.one_hot(top_k_index, num_classes=self.num_experts + 1)
        mask = mask.permute(2, 1, 0)
        hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero().flatten().tolist()
    numbers = [number for number in hit if number < self.num_experts]
    with contextlib.closing(leases.each(numbers, hidden_states.shape[0])) as leased:
        for number in leased:  # no variable has the rows: frames of an error would hold them
            position, token = torch.where(mask[number])
            current = _product(hidden_states[token], leases.experts[number].up)
            current = self._apply_gate(current) if self.has_gate else self.act_fn(current)
            current = _product(current, leases.experts[number].down)
            current = current * top_k_weights[token, position, None]
            final.index_add_(0, token, current.to(final.dtype))
    return final


def _product(inputs: torch.Tensor, rows: list[torch.Tensor]) -> torch.Tensor:
    products = [torch.nn.functional.linear(inputs, each) for each in rows]
    return products[0] if len(products) == 1 else torch.cat(products, dim=-1)
