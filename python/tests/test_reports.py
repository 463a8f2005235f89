"""Reports: statistics, health, schedules, traces, the log; and the kinds of failure."""

import glob
import json
import logging
import mmap
import os
import re

import numpy as np
import pytest

import sluice


def steps(runtime, tensors, count):
    for _ in range(count):
        with runtime.iteration("train"):
            for tensor in tensors:
                with runtime.op(f"forward {tensor.name}") as op:
                    with op.lease(tensor, mode="rw") as view:
                        view += 1


def test_statistics_are_a_nested_dict(runtime):
    tensor = runtime.tensor(1 << 20, "uint8", kind="optimizer")
    tensor.write(np.ones(1 << 20, np.uint8))
    stats = runtime.stats()
    assert json.loads(json.dumps(stats)) == stats
    assert stats["tiers"]["dram"]["by_kind"]["optimizer"] == 1 << 20
    assert stats["live_bytes"] == 1 << 20
    assert stats["io"]["engine"] in ("io_uring", "threads")
    assert runtime.health() == {"state": "ok", "reasons": []}


def test_iterations_are_recorded_and_repeat(runtime):
    tensors = [runtime.tensor(1 << 20, "uint8", name=f"t{i}") for i in range(8)]
    with pytest.raises(sluice.NotFound):
        runtime.schedule("train")
    steps(runtime, tensors, 6)
    schedule = runtime.schedule("train")
    assert [op["name"] for op in schedule["ops"]] == [f"forward t{i}" for i in range(8)]
    assert schedule["ops"][0]["accesses"][0]["mode"] == "rw"
    assert schedule["tensors"][0] == {"name": "t0", "kind": "other", "bytes": 1 << 20}
    assert runtime.stats()["schedule_divergences"] == 0
    assert all((each.read() == 6).all() for each in tensors)


def test_an_op_belongs_to_its_block(runtime):
    tensor = runtime.tensor(4)
    op = runtime.op("late")
    with pytest.raises(sluice.FailedPrecondition, match="op 'late' is not open"):
        op.lease(tensor).__enter__()
    with op, pytest.raises(sluice.FailedPrecondition, match="entered already"):
        op.__enter__()


def test_a_trace_is_a_chrome_trace(runtime, spill):
    tensors = [runtime.tensor(1 << 20, "uint8", name=f"t{i}") for i in range(8)]
    with runtime.trace(spill / "steps.json"):
        with pytest.raises(sluice.FailedPrecondition, match="traced already"):
            with runtime.trace(spill / "other.json"):
                pass
        steps(runtime, tensors, 3)
    assert not (spill / "other.json").exists()
    events = json.loads((spill / "steps.json").read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["ph"] == "M"}
    assert any(name.startswith("dram-nvme out") for name in names)
    spans = [event for event in events if event["ph"] == "X"]
    assert {span["name"] for span in spans} >= {"t0", "t7"}
    for track in {span["tid"] for span in spans}:
        mine = sorted((span["ts"], span["ts"] + span["dur"]) for span in spans if span["tid"] == track)
        assert all(end <= begin + 1e-3 for (_, end), (begin, _) in zip(mine, mine[1:]))


def test_a_trace_that_cannot_be_written_names_its_file(runtime, spill, caplog):
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"):
        with runtime.trace("/dev/full"):
            pass
    with pytest.raises(ValueError, match="of the block"):
        with runtime.trace("/dev/full"):
            raise ValueError("of the block")
    assert "No space left on device: '/dev/full'" in caplog.text
    (spill / "steps.json").write_text("old")
    for place in (spill, spill / "none" / "steps.json"):
        with pytest.raises(OSError, match=re.escape(str(place))):
            with runtime.trace(place):
                pytest.fail("the block has run")
    with runtime.trace(spill / "steps.json"):
        assert (spill / "steps.json").read_text() == "old"
    assert json.loads((spill / "steps.json").read_text()) == {"traceEvents": []}
    assert os.listdir(spill) == ["steps.json"]


def test_budgets_change_while_it_runs(runtime):
    runtime.set_budget("dram", "2MiB")
    assert runtime.stats()["tiers"]["dram"]["budget_bytes"] == 2 << 20
    with pytest.raises(sluice.InvalidArgument):
        runtime.set_budget("dram", "8MiB")
    with pytest.raises(sluice.InvalidArgument, match="size"):
        runtime.set_budget("dram", "much")


def test_the_log_goes_to_logging(make_runtime, caplog):
    with caplog.at_level(logging.INFO, logger="sluice"):
        make_runtime(io={"io_uring": "off"}).stats()
    assert any("io_uring" in record.getMessage() for record in caplog.records)


def spill_file(spill):
    """The runtime's spill file, which has no name."""
    for link in glob.glob("/proc/self/fd/*"):
        if os.path.exists(link) and os.readlink(link).startswith(str(spill)):
            return link
    raise AssertionError("no spill file")


def damage(path):
    """Writes over the beginning of every 64 KiB.

    Past the page cache, as the runtime may still write: the kernel reports EIO where both collide.
    """
    with mmap.mmap(-1, 4096) as block:
        block.write(b"damaged!")
        file = os.open(path, os.O_RDWR | os.O_DIRECT)
        for at in range(0, os.fstat(file).st_size, 64 * 1024):
            os.pwrite(file, block, at)
        os.close(file)


def test_a_damaged_page_is_a_data_loss_that_names_the_tensor(make_runtime, spill):
    runtime = make_runtime()
    tensor = runtime.tensor((128, 16 * 1024), name="weights")
    tensor.write(np.ones((128, 16 * 1024), np.float32))
    damage(spill_file(spill))
    with pytest.raises(sluice.DataLoss, match="'weights'"):
        tensor.read()
    assert runtime.stats()["pages_lost"] > 0


def test_a_lease_larger_than_its_tier_says_what_would_do(runtime):
    tensor = runtime.tensor((128, 16 * 1024), name="weights")
    with pytest.raises(sluice.TierFull, match="needs 8 MiB in dram0.*budget of 4 MiB"):
        runtime.lease(tensor).__enter__()
    with runtime.lease(tensor[0:16]):
        pass


def test_a_trace_goes_to_a_pipe(runtime):
    reader, writer = os.pipe()
    with runtime.trace(f"/dev/fd/{writer}"):
        pass
    os.close(writer)
    with open(reader, encoding="utf-8") as stream:
        assert "traceEvents" in json.load(stream)


def test_a_trace_has_the_blocks_of_the_program_where_nothing_moves(runtime, spill):
    tensor = runtime.tensor(4, name="x")
    earlier = runtime.op("before")
    with runtime.trace(spill / "first.json"):
        earlier.__enter__()
    with runtime.op("around"), runtime.trace(spill / "trace.json"):
        earlier.__exit__(None, None, None)
        for _ in range(2):
            with runtime.iteration("train"), runtime.op("forward") as op, op.lease(tensor):
                pass
        with runtime.lease(tensor, mode="rw"):
            pass
    events = json.loads((spill / "trace.json").read_text())["traceEvents"]
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
    spans = [(tracks[event["tid"]], event["name"]) for event in events if event["ph"] == "X"]
    spans = [span for span in spans if not span[0].startswith("stall")]  # a wait for a first frame
    assert sorted(set(spans)) == [("iteration", "train"), ("op", "forward"), ("op", "lease x")]
    assert len(spans) == 5
