"""DeepSpeed in a process of its own: ``_deepspeed.py`` starts it, and ``_peer.serve`` calls it."""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any

import torch

from . import _alike
from ._machine import disk_bytes
from ._peer import serve
from ._rows import seconds_of

# More are no faster. 4 and 8 to 10 stop with an assertion.
BUFFERS = 16


class DeepSpeed:
    """An engine of ZeRO-3 whose AdamW has its states on nvme.

    directory
        Where swap files go.
    elements
        Elements of a sub-group, and so of a swap buffer.
    parts
        The tensors of Sums; 0: a GPT-2 of `layers`.
    """

    def __init__(self, directory: str, elements: int, parts: int = 0, layers: int = 0) -> None:
        deepspeed = importlib.import_module("deepspeed")  # a package that only the bench needs
        self._directory = directory
        self._plain = None if parts else _alike.Training(layers)
        model = _alike.Sums(parts) if parts else _alike.gpt2(layers)
        self._parts = parts
        self._gradients: list[torch.Tensor] = []
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{directory}/rendezvous", rank=0, world_size=1)
        self._gathered = deepspeed.zero.GatheredParameters
        self._engine, *_ = deepspeed.initialize(model=model,
                                                config=_configuration(directory, elements))

    def begun(self) -> dict[str, Any]:
        """Bytes of the swap buffers."""
        swapper = self._engine.optimizer.optimizer_swapper
        return {"buffer_bytes": 4 * BUFFERS * swapper.largest_numel}

    def gradients_of(self, number: int) -> dict[str, Any]:
        """Takes the gradients of a step for this one and the next ones."""
        self._gradients = [_alike.gradient(index, number) for index in range(self._parts)]
        return {}

    def step(self) -> dict[str, Any]:
        """Seconds and bytes of backward and of the step."""
        losses: list[float] = []
        before = disk_bytes()
        backward_seconds = seconds_of(lambda: losses.append(self._backward()))
        middle = disk_bytes()
        seconds = seconds_of(self._engine.step)
        return {"seconds": seconds, "bytes": disk_bytes() - middle, "loss": losses[0],
                "backward_seconds": backward_seconds, "backward_bytes": middle - before}

    def plain(self) -> dict[str, Any]:
        """Seconds of forward and backward of the same GPT-2 in PyTorch alone."""
        assert self._plain is not None
        return {"seconds": seconds_of(self._plain.forward_and_backward)}

    def parameters(self) -> dict[str, Any]:
        """Writes the parameters of Sums to a file."""
        path = os.path.join(self._directory, "parameters.pt")
        found = []
        for part in self._engine.module.parts:
            with self._gathered(part.weight):
                found.append(part.weight.detach().clone())
        torch.save(found, path)
        return {"path": path}

    def _backward(self) -> float:
        if self._parts:
            loss = self._engine(self._gradients)
        else:
            tokens = _alike.tokens()
            loss = self._engine(input_ids=tokens, labels=tokens).loss
        self._engine.backward(loss)
        return float(loss.item())


def _configuration(directory: str, elements: int) -> dict[str, Any]:
    return {
        "train_micro_batch_size_per_gpu": 1,
        "bf16": {"enabled": True},
        "gradient_clipping": 0.0,  # the default clips to 1.0
        "optimizer": {"type": "AdamW", "params": _alike.ADAMW},
        "zero_optimization": {
            "stage": 3,
            "sub_group_size": elements,
            "offload_optimizer": {"device": "nvme", "nvme_path": directory, "buffer_count": BUFFERS,
                                  "pipeline_read": True, "pipeline_write": True},
        },
        "aio": {"block_size": 1 << 20, "queue_depth": 8, "overlap_events": True},
        "steps_per_print": 1 << 30,
    }


if __name__ == "__main__":
    serve(lambda: DeepSpeed(**json.loads(sys.argv[1])))
