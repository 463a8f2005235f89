"""Bytes: what is written comes back, through the disk, in every type, tier and piece."""

import numpy as np
import pytest
import torch

import sluice

ROWS = 128
ROW = 16 * 1024  # float32 elements of a row, 64 KiB: a tensor of 8 MiB under 4 MiB of dram


def disk(runtime):
    return runtime.stats()["links"]["dram-nvme"]


def test_a_tensor_larger_than_memory_is_paged_out_and_back(runtime, seed):
    values = np.random.default_rng(seed).standard_normal((ROWS, ROW), dtype=np.float32)
    tensor = runtime.tensor(values.shape, values.dtype, name="large")
    tensor.write(values)
    for row in range(ROWS):
        with runtime.lease(tensor[row : row + 1], mode="rw") as view:
            assert np.array_equal(view.numpy(), values[row : row + 1])
            view *= 2
    assert np.array_equal(tensor.read(), values * 2)
    assert disk(runtime)["out"]["bytes"] >= values.nbytes
    assert disk(runtime)["in"]["bytes"] >= values.nbytes


def test_random_leases_show_what_was_written_last(runtime, seed):
    rng = np.random.default_rng(seed)
    model = [np.zeros((ROWS // 4, ROW), np.int32) for _ in range(6)]  # 12 MiB
    tensors = [runtime.tensor(each.shape, each.dtype, name=f"t{i}") for i, each in enumerate(model)]
    for step in range(400):
        which = int(rng.integers(len(model)))
        start = int(rng.integers(ROWS // 4 - 3))
        rows = slice(start, start + int(rng.integers(1, 4)))
        mode = ("r", "rw", "w")[int(rng.integers(3))]
        with runtime.lease(tensors[which][rows], mode=mode) as view:
            if mode != "w":
                assert np.array_equal(view.numpy(), model[which][rows]), f"step {step}"
            if mode == "rw":
                view += step
                model[which][rows] += step
            if mode == "w":
                view[:] = rng.integers(1 << 30, size=view.shape, dtype=np.int32)
                model[which][rows] = view.numpy()
    for tensor, each in zip(tensors, model):
        assert np.array_equal(tensor.read(), each)
    assert disk(runtime)["in"]["bytes"] > 0


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64", "int8", "int16", "int32",
                                   "int64", "uint8", "uint16", "uint32", "uint64", "bool"])
def test_every_type_in_numpy_and_torch(runtime, seed, dtype):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 2 if dtype == "bool" else 100, size=(3, 1000)).astype(dtype)
    tensor = runtime.tensor(values.shape, dtype)
    tensor.write(values)
    with runtime.lease(tensor) as view:
        assert view.numpy().dtype == np.dtype(dtype)
        assert np.array_equal(view.numpy(), values)
        assert view.torch().dtype == getattr(torch, dtype)
        assert torch.equal(view.torch(), torch.from_numpy(values))
    assert np.array_equal(tensor.read(), values)


def test_bfloat16_goes_through_torch(runtime, seed):
    values = torch.randn(7, 1000, generator=torch.Generator().manual_seed(seed)).bfloat16()
    tensor = runtime.tensor(values.shape, values.dtype)
    tensor.write(values)
    with runtime.lease(tensor, mode="rw") as view:
        assert torch.equal(view.torch(), values)
        view.torch().mul_(2)
    assert torch.equal(tensor.read(torch.empty_like(values)), values * 2)


def test_bfloat16_in_numpy_needs_ml_dtypes_and_says_so(runtime, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ml_dtypes", None)
    tensor = runtime.tensor(4, "bf16")
    with runtime.lease(tensor) as view:
        with pytest.raises(sluice.InvalidArgument, match="use torch.*ml_dtypes"):
            view.numpy()
    with pytest.raises(sluice.InvalidArgument, match="ml_dtypes"):
        tensor.read()


def test_bfloat16_in_numpy_with_ml_dtypes(runtime, seed):
    import ml_dtypes

    values = np.random.default_rng(seed).standard_normal((3, 100)).astype(ml_dtypes.bfloat16)
    tensor = runtime.tensor(values.shape, values.dtype)
    tensor.write(values)
    with runtime.lease(tensor) as view:
        assert np.array_equal(view.numpy(), values)
        assert view.torch().dtype == torch.bfloat16
    assert np.array_equal(tensor.read(), values)


def test_several_tensors_are_leased_at_once_each_in_its_mode(runtime):
    weights, result = runtime.tensor((4, 4), name="weights"), runtime.tensor(4, name="result")
    weights.write(np.arange(16, dtype=np.float32).reshape(4, 4))
    with runtime.lease(weights, (result, "w")) as (w, r):
        np.sum(w.numpy(), axis=1, out=r.numpy())
    assert result.read().tolist() == [6, 22, 38, 54]


def test_a_scalar_and_a_part_of_it(runtime):
    scalar = runtime.tensor((), "float64")
    with runtime.lease(scalar, mode="w") as view:
        view[...] = 2.5
    assert scalar.read() == 2.5
    with pytest.raises(sluice.InvalidArgument, match="scalar"):
        scalar[0:1]


def test_leases_in_hbm_and_in_dram_show_the_same_bytes(make_runtime, seed):
    runtime = make_runtime(hbm="2MiB")
    values = np.random.default_rng(seed).standard_normal(1000)
    tensor = runtime.tensor(values.shape, values.dtype)
    with runtime.lease(tensor, mode="w") as view:
        assert view.tier == "hbm0"
        view[:] = values
    with runtime.lease(tensor, tier="dram") as view:
        assert view.tier == "dram0"
        assert np.array_equal(view.numpy(), values)
        assert view.torch().tolist() == values.tolist()


def test_a_file_is_the_first_home(runtime, spill, seed):
    values = np.random.default_rng(seed).integers(0, 256, 300_000, dtype=np.uint8)
    (spill / "weights.bin").write_bytes(b"header12" + values.tobytes())
    tensor = runtime.tensor(values.shape, "uint8", file=(spill / "weights.bin", 8))
    assert np.array_equal(tensor.read(), values)


def test_discarded_content_reads_as_zeros(runtime):
    tensor = runtime.tensor(1 << 20, "uint8")
    tensor.write(np.full(1 << 20, 7, np.uint8))
    tensor.discard()
    assert not tensor.read().any()


def test_strided_arrays_and_torch_tensors_are_written_in_their_order(runtime):
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    tensor = runtime.tensor((4, 3))
    tensor.write(values.T)
    assert np.array_equal(tensor.read(), values.T)
    tensor.write(torch.from_numpy(values * 3).t())
    assert np.array_equal(tensor.read(), values.T * 3)


def test_autograd_sees_what_is_read_into_a_torch_tensor(runtime):
    tensor = runtime.tensor((4, 4), name="batch")
    tensor.write(np.full((4, 4), 5, np.float32))
    weights = torch.ones(4, 4, requires_grad=True)
    batch = torch.ones(4, 4)
    loss = (batch @ weights).sum()
    tensor.read(out=batch)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    with torch.inference_mode():
        assert tensor.read(out=torch.empty(4, 4)).eq(5).all()
    refused = torch.ones(8, 4)[::2]
    with pytest.raises(sluice.InvalidArgument, match="must be contiguous"):
        tensor.read(out=refused)
    assert refused._version == 0 and refused.eq(1).all()
