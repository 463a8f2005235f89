"""Models whose weights stream: cold against peers, warm, and under caps against Belady's optimum."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, Optional

from ._cgroup import Group, group_of
from ._checkpoint import Checkpoint, drop
from ._contest import Contestant, contestants
from ._machine import Reads
from ._rows import Row, Rows, Setting, Skipped, control_of, median

# Tokens that are decoded after the prompt.
DECODED = 16

# Bytes of the process beside its budget: PyTorch, activations, and the page cache.
BESIDE_BYTES = 500 << 20

# Options of each stream beside its budget.
OPTIONS: dict[str, Any] = {}

# More than the bound in time, or in bytes, that is allowed.
_TIME, _BYTES, _WARM = 1.10, 1.05, 1.05

_PEER = 3.0


def rounds_of(setting: Setting) -> int:
    """Rounds of a case: a round takes long, so there are fewer than elsewhere."""
    return min(setting.rounds, 5)


def cold(setting: Setting) -> Rows:
    """Runs from a cold page cache with half of the weights in memory, against the bound and peers.

    All but the resident model have budget and 500 MiB of memory, page cache included. Without
    such a limit peers are compared in the first pass alone. In later ones they would have all of
    the model in the page cache.
    """
    checkpoint = Checkpoint(setting)
    budget = checkpoint.nbytes // 2
    kinds: dict[str, dict[str, Any]] = {
        "resident": {}, "sluice": {"dram": budget, **OPTIONS}, "mapped": {},
        "accelerate": {"offload_dir": checkpoint.offloaded()},
    }
    with contextlib.ExitStack() as stack:
        groups, refusal = _groups(stack, [kind for kind in kinds if kind != "resident"],
                                  budget + BESIDE_BYTES)
        for kind, group in groups.items():
            kinds[kind]["group"] = group
        all_of = stack.enter_context(contestants(checkpoint, kinds))
        rounds = _cold_rounds(setting, checkpoint, all_of)
        least = _least(all_of["sluice"])
        rows = _cold_rows(rounds, checkpoint.nbytes, least, alone=bool(refusal))
        rows["/peak"] = refusal or _peak(groups["sluice"])
    return rows


def _groups(stack: contextlib.ExitStack, kinds: Sequence[str],
            limit_bytes: int) -> tuple[dict[str, Group], Optional[Skipped]]:
    """A cgroup for each kind; or none, and why."""
    try:
        return {kind: stack.enter_context(group_of(limit_bytes)) for kind in kinds}, None
    except Skipped as skipped:
        return {}, skipped


def _cold_rounds(setting: Setting, checkpoint: Checkpoint,
                 all_of: dict[str, Contestant]) -> list[dict[str, Any]]:
    """Results of each contestant in each round, and the rate of the disk around our run."""
    reads = Reads(checkpoint.files)
    all_of["resident"].call("open")
    all_of["accelerate"].call("open")
    all_of["resident"].call("run", decoded=DECODED)  # the first touch does not count
    rounds = []
    for _ in range(rounds_of(setting)):
        done: dict[str, Any] = {"resident": all_of["resident"].call("run", decoded=DECODED)}
        rates = [reads.bytes_per_second()]
        for kind in ("sluice", "mapped", "accelerate"):
            drop([checkpoint.folder, checkpoint.offloaded()])
            done[kind] = _run_cold(all_of[kind], opens=kind != "accelerate")
            if kind == "sluice":
                rates.append(reads.bytes_per_second())
            _refuse_warm(kind, done[kind], checkpoint.nbytes)
            _refuse_other(kind, done[kind], done["resident"])
        rounds.append({**done, "bytes_per_second": sum(rates) / len(rates)})
    return rounds


def _run_cold(contestant: Contestant, opens: bool) -> dict[str, Any]:
    """The passes of a contestant that opens the files first."""
    if not opens:
        return contestant.call("run", decoded=DECODED)
    opened = contestant.call("open")
    done = contestant.call("run", decoded=DECODED)
    contestant.call("close")
    for figure, value in opened.items():
        done["passes"][0][figure] += value
    return done


def _refuse_warm(kind: str, done: dict[str, Any], nbytes: int) -> None:
    """Raises RuntimeError unless the first pass has read the weights from the disk."""
    read = done["passes"][0]["read_bytes"]
    if read < 0.95 * nbytes:
        raise RuntimeError(f"{kind} was to begin cold, and has read {read} of {nbytes} bytes")


def _refuse_other(kind: str, done: dict[str, Any], resident: dict[str, Any]) -> None:
    """Raises RuntimeError unless a contestant has chosen the tokens of the resident model."""
    if done["tokens"] != resident["tokens"]:
        raise RuntimeError(f"{kind} computes something else: {done['tokens']}, and not "
                           f"{resident['tokens']}")


def _least(contestant: Contestant) -> dict[str, Any]:
    """The least bytes of a pass: of a stream that is opened for that, and has run twice."""
    contestant.call("open")
    contestant.call("run", decoded=2)
    found = contestant.call("least")
    contestant.call("close")
    return found


def _cold_rows(rounds: list[dict[str, Any]], nbytes: int, least: dict[str, Any],
               alone: bool) -> Rows:
    """Rows of ``cold``; ``alone``: peers are compared in the first pass alone."""
    ours = [seconds(each["sluice"]) for each in rounds]
    must_read = [nbytes] + DECODED * [least["least_bytes"]]
    floors = [floor(each, must_read) for each in rounds]
    figures = {
        "budget_bytes": least["budget_bytes"], "weight_bytes": nbytes,
        "least_read_bytes": sum(must_read),
        "read_bytes": median(read(each["sluice"]) for each in rounds),
        "resident_seconds": median(seconds(each["resident"]) for each in rounds),
        "first_pass_seconds": median(each["sluice"]["passes"][0]["seconds"] for each in rounds),
        "disk_bytes_per_second": median(each["bytes_per_second"] for each in rounds), **control_of(floors),
    }
    rows: Rows = {"": Row(median(ours), "s", _median_ratio(floors, ours), 1 / _TIME, figures)}
    rows["/equal"] = _equal(rounds)
    passes = 1 if alone else 1 + DECODED
    for kind in ("mapped", "accelerate"):
        theirs = [seconds(each[kind], passes) for each in rounds]
        these = [seconds(each["sluice"], passes) for each in rounds]
        rows[f"/{kind}"] = Row(median(theirs), "s", _median_ratio(theirs, these), _PEER, {
            "passes": passes, "sluice_seconds": median(these),
            "read_bytes": median(read(each[kind], passes) for each in rounds),
        })
    return rows


def _equal(rounds: list[dict[str, Any]]) -> Row:
    """Number of outputs that have the bits of the resident model's."""
    pairs = [(ours["digest"], theirs["digest"]) for each in rounds
             for ours, theirs in zip(each["sluice"]["passes"], each["resident"]["passes"])]
    equal = sum(ours == theirs for ours, theirs in pairs)
    return Row(equal, "outputs", equal / len(pairs), 1.0, {"outputs": len(pairs)})


def _peak(group: Group) -> Row:
    """The most memory. It is not judged: a process that needs more than the limit is killed."""
    return Row(group.peak_bytes(), "bytes", figures={
        "limit_bytes": group.limit_bytes, "limit_hits": group.limit_hits(),
    })


def warm(setting: Setting) -> Row:
    """Runs with room for all weights, which are there, against the resident model."""
    checkpoint = Checkpoint(setting)
    kinds = {"resident": {}, "sluice": {"dram": 2 * checkpoint.nbytes, **OPTIONS}}
    with contestants(checkpoint, kinds) as all_of:
        for each in all_of.values():
            each.call("open")
            each.call("run", decoded=DECODED)
        times, plains = [], []
        for _ in range(2 * rounds_of(setting)):  # the case's rounds are short
            resident = seconds(all_of["resident"].call("run", decoded=DECODED))
            done = all_of["sluice"].call("run", decoded=DECODED)
            resident += seconds(all_of["resident"].call("run", decoded=DECODED))
            times.append(seconds(done))
            plains.append(resident / 2)
            if read(done) > 0:
                raise RuntimeError(f"with room for all weights {read(done)} bytes were read")
    return Row(median(times), "s", _median_ratio(plains, times), 1 / _WARM, control_of(plains))


def capped(percent: int, setting: Setting) -> Rows:
    """Passes that have settled, with a share of the weights in memory: bytes and time."""
    checkpoint = Checkpoint(setting)
    kinds = {"resident": {}, "sluice": {"dram": checkpoint.nbytes * percent // 100, **OPTIONS}}
    with contestants(checkpoint, kinds) as all_of:
        reads = Reads(checkpoint.files)
        for each in all_of.values():
            each.call("open")
        all_of["resident"].call("run", decoded=DECODED)
        so_far = all_of["sluice"].call("run", decoded=DECODED)["read_bytes"]  # recorded and planned
        least = all_of["sluice"].call("least")
        rounds = []
        before = reads.bytes_per_second()
        for _ in range(rounds_of(setting)):
            done = {kind: each.call("run", decoded=DECODED) for kind, each in all_of.items()}
            _refuse_other("sluice", done["sluice"], done["resident"])
            after = reads.bytes_per_second()
            # The first units of the next run come between runs: they count, too.
            read_bytes = done["sluice"]["read_bytes"] - so_far
            rounds.append({**done, "read_bytes": read_bytes,
                           "bytes_per_second": (before + after) / 2})
            before, so_far = after, done["sluice"]["read_bytes"]
    return _capped_rows(rounds, least)


def _capped_rows(rounds: list[dict[str, Any]], least: dict[str, Any]) -> Rows:
    passes = 1 + DECODED
    bytes_per_pass = [each["read_bytes"] / passes for each in rounds]
    ours = [seconds(each["sluice"]) / passes for each in rounds]
    computed = [seconds(each["resident"]) / passes for each in rounds]
    floors = [floor(each, passes * [least["least_bytes"]]) / passes for each in rounds]
    value = median(bytes_per_pass)
    return {
        "/bytes": Row(value, "bytes", least["least_bytes"] / value if value else 1.0, 1 / _BYTES, least),
        "/time": Row(median(ours), "s", _median_ratio(floors, ours), 1 / _TIME, {
            "resident_seconds": median(computed),
            "disk_bytes_per_second": median(each["bytes_per_second"] for each in rounds), **control_of(floors),
        }),
        "/equal": _equal(rounds),
    }


def floor(each: dict[str, Any], must_read: Sequence[int]) -> float:
    """The least time of the passes of a round, each of which computes, and reads its bytes.

    A pass reads nothing for a later one: the frames hold already what ``must_read`` leaves out.
    """
    assert len(each["resident"]["passes"]) == len(must_read)
    return float(sum(max(done["seconds"], nbytes / each["bytes_per_second"])
                     for done, nbytes in zip(each["resident"]["passes"], must_read)))


def seconds(done: dict[str, Any], passes: Optional[int] = None) -> float:
    """Time of the passes, or of the first ones."""
    return float(sum(each["seconds"] for each in done["passes"][:passes]))


def read(done: dict[str, Any], passes: Optional[int] = None) -> int:
    """Bytes that the passes, or the first ones, have read from the disk."""
    return int(sum(each["read_bytes"] for each in done["passes"][:passes]))


def _median_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    return median(one / other for one, other in zip(above, below))
