"""What PyTorch trains with, in the tiers of a runtime.

    with sluice.torch.offload_activations(runtime):
        loss = model(batch).loss
    loss.backward()

docs/pytorch.md is the guide.
"""

from ._activations import OffloadActivations, offload_activations

__all__ = ["OffloadActivations", "offload_activations"]
