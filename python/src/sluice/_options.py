"""Options of a runtime: keyword arguments as assignments to keys of the configuration."""

from __future__ import annotations

import difflib
import json
import operator
import os
from collections.abc import Mapping
from typing import Any, Optional, Union

from . import _core, errors
from ._checks import path_of, text_of
from ._keys import KEY_OF

Size = Union[int, str]
Directory = Union[str, "os.PathLike[str]"]

# Largest number of threads that an optimizer takes.
THREADS_MAX = 256


def parse_size(name: str, size: Size) -> int:
    """Bytes of a size: a count, or text such as "256MiB"."""
    if isinstance(size, str):
        try:
            return _core.parse_bytes(text_of(name, size, '"256MiB"'))
        except errors.InvalidArgument as error:
            raise errors.InvalidArgument(f"{name}: {error}") from None
    try:
        count = -1 if isinstance(size, bool) else operator.index(size)
    except TypeError:
        count = -1
    if not 0 <= count < 1 << 63:
        raise errors.InvalidArgument(
            f'{name} is {size!r}; it must be a size, for example "256MiB" or 4096'
        )
    return count


def share_of(share: Optional[tuple[int, int]], environment: Mapping[str, str]) -> tuple[int, int]:
    """Number and count of the processes that divide the budgets of a host.

    None: the rank of torchrun and of others that set LOCAL_RANK and LOCAL_WORLD_SIZE; else (0, 1).
    """
    if share is not None:
        try:
            index, count = (operator.index(each) for each in share)
        except (TypeError, ValueError):
            index, count = 0, 0
        if not 0 <= index < count < 1 << 32:
            raise errors.InvalidArgument(
                f"share is {share!r}; it must be (number, count) of a process: (0, 2) and (1, 2)"
            )
        return index, count
    rank, size = (environment.get(name, "") for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
    if not size and rank in ("", "-1", "0"):
        return 0, 1
    if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size) < 1 << 32):
        raise errors.InvalidArgument(
            f"LOCAL_RANK is '{rank}' and LOCAL_WORLD_SIZE '{size}', which say what share of the budgets "
            "this process has: set both (0 and 2, 1 and 2), or give share=(0, 1) for all of them"
        )
    return int(rank), int(size)


def threads_of(threads: Optional[int], processes: int) -> int:
    """Threads of each of the processes that share a host, of which all have ``threads`` together.

    None: as many as there are processors. A process that may run on some of the processors only has
    those for itself: a launcher has divided them.
    """
    if threads is not None:
        return max(1, threads // processes) if threads > 0 else threads  # the library refuses others
    own = len(os.sched_getaffinity(0))
    return min(max(1, own // processes) if own == os.cpu_count() else own, THREADS_MAX)


def default(key: str) -> str:
    """The default of a key whose value is text."""
    lines = dict(line.split(" = ", 1) for line in _core.option_defaults().splitlines())
    return lines[key].strip("\"'")


def assignments(own: Mapping[str, object], options: Mapping[str, object]) -> list[str]:
    """ "key=value" for each of Runtime's own arguments that is not None, and each option."""
    refuse_unknown(options)
    keys: dict[str, object] = {}
    for name, value in own.items():
        if value is not None:
            keys[KEY_OF[name]] = value
    for key, value in flat(options):
        if key in keys:
            raise errors.InvalidArgument(f'"{key}" is given twice')
        keys[key] = value
    return [f"{key}={_toml(key, value)}" for key, value in keys.items()]


def tier_values(
    hbm: Optional[Size],
    dram: Optional[Size],
    nvme: Union[None, Directory, "list[Directory]"],
    nvme_bytes: Optional[Size],
) -> tuple[dict[str, object], dict[str, object]]:
    """Runtime's own arguments, checked; and the option of further directories."""
    own: dict[str, object] = {"nvme": None}
    for name, size in (("hbm", hbm), ("dram", dram), ("nvme_bytes", nvme_bytes)):
        own[name] = None if size is None else parse_size(name, size)
    more: dict[str, object] = {}
    if nvme is not None:
        directories = list(nvme) if isinstance(nvme, (list, tuple)) else [nvme]
        if not directories:
            raise errors.InvalidArgument("nvme is an empty list; name a directory")
        own["nvme"] = path_of("nvme", directories[0])
        if len(directories) > 1:
            more = {"tiers.nvme.more_directories": [path_of("nvme", each) for each in directories[1:]]}
    return own, more


def refuse_unknown(options: Mapping[str, object]) -> None:
    """Names what was meant by a keyword that begins no key. The library checks the rest."""
    known = [line.split(" = ")[0] for line in _core.option_defaults().splitlines()]
    tops = {key.split(".")[0] for key in known}
    for name in options:
        if name.split(".")[0] not in tops:
            raise errors.InvalidArgument(f'unknown option "{name}"{_hint(name, known, tops)}')


def _hint(name: str, known: list[str], tops: set[str]) -> str:
    leaves = {key.split(".")[-1]: key for key in known if "." in key and not key.startswith("tiers.")}
    if name in leaves:
        first, *rest = leaves[name].split(".")
        nested = json.dumps({".".join(rest): "..."}).replace('"..."', "...")
        return f"; write {first}={nested}"
    close = difflib.get_close_matches(name, [*KEY_OF, *sorted(tops)], n=1)
    return f'; did you mean "{close[0]}"?' if close else ""


def flat(options: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """The keys of nested options with their values."""
    pairs: list[tuple[str, object]] = []
    for name, value in options.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping):
            pairs += flat(value, f"{key}.")
        else:
            pairs.append((key, value))
    return pairs


def _toml(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return json.dumps(text_of(f'"{key}"', os.fspath(value)), ensure_ascii=False)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(key, each) for each in value) + "]"
    if isinstance(value, float):
        return repr(float(value))
    try:
        return str(operator.index(value))  # type: ignore[arg-type]
    except TypeError:
        raise errors.InvalidArgument(
            f'"{key}" is {value!r}; it must be a number, text, true or false, or a list of these'
        ) from None


def without_flag(error: errors.Error) -> errors.Error:
    """The error without "--set", by which the library names an assignment."""
    text: Any = str(error)
    for prefix in ("--set: ", "--set "):
        text = text.removeprefix(prefix)
    return errors.from_status(error.code, text)
