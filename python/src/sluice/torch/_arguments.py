"""Arguments of an optimizer, and what is wrong with one."""

from __future__ import annotations

import contextlib
import dataclasses
import operator
import reprlib
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Optional, TypedDict

import torch

from .. import errors
from .._options import THREADS_MAX
from .._runtime import Runtime

if TYPE_CHECKING:
    from typing_extensions import Required

# Options of torch.optim's optimizers that must have their defaults, and the reasons.
_REASONS = {
    "amsgrad": "there is no paged state for its maximum",
    "maximize": "updates minimize; negate the loss",
    "capturable": "it is for CUDA graphs, and updates run on the CPU",
    "differentiable": "autograd does not record updates",
    "foreach": "it chooses among PyTorch's kernels, and sluice has its own",
    "fused": "it chooses among PyTorch's kernels, and sluice has its own",
    "dampening": "the update has no term for it",
    "initial_accumulator_value": "paged sums begin at 0",
}
# Arguments that every optimizer accepts if they have their default.
_EVERYWHERE = ("amsgrad", "maximize", "capturable", "differentiable", "foreach", "fused")

# Options of param_groups: numbers from 0 on, and those of them that are below 1.
_NUMBERS = ("lr", "eps", "weight_decay", "lr_decay", "momentum")
_BELOW_1 = ("momentum", "betas")
# Largest number that the library takes.
_NUMBER_MAX = 1e30


class Options(TypedDict, total=False):
    """Keyword arguments of every optimizer. Adam describes them; torch's have their defaults."""

    runtime: Required[Runtime]
    states: str
    master: bool
    clip_norm: Optional[float]
    seed: int
    threads: Optional[int]
    lowest: str
    step_in_backward: bool
    overlap: bool
    closures: bool
    maximize: Optional[bool]
    capturable: Optional[bool]
    differentiable: Optional[bool]
    foreach: Optional[bool]
    fused: Optional[bool]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Options of an optimizer that are none of its groups."""

    runtime: Runtime
    states: str = "fp32"
    master: bool = True
    clip_norm: Optional[float] = None
    seed: int = 0
    threads: Optional[int] = None
    lowest: str = "nvme"
    step_in_backward: bool = False
    overlap: bool = False
    closures: bool = False


_SETTINGS = tuple(field.name for field in dataclasses.fields(Settings))


def settings_of(kind: str, options: Mapping[str, Any], rates: Mapping[str, Any],
                fixed: Mapping[str, Any]) -> Settings:
    """The settings among an optimizer's options. Raises InvalidArgument (names the option).

    ``rates`` and ``fixed``: its other options, and those of them that must have one value.
    """
    fixed = {**dict.fromkeys(_EVERYWHERE, False), **fixed}
    for name, value in options.items():
        if name in fixed:
            refuse_set(kind, name, value, fixed[name])
        elif name not in _SETTINGS:
            known = ", ".join(sorted({*_SETTINGS, *fixed, *rates} - {"decoupled_weight_decay"}))
            raise errors.InvalidArgument(f"{kind}: unknown option '{name}'; known are {known}")
    if not isinstance(options.get("runtime"), Runtime):
        raise _wrong(kind, "runtime", options.get("runtime"), "the sluice.Runtime that pages the states")
    settings = Settings(**{name: value for name, value in options.items() if name in _SETTINGS})
    _check_types(kind, settings)
    clip_norm = None if settings.clip_norm is None else number_of(settings.clip_norm)
    if settings.clip_norm is not None and not (clip_norm and 0 < clip_norm <= _NUMBER_MAX):
        raise _wrong(kind, "clip_norm", settings.clip_norm, "a finite number above 0, or None")
    return dataclasses.replace(settings, clip_norm=clip_norm, seed=operator.index(settings.seed))


def _check_types(kind: str, settings: Settings) -> None:
    for name, allowed in (("states", '"fp32", "bf16" or "8bit"'), ("lowest", '"nvme" or "dram"')):
        value = getattr(settings, name)
        if not (isinstance(value, str) and value.isascii()):
            raise _wrong(kind, name, value, allowed)
    for name in ("master", "step_in_backward", "overlap", "closures"):
        if not isinstance(getattr(settings, name), bool):
            raise _wrong(kind, name, getattr(settings, name), "True or False")
    _check_integer(kind, "seed", settings.seed, 0, 2**64 - 1)
    if settings.threads is not None:
        _check_integer(kind, "threads", settings.threads, 1, THREADS_MAX)


def result_of(kind: str, closure: Optional[Callable[[], Any]], allowed: bool) -> Any:
    """The result of the closure that ``step`` was given; None without one. Raises InvalidArgument."""
    if closure is None:
        return None
    if not callable(closure):
        raise errors.InvalidArgument(f"step: the closure is {closure!r}, which cannot be called")
    if not allowed:
        raise errors.InvalidArgument(
            f"{kind}: step refuses closures: a step that fails is called again with the gradients that "
            "it had, and a closure makes others; call backward before step, or give closures=True "
            "(Lightning needs it)"
        )
    with torch.enable_grad():
        return closure()


def refuse_set(kind: str, name: str, value: Any, only: Any) -> None:
    """Raises InvalidArgument if an option of torch.optim's is neither None nor its default."""
    if value is not None and number_of(value) != only:
        raise errors.InvalidArgument(
            f"{kind}: {name}={value} is not supported, as {_REASONS[name]}; leave it {only}"
        )


def check_rates(where: str, group: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raises InvalidArgument (names the option) for rates that no step can have.

    ``defaults`` has each option that the optimizer uses.
    """
    for name in _SETTINGS:
        if name in group:
            raise errors.InvalidArgument(f"{where}: {name} is the same for all groups; give it to the "
                                         "optimizer itself")
    for name in defaults:
        if name not in _NUMBERS and name != "betas":
            continue
        if name not in group:
            raise errors.InvalidArgument(f"{where} has no {name}; set it")
        value = group[name]
        values = [number_of(each) for each in (_pair_of(value) if name == "betas" else (value,))]
        if not all(_in_range(each, name in _BELOW_1) for each in values):
            what = "two numbers" if name == "betas" else "a number"
            limit = "1, 1 itself not" if name in _BELOW_1 else "1e+30"
            raise _wrong(where, name, value, f"{what} from 0 to {limit}")


def number_of(value: Any) -> Optional[float]:
    """The number, as of a tensor of one element; None: it is none. Text is none."""
    if isinstance(value, (str, bytes)):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def _pair_of(value: Any) -> tuple[Any, ...]:
    try:
        values = tuple(value)
    except TypeError:
        return (None,)
    return values if len(values) == 2 else (None,)


def _in_range(number: Optional[float], below_1: bool) -> bool:
    return number is not None and 0 <= number <= _NUMBER_MAX and (number < 1 or not below_1)


def _check_integer(kind: str, name: str, value: Any, least: int, most: int) -> None:
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if not least <= number <= most:
        raise _wrong(kind, name, value, f"an integer from {least} to {most}")


def _wrong(where: str, name: str, value: Any, allowed: str) -> errors.InvalidArgument:
    return errors.InvalidArgument(f"{where}: {name} is {reprlib.repr(value)}; it must be {allowed}")


@contextlib.contextmanager
def named(kind: str) -> Iterator[None]:
    """Raises InvalidArgument for what torch.optim.Optimizer raises for parameters and groups."""
    try:
        yield
    except errors.Error:
        raise
    except (TypeError, ValueError, LookupError) as error:
        problem = f"a group has no {error}" if isinstance(error, KeyError) else str(error)
        raise errors.InvalidArgument(
            f"{kind}: {problem}. Parameters are model.parameters(), named_parameters(), a list of tensors, "
            "or a list of groups: dicts with 'params'"
        ) from error
