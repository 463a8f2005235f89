"""Parts that the tests share: small runtimes on a disk, seeds that are printed, programs in a process."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile

import pytest

import sluice

# Budgets in which a tensor of 2 MiB fits whole, and one of 8 MiB goes to the disk and back.
SMALL = {"dram": "4MiB", "nvme_bytes": "48MiB", "page_bytes": "64KiB"}


@pytest.fixture(scope="session", autouse=True)
def interrupts():
    """Ctrl-C works, also below a script's background job, which begins with SIGINT ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def first_sine():
    """One thread calls oneMKL first: a first call by two at once is wrong in the fourth digit.

    findings/torch_first_parallel_sine_has_half_its_bits.sh shows it.
    """
    torch = sys.modules.get("torch")  # every module has been imported
    if torch is None:
        return
    for function in (torch.sqrt, torch.exp, torch.log, torch.sin, torch.cos, torch.tanh, torch.erf):
        function(torch.ones(1))


@pytest.fixture
def one_thread():
    """PyTorch's products on one thread: those of some rows take longer by several."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def spill():
    """A directory on a disk, not on a tmpfs, that only this user can write to."""
    base = os.environ.get("TMPDIR", "/var/tmp")
    with tempfile.TemporaryDirectory(prefix="sluice-python-", dir=base) as directory:
        yield pathlib.Path(directory)


@pytest.fixture
def tmp_path():
    """A directory that goes with the test, which pytest's own would outlive."""
    with tempfile.TemporaryDirectory(prefix="sluice-python-") as directory:
        yield pathlib.Path(directory)


@pytest.fixture(scope="module")
def module_path():
    """A directory that goes with the tests of a module."""
    with tempfile.TemporaryDirectory(prefix="sluice-python-") as directory:
        yield pathlib.Path(directory)


@pytest.fixture
def make_runtime(spill):
    """Makes runtimes with small budgets; options win over them. They are closed at the end."""
    made = []

    def make(**options):
        keep = {"tiers.nvme.keep_free": 0}
        made.append(sluice.Runtime(**{**SMALL, "nvme": spill, **keep, **options}))
        return made[-1]

    yield make
    for runtime in made:
        runtime.close()


@pytest.fixture
def runtime(make_runtime):
    return make_runtime()


@pytest.fixture
def seed():
    """A seed, printed: pytest shows it when the test fails. SLUICE_SEED repeats one."""
    value = int(os.environ.get("SLUICE_SEED", random.randrange(1 << 32)))
    print(f"SLUICE_SEED={value}")
    return value


@pytest.fixture
def run_program(spill):
    """Runs a Python program in a process of its own; gives (exit code, output, errors)."""

    def run(text, timeout=120):
        prelude = (
            "import os, sys, threading, time\n"
            "import numpy as np\n"
            "import sluice\n"
            f"SMALL = {SMALL!r} | dict(nvme={str(spill)!r}, **{{'tiers.nvme.keep_free': 0}})\n"
        )
        ran = subprocess.run([sys.executable, "-c", prelude + text], capture_output=True, text=True,
                             timeout=timeout, check=False, cwd=spill)
        return ran.returncode, ran.stdout, ran.stderr

    return run


class SmallDisk:
    """A small file system in memory, which programs see that run behind ``run_by``."""

    def __init__(self, path, size):
        self.path = pathlib.Path(path)
        mount = f"mount -t tmpfs -o size={size},mode=0700 sluice '{path}' && echo mounted && exec cat"
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = self._holder.stdout.readline()
        if said != "mounted\n":
            self.close()
            pytest.skip(f"no file system can be mounted: {said.strip()}")
        self.run_by = ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt"]
        # The same directory, as others see it.
        self.seen = pathlib.Path(f"/proc/{self._holder.pid}/root{self.path}")

    def close(self):
        """Ends the process that holds the file system, which goes with its last user."""
        self._holder.stdin.close()
        self._holder.wait()
        self._holder.stdout.close()


@pytest.fixture(scope="module")
def small_disk(module_path):
    """Makes file systems of a few MiB, which go with the tests of a module."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount file systems")
    made = []

    def make(size):
        path = module_path / f"disk{len(made)}"
        path.mkdir()
        made.append(SmallDisk(path, size))
        return made[-1]

    yield make
    for disk in made:
        disk.close()
