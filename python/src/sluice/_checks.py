"""Arguments of public functions that have the wrong type: an error names each."""

from __future__ import annotations

import operator
import os
import reprlib
from collections.abc import Sequence
from typing import Optional, Union

from . import errors


def text_of(name: str, value: object, example: str = "") -> str:
    """The text. Raises InvalidArgument for what is no text, or is none in UTF-8."""
    if isinstance(value, str):
        try:
            value.encode()
            return value
        except UnicodeEncodeError:
            pass
    hint = f", for example {example}" if example else ""
    raise errors.InvalidArgument(f"{name} is {reprlib.repr(value)}; it must be text{hint}")


def path_of(name: str, value: object) -> str:
    """The path as text. Raises InvalidArgument for what is none."""
    if isinstance(value, (str, bytes, os.PathLike)):
        path = os.fsdecode(value)
        try:
            if "\0" not in path and path.encode():
                return path
        except UnicodeEncodeError:
            pass
    raise errors.InvalidArgument(
        f"{name} is {reprlib.repr(value)}; it must be a path: text in UTF-8, or an os.PathLike"
    )


def whole_of(name: str, value: object) -> int:
    """A whole number from 0 on, of 63 bits. Raises InvalidArgument for others."""
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not 0 <= number < 1 << 63:
        raise errors.InvalidArgument(f"{name} is {reprlib.repr(value)}; it must be a whole number, at least 0")
    return number


def seconds_of(name: str, value: object) -> Optional[float]:
    """Seconds, or None. Raises InvalidArgument for what is no number of them."""
    if value is None:
        return None
    try:
        seconds = -1.0 if isinstance(value, (str, bytes, bool)) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, RuntimeError):
        seconds = -1.0
    if not seconds >= 0:
        raise errors.InvalidArgument(f"{name} is {reprlib.repr(value)}; it must be a number of seconds, or None")
    return seconds


def extents_of(shape: Union[int, Sequence[int]]) -> tuple[int, ...]:
    """Elements per dimension; a number alone is one dimension. Raises InvalidArgument for others."""
    try:
        extents = tuple(operator.index(each) for each in shape)  # type: ignore[union-attr]
    except TypeError:
        try:
            extents = (operator.index(shape),)  # type: ignore[arg-type]
        except TypeError:
            extents = (0,)
    if any(extent < 1 or extent > 1 << 62 for extent in extents):
        raise errors.InvalidArgument(
            f"shape is {shape!r}; it must be whole numbers of at least 1, for example (4096, 4096)"
        )
    return extents
