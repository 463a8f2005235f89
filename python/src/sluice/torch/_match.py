"""Which weight of a checkpoint each parameter of a model shows."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from .. import errors
from ._units import Slot

if TYPE_CHECKING:
    from .._weights import Weight, Weights


@dataclasses.dataclass
class Match:
    """The parameters with their weights, and what else the model and the files have."""

    slots: list[Slot]
    # Buffers that a state dict holds, with their weights.
    buffers: list[tuple[torch.Tensor, Weight]]
    # Weights that no parameter and no buffer takes.
    unused: list[str]


def match_weights(model: torch.nn.Module, weights: Weights) -> Match:
    """Finds the weight of each parameter. Raises InvalidArgument that names it, changes nothing."""
    slots = _tied(model, _slots_of(model))
    buffers = _persistent_buffers(model)
    keys = {name for slot in slots for name in slot.names} | set(buffers)
    file_keys = _file_keys(model, list(weights), keys)
    _refuse_missing(slots, buffers, file_keys)
    for slot in slots:
        slot.weight = _weight_of(slot, [file_keys[name] for name in slot.names
                                        if name in file_keys], weights)
    pairs = []
    for name, buffer in buffers.items():
        weight = weights[file_keys[name]]
        _refuse_misfit("buffer", name, buffer, weight)
        pairs.append((buffer, weight))
    taken = set(file_keys.values())
    return Match(slots, pairs, [name for name in weights if name not in taken])


def _slots_of(model: torch.nn.Module) -> list[Slot]:
    """A slot for each parameter, under all of its names."""
    slots: dict[int, Slot] = {}
    for prefix, module in model.named_modules(remove_duplicate=False):
        for name, parameter in module._parameters.items():
            if parameter is None:
                continue
            slot = slots.setdefault(id(parameter), Slot([], [], parameter))
            slot.names.append(f"{prefix}.{name}" if prefix else name)
            if not any(place == (module, name) for place in slot.places):
                slot.places.append((module, name))
    return list(slots.values())


def _tied(model: torch.nn.Module, slots: list[Slot]) -> list[Slot]:
    """The slots, those as one that transformers ties: made on meta, they are separate parameters."""
    slot_of = {name: slot for slot in slots for name in slot.names}
    for name, other in getattr(model, "all_tied_weights_keys", {}).items():
        joins, keeps = slot_of.get(name), slot_of.get(other)
        if joins is None or keeps is None or joins is keeps:
            continue
        keeps.names += joins.names
        keeps.places += joins.places
        for each in joins.names:
            slot_of[each] = keeps
    kept = {id(slot) for slot in slot_of.values()}
    return [slot for slot in slots if id(slot) in kept]


def _persistent_buffers(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    found = {}
    for prefix, module in model.named_modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and name not in module._non_persistent_buffers_set:
                found[f"{prefix}.{name}" if prefix else name] = buffer
    return found


def _file_keys(model: torch.nn.Module, names: list[str], keys: set[str]) -> dict[str, str]:
    """The name in the files of each key of the model that they have."""
    transformers = sys.modules.get("transformers")
    if transformers is not None and isinstance(model, transformers.PreTrainedModel):
        return _transformers_keys(model, names, keys)
    return {name: name for name in names if name in keys}


def _transformers_keys(model: Any, names: list[str], keys: set[str]) -> dict[str, str]:
    """The same where transformers renames: as its from_pretrained does."""
    try:
        from transformers import conversion_mapping
        from transformers import core_model_loading as loading
    except ImportError:
        raise errors.FailedPrecondition(
            "stream_weights knows how transformers 5 names weights: pip install -U transformers"
        ) from None
    transforms = conversion_mapping.get_model_conversion_mapping(model)
    renamings = [each for each in transforms if isinstance(each, loading.WeightRenaming)]
    converters = [each for each in transforms if isinstance(each, loading.WeightConverter)]
    there = dict.fromkeys(keys, True)
    found: dict[str, str] = {}
    for name in sorted(names, key=loading.dot_natural_key):
        key, pattern = loading.rename_source_key(
            name, renamings, converters, model.base_model_prefix, there
        )
        if key not in keys and name in keys:
            key, pattern = loading.rename_source_key(name, [], [], model.base_model_prefix, there)
        if key not in keys:
            continue
        if pattern is not None:
            _refuse_conversion(name, key, pattern, converters)
        if key in found:
            raise errors.InvalidArgument(
                f"'{found[key]}' and '{name}' of the files are both named '{key}' in the model"
            )
        found[key] = name
    return found


def _refuse_conversion(name: str, key: str, pattern: str, converters: Iterable[Any]) -> None:
    converter = next(each for each in converters if pattern in each.source_patterns)
    steps = ", ".join(type(each).__name__ for each in converter.operations)
    raise errors.InvalidArgument(
        f"'{name}' of the files becomes '{key}' by a conversion ({steps}), and weights are streamed "
        "as they are in the files: load the model with from_pretrained, and write it with "
        "save_pretrained(save_original_format=False)"
    )


def _refuse_missing(slots: list[Slot], buffers: Iterable[str], file_keys: dict[str, str]) -> None:
    missing = [slot.names[0] for slot in slots if not any(name in file_keys for name in slot.names)]
    missing += [name for name in buffers if name not in file_keys]
    if not missing:
        return
    shown = ", ".join(f"'{name}'" for name in missing[:5])
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    raise errors.InvalidArgument(
        f"the files have no {shown}{more}, which the model has: is it the checkpoint of this model? "
        "Weights that are tied must be one parameter (model.tie_weights())"
    )


def _weight_of(slot: Slot, names: list[str], weights: Weights) -> Weight:
    """The weight of a slot, of which the files may have several equal ones."""
    name = slot.names[0]
    if type(slot.original) is not torch.nn.Parameter:
        raise errors.InvalidArgument(
            f"parameter '{name}' is a {type(slot.original).__name__}: only torch.nn.Parameter streams"
        )
    first = weights[names[0]]
    _refuse_misfit("parameter", name, slot.original, first)
    for other in names[1:]:
        _refuse_misfit("parameter", name, slot.original, weights[other])
        if not torch.equal(_bytes_of(first), _bytes_of(weights[other])):
            raise errors.InvalidArgument(
                f"the model ties '{first.name}' and '{other}', and the files have different elements "
                "for them: make the model without the tie (tie_word_embeddings=False)"
            )
    return first


def _bytes_of(weight: Weight) -> torch.Tensor:
    return weight.torch().reshape(-1).view(torch.uint8)


def _refuse_misfit(what: str, name: str, tensor: torch.Tensor, weight: Weight) -> None:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype != weight.dtype:
        raise errors.InvalidArgument(
            f"{what} '{name}' is {dtype}, and '{weight.name}' of {weight.file} is "
            f"{weight.dtype or weight.type}: nothing is converted, so make the model in the type of "
            "the files (dtype=...)"
        )
    if tuple(tensor.shape) != weight.shape:
        raise errors.InvalidArgument(
            f"{what} '{name}' has shape {tuple(tensor.shape)}, and '{weight.name}' of {weight.file} "
            f"has {weight.shape}: is it the checkpoint of this model?"
        )
