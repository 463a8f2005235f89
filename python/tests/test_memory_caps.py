"""Optimizers and activations of processes whose memory has a cap, page cache included."""

import contextlib
import os
import pathlib
import signal
import uuid

import pytest

MIB = 1 << 20
CGROUPS = pathlib.Path("/sys/fs/cgroup")

STATE_DICT = """
import pathlib
import torch
import sluice.torch

runtime = sluice.Runtime(**SMALL | dict(dram="4MiB", nvme_bytes="256MiB"))
weight = torch.nn.Parameter(torch.zeros(24 << 20))
weight.grad = torch.ones_like(weight)
optimizer = sluice.torch.AdamW([weight], runtime=runtime)
optimizer.step()
pathlib.Path({group!r}, "cgroup.procs").write_text(str(os.getpid()))  # new memory counts, old does not
state = optimizer.state_dict()["state"][0]
expected = dict(exp_avg=torch.tensor(0.1), exp_avg_sq=torch.tensor(0.001))
for name, value in expected.items():
    for piece in state[name].split(1 << 20):
        assert torch.allclose(piece, value, rtol=1e-4), name
print("whole", sum(state[name].nbytes for name in expected) >> 20, flush=True)
"""

# A cap comes from this, not from the peak of a cgroup. That counts the files, too, which a process
# is the first to read for a while: PyTorch's libraries, where the kernel lets go of them early.
ANONYMOUS = """
import pathlib


def anonymous():
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))


peak = 0
"""

# The states of AdamW are three times DRAM, and more than DRAM and SPARE together.
DRAM, SPARE = 176 * MIB, 300 * MIB
TRAINING = ANONYMOUS + """
import torch
import sluice.torch

pathlib.Path({group!r}, "cgroup.procs").write_text(str(os.getpid()))
begin = anonymous()
model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024, bias=False) for _ in range(66)))
assert 8 * sum(each.numel() for each in model.parameters()) == 3 * {dram}
make = dict(
    none=lambda: None,
    torch=lambda: torch.optim.AdamW(model.parameters()),
    sluice=lambda: sluice.torch.AdamW(model.parameters(), runtime=sluice.Runtime(
        **SMALL | dict(dram={dram}, nvme_bytes="1GiB", page_bytes="2MiB"))),
)
optimizer = make[{kind!r}]()
for step in range(3):
    model(torch.ones(16, 1024)).square().mean().backward()
    peak = max(peak, anonymous() - begin)
    if optimizer:
        optimizer.step()
    model.zero_grad()
print("completed", peak, flush=True)
"""

ACTIVATIONS = ANONYMOUS + """
import contextlib
import torch
import sluice.torch

pathlib.Path({group!r}, "cgroup.procs").write_text(str(os.getpid()))
begin = anonymous()
offload = contextlib.nullcontext()
if {offloads}:
    runtime = sluice.Runtime(**SMALL | dict(dram="32MiB", nvme_bytes="2GiB", page_bytes="1MiB"))
    offload = sluice.torch.offload_activations(runtime)
for step in range(2):
    x = torch.ones(1024, 1024, requires_grad=True)
    with offload:
        y = x
        for _ in range({depth}):
            y = y + torch.nn.functional.gelu(y * 0.5)
    peak = max(peak, anonymous() - begin)
    y.sum().backward()
print("completed", peak, flush=True)
"""


class Group:
    """A cgroup."""

    def __init__(self, path, old):
        self.path, self._old = path, old

    def limit(self, size):
        self._write("memory.limit_in_bytes" if self._old else "memory.max", size)

    def _at(self, name):
        if not (self.path / name).exists():
            pytest.skip(f"{self.path / name} does not exist: the memory controller is missing")
        return self.path / name

    def _write(self, name, size):
        try:
            self._at(name).write_text(str(size))
        except OSError as error:
            pytest.skip(f"{self.path / name} cannot be written: {error}")


@pytest.fixture
def make_group():
    """Makes cgroups. They are removed at the end."""
    if os.geteuid() != 0:
        pytest.skip("a cap on memory needs root, to make a cgroup")
    old = CGROUPS / "memory"
    base = old if old.is_dir() else CGROUPS
    with contextlib.ExitStack() as groups:

        def make():
            path = base / f"sluice-python-{uuid.uuid4().hex}"
            try:
                path.mkdir()
            except OSError as error:
                pytest.skip(f"no cgroup can be made in {base}: {error}")
            groups.callback(path.rmdir)
            return Group(path, old.is_dir())

        yield make


def test_a_state_dict_may_exceed_the_memory(make_group, run_program):
    group = make_group()
    group.limit(64 * MIB)
    code, out, err = run_program(STATE_DICT.format(group=str(group.path)))
    assert code != -signal.SIGKILL, "the cap has ended the process"
    assert code == 0, err
    assert out == "whole 192\n"


@pytest.fixture
def run_capped(make_group, run_program):
    """Runs a program in a cgroup. Returns its exit code and the peak that it prints, or its error."""

    def run(program, limit=None, **values):
        group = make_group()
        if limit is not None:
            group.limit(limit)
        code, out, err = run_program(program.format(group=str(group.path), **values))
        return code, int(out.removeprefix("completed ")) if code == 0 else err

    return run


def test_states_of_three_times_dram_take_no_more_than_dram(run_capped):
    """The cap is the memory of the same passes without an optimizer, dram, and 300 MiB."""
    code, peak = run_capped(TRAINING, dram=DRAM, kind="none")
    assert code == 0, peak
    cap = peak + DRAM + SPARE
    code, ours = run_capped(TRAINING, cap, dram=DRAM, kind="sluice")
    assert code == 0, f"{ours}, under {cap} bytes"
    assert run_capped(TRAINING, cap, dram=DRAM, kind="torch")[0] == -signal.SIGKILL, "the cap is no cap"


def test_activations_beyond_the_memory_of_the_process(run_capped):
    """The cap is what the passes save, which takes as much without offload, at the very least."""
    depth = 120
    cap = depth * 4 * MIB
    code, ours = run_capped(ACTIVATIONS, cap, depth=depth, offloads=True)
    assert code == 0, f"{ours}, under {cap} bytes"
    assert run_capped(ACTIVATIONS, cap, depth=depth, offloads=False)[0] == -signal.SIGKILL, "the cap is no cap"
