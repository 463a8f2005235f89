"""What PyTorch trains with, in the tiers of a runtime.

    import sluice.torch

    optimizer = sluice.torch.AdamW(model.parameters(), lr=3e-4, runtime=runtime)
    with sluice.torch.offload_activations(activations_runtime):
        loss = model(batch).loss
    loss.backward()
    optimizer.step()

docs/pytorch.md is the guide. Importing this needs PyTorch.
"""

from __future__ import annotations

from ._activations import OffloadActivations, offload_activations
from ._optimizer import PagedOptimizer
from ._optimizers import SGD, Adagrad, Adam, AdamW, Lion

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "Lion",
    "OffloadActivations",
    "PagedOptimizer",
    "offload_activations",
]
