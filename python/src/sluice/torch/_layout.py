"""The units of a model: which modules have their weights leased together."""

from __future__ import annotations

import dataclasses

import torch


@dataclasses.dataclass
class Layout:
    """The modules of a model by what they are to a stream, each with its name."""

    # Modules whose weights, with those of all modules below, are leased while they run.
    units: list[tuple[str, torch.nn.Module]] = dataclasses.field(default_factory=list)
    # Modules above units, in which a pass may begin. Parameters of their own are always leased.
    above: list[tuple[str, torch.nn.Module]] = dataclasses.field(default_factory=list)


def layout_of(model: torch.nn.Module) -> Layout:
    """The units of a model: members of ModuleLists, and what owns the other parameters."""
    layout = Layout()
    seen: set[int] = set()

    def visit(name: str, module: torch.nn.Module, listed: bool) -> None:
        if id(module) in seen or next(module.parameters(), None) is None:
            return
        seen.add(id(module))
        owns = any(each is not None for each in module._parameters.values())
        is_list = isinstance(module, torch.nn.ModuleList) and not owns
        if not is_list and (listed or (owns and _is_whole(module))):
            layout.units.append((name, module))
            return
        if not is_list:
            layout.above.append((name, module))
        for child_name, child in module.named_children():
            visit(f"{name}.{child_name}" if name else child_name, child, is_list)

    visit("", model, False)
    return layout


def _is_whole(module: torch.nn.Module) -> bool:
    """Whether the module's forward alone uses the parameters below it."""
    if isinstance(module, torch.nn.MultiheadAttention):  # uses out_proj.weight itself
        return True
    return all(next(child.parameters(), None) is None for child in module.children())
