"""Models, gradients and batches that two processes make alike, to the last bit."""

from __future__ import annotations

from typing import Any

import torch

from ._rows import Skipped

# DeepSpeed 0.19.8 is right where widths are multiples of 1024.
WIDTH = 1024
SHAPE = (WIDTH, WIDTH)

# Options of all AdamWs that are compared; they are torch's defaults.
ADAMW: dict[str, Any] = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}


def parameter(index: int) -> torch.Tensor:
    """The first value of a parameter, in bfloat16."""
    return (0.02 * torch.randn(SHAPE, generator=_generator(index))).bfloat16()


def gradient(index: int, step: int) -> torch.Tensor:
    """The gradient of a parameter in a step from 0 on, in bfloat16."""
    return (0.01 * torch.randn(SHAPE, generator=_generator(index + 10_000 * (1 + step)))).bfloat16()


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Sums(torch.nn.Module):  # type: ignore[misc]
    """Parameters whose gradients are what forward is given."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.parts = torch.nn.ModuleList(_Sum(index) for index in range(count))

    def forward(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        """The sum of all products of a parameter and its gradient."""
        products = [part(each) for part, each in zip(self.parts, gradients)]
        return torch.stack(products).sum()


class _Sum(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, index: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(parameter(index))

    def forward(self, each: torch.Tensor) -> torch.Tensor:
        return (self.weight * each).sum(dtype=torch.float32)


def gpt2(layers: int) -> Any:
    """A GPT-2 of transformers in bfloat16, without dropout. Raises Skipped without transformers."""
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError:
        raise Skipped("transformers is not installed, whose GPT-2 is measured") from None
    torch.manual_seed(1)
    config = GPT2Config(n_layer=layers, n_embd=WIDTH, n_head=16, n_positions=512, vocab_size=4096,
                        bos_token_id=0, eos_token_id=0, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    return GPT2LMHeadModel(config).bfloat16()


def tokens() -> torch.Tensor:
    """The batch of all steps: one text of 512 tokens."""
    return torch.randint(0, 4096, (1, 512), generator=_generator(1))


class Training:
    """A GPT-2, and its passes over the same batch."""

    def __init__(self, layers: int) -> None:
        self.model = gpt2(layers)
        self._tokens = tokens()

    def forward_and_backward(self) -> float:
        """Gradients anew; the loss."""
        self.model.zero_grad()
        loss = self.model(input_ids=self._tokens, labels=self._tokens).loss
        loss.backward()
        return float(loss.item())
