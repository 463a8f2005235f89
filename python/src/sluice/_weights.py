"""Weights of a checkpoint: tensors that are read from its safetensors files in place."""

from __future__ import annotations

import dataclasses
import math
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from . import _core, _dtypes, _torch, errors
from ._options import Directory
from ._tensor import Tensor

if TYPE_CHECKING:
    import torch

    from ._runtime import Runtime

# Types of the format by the name that PyTorch has for them; NumPy has the first eleven.
NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8",
    "BOOL": "bool", "BF16": "bfloat16", "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
}
# Types whose elements a Tensor has; it has the others as bytes.
_ELEMENTS = {type_: name for type_, name in NAMES.items()
             if not name.startswith(("float8", "complex"))}


@dataclasses.dataclass(frozen=True, eq=False)
class Weight:
    """A tensor of a checkpoint, as its file has it.

    shape
        Elements per dimension.
    type
        Name of the element type in the format: "BF16", "F8_E4M3", "F4".
    nbytes
        Bytes of the elements.
    file
        Path of the file that has it.
    tensor
        The tensor to lease, with mode "r". It has plain bytes if ``sluice.Tensor`` does not know
        the type. None: the weight has no elements.
    """

    name: str
    shape: tuple[int, ...]
    type: str
    nbytes: int
    file: str
    tensor: Optional[Tensor]

    @property
    def dtype(self) -> Optional[str]:
        """Name of the element type in PyTorch; None: PyTorch has none."""
        return NAMES.get(self.type)

    def numpy(self) -> "np.ndarray[Any, Any]":
        """A read-only NumPy array that shows the file, as ``Tensor.numpy``."""
        if self.tensor is None:
            return np.empty(self.shape, _dtypes.parse(self._element()).numpy())
        return self.tensor.numpy()

    def torch(self) -> "torch.Tensor":
        """A torch tensor that shows the file and needs no lease; a write to it is a SIGSEGV.

        Within a lease of ``tensor`` it reads the same memory, at the same address. It keeps the
        runtime. Raises InvalidArgument for a type that PyTorch has not, FailedPrecondition as
        ``Tensor.numpy``.
        """
        package = _torch.imported("weight.torch()")
        dtype = getattr(package, self.dtype or "", None)
        if dtype is None:
            raise errors.InvalidArgument(
                f"weight '{self.name}' is {self.type}, which this PyTorch has not; its bytes are "
                "those of weight.tensor"
            )
        if self.tensor is None:
            empty: torch.Tensor = package.empty(self.shape, dtype=dtype, device="cpu")
            return empty
        self.tensor._refuse_hidden()
        elements = _torch.tensor_off_lease(self.tensor)
        return elements if elements.dtype == dtype else elements.view(dtype).view(self.shape)

    def _element(self) -> str:
        return _ELEMENTS.get(self.type, "uint8")

    def __repr__(self) -> str:
        return f"sluice.Weight({self.name!r}, shape={self.shape}, type={self.type})"


def frames_bytes(path: Directory, page_bytes: int) -> Optional[int]:
    """Bytes of dram that hold every page of the checkpoint's files; None: there are none here.

    They may be more than are opened: all files beside an index count.
    """
    place = pathlib.Path(path)
    folder = place.parent if place.name.endswith(".index.json") else place
    files = folder.glob("*.safetensors") if folder.is_dir() else [folder]
    pages = [-(-file.stat().st_size // page_bytes) for file in files if file.is_file()]
    return sum(pages) * page_bytes if pages else None


class Weights(Mapping[str, Weight]):
    """The weights of a checkpoint by name, in the order of files and bytes.

    ``Runtime.open_weights`` makes them. Each is freed with its last use.
    """

    def __init__(self, runtime: "Runtime", path: str, off_lease: str) -> None:
        self._runtime = runtime
        self._off_lease = off_lease
        self._path = path
        self._weights: dict[str, Weight] = {}
        for name, type_, shape, nbytes, file, state in _core.open_weights(
            runtime._session, path, off_lease
        ):
            self._weights[name] = self._weight(name, tuple(shape), type_, nbytes, file, state)

    def _fused(self, name: str, shape: tuple[int, ...], parts: Sequence[Weight]) -> Weight:
        """A weight of the bytes of others, one behind the other. It is not kept here.

        Workers put it together when it is leased. Outside a lease a touch is a SIGSEGV. Raises
        InvalidArgument.
        """
        self._refuse_parts(name, shape, parts)
        states = [each.tensor._state for each in parts if each.tensor is not None]
        nbytes = sum(each.nbytes for each in parts)
        state = _core.join_tensors(
            self._runtime._session, name, states, nbytes, "none") if states else None
        return self._weight(name, shape, parts[0].type, nbytes, parts[0].file, state)

    def _refuse_parts(self, name: str, shape: tuple[int, ...], parts: Sequence[Weight]) -> None:
        """Raises InvalidArgument for parts of another runtime, of several types, or of another size."""
        for each in parts:
            if each.tensor is not None and each.tensor._runtime is not self._runtime:
                raise errors.InvalidArgument(
                    f"'{name}' is fused, and its part '{each.name}' belongs to another runtime: open "
                    "the weights of both with one"
                )
            if each.type != parts[0].type:
                raise errors.InvalidArgument(
                    f"'{name}' is fused of '{parts[0].name}', which is {parts[0].type}, and of "
                    f"'{each.name}', which is {each.type}: nothing is converted"
                )
        elements = sum(math.prod(each.shape) for each in parts)
        if not parts or math.prod(shape) != elements:
            raise errors.InvalidArgument(
                f"'{name}' is fused with shape {shape}, and its parts have {elements} elements"
            )

    def _weight(self, name: str, shape: tuple[int, ...], type_: str, nbytes: int, file: str,
                state: Optional[_core.TensorState]) -> Weight:
        tensor = None
        if state is not None:
            known = _ELEMENTS.get(type_)
            element = _dtypes.parse(known or "uint8")
            extents = shape if known else (nbytes,)
            tensor = Tensor(self._runtime, state, name, extents, element, self._off_lease)
        return Weight(name, shape, type_, nbytes, file, tensor)

    @property
    def path(self) -> str:
        """Path that was opened."""
        return self._path

    @property
    def nbytes(self) -> int:
        """Bytes of all weights."""
        return sum(weight.nbytes for weight in self._weights.values())

    def __getitem__(self, name: str) -> Weight:
        return self._weights[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def __repr__(self) -> str:
        return f"<sluice.Weights of {self._path}: {len(self)} tensors, {self.nbytes} bytes>"
