"""The runtime: budgets of the tiers, and the tensors in them."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, NoReturn, Optional, Union, overload

from . import _core, _dtypes, _exit, _options, _trace, _weights, errors
from ._checks import extents_of, path_of, text_of, whole_of
from ._lease import Item, Iteration, Leasable, Lease, Op, part_of, request
from ._options import Directory, Size
from ._tensor import Tensor
from ._view import View

_log = logging.getLogger("sluice")


class Runtime:
    """Tensors that are larger than the memory they are used in.

    hbm, dram, nvme_bytes
        Budgets in bytes, as a count or as text ("8GiB"). dram is needed; it alone will do.
        hbm is the emulated device: host memory that stands for a GPU's.
    nvme
        Directory of the spill file, or a list with one per drive. It must exist, belong to you, and
        not be writable by others. None: /var/tmp/sluice-<uid>.
    share
        (number, count) of this process among those of the host. Each has one part in count of dram,
        nvme_bytes, io.bytes_in_flight, io.queue_depth and workers.threads (at least 1 of these two),
        and the limit of locked memory; all other options hold for each process. None: by LOCAL_RANK
        and LOCAL_WORLD_SIZE, which torchrun sets; else all of them.
    options
        Any key of docs/configuration.md but model.* and train.*, its sections as dicts: ``page_bytes="1MiB"``,
        ``io={"queue_depth": 64}``, ``scheduler={"policy": "lru"}``, or ``**{"io.queue_depth": 64}``.

    Raises InvalidArgument (names the option and what is meant), TierFull (the machine has less),
    PermissionDenied, FailedPrecondition. Threads: any. A runtime belongs to the process that made
    it: in a child of fork every call raises, and the child makes its own.
    """

    _session: _core.Session
    # The sluice.torch.offload_activations of this runtime, once there are any.
    _activations: Any = None
    # Number and count of the processes that divide the budgets; whether the program has said it.
    _share: tuple[int, int] = (0, 1)
    _share_is_given = False

    def __init__(self, *, hbm: Optional[Size] = None, dram: Optional[Size] = None,
                 nvme: Union[None, Directory, "list[Directory]"] = None,
                 nvme_bytes: Optional[Size] = None, share: Optional[tuple[int, int]] = None,
                 **options: Any) -> None:
        if nvme is not None and nvme_bytes is None:
            raise errors.InvalidArgument(
                'nvme is a directory, and nvme_bytes says how much of it: nvme_bytes="64GiB"'
            )
        own, more = _options.tier_values(hbm, dram, nvme, nvme_bytes)
        self._open(None, _options.assignments(own, {**options, **more}), share)

    @classmethod
    def from_file(cls, path: Directory, *, share: Optional[tuple[int, int]] = None,
                  **options: Any) -> "Runtime":
        """A runtime by a TOML file (docs/configuration.md), and options that win over it."""
        runtime = cls.__new__(cls)
        runtime._open(path_of("path", path), _options.assignments({}, options), share)
        return runtime

    def _open(self, path: Optional[str], assignments: list[str],
              share: Optional[tuple[int, int]]) -> None:
        self._share = index, count = _options.share_of(share, os.environ)
        self._share_is_given = share is not None
        try:
            self._session = _core.open(path, assignments, self._share)
        except errors.Error as error:
            raise _options.without_flag(error) from None
        self._blocks = _trace.Blocks()
        _exit.close_at_exit(self._session)
        _core.name_stray_touches()
        self._pass_on_log()
        if count > 1:
            _log.info("process %d of %d of this host: it has 1/%d of the budgets of dram and nvme, of queue "
                      "depths, threads and locked memory", index, count, count)

    # --- tensors ---

    def tensor(self, shape: Union[int, Sequence[int]], dtype: object = "float32", *,
               name: Optional[str] = None, kind: str = "other", lowest: str = "nvme",
               file: Union[None, Directory, tuple[Directory, int]] = None,
               off_lease: Optional[str] = None) -> Tensor:
        """A tensor of zeros, or of the bytes of a file.

        shape
            Elements per dimension, row-major, each at least 1; ``()`` is a scalar.
        dtype
            "float32", "bfloat16", ...: by name, or a dtype of NumPy or PyTorch.
        name
            Appears in messages, reports and schedules; None: "tensor".
        kind
            "parameter", "gradient", "optimizer", "activation", "kv" or "other": reports group by it.
        lowest
            The lowest tier that its pages may reach: "nvme", "dram" or "hbm".
        file
            A file, or (file, first byte): the first home of the elements, which is never written.
        off_lease
            What the memory shows outside a lease. "readable": the newest elements, read-only, by
            ``Tensor.numpy`` and by arrays of leases in dram; a write is a SIGSEGV that names the
            tensor. "none": a touch is a SIGSEGV, or meets old elements; it costs nothing. None:
            "readable", and "none" for a tensor that is never in dram (``lowest="hbm"``).

        Raises InvalidArgument; TierFull (no capacity for all pages; names the need and the rest).
        """
        kind, lowest = text_of("kind", kind, '"parameter"'), text_of("lowest", lowest, '"nvme"')
        if off_lease is None:
            off_lease = "none" if lowest == "hbm" else "readable"
        off_lease = text_of("off_lease", off_lease, '"readable"')
        element = _dtypes.parse(dtype)
        extents = extents_of(shape)
        called = "tensor" if name is None else text_of("name", name)
        library, counted = _library_type(element, extents)
        state = _core.create_tensor(
            self._session, called, counted, library, kind, lowest, off_lease, _home(file)
        )
        return Tensor(self, state, called, extents, element, off_lease)

    def open_weights(self, path: Directory, *, off_lease: str = "readable") -> _weights.Weights:
        """The tensors of a checkpoint by name, read from its safetensors files in place.

        path
            A safetensors file, an index of several, or a directory with one index or one file.
        off_lease
            As for ``tensor``. "readable": the memory shows the files outside a lease.

        Nothing is converted, copied or written, and no tier keeps room for the tensors. They are
        leased with mode "r" alone: ``runtime.lease(weights["wte.weight"].tensor)``.
        Raises NotFound, InvalidArgument (names file and tensor), FailedPrecondition (a file changed
        meanwhile). A file that changes later is DataLoss at a lease.
        """
        off_lease = text_of("off_lease", off_lease, '"readable"')
        return _weights.Weights(self, path_of("path", path), off_lease)

    # --- leases ---

    @overload
    def lease(self, item: Item, /, *, mode: str = ..., tier: Optional[str] = ...,
              timeout: Optional[float] = ...) -> Lease[View]: ...
    @overload
    def lease(self, first: Item, second: Item, /, *more: Item, mode: str = ...,
              tier: Optional[str] = ..., timeout: Optional[float] = ...,
              ) -> Lease[tuple[View, ...]]: ...
    def lease(self, *items: Item, mode: str = "r", tier: Optional[str] = None,
              timeout: Optional[float] = None) -> Any:
        """A lease of tensors or rows of them, for a ``with`` block: all at once, or none.

        items
            ``tensor``, ``tensor[10:20]``, or ``(tensor, "rw")`` for a mode of its own.
        mode
            "r": read. "rw": change. "w": write all anew; nothing is paged in, and the elements are
            undefined until written.
        tier
            "hbm" or "dram"; None: the fastest tier with a budget.
        timeout
            Seconds to wait at most; None: any time. TimedOut is raised then.

        Items may have elements in common: a "w" keeps them where another item reads or changes them.
        The pages of one lease fit into its tier at once. Entering raises InvalidArgument, TierFull,
        DataLoss, Unavailable, WouldDeadlock, Cancelled, TimedOut, FailedPrecondition; waiting ends
        with Ctrl-C.
        """
        return Lease(self, items, mode, tier, timeout, None)

    def op(self, name: str, *, lane: Optional[str] = None) -> Op:
        """A step of the program, for a ``with`` block; its ``lease`` works as the runtime's.

        Ops of one lane run one after another. None: a lane of the thread's own.
        """
        return Op(self, name, lane)

    def iteration(self, key: str) -> Iteration:
        """One iteration of ``key``, for a ``with`` block: the first is recorded, then planned."""
        return Iteration(self, key)

    def prefetch(self, *items: Leasable, mode: str = "r", tier: Optional[str] = None) -> None:
        """A hint that leases of these come soon."""
        parts = [part_of(item, self) for item in items]
        self._session.prefetch([request(part, mode, tier) for part in parts], 0)

    # --- reports ---

    def stats(self) -> dict[str, Any]:
        """Counters since the start, nested by link, tier and purpose; bytes and seconds."""
        stats = self._session.stats()
        self._pass_on_log()
        return stats

    def health(self) -> dict[str, Any]:
        """{"state": "ok", "degraded" or "dead", "reasons": [a sentence, ...]}"""
        return self._session.health()

    def schedule(self, key: str) -> dict[str, Any]:
        """The recorded ops of an iteration key: tensors, and per op its name, seconds, accesses.

        Raises NotFound before the key's first iteration has ended.
        """
        return self._session.schedule(text_of("the key of an iteration", key))

    def trace(self, path: Directory) -> AbstractContextManager[None]:
        """Writes a timeline of the ``with`` block to ``path``: Perfetto and chrome://tracing read it.

        Tracks: each direction of a link with its transfers, by tensor; "file in", the reads from
        files of weights and of other homes, by tensor; "stall", by op; and what the
        program begins and ends meanwhile, "iteration" and "op", with leases outside an op.
        """
        return _trace.trace(self._session, self._blocks, path_of("path", path))

    def set_budget(self, tier: str, size: Size) -> None:
        """Shrinks "hbm" or "dram" of this process, or grows it up to its budget at the start."""
        self._session.set_budget(text_of("tier", tier, '"dram"'), _options.parse_size("size", size))

    @property
    def page_bytes(self) -> int:
        """Bytes of a page, the unit of transfer."""
        return self._session.page_bytes

    # --- the end ---

    @property
    def closed(self) -> bool:
        """Whether the runtime was closed."""
        return self._session.closed

    def close(self) -> None:
        """Waits for transfers in flight, and frees everything; again: nothing.

        Raises FailedPrecondition, and changes nothing, while leases, arrays, torch tensors or saved
        tensors of autograd use the memory; the message names them. A runtime that is not closed ends
        with its last use, at the latest with the interpreter.
        """
        users = self._in_use()
        if users and not self.closed:
            raise errors.FailedPrecondition("the runtime is in use: " + "; ".join(users))
        if self._activations is not None:
            self._activations.stop()
        self._session.close()
        self._pass_on_log()

    def __enter__(self) -> "Runtime":
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        # The frames of an exception may hold views; it matters more than they do.
        if kind is None or not self._in_use():
            self.close()

    def _in_use(self) -> list[str]:
        saved: list[str] = [] if self._activations is None else self._activations.in_use()
        return self._session.in_use() + saved

    def __reduce__(self) -> NoReturn:
        raise errors.InvalidArgument(
            "a runtime cannot be copied or pickled: it belongs to its process; another process makes "
            "its own"
        )

    def __repr__(self) -> str:
        return f"<sluice.Runtime, {'closed' if self.closed else 'open'}>"

    def _pass_on_log(self) -> None:
        """Hands the library's log to the logger "sluice"."""
        for level, line in self._session.take_log():
            _log.log(level, "%s", line)


def _library_type(dtype: _dtypes.DType, shape: tuple[int, ...]) -> tuple[str, list[int]]:
    """The element type of the library, which pages bytes: those of types that it does not name."""
    if dtype.library is not None:
        return dtype.library, list(shape)
    return "u8", [*shape, dtype.itemsize]


def _home(file: Union[None, Directory, tuple[Directory, int]]) -> Optional[tuple[str, int, bool]]:
    """Path, first byte, and whether it is only read."""
    if file is None:
        return None
    path, offset = file if isinstance(file, tuple) and len(file) == 2 else (file, 0)
    return path_of("file", path), whole_of("file: the first byte", offset), False
