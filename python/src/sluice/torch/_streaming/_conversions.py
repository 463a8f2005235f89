"""Names in the files for each key of a model, as transformers' from_pretrained maps them."""

from __future__ import annotations

import sys
from typing import Any

import torch

from ... import errors

# The names of the files whose bytes, one behind the other, are those of each key of a model.
Names = dict[str, list[str]]


def may_fuse(model: torch.nn.Module) -> bool:
    """Whether transformers makes some weights of the model of others."""
    transformers = sys.modules.get("transformers")
    if transformers is None or not isinstance(model, transformers.PreTrainedModel):
        return False
    return bool(_transforms(model)[1])


def names_in_files(model: torch.nn.Module, names: list[str], keys: set[str]) -> Names:
    """The names of each key that the files have: several where transformers fuses weights.

    Raises InvalidArgument for a conversion that is more than laying whole rows in a row.
    """
    transformers = sys.modules.get("transformers")
    if transformers is not None and isinstance(model, transformers.PreTrainedModel):
        return _names_of_transformers(model, names, keys)
    return {name: [name] for name in names if name in keys}


def kept_in_fp32(model: torch.nn.Module, keys: set[str], dtypes: set[torch.dtype]) -> set[str]:
    """The keys that from_pretrained makes float32 in a model that has one of the dtypes elsewhere."""
    transformers = sys.modules.get("transformers")
    if transformers is None or not isinstance(model, transformers.PreTrainedModel):
        return set()
    patterns = {pattern for dtype in dtypes for pattern in model._get_dtype_plan(dtype)}
    if not patterns:
        return set()
    found, _, _ = _transforms(model)[2].build_glob_alternation(sorted(patterns))
    return {key for key in keys if found.search(key)}


def _transforms(model: Any) -> tuple[list[Any], list[Any], Any]:
    """The renamings and converters of a model, and the module of transformers that applies them."""
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
    return renamings, converters, loading


def _names_of_transformers(model: Any, names: list[str], keys: set[str]) -> Names:
    renamings, converters, loading = _transforms(model)
    there = dict.fromkeys(keys, True)
    found: Names = {}
    # Names of each key that is fused, by the pattern of its converter that they match.
    fused: dict[str, dict[str, list[str]]] = {}
    for name in sorted(names, key=loading.dot_natural_key):
        key, pattern = loading.rename_source_key(
            name, renamings, converters, model.base_model_prefix, there
        )
        if key not in keys and name in keys:
            key, pattern = loading.rename_source_key(name, [], [], model.base_model_prefix, there)
        if key not in keys:
            continue
        if key in found or (pattern is None and key in fused):
            other = found[key][0] if key in found else next(iter(fused[key].values()))[0]
            raise errors.InvalidArgument(
                f"'{other}' and '{name}' of the files are both named '{key}' in the model"
            )
        if pattern is None:
            found[key] = [name]
        else:
            fused.setdefault(key, {}).setdefault(pattern, []).append(name)
    converter_of = {pattern: each for each in converters for pattern in each.source_patterns}
    for key, by_pattern in fused.items():
        converter = converter_of[next(iter(by_pattern))]
        lists = [by_pattern.get(pattern, []) for pattern in converter.source_patterns]
        found[key] = _in_order(key, lists, converter, loading)
    return found


def _in_order(key: str, lists: list[list[str]], converter: Any, loading: Any) -> list[str]:
    """The names in the order of their bytes in the fused weight."""
    steps = [(type(each), getattr(each, "dim", None)) for each in converter.operations]
    merge, rows = (loading.MergeModulelist, 0), (loading.Concatenate, 1)
    if steps == [merge, rows] and converter.quantization_operation is None:
        _refuse_uneven(key, lists, converter)
        return [name for member in zip(*lists) for name in member]
    alone = steps == [merge] and len(lists) == 1
    if (alone or steps == [(loading.Concatenate, 0)]) and converter.quantization_operation is None:
        return [name for names in lists for name in names]
    names = ", ".join(type(each).__name__ for each in converter.operations)
    first = next(name for names in lists for name in names)
    raise errors.InvalidArgument(
        f"'{first}' of the files becomes '{key}' by a conversion ({names}), and weights are streamed "
        "as they are in the files, or fused by whole rows: load the model with from_pretrained, and "
        "write it with save_pretrained(save_original_format=False)"
    )


def _refuse_uneven(key: str, lists: list[list[str]], converter: Any) -> None:
    counts = [len(names) for names in lists]
    if len(set(counts)) > 1:
        found = ", ".join(f"{count} of '{pattern}'"
                          for pattern, count in zip(converter.source_patterns, counts))
        raise errors.InvalidArgument(
            f"the files have {found} for '{key}', which takes as many of each: is a shard missing?"
        )
