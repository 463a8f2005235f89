"""Leases, ops and iterations: the with blocks of a runtime."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Optional, TypeVar, Union, cast, overload

from . import _core, errors
from ._checks import seconds_of, text_of
from ._tensor import Part, Tensor
from ._view import View

if TYPE_CHECKING:
    from ._runtime import Runtime

# An item of a lease: a tensor or rows of one, alone or with a mode of its own.
Leasable = Union[Tensor, Part]
Item = Union[Leasable, "tuple[Leasable, str]"]
Views = TypeVar("Views")


def part_of(item: object, runtime: "Runtime") -> Part:
    """Rows of a tensor of this runtime."""
    if isinstance(item, Tensor):
        item = Part(item, 0, item.shape[0]) if item.shape else _Scalar(item)
    if not isinstance(item, Part):
        raise errors.InvalidArgument(
            f"a lease takes tensors of sluice, tensor[start:stop], or (tensor, mode); not "
            f"{type(item).__name__}"
        )
    if item.tensor._runtime is not runtime:
        raise errors.InvalidArgument(f"tensor '{item.tensor.name}' belongs to another runtime")
    return item


class _Scalar(Part):
    """A tensor without dimensions, whole."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__(tensor, 0, 1)

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    @property
    def offset(self) -> int:
        return 0

    @property
    def nbytes(self) -> int:
        return self.tensor.nbytes


def request(part: Part, mode: str, tier: Optional[str]) -> _core._Request:
    """The request of one part, as sluice._core takes it."""
    mode = text_of("mode", mode, '"rw"')
    tier = None if tier is None else text_of("tier", tier, '"dram"')
    return (part.tensor._state, part.offset, part.nbytes, mode, tier)


class Lease(Generic[Views]):
    """Leases of one or several tensors; entering it waits, and gets all of them or none.

    ``with`` gives a View, or a tuple of Views for several tensors. A lease may be entered again
    after it has ended.
    """

    def __init__(self, runtime: "Runtime", items: Sequence[Item], mode: str, tier: Optional[str],
                 timeout: Optional[float], op: "Optional[Op]") -> None:
        if not items:
            raise errors.InvalidArgument("a lease needs at least one tensor")
        self._runtime = runtime
        self._timeout = seconds_of("timeout", timeout)
        self._op = op
        self._own_op: Optional[_core.Op] = None
        self._views: list[View] = []
        self._begin: Optional[float] = None
        self._parts: list[tuple[Part, str]] = []
        self._requests: list[_core._Request] = []
        for item in items:
            what, how = item if isinstance(item, tuple) and len(item) == 2 else (item, mode)
            part = part_of(what, runtime)
            self._parts.append((part, how))
            self._requests.append(request(part, how, tier))
        self._name = f"lease {', '.join(part.tensor.name for part, _ in self._parts)}"

    def __enter__(self) -> Views:
        if self._views:
            raise errors.FailedPrecondition("the lease has been entered already; make another one")
        if self._op is None:
            op = self._own_op = _core.Op(self._runtime._session, self._name, None, nested=True)
        else:
            op = self._op._core_op()
        try:
            held = op.acquire(self._requests, self._timeout)
        except BaseException:
            self._end_own_op()
            raise
        self._begin = self._runtime._blocks.begin() if self._op is None else None
        self._views = [View(part, mode, each) for (part, mode), each in zip(self._parts, held)]
        return cast(Views, self._views[0] if len(self._views) == 1 else tuple(self._views))

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        views, self._views = self._views, []
        problems = [view._end() for view in views]
        self._end_own_op()
        self._runtime._blocks.end("op", self._name, self._begin)
        self._runtime._pass_on_log()
        for problem in problems:
            if problem is not None and kind is None:
                raise problem

    def _end_own_op(self) -> None:
        if self._own_op is not None:
            self._own_op.end()
            self._own_op = None

    def __reduce__(self) -> NoReturn:
        raise errors.InvalidArgument(
            f"'{self._name}' cannot be copied or pickled: it belongs to its with block; make another lease"
        )


class Op:
    """A step of the program: ``with runtime.op("forward") as op: with op.lease(...)``.

    Its leases come from one op of the library, by its name in schedules and reports. It belongs to
    one thread.
    """

    def __init__(self, runtime: "Runtime", name: str, lane: Optional[str]) -> None:
        self._runtime = runtime
        self._name = text_of("the name of an op", name)
        self._lane = None if lane is None else text_of("lane", lane)
        self._op: Optional[_core.Op] = None
        self._begin: Optional[float] = None

    def __enter__(self) -> "Op":
        if self._op is not None:
            raise errors.FailedPrecondition(f"op '{self._name}' has been entered already")
        self._op = _core.Op(self._runtime._session, self._name, self._lane)
        self._begin = self._runtime._blocks.begin()
        return self

    def __exit__(self, *_: object) -> None:
        op, self._op = self._op, None
        if op is not None:
            self._runtime._blocks.end("op", self._name, self._begin)
            op.end()

    @overload
    def lease(self, item: Item, /, *, mode: str = ..., tier: Optional[str] = ...,
              timeout: Optional[float] = ...) -> Lease[View]: ...
    @overload
    def lease(self, first: Item, second: Item, /, *more: Item, mode: str = ...,
              tier: Optional[str] = ..., timeout: Optional[float] = ...,
              ) -> Lease[tuple[View, ...]]: ...
    def lease(self, *items: Item, mode: str = "r", tier: Optional[str] = None,
              timeout: Optional[float] = None) -> Any:
        """A ``Runtime.lease`` in this op."""
        return Lease(self._runtime, items, mode, tier, timeout, self)

    def _core_op(self) -> _core.Op:
        if self._op is None:
            raise errors.FailedPrecondition(f"op '{self._name}' is not open: use its with block")
        return self._op

    def __reduce__(self) -> NoReturn:
        raise errors.InvalidArgument(
            f"op '{self._name}' cannot be copied or pickled: it belongs to its thread; make another one"
        )


class Iteration:
    """One iteration of a key: the first is recorded, later ones are foreseen and planned."""

    def __init__(self, runtime: "Runtime", key: str) -> None:
        self._runtime = runtime
        self._key = text_of("the key of an iteration", key)
        self._begin: Optional[float] = None

    def __enter__(self) -> "Iteration":
        self._runtime._session.begin_iteration(self._key)
        self._begin = self._runtime._blocks.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self._runtime._blocks.end("iteration", self._key, self._begin)
        self._runtime._session.end_iteration()
        self._runtime._pass_on_log()

    def __reduce__(self) -> NoReturn:
        raise errors.InvalidArgument(
            f"iteration '{self._key}' cannot be copied or pickled: it belongs to its runtime; make another one"
        )
