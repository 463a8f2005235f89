"""Types of elements: their names here, in NumPy, in PyTorch, in DLPack and in the library."""

from __future__ import annotations

import dataclasses
import difflib
from typing import Any, Optional

import numpy as np

from . import errors

# Codes of DLPack.
_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6


@dataclasses.dataclass(frozen=True)
class DType:
    """A type of elements. ``library`` is its name there, None where the library counts bytes."""

    name: str
    itemsize: int
    code: int
    library: Optional[str] = None

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return 8 * self.itemsize

    def numpy(self) -> np.dtype[Any]:
        """The type in NumPy. bfloat16 needs the package ml_dtypes."""
        if self.name != "bfloat16":
            return np.dtype(self.name)
        try:
            import ml_dtypes
        except ImportError:
            raise errors.InvalidArgument(
                "NumPy has no bfloat16: use torch(), or pip install ml_dtypes"
            ) from None
        found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return found


_ALL = {
    dtype.name: dtype
    for dtype in (
        DType("float32", 4, _FLOAT, "f32"),
        DType("float16", 2, _FLOAT, "f16"),
        DType("bfloat16", 2, _BFLOAT, "bf16"),
        DType("float64", 8, _FLOAT),
        DType("int8", 1, _INT, "i8"),
        DType("int16", 2, _INT),
        DType("int32", 4, _INT, "i32"),
        DType("int64", 8, _INT, "i64"),
        DType("uint8", 1, _UINT, "u8"),
        DType("uint16", 2, _UINT),
        DType("uint32", 4, _UINT),
        DType("uint64", 8, _UINT),
        DType("bool", 1, _BOOL),
    )
}
_SHORT = {dtype.library: dtype for dtype in _ALL.values() if dtype.library} | {
    "f64": _ALL["float64"],
    "fp32": _ALL["float32"],
    "fp16": _ALL["float16"],
    "fp64": _ALL["float64"],
}


def parse(dtype: object) -> DType:
    """The type for a name ("float32", "bf16"), a dtype of NumPy or PyTorch, or a Python type."""
    name = _name_of(dtype)
    found = _ALL.get(name) or _SHORT.get(name)
    if found is not None:
        return found
    close = difflib.get_close_matches(name, [*_ALL, *_SHORT], n=1)
    hint = f'; did you mean "{close[0]}"?' if close else ""
    raise errors.InvalidArgument(f'dtype is "{name}"; allowed are {", ".join(_ALL)}{hint}')


def _name_of(dtype: object) -> str:
    if isinstance(dtype, str):
        return dtype
    text = str(dtype)
    if dtype is None:  # float64 to NumPy
        return text
    if text.startswith("torch."):
        return text.removeprefix("torch.")
    try:
        found = np.dtype(dtype)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return text
    if not found.isnative:
        raise errors.InvalidArgument(f"dtype is {found!r}: elements are in the machine's byte order")
    return str(found.name)
