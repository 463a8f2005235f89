"""Weight of a checkpoint that each parameter of a model shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

from ... import errors
from ._conversions import Names, kept_in_fp32, names_in_files
from ._slots import Slot

if TYPE_CHECKING:
    from ..._weights import Weight, Weights


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
    _widen(model, slots)
    buffers = _persistent_buffers(model)
    keys = {name for slot in slots for name in slot.names} | set(buffers)
    found = names_in_files(model, list(weights), keys)
    slots = _without_computed(model, slots, found)
    _refuse_missing(slots, buffers, found)
    for slot in slots:
        slot.parts = _parts_of(slot, [found[name] for name in slot.names if name in found], weights)
    pairs = []
    for name, buffer in buffers.items():
        if len(found[name]) > 1:
            raise errors.InvalidArgument(f"buffer '{name}' is fused of {len(found[name])} weights of "
                                         f"the files, '{found[name][0]}' first: only parameters are")
        _refuse_misfit("buffer", name, buffer.shape, buffer.dtype, [weights[found[name][0]]])
        pairs.append((buffer, weights[found[name][0]]))
    taken = {each for names in found.values() for each in names}
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


def _widen(model: torch.nn.Module, slots: list[Slot]) -> None:
    """Marks the parameters that from_pretrained keeps in float32: the files must have them so."""
    half = {slot.dtype for slot in slots} & {torch.float16, torch.bfloat16}
    kept = kept_in_fp32(model, {name for slot in slots for name in slot.names}, half)
    for slot in slots:
        if not kept.isdisjoint(slot.names):
            slot.dtype, slot.widened = torch.float32, True


def _without_computed(model: torch.nn.Module, slots: list[Slot], found: Names) -> list[Slot]:
    """The slots but those of values that transformers computes, and writes to no file: they stay.

    Raises InvalidArgument for one on meta, where it has no values.
    """
    computed = set(getattr(model, "_keys_to_ignore_on_save", None) or ())
    absent = [slot for slot in slots if not computed.isdisjoint(slot.names)
              and not any(name in found for name in slot.names)]
    for slot in absent:
        if slot.original.device.type == "meta":
            raise errors.InvalidArgument(
                f"parameter '{slot.names[0]}' is on meta, and in no file, as transformers computes it: "
                "make it in memory before (the parameter = torch.nn.Parameter(values, False))"
            )
    return [slot for slot in slots if slot not in absent]


def _persistent_buffers(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    found = {}
    for prefix, module in model.named_modules():
        for name, buffer in module._buffers.items():
            if buffer is not None and name not in module._non_persistent_buffers_set:
                found[f"{prefix}.{name}" if prefix else name] = buffer
    return found


def _refuse_missing(slots: list[Slot], buffers: Iterable[str], found: Names) -> None:
    missing = [slot.names[0] for slot in slots if not any(name in found for name in slot.names)]
    missing += [name for name in buffers if name not in found]
    if not missing:
        return
    shown = ", ".join(f"'{name}'" for name in missing[:5])
    more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
    raise errors.InvalidArgument(
        f"the files have no {shown}{more}, which the model has: is it the checkpoint of this model? "
        "Weights that are tied must be one parameter (model.tie_weights())"
    )


def _parts_of(slot: Slot, found: list[list[str]], weights: Weights) -> list[Weight]:
    """The weights that make up a slot's bytes. The files may have several copies, which must be equal."""
    name = slot.names[0]
    if type(slot.original) is not torch.nn.Parameter:
        raise errors.InvalidArgument(
            f"parameter '{name}' is a {type(slot.original).__name__}: only torch.nn.Parameter streams"
        )
    candidates = [[weights[each] for each in names] for names in found]
    for parts in candidates:
        _refuse_misfit("parameter", name, slot.original.shape, slot.dtype, parts, slot.widened)
    first = candidates[0]
    for other in candidates[1:]:
        if len(first) != len(other) or not all(map(_equal, first, other)):
            raise errors.InvalidArgument(
                f"the model ties '{first[0].name}' and '{other[0].name}', and the files have "
                "different elements for them: make the model without the tie "
                "(tie_word_embeddings=False)"
            )
    return first


def _equal(first: Weight, other: Weight) -> bool:
    return bool(torch.equal(_bytes_of(first), _bytes_of(other)))


def _bytes_of(weight: Weight) -> torch.Tensor:
    return weight.torch().reshape(-1).view(torch.uint8)


def _refuse_misfit(what: str, name: str, extents: torch.Size, dtype: torch.dtype,
                   parts: list[Weight], widened: bool = False) -> None:
    shape, wanted = tuple(extents), str(dtype).removeprefix("torch.")
    for weight in parts:
        if wanted != weight.dtype:
            raise errors.InvalidArgument(
                f"{what} '{name}' is {wanted}, and '{weight.name}' of {weight.file} is "
                f"{weight.dtype or weight.type}: nothing is converted, so {_instead(wanted, weight, widened)}"
            )
    if len(parts) == 1 and shape != parts[0].shape:
        raise errors.InvalidArgument(
            f"{what} '{name}' has shape {shape}, and '{parts[0].name}' of "
            f"{parts[0].file} has {parts[0].shape}: is it the checkpoint of this model?"
        )
    if len(parts) > 1 and not _is_fused(shape, [each.shape for each in parts]):
        raise errors.InvalidArgument(
            f"{what} '{name}' has shape {shape}, and the files have {len(parts)} "
            f"weights for it, '{parts[0].name}' of {parts[0].file} with {parts[0].shape}: is it the "
            "checkpoint of this model, and whole?"
        )


def _instead(wanted: str, weight: Weight, widened: bool) -> str:
    """What helps against a weight of another dtype than ``wanted``."""
    if widened:
        return "write the files as transformers has it in memory (from_pretrained, save_pretrained)"
    if wanted == "float32" and weight.dtype in ("bfloat16", "float16"):
        return ("make the model in the type of the files (dtype=...); if transformers makes only this one "
                f"float32, set parameter.data = parameter.data.{weight.dtype}()")
    return "make the model in the type of the files (dtype=...)"


def _is_fused(shape: tuple[int, ...], parts: list[tuple[int, ...]]) -> bool:
    """Whether whole rows of the parts, or stacked members of one or several parts, have that shape."""
    if len(parts[0]) == len(shape):
        return _has_rows_of(shape, parts)
    each, rest = divmod(len(parts), shape[0]) if shape and shape[0] > 0 else (0, 1)
    return rest == 0 and _has_rows_of(shape[1:], parts[:each]) and parts == parts[:each] * shape[0]


def _has_rows_of(shape: tuple[int, ...], parts: list[tuple[int, ...]]) -> bool:
    if len(parts) == 1:
        return parts[0] == shape
    same = all(len(part) == len(shape) and part[1:] == shape[1:] for part in parts)
    return same and bool(shape) and sum(part[0] for part in parts) == shape[0]
