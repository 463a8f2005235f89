"""A stash: the bytes of a storage as they were when autograd saved a tensor on it."""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .. import _core, errors

if TYPE_CHECKING:
    from ._order import Pass
    from ._pager import Pager

# A storage, the version of the tensors on it, the first byte and the number of bytes.
Key = tuple[int, int, int, int]
# A copy up, and the tensor that it fills.
Coming = tuple[_core.BackgroundCopy, torch.Tensor]


class Saved(NamedTuple):
    """Entry that autograd keeps for a saved tensor: a stash, and the tensor's place in it."""

    stash: "Stash"
    dtype: torch.dtype
    offset: int  # bytes from the start of the stash
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    def on(self, base: torch.Tensor) -> torch.Tensor:
        """The tensor on the bytes of ``base``, whose version counter it shares."""
        itemsize = self.dtype.itemsize
        elements = base[: base.numel() // itemsize * itemsize].view(self.dtype)
        return elements.as_strided(self.shape, self.stride, self.offset // itemsize)

    def on_source(self, source: torch.Tensor, first: int) -> torch.Tensor:
        """The tensor on the storage that it was saved on, of which the stash begins at ``first``."""
        offset = (first + self.offset) // self.dtype.itemsize
        if source.dtype == self.dtype:
            return source.as_strided(self.shape, self.stride, offset)
        empty = torch.empty(0, dtype=self.dtype, device="cpu")
        return empty.set_(source.untyped_storage(), offset, self.shape, self.stride)


class Stash:
    """Bytes in PyTorch's memory, in the runtime, or on their way there.

    In turn: ``source`` has them; ``down`` copies ``source`` there; once it has ended and the version is the same still,
    the bytes are the runtime's alone. If it fails, ``source`` stays. If the version is another, the
    bytes are of no version, and ``changed`` is set. If the storage has moved to shared memory, the
    copy may have read memory that was free, and ``source`` stays.
    """

    __slots__ = ("__weakref__", "address", "changed", "down", "first", "index", "names", "pager",
                 "run", "size", "source", "state", "up", "version")

    run: "Pass"
    index: int

    def __init__(self, pager: "Pager", source: torch.Tensor, version: int, first: int,
                 size: int) -> None:
        self.pager = pager
        self.state: Optional[_core.TensorState] = None
        self.source: Optional[torch.Tensor] = source
        self.address = source.data_ptr()
        self.version = version
        self.first = first
        self.size = size
        self.changed: Optional[str] = None
        self.down: Optional[_core.BackgroundCopy] = None
        self.up: Optional[Coming] = None
        # No other storage gets the address in a key while the storage is referred to.
        self.names: list[tuple[Key, StorageWeakRef]] = []

    def known_as(self, storage: torch.UntypedStorage, version: int, first: int) -> None:
        """Has tensors on ``storage`` share this stash while their version is ``version``."""
        key = (storage._cdata, version, first, self.size)
        self.names.append((key, StorageWeakRef(storage)))
        self.pager.known[key] = weakref.ref(self)

    def forget_gone(self) -> bool:
        """Forgets the storages that are gone, and returns whether that is all of them.

        A weak reference holds the small object of its storage, which lies between two blocks of
        bytes: the C library could not join these, and would use neither for the next tensor.
        """
        for name in list(self.names):
            key, storage = name
            if storage.expired():
                self.pager.known.pop(key, None)
                with contextlib.suppress(ValueError):  # another thread was faster
                    self.names.remove(name)
        return not self.names

    def buffer(self) -> Optional[torch.Tensor]:
        """The bytes as they are to be copied down; None: their storage was freed or changed since."""
        source = self.source
        if source is None or source._version != self.version:
            return None
        storage = source.untyped_storage()
        if storage.nbytes() < self.first + self.size:
            return None
        self.address = source.data_ptr()
        return torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage, self.first, (self.size,))

    @property
    def is_under_way(self) -> bool:
        """Whether a copy up has begun, and has not ended."""
        coming = self.up
        return coming is not None and not coming[0].ended

    def is_of_its_version(self) -> bool:
        """Whether no change is known: tensors of another counter may have the version still."""
        source = self.source
        return self.changed is None and (source is None or source._version == self.version)

    def settle(self) -> None:
        """Looks at what has come of the copy down, once it has ended."""
        down, source = self.down, self.source
        if down is None or source is None or not down.ended:
            return
        try:
            down.wait()
        except errors.Error as error:
            self.pager.say_kept(error)
            self.state = None
        else:
            moved = source.data_ptr() != self.address
            if source._version != self.version:
                self.changed = describe_change(source, self.version)
            if moved or self.changed is not None:
                self.state = None
            if not moved:
                self.source = None
        self.down = None


class Parameters:
    """The storages of parameters, and of views of them, that were saved. Those that are gone are forgotten."""

    def __init__(self) -> None:
        self._known: dict[int, StorageWeakRef] = {}
        self._most = 64  # entries at which those of dead storages go

    def have(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor lies on the storage of a parameter."""
        parameter = torch.nn.Parameter
        key = tensor.untyped_storage()._cdata
        if isinstance(tensor, parameter) or isinstance(tensor._base, parameter):
            if key not in self._known:
                if len(self._known) >= self._most:
                    self._drop_expired()
                self._known[key] = StorageWeakRef(tensor.untyped_storage())
            return True
        return key in self._known

    def _drop_expired(self) -> None:
        for key, reference in list(self._known.items()):
            if reference.expired():
                self._known.pop(key, None)
        self._most = 2 * len(self._known) + 64


def describe_change(tensor: torch.Tensor, version: int) -> str:
    """The message for a saved tensor that was changed in place."""
    return (
        f"a tensor that backward needs was changed in place after it was saved: {tensor.dtype} of "
        f"shape {tuple(tensor.shape)} is at version {tensor._version}, saved at version {version}. "
        "Change a clone, or change it before it is used"
    )


def refuse_changed(tensor: torch.Tensor, version: int) -> None:
    """Raises FailedPrecondition if the tensor has another version."""
    if tensor._version != version:
        raise errors.FailedPrecondition(describe_change(tensor, version))


def plain(tensor: torch.Tensor) -> bool:
    """Whether the tensor's elements are the bytes of a storage in host memory."""
    kind: Any = type(tensor)
    return (
        (kind is torch.Tensor or kind is torch.nn.Parameter)
        and tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and not tensor.is_nested
        and not tensor.is_quantized
        and not tensor.is_conj()
        and not tensor.is_neg()
    )


def span_of(tensor: torch.Tensor, storage_bytes: int) -> tuple[int, int]:
    """First byte and bytes of what is stashed for a tensor.

    The whole storage, so that all tensors on it share it; or the tensor's own elements where they
    span less than half of it.
    """
    itemsize = tensor.element_size()
    extent = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride())) + 1
    if 2 * extent * itemsize >= storage_bytes:
        return 0, storage_bytes
    return tensor.storage_offset() * itemsize, extent * itemsize
