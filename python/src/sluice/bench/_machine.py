"""Rates of the machine, measured between the steps that they are compared with."""

from __future__ import annotations

import concurrent.futures
import errno
import json
import mmap
import os
import shutil
import subprocess
import time

import torch

from ._rows import Setting, Skipped, seconds_of

_CHUNK = 8 << 20


class Disk:
    """The rate of random 2 MiB pages, half of them written, by fio."""

    def __init__(self, setting: Setting) -> None:
        if shutil.which("fio") is None:
            raise Skipped("fio is not installed, which measures what the disk can give")
        self._path = os.path.join(setting.directory, "fio")
        self._seconds = 1 if setting.quick else 2
        self._bytes = (512 << 20) if setting.quick else (2 << 30)
        if not os.path.exists(self._path):
            with open(self._path, "wb") as file:
                for _ in range(self._bytes // _CHUNK):
                    file.write(os.urandom(_CHUNK))
                os.fsync(file.fileno())

    def bytes_per_second(self) -> float:
        """Rate of fio now, both directions together."""
        ran = subprocess.run(
            ["fio", "--name=sluice", f"--filename={self._path}", "--ioengine=io_uring", "--direct=1",
             "--rw=randrw", "--bs=2m", f"--size={self._bytes}", "--iodepth=8", "--time_based",
             f"--runtime={self._seconds}", "--randrepeat=0", "--refill_buffers=0",
             "--scramble_buffers=0", "--overwrite=1", "--fallocate=none", "--output-format=json"],
            capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            raise Skipped(f"fio failed: {ran.stderr.strip() or ran.stdout.strip()[-300:]}")
        job = json.loads(ran.stdout[ran.stdout.index("{"):])["jobs"][0]
        moved: int = job["read"]["io_bytes"] + job["write"]["io_bytes"]
        milliseconds: int = max(job["read"]["runtime"], job["write"]["runtime"])
        return moved / milliseconds * 1000


def on_huge_pages(nbytes: int) -> mmap.mmap:
    """Memory that has huge pages from its first multiple of 2 MiB on, where the system has any."""
    # What is shared, as by default, has none.
    memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


class Reads:
    """The rate of reads past the page cache, from files as they are into memory on huge pages.

    fio's buffers have small pages unless root reserves huge ones, and a disk may give half as much
    into small ones: so threads read here. Their buffers exceed the processor's caches, as weights
    do: a disk of a host that has the file in memory gives a quarter more into a few MiB.
    """

    _THREADS = 16
    _BUFFER = 2 << 20
    _SECONDS_MAX = 3.0

    def __init__(self, paths: "list[str]") -> None:
        self._paths = paths
        try:
            os.close(os.open(paths[0], os.O_RDONLY | os.O_DIRECT))
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise Skipped("the file system has no direct reads, which measure the disk") from None
        self._memory = on_huge_pages((self._THREADS + 1) * self._BUFFER)
        first = -torch.frombuffer(self._memory, dtype=torch.uint8).data_ptr() % self._BUFFER
        whole = memoryview(self._memory)[first:first + self._THREADS * self._BUFFER]
        self._buffers = [whole[at:at + self._BUFFER] for at in range(0, len(whole), self._BUFFER)]
        for buffer in self._buffers:
            buffer[0] = 1  # the page exists, so the first read does not make it

    def bytes_per_second(self) -> float:
        """Rate of the disk now: for all files, or as much of them as comes in 3 s."""
        descriptors = [os.open(path, os.O_RDONLY | os.O_DIRECT) for path in self._paths]
        parts = iter([(descriptor, at) for descriptor in descriptors
                      for at in range(0, os.fstat(descriptor).st_size, self._BUFFER)])
        begin = time.perf_counter()

        def read(buffer: memoryview) -> int:
            moved = 0
            for descriptor, at in parts:
                moved += os.preadv(descriptor, [buffer], at)
                if time.perf_counter() - begin > self._SECONDS_MAX:
                    break
            return moved

        try:
            with concurrent.futures.ThreadPoolExecutor(self._THREADS) as threads:
                moved = sum(threads.map(read, self._buffers))
            return moved / (time.perf_counter() - begin)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


class Memory:
    """The rate of a loop over tensors that are far larger than the caches, on torch's threads."""

    def __init__(self) -> None:
        self._sums, self._added = torch.zeros(1 << 25), torch.ones(1 << 25)
        self.bytes_per_second()  # the first touch does not count

    def bytes_per_second(self) -> float:
        """Bytes read and written by an addition in place."""
        moved: int = 2 * self._sums.nbytes + self._added.nbytes
        return moved / seconds_of(lambda: self._sums.add_(self._added))


def disk_bytes() -> int:
    """Bytes that the kernel has read from disks and written to them for this process, all threads."""
    with open("/proc/self/io", encoding="ascii") as file:
        counts = dict(line.split(": ") for line in file)
    return int(counts["read_bytes"]) + int(counts["write_bytes"])
