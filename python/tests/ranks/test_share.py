"""The share of the budgets that a process of several has."""

import logging
import os

import pytest
import torch

import sluice
import sluice.torch
from sluice import _core, _options

VARIABLES = ("LOCAL_RANK", "LOCAL_WORLD_SIZE")


@pytest.fixture
def local(monkeypatch):
    """Sets the two variables; None: it is not set."""

    def set_both(*values):
        for name, value in zip(VARIABLES, values, strict=True):
            if value is None:
                monkeypatch.delenv(name, raising=False)
            else:
                monkeypatch.setenv(name, value)

    return set_both


def budgets(runtime):
    tiers = runtime.stats()["tiers"]
    return tiers["dram"]["budget_bytes"] >> 20, tiers["nvme"]["budget_bytes"] >> 20


def test_local_ranks_divide_the_budgets_of_the_host(make_runtime, local, caplog):
    local("1", "4")
    with caplog.at_level(logging.INFO, "sluice"):
        assert budgets(make_runtime(dram="8MiB", nvme_bytes="32MiB")) == (2, 8)
    assert "process 1 of 4 of this host: it has 1/4 of the budgets of dram and nvme" in caplog.text
    assert budgets(make_runtime(dram="8MiB", nvme_bytes="32MiB", share=(0, 1))) == (8, 32)


def test_a_share_is_given_by_hand(make_runtime, local, tmp_path):
    local(None, None)
    assert budgets(make_runtime(dram="8MiB", nvme_bytes="32MiB", share=(1, 2))) == (4, 16)
    file = tmp_path / "runtime.toml"
    file.write_text('tiers.dram.bytes = "8MiB"')
    with sluice.Runtime.from_file(file, share=(0, 2)) as runtime:
        assert runtime.stats()["tiers"]["dram"]["budget_bytes"] == 4 << 20


@pytest.mark.parametrize("rank,size", [("0", None), ("-1", None), (None, None), ("0", "1")])
def test_a_process_alone_has_all(make_runtime, local, rank, size):
    local(rank, size)
    assert budgets(make_runtime(dram="8MiB", nvme_bytes="32MiB")) == (8, 32)


@pytest.mark.parametrize("rank,size", [("1", None), (None, "2"), ("2", "2"), ("-1", "2"), ("0", "x")])
def test_half_a_share_is_refused(make_runtime, local, rank, size):
    local(rank, size)
    with pytest.raises(sluice.InvalidArgument, match="LOCAL_RANK is '.*set both .*or give share="):
        make_runtime()


@pytest.mark.parametrize("share", [(2, 2), (0, 0), (-1, 2), (0, 1, 2), "ab", (0.5, 2), 3])
def test_a_wrong_share_is_refused(make_runtime, share):
    with pytest.raises(sluice.InvalidArgument, match="share is .*; it must be"):
        make_runtime(share=share)


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_parts_are_equal_and_together_never_more_than_the_whole(make_runtime, local, count):
    local(None, None)
    pages = {"dram": 97, "nvme": 803}
    sizes = {"dram": (pages["dram"] << 16) + 1, "nvme_bytes": (pages["nvme"] << 16) + 4095}
    for number in range(count):
        tiers = make_runtime(**sizes, share=(number, count)).stats()["tiers"]
        for name, whole in pages.items():
            assert tiers[name]["budget_bytes"] == whole // count << 16


def test_needs_above_a_share_are_named(make_runtime, spill):
    least = r"of which this process has 1/100; at least 6400 KiB \(1 page for each process\)"
    with pytest.raises(sluice.InvalidArgument, match=r"dram \(tiers.dram.bytes\) is 4 MiB, " + least):
        make_runtime(dram="4MiB", share=(0, 100))
    for drive in ("a", "b"):
        (spill / drive).mkdir(mode=0o700)
    least = r"nvme_bytes \(tiers.nvme.bytes\) is 192 KiB, .* 1/2; at least 256 KiB \(2 pages for each process\)"
    with pytest.raises(sluice.InvalidArgument, match=least):
        make_runtime(nvme=[spill / "a", spill / "b"], nvme_bytes="192KiB", share=(0, 2))


@pytest.mark.parametrize("given,ranks,each", [(8, 1, 8), (8, 2, 4), (7, 3, 2), (2, 8, 1), (256, 8, 32)])
def test_given_threads_are_of_all_ranks(given, ranks, each):
    assert _options.threads_of(given, ranks) == each


def test_a_wrong_number_of_threads_is_refused_on_ranks_too(make_runtime):
    runtime = make_runtime(dram="8MiB", share=(0, 2))
    with pytest.raises(sluice.InvalidArgument, match="threads is 0; it must be an integer from 1 to 256"):
        sluice.torch.AdamW([torch.nn.Parameter(torch.ones(4))], runtime=runtime, threads=0)


@pytest.mark.parametrize("own,machine,threads", [
    (range(8), 8, 2),      # nobody has divided the processors
    (range(2), 8, 2),      # the launcher has
    (range(4, 7), 8, 3),
    (range(2), 2, 1),      # more processes than processors
])
def test_processors_are_divided_once(make_runtime, local, monkeypatch, own, machine, threads):
    local("1", "4")
    runtime = make_runtime(dram="16MiB")
    given = []
    create = _core.create_optimizer
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(own))
    monkeypatch.setattr(os, "cpu_count", lambda: machine)
    monkeypatch.setattr(_core, "create_optimizer", lambda *args: given.append(args[-2]) or create(*args))
    sluice.torch.AdamW([torch.nn.Parameter(torch.ones(4))], runtime=runtime).close()
    assert given == [threads]
