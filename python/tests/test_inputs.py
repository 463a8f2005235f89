"""Wrong input: each has an error that names the thing and, where there is one, what was meant."""

import copy
import pickle

import numpy as np
import pytest
import torch

import sluice
from sluice.torch import offload_activations

BAD_OPTIONS = [
    ({"hbm": "8GB"}, 'hbm: "8GB" is not a size'),
    ({"dram": -1}, "dram is -1; it must be a size"),
    ({"dram": True}, "dram is True; it must be a size"),
    ({"dram": 1.5}, "dram is 1.5; it must be a size"),
    ({"drm": "1GiB"}, 'unknown option "drm"; did you mean "dram"'),
    ({"queue_depth": 8}, 'unknown option "queue_depth"; write io={"queue_depth": ...}'),
    ({"io": {"queue_dept": 8}}, 'unknown key "io.queue_dept"; did you mean "io.queue_depth"'),
    ({"io": {"queue_depth": 0}}, '"io.queue_depth" is 0; allowed are 1 to 1024'),
    ({"io": {"queue_depth": {1}}}, '"io.queue_depth" is {1}; it must be a number'),
    ({"io.queue_depth": 8, "io": {"queue_depth": 8}}, '"io.queue_depth" is given twice'),
    ({"scheduler": {"policy": "plannd"}}, 'did you mean "planned"'),
    ({"page_bytes": "3KiB"}, "power of two"),
    ({"nvme": "/"}, 'nvme_bytes="64GiB"'),
    ({"nvme": [], "nvme_bytes": 1}, "nvme is an empty list"),
    ({"dram": "1KiB"}, "dram (tiers.dram.bytes) is 1 KiB"),
    ({"device": {"kind": "cuda"}}, '"device.kind" is that of a GPU'),
]


@pytest.mark.parametrize("options, message", BAD_OPTIONS)
def test_options(options, message):
    base = {"dram": "4MiB", "nvme_bytes": "16MiB", "page_bytes": "64KiB"}
    base = {} if "nvme" in options else base
    with pytest.raises(sluice.InvalidArgument) as caught:
        sluice.Runtime(**{**base, **options})
    assert message in str(caught.value)
    assert "--set" not in str(caught.value)


def test_auto_is_the_emulated_device():
    options = {"dram": "8MiB", "nvme_bytes": "16MiB", "hbm": "4MiB", "page_bytes": "64KiB"}
    with sluice.Runtime(**options, device={"kind": "auto"}) as runtime:
        reasons = {event["what"]: event["reason"] for event in runtime.stats()["fallbacks"]}
    assert reasons["cuda"] == "Python reads and writes leases on the CPU"


def test_a_spill_directory_that_is_not_there(spill):
    with pytest.raises(sluice.Error, match="no-such"):
        sluice.Runtime(dram="4MiB", nvme=spill / "no-such", nvme_bytes="8MiB", page_bytes="64KiB")


def test_a_spill_directory_that_others_may_write_to(spill):
    spill.chmod(0o777)
    with pytest.raises(sluice.PermissionDenied, match=str(spill)):
        sluice.Runtime(dram="4MiB", nvme=spill, nvme_bytes="8MiB", page_bytes="64KiB")


def test_from_file(spill):
    path = spill / "runtime.toml"
    path.write_text('page_bytes = "64KiB"\n[tiers.dram]\nbytes = "4MiB"\n[tiers.nvme]\n'
                    f'bytes = "16MiB"\ndirectory = "{spill}"\nkeep_free = 0\n')
    with sluice.Runtime.from_file(path, page_bytes="128KiB") as runtime:
        assert runtime.page_bytes == 128 * 1024
    path.write_text("page_byte = 1\n")
    with pytest.raises(sluice.InvalidArgument, match=r'runtime.toml:1:.*"page_byte"; did you mean "page_bytes"'):
        sluice.Runtime.from_file(path)
    with pytest.raises(sluice.NotFound, match="other.toml"):
        sluice.Runtime.from_file(spill / "other.toml")


@pytest.mark.parametrize("shape", [0, -1, (3, 0), "ab", (2.5,), None, (1 << 63,), (1 << 40, 1 << 40)])
def test_shapes(runtime, shape):
    with pytest.raises(sluice.Error, match="shape|bytes|elements|1 PiB"):
        runtime.tensor(shape)


@pytest.mark.parametrize("dtype, message", [
    ("complex64", "dtype is \"complex64\"; allowed are float32"),
    ("flaot32", 'did you mean "float32"'),
    (torch.complex64, "complex64"),
    (np.dtype(">f4"), "byte order"),
    (np.dtype([("a", "f4")]), "allowed are"),
    (7, "allowed are"),
    (None, 'dtype is "None"; allowed are'),
])
def test_types(runtime, dtype, message):
    with pytest.raises(sluice.InvalidArgument) as caught:
        runtime.tensor(4, dtype)
    assert message in str(caught.value)


@pytest.mark.parametrize("arguments, message", [
    ({"kind": "weights"}, 'kind is "weights"; allowed are parameter'),
    ({"lowest": "disk"}, 'lowest is "disk"; allowed are hbm, dram, nvme'),
    ({"off_lease": "yes"}, 'off_lease is "yes"; allowed are'),
    ({"file": ("weights.bin", -1)}, "first byte is -1"),
])
def test_arguments_of_a_tensor(runtime, arguments, message):
    with pytest.raises(sluice.InvalidArgument, match=message):
        runtime.tensor(4, **arguments)


def test_a_tensor_without_a_place(runtime):
    with pytest.raises(sluice.TierFull, match="'huge'"):
        runtime.tensor(1 << 40, name="huge", off_lease="none")
    with pytest.raises(sluice.Error, match="readable outside a lease.*vm.max_map_count"):
        runtime.tensor(1 << 40, name="huge")


def test_modes_tiers_and_what_is_leased(runtime, make_runtime, spill):
    tensor = runtime.tensor((4, 4), name="x")
    other = make_runtime().tensor(4, name="stranger")
    for bad, message in [
        (lambda: runtime.lease(tensor, mode="write"), 'mode is "write"; allowed are "r"'),
        (lambda: runtime.lease(tensor, tier="disk"), "disk"),
        (lambda: runtime.lease(tensor, tier="hbm"), "hbm"),
        (lambda: runtime.lease(tensor, timeout=-1), "timeout"),
        (lambda: runtime.lease(tensor, timeout=float("nan")), "timeout"),
    ]:
        with pytest.raises(sluice.InvalidArgument, match=message):
            bad().__enter__()
    for bad, message in [
        (lambda: runtime.lease(), "at least one tensor"),
        (lambda: runtime.lease(np.zeros(3)), "not ndarray"),
        (lambda: runtime.lease(other), "'stranger' belongs to another runtime"),
        (lambda: runtime.prefetch("x"), "not str"),
        (lambda: tensor[0], "only rows have parts"),
        (lambda: tensor[3:1], "no run of them"),
        (lambda: tensor[::2], "no run of them"),
        (lambda: np.asarray(tensor), "is no array"),
    ]:
        with pytest.raises(sluice.InvalidArgument, match=message):
            bad()


def test_values_that_do_not_fit(runtime):
    tensor = runtime.tensor((2, 3), name="x")
    for values, message in [
        (np.zeros((3, 2), np.float32), r"float32 of shape \(2, 3\); the values are float32 of shape \(3, 2\)"),
        (np.zeros((2, 3)), "the values are float64"),
        (torch.zeros(2, 3, dtype=torch.bfloat16), "the values are bfloat16"),
        (torch.zeros(2, 3, device="meta"), "not on meta"),
        (torch.zeros(2, 3).to_sparse(), "dense"),
        ([[1, 2, 3], [4, 5, 6]], "not list"),
    ]:
        with pytest.raises(sluice.InvalidArgument, match=message):
            tensor.write(values)
    for out in (np.zeros((3, 2), np.float32).T, torch.zeros(3, 2).t()):
        with pytest.raises(sluice.InvalidArgument, match="contiguous"):
            tensor.read(out)
    frozen = np.zeros((2, 3), np.float32)
    frozen.setflags(write=False)
    with pytest.raises(sluice.InvalidArgument, match="writeable"):
        tensor.read(frozen)


def test_freed_tensors(runtime):
    tensor = runtime.tensor(4, name="gone")
    tensor.free()
    for use in (tensor.free, tensor.read, tensor.discard, lambda: runtime.prefetch(tensor),
                runtime.lease(tensor).__enter__, lambda: tensor.write(np.zeros(4, np.float32))):
        with pytest.raises(sluice.NotFound, match="'gone' has been freed"):
            use()


def test_copies_and_pickles_are_refused(runtime):
    tensor = runtime.tensor(4, name="x")
    things = {
        runtime: "its process", tensor: "send tensor.read", runtime.lease(tensor): "'lease x' cannot",
        runtime.op("forward"): "op 'forward' cannot", runtime.iteration("train"): "iteration 'train' cannot",
        offload_activations(runtime): "call offload_activations",
    }
    with runtime.lease(tensor) as view:
        for thing, message in (*things.items(), (view, "numpy")):
            for refuse in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(sluice.InvalidArgument, match=message):
                    refuse(thing)


def test_the_errors_are_a_tree():
    kinds = [getattr(sluice, name) for name in sluice.errors.__all__]
    assert all(issubclass(kind, sluice.Error) for kind in kinds)
    assert len({kind.code for kind in kinds}) == len(kinds)
    assert issubclass(sluice.InvalidArgument, ValueError)
    assert issubclass(sluice.TimedOut, TimeoutError)
    error = sluice.errors.from_status("INTERNAL", "text")
    assert type(error) is sluice.Error and error.code == "INTERNAL" and str(error) == "text"


def test_errors_name_the_arguments_of_the_runtime():
    said = sluice.errors.from_status("RESOURCE_EXHAUSTED", (
        "raise tiers.nvme.bytes (RuntimeOptions::nvme_bytes) or tiers.dram.bytes, in /tiers.hbm.bytesize"
    ))
    text = "raise nvme_bytes (tiers.nvme.bytes) or dram (tiers.dram.bytes), in /tiers.hbm.bytesize"
    assert str(said) == text
    assert str(sluice.errors.from_status(said.code, str(said))) == text


@pytest.mark.parametrize("call, message", [
    (lambda runtime, _: runtime.tensor(4, name=3), "name is 3; it must be text"),
    (lambda runtime, _: runtime.tensor(4, kind=None), 'kind is None; it must be text, for example "param'),
    (lambda runtime, _: runtime.tensor(4, lowest=np.zeros(3)), r"lowest is array\(\[0., 0., 0.\]\); it must be"),
    (lambda runtime, _: runtime.tensor(4, off_lease=True), "off_lease is True; it must be text"),
    (lambda runtime, _: runtime.tensor(4, dtype=torch.zeros(2)), "dtype is .*; allowed are float32"),
    (lambda runtime, _: runtime.tensor(4, file=3), "file is 3; it must be a path"),
    (lambda runtime, _: runtime.tensor(4, file=("/x", 1.5)), "file: the first byte is 1.5; it must be a whole"),
    (lambda runtime, _: runtime.tensor(4, file=("/x", 0, 1)), r"file is \('/x', 0, 1\); it must be a path"),
    (lambda runtime, tensor: runtime.lease(tensor, mode=3), 'mode is 3; it must be text, for example "rw"'),
    (lambda runtime, tensor: runtime.lease((tensor, None)), "mode is None; it must be text"),
    (lambda runtime, tensor: runtime.lease((tensor, "r", 1)), "not tuple"),
    (lambda runtime, tensor: runtime.lease(()), "not tuple"),
    (lambda runtime, tensor: runtime.lease(tensor, tier=0), 'tier is 0; it must be text, for example "dram"'),
    (lambda runtime, tensor: runtime.lease(tensor, timeout="1"), "timeout is '1'; it must be a number of sec"),
    (lambda runtime, tensor: runtime.prefetch(tensor, mode=b"r"), "mode is b'r'; it must be text"),
    (lambda runtime, _: runtime.op(None), "the name of an op is None; it must be text"),
    (lambda runtime, _: runtime.op("a", lane=1), "lane is 1; it must be text"),
    (lambda runtime, _: runtime.iteration(3), "the key of an iteration is 3; it must be text"),
    (lambda runtime, _: runtime.schedule(None), "the key of an iteration is None; it must be text"),
    (lambda runtime, _: runtime.trace(3), "path is 3; it must be a path"),
    (lambda runtime, _: runtime.trace("a\0b"), r"path is 'a\\x00b'; it must be a path"),
    (lambda runtime, _: runtime.open_weights(None), "path is None; it must be a path"),
    (lambda runtime, _: runtime.set_budget(1, "1MiB"), 'tier is 1; it must be text, for example "dram"'),
    (lambda runtime, _: runtime.set_budget("dram", 10**30), "size is 1000000000000000000000000000000; it must"),
    (lambda runtime, tensor: tensor["a":], "'x' has 4 rows; .* is no run of them"),
    (lambda runtime, _: sluice.Runtime.from_file(3), "path is 3; it must be a path"),
    (lambda runtime, _: sluice.Runtime(dram="4MiB", nvme=3, nvme_bytes=1), "nvme is 3; it must be a path"),
    (lambda runtime, _: sluice.Runtime(dram="4MiB\ud800"), "dram is .*; it must be text"),
    (lambda runtime, _: sluice.Runtime(dram="4MiB", io={"engine": "\ud800"}), '"io.engine" is .*; it must be text'),
    (lambda runtime, _: sluice.doctor(3), "directory is 3; it must be a path"),
])
def test_a_wrong_type_is_named(runtime, call, message):
    tensor = runtime.tensor(4, name="x")
    with pytest.raises(sluice.InvalidArgument, match=message):
        call(runtime, tensor)
