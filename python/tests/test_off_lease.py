"""Memory outside a lease: readable, never writable, and always the newest."""

import copy
import io
import random

import numpy as np
import pytest
import torch

import sluice


def test_the_array_shows_the_newest_elements_wherever_pages_are(runtime, seed):
    rng = random.Random(seed)
    tensors = [runtime.tensor((64, 8192), name=f"t{i}") for i in range(6)]  # 12 MiB in 4 of dram
    arrays = [tensor.numpy() for tensor in tensors]
    expected = [np.zeros((64, 8192), np.float32) for _ in tensors]
    for _ in range(60):
        i, row = rng.randrange(6), rng.randrange(64)
        with runtime.lease(tensors[i][row : row + 1], mode="rw", tier="dram") as view:
            view += i + row
        expected[i][row] += i + row
        j = rng.randrange(6)
        assert np.array_equal(arrays[j], expected[j]), f"tensor {j}"
    for array, wanted in zip(arrays, expected):
        assert np.array_equal(array, wanted)


def test_an_array_of_a_lease_stays_readable_after_it(runtime):
    tensor = runtime.tensor((4, 1024))
    with runtime.lease(tensor, mode="rw", tier="dram") as view:
        view[...] = 7
        array = view.numpy()
    fill = runtime.tensor((8, 1 << 20), "uint8")
    fill.write(np.ones((8, 1 << 20), np.uint8))  # everything else has left dram
    assert (array == 7).all()


def test_a_tensor_is_not_written_from_its_own_memory(runtime):
    tensor = runtime.tensor((64, 32768), name="weights")  # 8 MiB in 4 of dram
    values = np.arange(64 * 32768, dtype=np.float32).reshape(64, 32768)
    tensor.write(values)
    with pytest.raises(sluice.InvalidArgument, match="'weights' cannot be written from its own"):
        tensor.write(tensor.numpy())
    assert np.array_equal(tensor.read(), values)
    tensor.write(tensor.numpy().copy())
    assert np.array_equal(tensor.read(), values)
    other = runtime.tensor((64, 32768))
    other.write(tensor.numpy())
    assert np.array_equal(other.read(), values)


def test_print_save_and_deepcopy_need_no_lease(runtime):
    tensor = runtime.tensor((3, 5))
    tensor.write(np.arange(15, dtype=np.float32).reshape(3, 5))
    array = tensor.numpy()
    assert "14." in str(array)
    assert np.array_equal(copy.deepcopy(array), array)
    file = io.BytesIO()
    torch.save({"w": torch.from_numpy(array.copy())}, file)
    file.seek(0)
    assert torch.equal(torch.load(file)["w"], torch.from_numpy(array.copy()))


def test_the_array_is_not_writeable_and_keeps_the_runtime(make_runtime):
    runtime = make_runtime()
    tensor = runtime.tensor((2, 3), name="kept")
    array = tensor.numpy()
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1
    with pytest.raises(sluice.FailedPrecondition, match="kept"):
        runtime.close()
    assert (array == 0).all()
    del array
    runtime.close()


def test_a_stray_write_names_the_tensor(run_program):
    code, _, errors = run_program(
        "import torch, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "runtime = sluice.Runtime(**SMALL)\n"
        "tensor = runtime.tensor((4, 1024), name='weights of block 3')\n"
        "torch.from_numpy(tensor.numpy())[0, 0] = 1\n"
    )
    assert code == -11, errors
    assert "weights of block 3" in errors and "outside a lease" in errors


@pytest.mark.parametrize("touch", ["view.sum()", "view.zero_()"])
def test_a_view_of_hbm_never_shows_what_came_after_it(touch, run_program):
    code, output, errors = run_program(
        "import warnings\n"
        "warnings.simplefilter('ignore')\n"
        "runtime = sluice.Runtime(**SMALL, hbm='1MiB')\n"
        "first, other = (runtime.tensor((1 << 20,), 'uint8', name=name) for name in ('first', 'other'))\n"
        "with runtime.lease(first, mode='w', tier='hbm') as lease:\n"
        "    view = lease.torch().fill_(1)\n"
        "with runtime.lease(other, mode='w', tier='hbm') as lease:\n"
        "    lease.torch().fill_(2)\n"
        f"print({touch}, other.read().sum(), flush=True)\n"
    )
    assert code == -11, output + errors
    assert "first" in errors and "outside a lease" in errors and output == ""


def test_a_tensor_that_is_not_readable_says_so(runtime):
    for options in ({"off_lease": "none"}, {}):
        tensor = runtime.tensor((4,), name="hidden", **options)
        if options:
            with pytest.raises(sluice.FailedPrecondition, match="hidden.*outside a lease"):
                tensor.numpy()
        else:
            assert tensor.numpy().shape == (4,)
