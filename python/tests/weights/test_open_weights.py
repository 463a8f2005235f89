"""Checkpoints as tensors: names, types and shapes, leases, and memory that shows the files."""

import os

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import sluice

TENSORS = {
    "bias": torch.randn(3),
    "weight": torch.randn(300, 700),
    "half": torch.randn(5, 7).half(),
    "brain": torch.randn(64, 512).bfloat16(),
    "double": torch.randn(3, 2, dtype=torch.float64),
    "tokens": torch.arange(11),
    "short": torch.arange(7, dtype=torch.int16),
    "mask": torch.rand(9) > 0.5,
    "f8": torch.randn(4, 6).to(torch.float8_e4m3fn),
    "scalar": torch.tensor(2.5),
    "empty": torch.empty(0, 4),
}


@pytest.fixture
def make_weights_runtime():
    made = []

    def make(**options):
        made.append(sluice.Runtime(**{"dram": "1MiB", "page_bytes": "64KiB", **options}))
        return made[-1]

    yield make
    for runtime in made:
        runtime.close()


@pytest.fixture
def runtime(make_weights_runtime):
    return make_weights_runtime()


@pytest.fixture
def path(tmp_path):
    save_file(TENSORS, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(
        a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


def test_each_weight_has_the_name_type_shape_and_bytes_of_the_file(runtime, path):
    weights = runtime.open_weights(path)
    assert set(weights) == set(TENSORS) and len(weights) == len(TENSORS)
    for name, tensor in TENSORS.items():
        weight = weights[name]
        assert (weight.name, weight.shape, weight.nbytes) == (name, tuple(tensor.shape), tensor.nbytes)
        assert weight.dtype == str(tensor.dtype).removeprefix("torch.")
        assert weight.file == str(path)
        assert same(weight.torch(), tensor), name
    assert weights["f8"].type == "F8_E4M3" and weights["f8"].tensor.dtype == "uint8"
    assert weights.nbytes == sum(tensor.nbytes for tensor in TENSORS.values())


def test_a_lease_shows_the_same_at_the_same_address(runtime, path):
    weights = runtime.open_weights(path)
    weight = weights["weight"]
    outside = weight.torch()
    with runtime.lease(weight.tensor, weights["tokens"].tensor) as (view, tokens):
        assert same(view.torch(), TENSORS["weight"])
        assert view.torch().data_ptr() == outside.data_ptr()
        assert np.array_equal(tokens.numpy(), np.arange(11))
    assert same(outside, TENSORS["weight"])
    with runtime.lease(weight.tensor[10:20]) as rows:
        assert same(rows.torch(), TENSORS["weight"][10:20])
    assert weights["empty"].tensor is None and weights["empty"].numpy().shape == (0, 4)
    assert np.array_equal(weights["mask"].numpy(), TENSORS["mask"].numpy())


def test_weights_are_only_read(runtime, path):
    weights = runtime.open_weights(path)
    for mode in ("rw", "w"):
        with pytest.raises(sluice.InvalidArgument, match="'bias' is only read"):
            with runtime.lease(weights["bias"].tensor, mode=mode):
                pass
    with pytest.raises(sluice.InvalidArgument, match="'bias' is only read"):
        weights["bias"].tensor.write(torch.zeros(3))
    assert same(weights["bias"].torch(), TENSORS["bias"])


def test_torch_tensors_keep_the_runtime(make_weights_runtime, path):
    runtime = make_weights_runtime()
    tensor = runtime.open_weights(path)["bias"].torch()
    with pytest.raises(sluice.FailedPrecondition, match="'bias': 1 torch storage"):
        runtime.close()
    assert same(tensor, TENSORS["bias"])
    del tensor
    runtime.close()


def test_two_torch_tensors_of_a_weight_share_one_storage(runtime, path):
    weight = runtime.open_weights(path)["weight"]
    first, second = weight.torch(), weight.torch()
    assert first.untyped_storage()._cdata == second.untyped_storage()._cdata


def test_hidden_weights_have_no_memory_outside_a_lease(runtime, path):
    weights = runtime.open_weights(path, off_lease="none")
    with pytest.raises(sluice.FailedPrecondition, match="'bias' cannot be read outside a lease"):
        weights["bias"].torch()
    with runtime.lease(weights["bias"].tensor) as view:
        assert same(view.torch(), TENSORS["bias"])


def test_errors_name_the_file(runtime, path, tmp_path):
    with pytest.raises(sluice.NotFound, match="none.safetensors"):
        runtime.open_weights(tmp_path / "none.safetensors")
    (tmp_path / "model.safetensors").write_bytes(path.read_bytes()[:-1])
    with pytest.raises(sluice.InvalidArgument, match="model.safetensors"):
        runtime.open_weights(tmp_path)
    with pytest.raises(sluice.InvalidArgument, match="off_lease"):
        runtime.open_weights(tmp_path, off_lease="sometimes")


def test_a_file_that_changes_is_no_wrong_weight(runtime, path):
    weights = runtime.open_weights(path)
    os.utime(path, ns=(1, 1))
    with pytest.raises(sluice.DataLoss, match="model.safetensors has changed"):
        with runtime.lease(weights["weight"].tensor):
            pass


def test_a_type_that_torch_has_not_is_leased_as_bytes(runtime, tmp_path):
    header = b'{"x":{"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]}}'
    header += b" " * (-len(header) % 8)
    data = len(header).to_bytes(8, "little") + header + b"abc"
    (tmp_path / "six.safetensors").write_bytes(data)
    weight = runtime.open_weights(tmp_path / "six.safetensors")["x"]
    assert (weight.type, weight.dtype, weight.shape, weight.nbytes) == ("F6_E2M3", None, (4,), 3)
    with pytest.raises(sluice.InvalidArgument, match="'x' is F6_E2M3"):
        weight.torch()
    with runtime.lease(weight.tensor) as view:
        assert bytes(view.numpy()) == b"abc"
