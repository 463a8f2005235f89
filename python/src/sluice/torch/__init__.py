"""PyTorch's optimizers and activations in the tiers of a runtime, and models larger than memory.

    import sluice.torch

    optimizer = sluice.torch.AdamW(model.parameters(), lr=3e-4, runtime=runtime)
    with sluice.torch.offload_activations(runtime):
        loss = model(batch).loss
    loss.backward()
    optimizer.step()

    with sluice.torch.stream_weights(model, "models/llama", dram="4GiB"):
        model.generate(**inputs)

docs/pytorch.md is the guide. Importing this needs PyTorch.
"""

from __future__ import annotations

from ._activations import OffloadActivations, offload_activations
from ._optimizer import PagedOptimizer
from ._optimizers import SGD, Adagrad, Adam, AdamW, Lion
from ._streaming._expert_policies import ExpertPolicy
from ._streaming._stream import WeightStream, stream_weights
from ._streaming._weights_map import WeightsMap

__all__ = [
    "SGD",
    "Adagrad",
    "Adam",
    "AdamW",
    "ExpertPolicy",
    "Lion",
    "OffloadActivations",
    "PagedOptimizer",
    "WeightStream",
    "WeightsMap",
    "offload_activations",
    "stream_weights",
]
