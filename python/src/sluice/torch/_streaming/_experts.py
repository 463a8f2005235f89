"""The implementation "sluice" of transformers' experts: each is leased while it computes."""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Callable
from typing import Any, Optional

import torch

from ... import errors
from ._expert_cache import LEASES, Leases, Modules

# The name in transformers' ALL_EXPERTS_FUNCTIONS.
NAME = "sluice"
# Classes of transformers whose eager loop is the one here: gate and up as rows of one weight, and
# a sum in the dtype of the inputs. Others sum in float32, or in that of the router's weights.
CLASSES = ("DeepseekV3Experts", "Glm4MoeExperts", "GraniteMoeExperts", "MixtralExperts",
           "OlmoeExperts", "PhimoeExperts", "Qwen2MoeExperts", "Qwen3MoeExperts")


def modules_of(model: torch.nn.Module) -> Modules:
    """The modules of experts that run by the implementation here, each with its name.

    Raises InvalidArgument for a class that has another eager loop.
    """
    found = [(name, module) for name, module in _experts_of(model)
             if module.config._experts_implementation == NAME]
    _refuse_others(found)
    return found


def switch(model: Any) -> Callable[[], None]:
    """Has the experts of a model of transformers run by the implementation here.

    They have a config of their own until then, as other models may share the one they were made of.
    Returns what undoes it. Raises InvalidArgument for a model without experts, or with other ones.
    """
    transformers = sys.modules.get("transformers")
    if transformers is None or not isinstance(model, transformers.PreTrainedModel):
        raise errors.InvalidArgument("experts: only models of transformers have experts to lease")
    from transformers.integrations import moe

    found = _experts_of(model)
    if not found:
        raise errors.InvalidArgument(
            f"experts: {type(model).__name__} has no experts that transformers lets others run: leave "
            "it out"
        )
    _refuse_others(found)
    moe.ALL_EXPERTS_FUNCTIONS.register(NAME, forward)
    before = [(module, module.config) for _, module in found]
    copies: dict[int, Any] = {}
    for module, config in before:
        module.config = copy.deepcopy(config, copies)
        module.config._experts_implementation = NAME

    def undo() -> None:
        for module, config in before:
            module.config = config

    return undo


def _experts_of(model: torch.nn.Module) -> Modules:
    """The modules of experts whose implementation transformers takes from their config."""
    return [(name, module) for name, module in model.named_modules()
            if hasattr(module, "_is_expert_parallel") and hasattr(type(module).forward, "__wrapped__")]


def _refuse_others(modules: Modules) -> None:
    """Raises InvalidArgument for experts with another eager loop than the one here."""
    for name, module in modules:
        kind = type(module)
        if kind.__name__ not in CLASSES or not kind.__module__.startswith("transformers.models."):
            raise errors.InvalidArgument(
                f"experts: '{name}' is a {kind.__name__}, and only {', '.join(CLASSES)} are known to "
                "sum as the eager loop here: leave experts out, and whole layers are leased"
            )
        if module._is_expert_parallel:
            raise errors.InvalidArgument(
                f"experts: those of '{name}' are split among processes: leave experts out, and whole "
                "layers are leased"
            )


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
            current = _product(hidden_states[token], leases.rows[number].up)
            current = _product(self._apply_gate(current), leases.rows[number].down)
            current = current * top_k_weights[token, position, None]
            final.index_add_(0, token, current.to(final.dtype))
    return final


def _product(inputs: torch.Tensor, rows: list[torch.Tensor]) -> torch.Tensor:
    products = [torch.nn.functional.linear(inputs, each) for each in rows]
    return products[0] if len(products) == 1 else torch.cat(products, dim=-1)
