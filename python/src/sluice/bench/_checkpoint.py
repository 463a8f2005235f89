"""A Llama-like model of random weights in safetensors files, and what the page cache has of them."""

from __future__ import annotations

import ctypes
import importlib
import json
import mmap
import os
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from ._rows import Setting, Skipped

# Shapes of LlamaConfig, by Setting.quick: 3.0 GB and 0.7 GB in fp32.
SHAPES: dict[bool, dict[str, int]] = {
    False: {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 14,
            "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 8192},
    True: {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 12,
           "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 8192},
}

# Share of a file that may be in the page cache after it was dropped.
_CACHED_MAX = 0.01


def module_of(name: str, install: str) -> Any:
    """A module of an optional package. Raises Skipped, which says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Skipped(f"{name} cannot be imported ({error}): pip install {install}") from None


class Checkpoint:
    """The model's folder, made once per run: config.json and shards, as save_pretrained writes them."""

    def __init__(self, setting: Setting) -> None:
        self.folder = os.path.join(setting.directory, "llama")
        if not os.path.exists(os.path.join(self.folder, "config.json")):
            self._write(SHAPES[setting.quick])

    def _write(self, shape: dict[str, int]) -> None:
        torch, transformers = module_of("torch", "torch"), module_of("transformers", "transformers")
        torch.manual_seed(1)
        config = transformers.LlamaConfig(
            **shape, max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=None,
            tie_word_embeddings=False)
        transformers.LlamaForCausalLM(config).save_pretrained(self.folder, max_shard_size="1GB")
        for path in self.files:
            _sync(path)

    @property
    def files(self) -> list[str]:
        """The safetensors files."""
        return sorted(str(path) for path in pathlib.Path(self.folder).glob("*.safetensors"))

    @property
    def nbytes(self) -> int:
        """Bytes of the files."""
        return sum(os.path.getsize(path) for path in self.files)

    def offloaded(self) -> str:
        """Folder of these weights as accelerate's disk_offload has them: a raw file per weight."""
        folder = os.path.join(os.path.dirname(self.folder), "offloaded")
        if os.path.exists(os.path.join(folder, "index.json")):
            return folder
        accelerate = module_of("accelerate", "accelerate")
        load_file = module_of("safetensors.torch", "safetensors").load_file
        index: dict[str, Any] = {}
        os.makedirs(folder)
        for path in self.files:
            for name, weight in load_file(path).items():
                index = accelerate.utils.offload_weight(weight, name, folder, index=index)
        for raw in pathlib.Path(folder).iterdir():
            _sync(str(raw))
        with open(os.path.join(folder, "index.json"), "w", encoding="utf-8") as file:
            json.dump(index, file)
        return folder


def drop(folders: Iterable[str]) -> None:
    """Drops all files of the folders from the page cache. Raises RuntimeError if one stays there."""
    for path in (each for folder in folders for each in pathlib.Path(folder).iterdir()):
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)
        left = cached_bytes(str(path))
        if left > max(1 << 20, _CACHED_MAX * path.stat().st_size):
            raise RuntimeError(
                f"{path}: {left} bytes stay in the page cache, so nothing is cold: another process "
                "maps the file, or the file system does not drop clean pages"
            )


def cached_bytes(path: str) -> int:
    """Bytes of the file that are in the page cache."""
    size = os.path.getsize(path)
    if size == 0:
        return 0
    present = np.zeros(-(-size // mmap.PAGESIZE), np.uint8)
    libc = ctypes.CDLL(None, use_errno=True)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        address = np.frombuffer(mapped, np.uint8).ctypes.data
        failed = libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size),
                              ctypes.c_void_p(present.ctypes.data))
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
    return int(np.count_nonzero(present & 1)) * mmap.PAGESIZE


def _sync(path: str) -> None:
    """Writes the file out: pages that are not on the disk yet cannot be dropped."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
