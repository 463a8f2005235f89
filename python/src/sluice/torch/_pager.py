"""Stashes of a runtime: copied down in the background, and back ahead of their use."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import logging
import weakref
from collections import OrderedDict, deque
from typing import Optional

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .. import _core, errors
from .._runtime import Runtime
from ._order import Orders
from ._stash import Coming, Key, Parameters, Saved, Stash, plain, refuse_changed, span_of

_log = logging.getLogger("sluice")

# Stashes looked at per save or use for storages that are gone.
_LOOKS_MAX = 16

# Most bytes, or one storage: on their way down; on their way up ahead of need; kept for more uses.
_WINDOW_BYTES = 64 << 20
# Bytes saved last, which stay: backward uses them first.
_LATEST_BYTES = _WINDOW_BYTES
# Stashes in each of these at most, but for those on their way down: of small ones fewer bytes suffice.
_WINDOW_STASHES = 256


class Pager:
    """The saved tensors of one runtime. It does not keep the Runtime object, but its session."""

    def __init__(self, runtime: Runtime) -> None:
        self._session = runtime._session
        self._down = _core.copier_in(self._session)
        self._up = _core.copier_out(self._session)
        # Copies under way have their pages in dram. More than half of it would push itself out.
        self._under_way_max = runtime.stats()["tiers"]["dram"]["budget_bytes"] // 2
        self._orders = Orders()
        # Stashes that live, by the storages and versions that they are known as.
        self.known: dict[Key, weakref.ref[Stash]] = {}
        self._stashes: dict[int, weakref.ref[Stash]] = {}  # stashes by id
        self._latest: OrderedDict[int, int] = OrderedDict()  # bytes of storages, by id of stashes not sent yet
        self._going_down: deque[weakref.ref[Stash]] = deque()
        # Stashes that are in the runtime alone, though storages that they are known as may live.
        self._down_whole: deque[weakref.ref[Stash]] = deque()
        # Bytes that come ahead of need, and bytes copied back lately, by id of the stash.
        self._coming_up: dict[int, int] = {}
        self._back: OrderedDict[int, torch.Tensor] = OrderedDict()
        self._parameters = Parameters()
        self._said: set[str] = set()
        self.counts = dict.fromkeys(
            ("stashed", "stashed_bytes", "shared", "from_memory", "fetched", "ahead", "full"), 0
        )
        _pagers.add(self)

    # --- forward ---

    def stash(self, tensor: torch.Tensor, min_bytes: int) -> Optional[Saved]:
        """Has the tensor's bytes copied down, if they are as many. None: it stays."""
        if not plain(tensor) or self._parameters.have(tensor):
            return None
        storage = tensor.untyped_storage()
        first, size = span_of(tensor, storage.nbytes())
        if size < min_bytes:  # an expanded tensor
            return None
        version = tensor._version
        reference = self.known.get((storage._cdata, version, first, size))
        stash = reference() if reference is not None else None
        if stash is None or not stash.is_of_its_version():
            stash = self._begin(tensor, storage, first, size)
        else:
            self.counts["shared"] += 1
        offset = tensor.storage_offset() * tensor.element_size() - first
        return Saved(stash, tensor.dtype, offset, tuple(tensor.shape), tensor.stride())

    def _begin(self, tensor: torch.Tensor, storage: torch.UntypedStorage, first: int, size: int) -> Stash:
        self._down.expect(size)
        stash = Stash(self, tensor.detach(), tensor._version, first, size)
        self._orders.add(stash)
        self._remember(stash)
        stash.known_as(storage, stash.version, first)  # whole: other threads may use it from here
        self._latest[id(stash)] = storage.nbytes()  # all of it stays
        self._send_older()
        return stash

    def _send_older(self) -> None:
        """Has stashes copied down, but for the latest ones."""
        # The tuples of items() may start a garbage collection, which would change the dict meanwhile.
        latest = [(number, self._latest.get(number, 0)) for number in list(self._latest)]
        kept = sum(size for _, size in latest)
        for count, (number, size) in zip(range(len(latest), 0, -1), latest):
            if kept <= _LATEST_BYTES and count <= _WINDOW_STASHES:
                return
            kept -= size
            stash = self._living(number)
            # Nothing was there: the stash has gone, or another thread was faster.
            if self._latest.pop(number, None) is not None and stash is not None:
                self._send(stash)

    def _send(self, stash: Stash) -> None:
        """Has a stash copied down. It stays in PyTorch's memory if the tiers are full."""
        self._down.wait_for_room(max(0, _WINDOW_BYTES - stash.size))
        self._settle()
        if (buffer := stash.buffer()) is None:
            return
        try:
            state = stash.state = _core.create_tensor(
                self._session, "saved tensor", [stash.size], "u8", "activation", "nvme", "none", None
            )
        except errors.TierFull as error:
            self.counts["full"] += 1
            self.say_kept(error)
            return
        stash.down = self._down.start(state, buffer.numpy(), False)
        self._going_down.append(weakref.ref(stash))
        self.counts["stashed"] += 1
        self.counts["stashed_bytes"] += stash.size

    def _settle(self) -> None:
        """Gives the memory of ended copies back."""
        while self._going_down:
            try:
                reference = self._going_down.popleft()
            except IndexError:  # another thread was faster
                break
            stash = reference()
            if stash is not None:
                stash.settle()
                if stash.down is not None:
                    self._going_down.appendleft(reference)
                    break
                self._down_whole.append(reference)
        self._forget_gone()

    def _forget_gone(self) -> None:
        for _ in range(min(_LOOKS_MAX, len(self._down_whole))):
            try:
                reference = self._down_whole.popleft()
            except IndexError:  # another thread was faster
                return
            stash = reference()
            if stash is not None and not stash.forget_gone():
                self._down_whole.append(reference)

    # --- backward ---

    def load(self, saved: Saved) -> torch.Tensor:
        """The tensor again. Raises as Tensor.read, and FailedPrecondition if it was changed."""
        stash = saved.stash
        self._settle()
        stash.settle()
        self._orders.use(stash)
        source = stash.source
        if source is not None:
            refuse_changed(source, stash.version)
            self.counts["from_memory"] += 1
            self._ask_ahead(stash)
            return saved.on_source(source, stash.first)
        if stash.changed is not None:
            raise errors.FailedPrecondition(stash.changed)
        return saved.on(self._bytes_of(stash))

    def _bytes_of(self, stash: Stash) -> torch.Tensor:
        base = self._back.get(id(stash))
        if base is not None and base._version == 0:
            self._ask_ahead(stash)
            return base
        coming = stash.up  # another thread may use the stash, too
        if coming is None:
            coming = self._start(stash, urgent=True)
        else:
            self.counts["ahead"] += 1
        self._ask_ahead(stash)
        try:
            coming[0].wait()
        except errors.Error:
            stash.up = None  # a later use asks again
            raise
        finally:
            self._coming_up.pop(id(stash), None)
        stash.up = None
        self.counts["fetched"] += 1
        self._keep_back(stash, coming[1])
        return coming[1]

    def _start(self, stash: Stash, urgent: bool) -> Coming:
        assert stash.state is not None
        self._up.expect(stash.size)
        target = torch.empty(stash.size, dtype=torch.uint8, device="cpu")
        coming = stash.up = (self._up.start(stash.state, target.numpy(), urgent), target)
        return coming

    def _ask_ahead(self, used: Stash) -> None:
        """Starts the copies of the stashes that come next."""
        sizes, coming = list(self._coming_up.values()), map(self._living, list(self._coming_up))
        ahead, room = sum(sizes), _WINDOW_STASHES - len(sizes)
        under_way = sum(stash.size for stash in coming if stash is not None and stash.is_under_way)
        for stash in itertools.islice(self._orders.coming(used.run), 2 * _WINDOW_STASHES):
            stash.settle()
            if stash.source is not None or stash.changed is not None or stash.up is not None:
                continue
            if id(stash) in self._back:
                continue
            if room <= 0 or (ahead > 0 and ahead + stash.size > _WINDOW_BYTES):
                return
            if under_way > 0 and under_way + stash.size > self._under_way_max:
                return
            ahead += stash.size
            under_way += stash.size
            room -= 1
            self._coming_up[id(stash)] = stash.size
            try:
                self._start(stash, urgent=False)
            except (errors.Error, RuntimeError):  # closed, or no memory: its use says it
                self._coming_up.pop(id(stash), None)
                return

    def _keep_back(self, stash: Stash, base: torch.Tensor) -> None:
        """Keeps the bytes for the next tensors on them, as far as the window goes."""
        stash.forget_gone()  # copies of it that were kept before
        stash.known_as(base.untyped_storage(), 0, 0)
        self._back.pop(id(stash), None)
        self._back[id(stash)] = base
        sizes = [each.numel() for each in list(self._back.values())]
        kept = sum(sizes)
        for count, size in zip(range(len(sizes), 1, -1), sizes):
            if kept <= _WINDOW_BYTES and count <= _WINDOW_STASHES:
                return
            kept -= size
            with contextlib.suppress(KeyError):  # another thread was faster
                self._back.popitem(last=False)

    # --- the end ---

    def _living(self, number: int) -> Optional[Stash]:
        reference = self._stashes.get(number)
        return reference() if reference is not None else None

    def _remember(self, stash: Stash) -> None:
        """Has the stash forgotten with its last use.

        By then all weak references to it are cleared. In a ``__del__`` another thread could still
        take one, and use a stash that is forgotten.
        """
        number, names = id(stash), stash.names
        self._forget(number, [])  # rest of a stash of that id, left by Ctrl-C
        # Runs in any thread, within anything: nothing in it takes a lock or waits.
        self._stashes[number] = weakref.ref(stash, lambda _: self._forget(number, names))

    def _forget(self, number: int, names: list[tuple[Key, StorageWeakRef]]) -> None:
        for key, _ in names:
            self.known.pop(key, None)
        self._stashes.pop(number, None)
        self._latest.pop(number, None)
        self._coming_up.pop(number, None)
        self._back.pop(number, None)

    def say_kept(self, error: errors.Error) -> None:
        """Says once per kind of error that saved tensors stay in PyTorch's memory."""
        if error.code in self._said:
            return
        self._said.add(error.code)
        _log.warning("offload_activations: saved tensors stay in PyTorch's memory, as they cannot "
                     "be stored: %s", str(error))

    def in_use(self) -> list[str]:
        """A phrase if saved tensors are in the runtime, for the error of ``close``."""
        stashes = [reference() for reference in list(self._stashes.values())]
        sizes = [stash.size for stash in stashes if stash is not None and stash.state is not None]
        if not sizes:
            return []
        return [f"{len(sizes)} saved tensors of autograd ({sum(sizes)} bytes): "
                "drop the losses and outputs whose backward is to come"]

    def stop(self) -> None:
        """Ends the copies and their threads."""
        self._down.stop()
        self._up.stop()


_pagers: weakref.WeakSet[Pager] = weakref.WeakSet()


def pager_of(runtime: Runtime) -> Pager:
    """The one pager of a runtime."""
    pager: Optional[Pager] = runtime._activations
    if pager is None:
        pager = runtime._activations = Pager(runtime)
    return pager


@atexit.register
def _stop_all() -> None:
    for pager in list(_pagers):
        pager.stop()
