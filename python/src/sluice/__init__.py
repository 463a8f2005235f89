"""sluice: tensors that are larger than the memory they are used in.

    import sluice

    with sluice.Runtime(dram="256MiB", nvme="/data", nvme_bytes="1GiB") as runtime:
        weights = runtime.tensor((4096, 4096), "bfloat16", name="weights")
        with runtime.lease(weights, mode="rw") as view:
            view.torch().normal_()

docs/pytorch.md is the guide.
"""

from __future__ import annotations

import ctypes as _ctypes
import sysconfig as _sysconfig

if _sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError(
        "sluice: this is a free-threaded build of Python (Py_GIL_DISABLED), for which sluice is not "
        "made; take the build with the GIL"
    )


def _interpreter(call: str) -> object:
    function = _ctypes.pythonapi[call]
    function.restype = _ctypes.c_void_p
    return function()


if _interpreter("PyInterpreterState_Get") != _interpreter("PyInterpreterState_Main"):
    raise ImportError(
        "sluice: this is a sub-interpreter, for which sluice is not made, as its threads belong to the "
        "main one; import it there, or in a process of its own"
    )

from . import errors
from ._command import doctor
from ._core import version as __version__
from ._lease import Iteration, Lease, Op
from ._runtime import Runtime
from ._tensor import Part, Tensor
from ._view import View
from ._weights import Weight, Weights
from .errors import (
    Cancelled,
    DataLoss,
    Error,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    TierFull,
    TimedOut,
    Unavailable,
    WouldDeadlock,
)

__all__ = [
    "Cancelled",
    "DataLoss",
    "Error",
    "FailedPrecondition",
    "InvalidArgument",
    "Iteration",
    "Lease",
    "NotFound",
    "Op",
    "Part",
    "PermissionDenied",
    "Runtime",
    "Tensor",
    "TierFull",
    "TimedOut",
    "Unavailable",
    "View",
    "Weight",
    "Weights",
    "WouldDeadlock",
    "__version__",
    "doctor",
    "errors",
]
