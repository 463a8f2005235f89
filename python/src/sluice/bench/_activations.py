"""Activations of a GPT-2-like model: offloaded, and by hooks that write each tensor to a file."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, closing, nullcontext
from typing import Any

import torch

import sluice
import sluice.torch

from ._machine import Disk
from ._rows import Row, Setting, Skipped, control_of, median, seconds_of


# 256 MB of saved tensors, with batches of 2.
SHAPE = {"n_layer": 4, "n_embd": 512, "n_head": 8, "n_positions": 512, "vocab_size": 8192}

# Added time that is less than this share of a step cannot be told from none.
_LEAST_ADDED = 0.01


class _Model:
    """GPT-2 of SHAPE, without dropout."""

    def __init__(self) -> None:
        try:
            from transformers import GPT2Config, GPT2LMHeadModel
        except ImportError:
            raise Skipped("transformers is not installed, whose GPT-2 is measured") from None
        config = GPT2Config(**SHAPE, bos_token_id=0, eos_token_id=0, resid_pdrop=0, embd_pdrop=0,
                            attn_pdrop=0)
        self._model = GPT2LMHeadModel(config)
        self._tokens = torch.randint(0, SHAPE["vocab_size"], (2, SHAPE["n_positions"]))

    def storages(self) -> set[int]:
        """Addresses of the storages of parameters, which are not offloaded."""
        return {each.untyped_storage().data_ptr() for each in self._model.parameters()}

    def run(self, saving: AbstractContextManager[Any]) -> float:
        """Seconds of a forward in the context and its backward."""
        self._model.zero_grad()

        def step() -> None:
            with saving:
                loss = self._model(input_ids=self._tokens, labels=self._tokens).loss
            loss.backward()

        return seconds_of(step)


def _runtime(setting: Setting) -> sluice.Runtime:
    return sluice.Runtime(dram="64MiB", nvme=setting.directory, nvme_bytes="1GiB", page_bytes="1MiB")


def offload(setting: Setting) -> Row:
    """A step whose activations go to dram and nvme, against a plain one or the disk's time."""
    model, disk = _Model(), Disk(setting)
    with closing(_runtime(setting)) as runtime:
        hooks = sluice.torch.offload_activations(runtime)
        for _ in range(2):
            model.run(hooks)
        times, floors, plains = [], [], []
        moved = 0.0
        for _ in range(setting.rounds):
            plains.append(model.run(nullcontext()))
            before = _crossed(runtime)
            times.append(model.run(hooks))
            moved = _crossed(runtime) - before
            plains.append(model.run(nullcontext()))
            plain = (plains[-1] + plains[-2]) / 2
            floors.append(max(plain, moved / disk.bytes_per_second()))
        stashed = hooks.stats()["stashed_bytes"] / (2 + setting.rounds)
    ratios = [least / ours for least, ours in zip(floors, times)]
    return Row(median(times), "s", median(ratios), 1 / 1.10, {
        "plain_seconds": median(plains), "stashed_bytes": stashed, "nvme_bytes": moved,
        "threads": torch.get_num_threads(), **control_of(floors),
    })


def _crossed(runtime: sluice.Runtime) -> int:
    link = runtime.stats()["links"]["dram-nvme"]
    return int(link["in"]["bytes"] + link["out"]["bytes"])


def against_torch_save(setting: Setting) -> Row:
    """The time that offloading adds to a step, against hooks that call torch.save for each tensor."""
    model = _Model()
    with closing(_runtime(setting)) as runtime:
        hooks = sluice.torch.offload_activations(runtime)
        saving = _SaveEach(setting.directory, runtime.page_bytes, model.storages())
        for each in (nullcontext(), hooks, hooks, saving.hooks):
            model.run(each)
        added, ratios = [], []
        for _ in range(setting.rounds):
            plain = model.run(nullcontext())
            ours = model.run(hooks)
            theirs = model.run(saving.hooks)
            plain = (plain + model.run(nullcontext())) / 2
            added.append(ours - plain)
            ratios.append((theirs - plain) / max(ours - plain, _LEAST_ADDED * plain))
    return Row(median(added), "s", median(ratios), 3.0, {"threads": torch.get_num_threads()})


class _SaveEach:
    """Hooks that write each tensor of a page or more to a file of its own."""

    def __init__(self, directory: str, min_bytes: int, parameters: set[int]) -> None:
        self._directory = directory
        self._min_bytes = min_bytes
        self._parameters = parameters
        self._files = 0
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)

    def _pack(self, tensor: torch.Tensor) -> Any:
        storage = tensor.untyped_storage()
        if tensor.nbytes < self._min_bytes or storage.data_ptr() in self._parameters:
            return tensor
        self._files += 1
        path = os.path.join(self._directory, f"saved-{self._files}.pt")
        whole = storage.nbytes() == tensor.nbytes  # torch.save writes all storage of a view
        torch.save(tensor.detach() if whole else tensor.detach().clone(), path)
        return path

    def _unpack(self, packed: Any) -> Any:
        if not isinstance(packed, str):
            return packed
        tensor = torch.load(packed)
        os.unlink(packed)
        return tensor
