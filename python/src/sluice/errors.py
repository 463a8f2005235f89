"""Errors of sluice, one class per kind of failure; ``sluice.Error`` is the base of all.

A message names the tensor, op, tier or option, and the cause.
"""

from __future__ import annotations

from ._keys import with_arguments

__all__ = [
    "Cancelled",
    "DataLoss",
    "Error",
    "FailedPrecondition",
    "InvalidArgument",
    "NotFound",
    "PermissionDenied",
    "TierFull",
    "TimedOut",
    "Unavailable",
    "WouldDeadlock",
]


class Error(Exception):
    """Base of every error of sluice. ``code`` is the name of the library's status."""

    code = "UNKNOWN"


class InvalidArgument(Error, ValueError):
    """A value is wrong: an option, a shape, a range, a mode."""

    code = "INVALID_ARGUMENT"


class NotFound(Error, LookupError):
    """A tensor, file or schedule does not exist, or exists no more."""

    code = "NOT_FOUND"


class PermissionDenied(Error):
    """The spill directory belongs to somebody else, or others may write to it."""

    code = "PERMISSION_DENIED"


class TierFull(Error):
    """A budget or a resource of the machine is too small for what was asked."""

    code = "RESOURCE_EXHAUSTED"


class DataLoss(Error):
    """The only copy of a page cannot be read, or fails its checksum."""

    code = "DATA_LOSS"


class Unavailable(Error):
    """Pages cannot be read now. Nothing is lost; a later call tries again."""

    code = "UNAVAILABLE"


class WouldDeadlock(Error):
    """The call would wait for itself, or for somebody who waits for it."""

    code = "ABORTED"


class TimedOut(Error, TimeoutError):
    """The timeout of a call has passed."""

    code = "DEADLINE_EXCEEDED"


class Cancelled(Error):
    """The request was given up: its op had ended, or the runtime was closed meanwhile."""

    code = "CANCELLED"


class FailedPrecondition(Error, RuntimeError):
    """The call is not possible now: a closed runtime, an ended lease, a child of fork."""

    code = "FAILED_PRECONDITION"


_BY_CODE: dict[str, type[Error]] = {
    kind.code: kind
    for kind in (
        InvalidArgument,
        NotFound,
        PermissionDenied,
        TierFull,
        DataLoss,
        Unavailable,
        WouldDeadlock,
        TimedOut,
        Cancelled,
        FailedPrecondition,
    )
}


def from_status(code: str, message: str) -> Error:
    """The error for a status of the library. Called by ``sluice._core``."""
    error = _BY_CODE.get(code, Error)(with_arguments(message))
    error.code = code
    return error
