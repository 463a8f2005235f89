"""Weights as a mapping, for hooks that fetch them by name: accelerate's AlignDevicesHook."""

from __future__ import annotations

import json
import os
import pathlib
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, NoReturn, Optional, Union

import torch

from ... import _core, _dtypes, errors
from ..._checks import path_of, text_of
from ..._options import Directory, Size
from ..._runtime import Runtime
from ..._tensor import Tensor
from ..._weights import NAMES, Weight, Weights

# Share of dram that weights take which were given out last; the rest is for those to come.
_GIVEN_SHARE = 0.5


class WeightsMap(Mapping[str, torch.Tensor]):
    """Weights by name, read from their files when asked for, within a budget.

        weights = sluice.torch.WeightsMap("models/llama", dram="4GiB")
        accelerate.hooks.attach_align_device_hook(
            model, execution_device="cpu", offload=True, weights_map=weights)

    source
        A source of ``Runtime.open_weights``; or the folder that accelerate's ``disk_offload`` made,
        with its index.json; or such an index as a mapping, as transformers makes it. Its entries
        are {"safetensors_file": path, "weight_name": name, "dtype": name}.
    dram
        Budget for weights, at least two of the largest.
    names
        Further keys: {key: name in the files}, for weights that are tied or renamed.
    folder
        The folder of an index that is given as a mapping and has entries without safetensors_file.
    options
        Further keys of docs/configuration.md, as ``sluice.Runtime`` takes them.

    A tensor is a view of its weight at one address, which must not be written. It is leased until
    others need the room; afterwards it shows the file through the page cache. The tensor is a copy
    if the index has another dtype than the file. Keys that are asked for in the same order again
    and again come ahead of need. ``close`` ends it. Raises as ``Runtime.open_weights``, TierFull
    (dram is too small), KeyError.
    """

    def __init__(self, source: Union[Directory, Mapping[str, Mapping[str, Any]]], *, dram: Size,
                 names: Optional[Mapping[str, str]] = None, folder: Optional[Directory] = None,
                 **options: Any) -> None:
        self._runtime = Runtime(dram=dram, **options)
        try:
            self._weights = _named(_opened(self._runtime, source, folder), {} if names is None else names)
            self._pages_max = self._budget()
        except BaseException:
            self._weights = {}
            self._runtime.close()
            raise
        self._lock = threading.Lock()
        self._first: Optional[str] = None
        # Pages and leases of the weights that were given out last, and the op of the very last one.
        self._given: deque[tuple[int, list[_core.HeldLease]]] = deque()
        self._pages = 0
        self._op: Optional[_core.Op] = None

    def close(self) -> None:
        """Ends it. Raises FailedPrecondition while tensors that it gave out are in use."""
        with self._lock:
            self._end_op()
            self._release(0)
        self._runtime.close()

    def stats(self) -> dict[str, Any]:
        """``Runtime.stats`` of the runtime below."""
        return self._runtime.stats()

    def __getitem__(self, name: str) -> torch.Tensor:
        weight, dtype = self._weights[name]
        view = weight.torch()
        if weight.tensor is not None:
            with self._lock:
                self._lease(name, weight, weight.tensor)
        return view if dtype is None else view.to(dtype)

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def __contains__(self, name: object) -> bool:
        return name in self._weights

    def __enter__(self) -> "WeightsMap":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        # The frames of an exception may hold weights; it matters more than they do.
        if kind is None or not self._runtime._in_use():
            self.close()

    def __reduce__(self) -> NoReturn:
        raise errors.InvalidArgument("a WeightsMap cannot be copied or pickled: make another one")

    def _budget(self) -> int:
        """Pages of weights that stay leased. Raises TierFull if two of the largest do not fit."""
        page = self._runtime.page_bytes
        budget = self._runtime.stats()["tiers"]["dram"]["budget_bytes"]
        sizes = {name: weight.nbytes for name, (weight, _) in self._weights.items()}
        largest = max(sizes, key=sizes.__getitem__, default=None)
        if largest is None:
            return int(budget // page * _GIVEN_SHARE)
        least = 2 * (sizes[largest] // page + 2) * page
        if least > budget:
            raise errors.TierFull(
                f"dram is {budget} bytes, and '{largest}' has {sizes[largest]}: "
                f"dram={least * self._runtime._share[1]} is the least in pages of {page} bytes"
            )
        return int(budget // page * _GIVEN_SHARE)

    def _lease(self, name: str, weight: Weight, tensor: Tensor) -> None:
        self._end_op()
        if self._first is None or name == self._first:
            self._first = name
            self._runtime._session.begin_iteration("weights")
        pages = weight.nbytes // self._runtime.page_bytes + 2
        self._release(max(0, self._pages_max - pages))
        self._op = _core.Op(self._runtime._session, name, None)
        held = self._op.acquire([(tensor._state, 0, weight.nbytes, "r", None)], None)
        self._given.append((pages, held))
        self._pages += pages

    def _end_op(self) -> None:
        op, self._op = self._op, None
        if op is not None:
            op.end()

    def _release(self, pages_max: int) -> None:
        """Ends the oldest leases until those left have as many pages at most."""
        while self._pages > pages_max:
            pages, held = self._given.popleft()
            for lease in held:
                lease.release()
            self._pages -= pages


_Found = dict[str, tuple[Weight, Optional[torch.dtype]]]


def _named(weights: _Found, names: Mapping[str, str]) -> _Found:
    """The weights with further keys."""
    if not isinstance(names, Mapping):
        raise errors.InvalidArgument(f"names is {names!r}; it must be a dict of keys, and names in the files")
    unknown = [name for name in names.values() if not isinstance(name, str) or name not in weights]
    if unknown:
        raise errors.InvalidArgument(f"names: the files have no {unknown[0]!r}")
    return {**weights, **{key: weights[name] for key, name in names.items()}}


def _opened(runtime: Runtime, source: Union[Directory, Mapping[str, Mapping[str, Any]]],
            folder: Optional[Directory]) -> _Found:
    """Each weight, and the dtype that it is given in unless that is its own."""
    if not isinstance(source, Mapping):
        path = pathlib.Path(path_of("source", source))
        if not (path / "index.json").is_file():
            return {name: (weight, None) for name, weight in runtime.open_weights(path).items()}
        folder = path if folder is None else folder
        index = _index_of(path / "index.json")
    else:
        index = source
    files: dict[str, Weights] = {}
    return {name: _indexed(runtime, files, name, entry, folder) for name, entry in index.items()}


def _indexed(runtime: Runtime, files: dict[str, Weights], name: str, entry: Mapping[str, Any],
             folder: Optional[Directory]) -> tuple[Weight, Optional[torch.dtype]]:
    if not isinstance(entry, Mapping):
        raise errors.InvalidArgument(f"the index has '{name}' as {entry!r}, not as a dict")
    file = entry.get("safetensors_file")
    if file is None:
        return _raw(runtime, name, entry, folder), None
    if file not in files:
        files[file] = runtime.open_weights(file)
    key = entry.get("weight_name", name)
    if key not in files[file]:
        raise errors.InvalidArgument(f"the index has '{name}' as '{key}' of {file}, which has no such tensor")
    weight = files[file][key]
    dtype = entry.get("dtype")
    if dtype in (None, weight.dtype):
        return weight, None
    known = getattr(torch, dtype, None) if isinstance(dtype, str) else None
    if not isinstance(known, torch.dtype):
        raise errors.InvalidArgument(f"the index has '{name}' as {dtype!r}, which is no dtype of torch")
    return weight, known


def _index_of(path: pathlib.Path) -> Mapping[str, Any]:
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise errors.InvalidArgument(f"{path} is no JSON: {error}") from None
    if not isinstance(index, Mapping):
        raise errors.InvalidArgument(f"{path} is {type(index).__name__}, not a dict of weights")
    return index


def _raw(runtime: Runtime, name: str, entry: Mapping[str, Any],
         folder: Optional[Directory]) -> Weight:
    """A weight that is alone in a file, as accelerate offloads it."""
    if folder is None:
        raise errors.InvalidArgument(
            f"'{name}' of the index has no safetensors_file: give the folder of its .dat file as folder="
        )
    path = os.path.join(path_of("folder", folder), f"{name}.dat")
    try:
        shape, dtype = torch.Size(entry["shape"]), text_of("dtype", entry["dtype"])
    except (KeyError, TypeError, errors.InvalidArgument):
        raise errors.InvalidArgument(
            f"the index has '{name}' as {dict(entry)!r}, without a shape and a dtype"
        ) from None
    element = _dtypes.parse("uint8" if dtype.startswith("float8") else dtype)
    nbytes = int(shape.numel()) * element.itemsize
    there = os.path.getsize(path) if os.path.exists(path) else None
    if there != nbytes:
        raise errors.InvalidArgument(
            f"'{name}' of the index is {dtype} of shape {tuple(shape)}, {nbytes} bytes; {path} "
            + ("does not exist" if there is None else f"has {there}")
        )
    if nbytes == 0:
        return Weight(name, shape, _format_of(dtype), 0, path, None)
    state = _core.create_tensor(runtime._session, name, [nbytes], "u8", "parameter", "nvme",
                                "readable", (path, 0, True))
    extents = (nbytes,) if dtype.startswith("float8") else shape
    tensor = Tensor(runtime, state, name, extents, element, "readable")
    return Weight(name, shape, _format_of(dtype), nbytes, path, tensor)


def _format_of(dtype: str) -> str:
    """The name of a type in safetensors files."""
    return next(type_ for type_, name in NAMES.items() if name == dtype)
