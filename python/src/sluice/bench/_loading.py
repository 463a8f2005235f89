"""Models that fit into memory: from cold files to the first token, against loaders."""

from __future__ import annotations

from typing import Any

from ._checkpoint import Checkpoint, drop
from ._contest import Contestant, contestants
from ._machine import Reads
from ._rows import Row, Rows, Setting, Skipped, median
from ._stream import OPTIONS, read, rounds_of, seconds

# A loader's time over ours, by its kind. safetensors maps files, and reads as the model runs.
_TARGETS = {"mapped": 0.95, "fastsafetensors": 1.1, "runai": 1.1}

# Names of peers in rows.
_NAMES = {"mapped": "safetensors"}

# Time over that of the disk, up to which we are at its limit.
_AT_LIMIT = 1.10


def loading(setting: Setting) -> Rows:
    """Seconds from files that nobody has read to the first token, with room for all weights."""
    checkpoint = Checkpoint(setting)
    kinds: dict[str, dict[str, Any]] = {kind: {} for kind in _TARGETS}
    kinds["sluice"] = {"dram": 2 * checkpoint.nbytes, **OPTIONS}
    kinds["resident"] = {}
    with contestants(checkpoint, kinds) as all_of:
        all_of["resident"].call("open")
        all_of["resident"].call("run", decoded=0)
        absent = _absent(all_of)
        rounds = _rounds(setting, checkpoint, {kind: each for kind, each in all_of.items()
                                               if kind not in absent})
    rows: Rows = {f"/{_NAMES.get(kind, kind)}": absent.get(kind) or _row(kind, rounds)
                  for kind in _TARGETS}
    return rows


def _absent(all_of: dict[str, Contestant]) -> dict[str, Skipped]:
    """Reasons for which peers cannot run; peers that can have loaded once."""
    absent = {}
    for kind in _TARGETS:
        try:
            _load(all_of[kind])
        except Skipped as skipped:
            absent[kind] = skipped
    return absent


def _load(contestant: Contestant) -> dict[str, float]:
    """Seconds to the first token and of them to open, and bytes read."""
    opened = contestant.call("open")
    done = contestant.call("run", decoded=0)
    contestant.call("close")
    return {"seconds": opened["seconds"] + seconds(done), "open_seconds": opened["seconds"],
            "read_bytes": opened["read_bytes"] + read(done)}


def _rounds(setting: Setting, checkpoint: Checkpoint,
            all_of: dict[str, Contestant]) -> list[dict[str, Any]]:
    reads = Reads(checkpoint.files)
    rounds = []
    before = reads.bytes_per_second()
    for _ in range(rounds_of(setting)):
        done: dict[str, Any] = {"compute": seconds(all_of["resident"].call("run", decoded=0))}
        for kind in all_of:
            if kind == "resident":
                continue
            drop([checkpoint.folder])
            done[kind] = _load(all_of[kind])
            if done[kind]["read_bytes"] < 0.95 * checkpoint.nbytes:
                raise RuntimeError(f"{kind} was to begin cold, and has read "
                                   f"{done[kind]['read_bytes']} of {checkpoint.nbytes} bytes")
        after = reads.bytes_per_second()
        floor = max(done["compute"], checkpoint.nbytes * 2 / (before + after))
        rounds.append({**done, "floor": floor})
        before = after
    return rounds


def _row(kind: str, rounds: list[dict[str, Any]]) -> Row:
    ours = [each["sluice"]["seconds"] for each in rounds]
    theirs = [each[kind]["seconds"] for each in rounds]
    over_floor = median(mine / each["floor"] for mine, each in zip(ours, rounds))
    at_limit = over_floor <= _AT_LIMIT if _TARGETS[kind] > 1 else None
    figures = {
        "peer_seconds": median(theirs), "over_floor": over_floor,
        "open_seconds": median(each["sluice"]["open_seconds"] for each in rounds),
        "compute_seconds": median(each["compute"] for each in rounds),
    }
    return Row(median(ours), "s", median(peer / mine for peer, mine in zip(theirs, ours)),
               _TARGETS[kind], figures, at_limit)
