"""Tensors and parts of them."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, NoReturn, Optional

import numpy as np

from . import _core, _torch, errors
from ._dtypes import DType

if TYPE_CHECKING:
    import torch

    from ._runtime import Runtime


class Part:
    """Rows ``[start, stop)`` of a tensor, for leases of less than the whole: ``tensor[10:20]``.

    A lease needs room for its pages alone, so parts of a tensor fit where the whole does not.
    """

    def __init__(self, tensor: "Tensor", start: int, stop: int) -> None:
        self.tensor = tensor
        self.start = start
        self.stop = stop

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per dimension."""
        return (self.stop - self.start, *self.tensor.shape[1:])

    @property
    def offset(self) -> int:
        """First byte within the tensor."""
        return self.start * self.tensor._row_bytes

    @property
    def nbytes(self) -> int:
        """Bytes of the part."""
        return (self.stop - self.start) * self.tensor._row_bytes

    def __repr__(self) -> str:
        return f"sluice.Part({self.tensor.name!r}, rows {self.start} to {self.stop})"


class Tensor:
    """A tensor that the runtime pages. ``Runtime.tensor`` makes it; it is freed with its last use.

    Its elements are reached by a lease (``with runtime.lease(tensor) as view:``), by ``read``, or
    by ``write``. It belongs to the process that made it: it cannot be copied or pickled.
    """

    def __init__(self, runtime: "Runtime", state: _core.TensorState, name: str,
                 shape: tuple[int, ...], dtype: DType, off_lease: str) -> None:
        self._runtime = runtime
        self._state = state
        self._name = name
        self._shape = shape
        self._dtype = dtype
        self._off_lease = off_lease
        self._torch_lock = threading.Lock()
        # Torch storages on the tensor's memory by tier; each lives as long as its torch tensors.
        self._storages: dict[str, weakref.ref[torch.UntypedStorage]] = {}

    @property
    def name(self) -> str:
        """Name in messages, reports and schedules."""
        return self._name

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per dimension, row-major; empty for a scalar."""
        return self._shape

    @property
    def dtype(self) -> str:
        """Name of the element type, for example "float32" or "bfloat16"."""
        return self._dtype.name

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return int(np.prod(self._shape, dtype=object)) * self._dtype.itemsize

    @property
    def _row_bytes(self) -> int:
        return self.nbytes // self._shape[0]

    def write(self, values: "np.ndarray[Any, Any] | torch.Tensor") -> None:
        """Copies ``values`` in: an array or torch tensor on the CPU of the same shape and dtype.

        Any size works with any budget. Waits for leases of the same bytes.
        Raises InvalidArgument (also for ``numpy()`` of this tensor: pass a copy), and as ``Runtime.lease``; then a part may have been copied.
        """
        _core.copy_in(self._state, _torch.bytes_of(values, self, writable=False), 0)

    def read(self, out: "Optional[np.ndarray[Any, Any] | torch.Tensor]" = None) -> Any:
        """Copies the elements into ``out``, or into a new NumPy array, and returns it.

        ``out`` is C-contiguous, on the CPU, and has the tensor's shape and dtype. A bfloat16 tensor
        needs ``out`` (a torch tensor) or the package ml_dtypes.
        """
        if out is None:
            out = np.empty(self._shape, self._dtype.numpy())
        target = _torch.bytes_of(out, self, writable=True)
        try:
            _core.copy_out(self._state, target, 0)
        finally:
            _torch.note_write(out)
        return out

    def numpy(self) -> "np.ndarray[Any, Any]":
        """A read-only NumPy array on the tensor's memory, which needs no lease.

        It shows the newest elements that a lease has left, slowly where they are in nvme, and no
        checksum covers those. It keeps the tensor and its runtime. While a lease writes, elements
        are seen as they come. Raises FailedPrecondition for a tensor made with off_lease="none".
        """
        self._refuse_hidden()
        memory = _core.lend_off_lease(self._state)
        return np.ndarray(self._shape, self._dtype.numpy(), buffer=memoryview(memory))

    def _refuse_hidden(self) -> None:
        if self._off_lease != "readable":
            raise errors.FailedPrecondition(
                f"tensor '{self._name}' cannot be read outside a lease: make it with "
                'off_lease="readable", or copy it with read()'
            )

    def discard(self) -> None:
        """Declares the content dead: nothing is written for it, and it reads as zeros."""
        _core.discard(self._state)

    def free(self) -> None:
        """Frees the tensor now. Raises FailedPrecondition while arrays or torch tensors use it."""
        self._state.free()

    def __getitem__(self, rows: slice) -> Part:
        if not isinstance(rows, slice):
            raise errors.InvalidArgument(
                f"tensor '{self._name}': only rows have parts, tensor[start:stop]; "
                "elements are those of a view: with runtime.lease(tensor) as view"
            )
        if not self._shape:
            raise errors.InvalidArgument(f"tensor '{self._name}' is a scalar and has no rows")
        try:
            start, stop, step = rows.indices(self._shape[0])
        except (TypeError, ValueError):
            start = stop = step = 0
        if step != 1 or start >= stop:
            raise errors.InvalidArgument(
                f"tensor '{self._name}' has {self._shape[0]} rows; [{rows.start}:{rows.stop}:"
                f"{rows.step}] is no run of them, at least one, with step 1"
            )
        return Part(self, start, stop)

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise errors.InvalidArgument(
            f"tensor '{self._name}' is no array: use numpy(), read(), or a view of a lease"
        )

    def __reduce__(self) -> NoReturn:
        raise errors.InvalidArgument(
            f"tensor '{self._name}' cannot be copied or pickled: it belongs to its runtime and "
            "process; send tensor.read()"
        )

    def __repr__(self) -> str:
        return f"sluice.Tensor({self._name!r}, shape={self._shape}, dtype={self.dtype})"
