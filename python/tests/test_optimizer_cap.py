"""A state dict of states that exceed the memory of the process."""

import os
import pathlib
import signal
import uuid

import pytest

CAP_BYTES = 64 << 20
CGROUPS = pathlib.Path("/sys/fs/cgroup")

PROGRAM = """
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


@pytest.fixture
def capped():
    """A cgroup whose processes have CAP_BYTES of memory, page cache included."""
    if os.geteuid() != 0:
        pytest.skip("a cap on memory needs root, to make a cgroup")
    old = CGROUPS / "memory"
    base, limit = (old, "memory.limit_in_bytes") if old.is_dir() else (CGROUPS, "memory.max")
    group = base / f"sluice-python-{uuid.uuid4().hex}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made in {base}: {error}")
    try:
        try:
            (group / limit).write_text(str(CAP_BYTES))
        except OSError as error:
            pytest.skip(f"{group / limit} cannot be written, the memory controller is missing: {error}")
        yield group
    finally:
        group.rmdir()


def test_a_state_dict_may_exceed_the_memory(capped, run_program):
    code, out, err = run_program(PROGRAM.format(group=str(capped)))
    assert code != -signal.SIGKILL, "the cap has ended the process"
    assert code == 0, err
    assert out == "whole 192\n"
