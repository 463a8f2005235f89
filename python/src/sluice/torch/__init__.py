"""Training with PyTorch: optimizers whose states are paged.

    import sluice.torch

    optimizer = sluice.torch.AdamW(model.parameters(), lr=3e-4, runtime=runtime)

docs/pytorch.md is the guide. Importing this needs PyTorch.
"""

from __future__ import annotations

from ._optimizer import PagedOptimizer
from ._optimizers import SGD, Adagrad, Adam, AdamW, Lion

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Lion", "PagedOptimizer"]
