"""Views: the elements of a lease, inside its with block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn, Optional

import numpy as np
import numpy.lib.mixins

from . import _core, _torch, errors
from ._tensor import Part

if TYPE_CHECKING:
    import torch


class View(numpy.lib.mixins.NDArrayOperatorsMixin):
    """The elements of a leased tensor, at an address that never changes.

    A view works like a NumPy array inside the ``with`` block of its lease: ``view[...]``,
    ``view += 1``, ``np.sum(view)``. ``numpy()`` is that array, and ``torch()`` a torch tensor on
    the same memory.

    After the block every use of the view raises FailedPrecondition. Arrays and torch tensors that
    were taken from it must not be written then (SIGSEGV). In dram they may be read, unless
    the tensor has ``off_lease="none"``; in hbm their pages may be gone.
    The views of a read lease are not writeable in NumPy. PyTorch has no such tensors: a write
    through one is a SIGSEGV, and FailedPrecondition at the end of the block with ``off_lease="none"``.
    """

    def __init__(self, part: Part, mode: str, held: _core.HeldLease) -> None:
        self._part = part
        self._mode = mode
        self._held = held
        self._array: Optional[np.ndarray[Any, Any]] = None
        self._tensor: Optional[torch.Tensor] = None
        self._version = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Elements per dimension."""
        return self._part.shape

    @property
    def dtype(self) -> str:
        """Name of the element type."""
        return self._part.tensor.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of the view."""
        return self._part.nbytes

    @property
    def tier(self) -> str:
        """Tier of the lease: "hbm0" or "dram0"."""
        return self._held.tier

    def numpy(self) -> np.ndarray[Any, Any]:
        """The NumPy array on the lease's memory; the same one in the whole block."""
        self._held.check()
        if self._array is None:
            dtype = self._part.tensor._dtype.numpy()
            self._array = np.ndarray(self.shape, dtype, buffer=memoryview(self._held.lend()))
        return self._array

    def torch(self) -> "torch.Tensor":
        """The torch tensor on the lease's memory; the same one in the whole block.

        All torch tensors of one sluice tensor and tier share one storage, in this lease and in
        later ones. It keeps the runtime alive.
        """
        self._held.check()
        if self._tensor is None:
            whole = _torch.tensor_on(self._part.tensor, self._held)
            part = self._part
            self._tensor = whole if part.shape == tuple(whole.shape) else whole[part.start : part.stop]
            self._version = self._tensor._version
        return self._tensor

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray[Any, Any]:
        array = self.numpy()
        if dtype is not None and array.dtype != np.dtype(dtype):
            if copy is False:
                raise ValueError(f"a view of {self.dtype} is no {np.dtype(dtype)} without a copy")
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        outs = options.get("out", ())
        if outs:
            options["out"] = tuple(_array_of(out) for out in outs)
        result = getattr(ufunc, method)(*(_array_of(each) for each in inputs), **options)
        # view += 1 keeps the view.
        return outs[0] if len(outs) == 1 and isinstance(outs[0], View) else result

    def __getitem__(self, key: Any) -> Any:
        return self.numpy()[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.numpy()[key] = _array_of(value)

    def __len__(self) -> int:
        return len(self.numpy())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.numpy())

    def __reduce__(self) -> NoReturn:
        raise errors.InvalidArgument(
            f"a view of '{self._part.tensor.name}' cannot be copied or pickled: send view.numpy().copy()"
        )

    def __repr__(self) -> str:
        name = self._part.tensor.name
        return f"sluice.View({name!r}, shape={self.shape}, dtype={self.dtype}, mode={self._mode!r})"

    def _end(self) -> Optional[errors.Error]:
        """Releases the lease. Returns the error of a write through a read lease."""
        array, self._array = self._array, None
        tensor, self._tensor = self._tensor, None
        self._held.release()
        if array is not None:
            array.setflags(write=False)
        if tensor is None or self._mode != "r" or tensor._version == self._version:
            return None
        return errors.FailedPrecondition(
            f"a torch operation has written '{self._part.tensor.name}' in place through a read lease: "
            'the change may be lost; lease it with mode="rw"'
        )


def _array_of(value: Any) -> Any:
    return value.numpy() if isinstance(value, View) else value
