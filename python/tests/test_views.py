"""Views: NumPy and torch on the lease's memory, and what they refuse."""

import numpy as np
import pytest
import torch

import sluice


@pytest.fixture
def tensor(runtime):
    tensor = runtime.tensor((8, 100), name="weights")
    tensor.write(np.arange(800, dtype=np.float32).reshape(8, 100))
    return tensor


def test_a_view_computes_like_an_array(runtime, tensor):
    with runtime.lease(tensor, mode="rw") as view:
        assert view.shape == (8, 100) and len(view) == 8 and view.nbytes == 3200
        assert float(np.sum(view)) == 799 * 400
        before = view.numpy().copy()
        same = view
        view += 1
        assert view is same
        assert np.array_equal(view - 1, before)
        assert np.array_equal(np.asarray(view, dtype=np.float64), before + 1)
        view[2:4] = 0
        assert not view[2:4].any()
        np.copyto(view.numpy(), before)
    assert np.array_equal(tensor.read(), before)


def test_views_of_read_leases_are_not_writeable_in_numpy(runtime, tensor):
    with runtime.lease(tensor) as view:
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 1
        with pytest.raises(ValueError, match="read-only|WRITEABLE"):
            view.numpy().setflags(write=True)


def test_a_torch_write_through_a_read_lease_is_an_error_at_the_end(runtime):
    # Memory that is readable outside a lease is write-protected, so that the write itself faults.
    tensor = runtime.tensor((4, 1024), name="weights", off_lease="none")
    with pytest.raises(sluice.FailedPrecondition, match="'weights' in place through a read lease"):
        with runtime.lease(tensor) as view:
            view.torch()[0].add_(1)
    with runtime.lease(tensor) as view:
        view.torch().sum()


def test_an_ended_view_refuses_every_use(runtime, tensor):
    with runtime.lease(tensor, mode="rw") as view:
        array = view.numpy()
    for use in (view.numpy, view.torch, lambda: view[0], lambda: view + 1, lambda: np.asarray(view),
                lambda: len(view), lambda: list(view)):
        with pytest.raises(sluice.FailedPrecondition, match="'weights': the lease has ended"):
            use()
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_the_address_never_changes(runtime, tensor):
    with runtime.lease(tensor) as view:
        address = view.numpy().ctypes.data
        assert view.torch().data_ptr() == address
    runtime.tensor(12 << 20, "uint8").write(np.ones(12 << 20, np.uint8))  # pages everything out
    with runtime.lease(tensor[2:4]) as view:
        assert view.numpy().ctypes.data == address + 2 * 400
        assert view.torch().data_ptr() == address + 2 * 400


def test_torch_tensors_of_one_tensor_share_one_storage(runtime, tensor):
    with runtime.lease(tensor) as view:
        first = view.torch()
        assert view.torch() is first
        alias = first.detach()[3:]
    storage = first.untyped_storage()._cdata
    del first
    with runtime.lease(tensor[0:2], mode="rw") as view:
        second = view.torch()
        assert second.shape == (2, 100)
        assert second.untyped_storage()._cdata == alias.untyped_storage()._cdata == storage
        assert tensor._state.storages == 1


def test_torch_tensors_cannot_be_resized(runtime, tensor):
    with runtime.lease(tensor, mode="rw") as view:
        with pytest.raises(RuntimeError, match="not resizable"):
            view.torch().resize_(10_000)


def test_gradients_flow_from_a_view(runtime, tensor):
    with runtime.lease(tensor) as view:
        parameter = torch.nn.Parameter(view.torch())
        (parameter * 2).sum().backward()
        assert torch.equal(parameter.grad, torch.full((8, 100), 2.0))


def test_a_lease_is_entered_once_at_a_time(runtime, tensor):
    lease = runtime.lease(tensor)
    for _ in range(2):
        with lease as view:
            assert view[0, 1] == 1
            with pytest.raises(sluice.FailedPrecondition, match="entered already"):
                lease.__enter__()


def test_a_lease_is_released_when_the_block_raises(runtime, tensor):
    with pytest.raises(ZeroDivisionError):
        with runtime.lease(tensor, mode="rw"):
            1 / 0
    with runtime.lease(tensor, mode="rw", timeout=60):
        pass


def test_items_of_a_lease_with_the_same_elements_keep_what_one_of_them_reads(runtime, tensor):
    tensor.write(np.full(tensor.shape, 7, tensor.dtype))
    with runtime.lease((tensor, "w"), (tensor, "r")) as (new, old):
        assert (old == 7).all()
        new[0] = 8
        assert (old[0] == 8).all()
    assert (tensor.read()[1:] == 7).all()
