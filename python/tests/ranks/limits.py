"""Two ranks that share finite things: drives, locked memory, a disk. See cases.py."""

import collections
import contextlib
import glob
import logging
import os
import pathlib
import shutil
import time
import unittest.mock

import cases
import torch.distributed as dist

import sluice.torch


def names_of_threads():
    """How many threads of this process have each name, once no name has changed for a while.

    A thread names itself when it begins.
    """
    names, same = None, 0
    while same < 20:
        time.sleep(0.01)
        found = glob.glob("/proc/self/task/*/comm")
        last, names = names, collections.Counter(pathlib.Path(each).read_text().strip() for each in found)
        same = same + 1 if names == last else 0
    return names


def parts(drives):
    """Figures of this rank's part of the host."""
    page = 64 << 10
    with sluice.Runtime(
            dram="6MiB", nvme=drives, nvme_bytes="64MiB", page_bytes=page, workers={"threads": 4},
            io={"queue_depth": 6, "io_uring": "off"}, **{"tiers.nvme.keep_free": 0}) as runtime:
        optimizer = sluice.torch.AdamW(cases.layers(0).parameters(), runtime=runtime, threads=6)
        stats = runtime.stats()
        found = {
            "dram": stats["tiers"]["dram"]["budget_bytes"],
            "nvme": stats["tiers"]["nvme"]["budget_bytes"],
            "drives": len(stats["io"]["drives"]),
            "places": page * sum(drive["places"] for drive in stats["io"]["drives"]),
            "threads": names_of_threads(),
        }
        optimizer.close()
        return found


def bits(**options):
    """The case `bits` of cases.py, with the lines of the logger."""
    heard = cases.Heard()
    logging.getLogger("sluice").addHandler(heard)
    # The kernel counts the whole of a huge page where a part is locked.
    small_pages = unittest.mock.patch.dict(cases.PAGED, {"memory.huge_pages": "off"})
    try:
        with small_pages:
            return {**cases.bits(**options), "lines": heard.lines}
    finally:
        logging.getLogger("sluice").removeHandler(heard)


def files_in(directory):
    place = pathlib.Path(directory)
    return sorted(str(each.relative_to(place)) for each in place.rglob("*") if each.is_file())


def after_rank_0(directory):
    """Has rank 1 begin to write its part of a save once rank 0 has a new file."""
    def inodes():
        return {each.stat().st_ino for each in pathlib.Path(directory).glob("rank-0-*/**/optimizer.*")}

    before, write = inodes(), sluice.torch.AdamW._write

    def wait_and_write(*words):
        deadline = time.monotonic() + 30
        while inodes() <= before:
            assert time.monotonic() < deadline, "rank 0 has written nothing"
            time.sleep(0.002)
        write(*words)

    patched = unittest.mock.patch("sluice.torch.AdamW._write", wait_and_write)
    return contextlib.nullcontext() if dist.get_rank() == 0 else patched


def full_disk(spill, directory, seed):
    """A save, another one for which the disk has no room but for a part, and one more."""
    def with_new(seed):
        model = cases.sharded(seed)
        return model, cases.adamw(model, runtime)

    def digest_of(model, optimizer):
        return cases.digest([*model.parameters(), *cases.states_of(optimizer)])

    with sluice.Runtime(nvme=spill, **cases.PAGED) as runtime:
        model, optimizer = with_new(seed)
        cases.train(model, optimizer, range(1))
        optimizer.save(directory)
        dist.barrier()
        found = {"saved": digest_of(model, optimizer), "files": files_in(directory)}
        cases.train(model, optimizer, range(1, 2))
        with after_rank_0(directory):
            found["error"] = cases.error_of(lambda: optimizer.save(directory))
        dist.barrier()
        found["files left"] = files_in(directory)
        other, second = with_new(seed + 1)
        second.load(directory)
        found["loaded"] = digest_of(other, second)
        cases.train(model, optimizer, range(2, 3))
        dist.barrier()
        if dist.get_rank() == 0:
            shutil.rmtree(os.path.join(directory, "rank-0-of-2"))
            shutil.rmtree(os.path.join(directory, "rank-1-of-2"))
        dist.barrier()
        optimizer.save(directory)
        second.load(directory)
        found["last"] = [digest_of(model, optimizer), digest_of(other, second)]
        return found
