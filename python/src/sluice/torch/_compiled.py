"""What torch.compile does not trace: it breaks the graph there, as at torch.optim's optimizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

_Call = TypeVar("_Call", bound=Callable[..., object])


def not_compiled(call: _Call) -> _Call:
    """The function, which runs as it is written.

    torch.compiler.disable would import the compiler here, and takes seconds. This one does so in the
    first call, when torch.optim.Optimizer has done it.
    """
    disabled: _Call = torch._disable_dynamo(call)
    return disabled
