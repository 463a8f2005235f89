"""Two ranks under a limit of locked memory, and on a disk that is full."""

import os

import pool
import pytest

# A save has two parts of 7 MiB: there is room for one of a second save beside the first.
DISK = "24m"
LOCKED = 1 << 20


@pytest.fixture(scope="module")
def disk(small_disk):
    return small_disk(DISK)


@pytest.fixture(scope="module")
def both(disk):
    """Ranks that see the disk, and lock no more than the limit that they share."""
    account = 1_000_000_000 + os.getpid()  # no login has this number, so nobody else locks memory for it
    limits = ["prlimit", f"--memlock={LOCKED}", "setpriv", f"--ruid={account}",
              "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"]
    made = pool.Ranks(run_by=[*disk.run_by, *limits])
    yield made.run
    made.close()


def test_ranks_divide_the_limit_of_locked_memory(both, spill, seed):
    answers = both("limits.bits", spill=str(spill), seed=seed % (1 << 31), kind="fsdp", dtype="float32")
    assert len({each for answer in answers for each in answer["parameters"]}) == 1
    assert len({each for answer in answers for each in answer["states"]}) == 1
    for answer in answers:
        said = [line for line in answer["lines"] if "io_uring knows" in line]
        assert len(said) == 1, answer["lines"]
        # Half of the limit, less what the kernel counts for two rings.
        assert said[0].startswith("io_uring knows 472 KiB of the memory of dram in advance"), said
        assert f"this process has {472 << 10} bytes of the limit of locked memory" in said[0]


def test_a_full_disk_fails_the_save_of_every_rank_and_loses_nothing(both, disk, spill, seed):
    answers = both("limits.full_disk", spill=str(spill), directory=str(disk.path),
                   seed=seed % (1 << 31))
    for answer in answers:
        assert answer["error"].startswith("TierFull: rank "), answer["error"]
        assert "ENOSPC" in answer["error"] and str(disk.path) in answer["error"]
        assert answer["files"] == answer["files left"] == [
            f"rank-{rank}-of-2/optimizer.sluice" for rank in range(2)]
        assert answer["loaded"] == answer["saved"]
        assert len(set(answer["last"])) == 1 and answer["last"][0] != answer["saved"]
    assert answers[0] == answers[1]
