"""A contestant of ``stream`` in a process of its own. It answers lines of JSON with lines of JSON."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import sys
import time
import traceback
from typing import Any, Optional

import accelerate
import torch
import transformers
from safetensors.torch import load_file

import sluice.torch

from ._belady import least_pages
from ._checkpoint import module_of
from ._machine import on_huge_pages
from ._rows import Skipped

PROMPT = 64


class Contestant:
    """A Llama on meta, whose weights come with ``open`` and go with ``close``.

    folder, files
        The checkpoint.
    options
        What the class needs besides.
    """

    def __init__(self, folder: str, files: list[str], **options: Any) -> None:
        self._folder = folder
        self._files = files
        self._options = options
        config = transformers.AutoConfig.from_pretrained(folder)
        with accelerate.init_empty_weights(include_buffers=False):
            self._model = transformers.AutoModelForCausalLM.from_config(config).eval()
        self._model.requires_grad_(False)  # PyTorch chooses some products by that
        self._meta = self._model.state_dict()

    def open(self) -> dict[str, Any]:
        """Makes the weights usable; how long that takes."""
        read, begin = read_bytes(), time.perf_counter()
        self._open()
        return {"seconds": time.perf_counter() - begin, "read_bytes": read_bytes() - read}

    def run(self, decoded: int) -> dict[str, Any]:
        """One pass over 64 tokens, and one for each decoded token.

        passes
            Seconds and bytes read from each pass's begin to the next one's; the output's digest.
        tokens
            What was chosen.
        read_bytes
            What the process has read since its start.
        """
        tokens = self._prompt()
        cache: dict[str, Any] = {}
        outputs, chosen, marks = [], [], [(time.perf_counter(), read_bytes())]
        with torch.no_grad():
            for _ in range(1 + decoded):
                out = self._model(tokens, use_cache=True, **cache)
                # The second name is the one before transformers 5.24.
                name = "cache" if "cache" in out else "past_key_values"
                cache = {name: out[name]}
                tokens = out.logits[:, -1:].argmax(-1)
                outputs.append(out.logits)
                chosen.append(int(tokens))
                marks.append((time.perf_counter(), read_bytes()))
        passes = [{"seconds": end[0] - begin[0], "read_bytes": end[1] - begin[1],
                   "digest": hashlib.sha256(logits.numpy().data).hexdigest()}
                  for begin, end, logits in zip(marks, marks[1:], outputs)]
        return {"passes": passes, "tokens": chosen, "read_bytes": marks[-1][1]}

    def close(self) -> dict[str, Any]:
        """Gives the weights back."""
        self._model.load_state_dict(self._meta, assign=True)
        return {}

    def _open(self) -> None:
        raise NotImplementedError

    def _assign(self, state: dict[str, torch.Tensor]) -> None:
        self._model.load_state_dict(state, assign=True)
        self._model.requires_grad_(False)

    def _prompt(self) -> torch.Tensor:
        generator = torch.Generator().manual_seed(2)
        return torch.randint(2, self._model.config.vocab_size, (1, PROMPT), generator=generator)


class Resident(Contestant):
    """The files' bytes in memory on huge pages, each at its place in the file from such a page on."""

    def _open(self) -> None:
        state: dict[str, torch.Tensor] = {}
        for path in self._files:
            state |= _in_memory(path)
        self._assign(state)


class Streamed(Contestant):
    """The model as ``sluice.torch.stream_weights`` runs it. Options: dram, and those of a Runtime."""

    _stream: Optional[sluice.torch.WeightStream] = None

    def _open(self) -> None:
        self._stream = sluice.torch.stream_weights(self._model, self._folder, **self._options)

    def close(self) -> dict[str, Any]:
        """Ends the stream."""
        assert self._stream is not None
        self._stream.close()
        self._stream = None
        return {}

    def least(self) -> dict[str, Any]:
        """The fewest bytes that a pass as the recorded one can read under this budget."""
        assert self._stream is not None
        runtime = self._stream._runtime
        pages = {unit.name: unit.pages for unit in self._stream._units}
        ops = [pages[op["name"]] for op in runtime.schedule("pass")["ops"]]
        budget = runtime.stats()["tiers"]["dram"]["budget_bytes"]
        page = runtime.page_bytes
        return {"least_bytes": least_pages(ops, budget // page) * page, "budget_bytes": budget,
                "pass_bytes": len(set[int]().union(*ops)) * page}


class Mapped(Contestant):
    """Weights as safetensors loads them: views of a private mapping of each file."""

    def _open(self) -> None:
        self._assign({name: weight for path in self._files
                      for name, weight in load_file(path).items()})


class Offloaded(Contestant):
    """accelerate's disk_offload. Option: offload_dir, where the weights are already."""

    def _open(self) -> None:
        accelerate.disk_offload(self._model, self._options["offload_dir"], execution_device="cpu")

    def close(self) -> dict[str, Any]:
        """Nothing: weights are in memory during a module's forward alone."""
        return {}


class FastSafetensors(Contestant):
    """Weights by fastsafetensors, without GPUDirect."""

    _loader: Any = None
    _buffers: Any = None

    def __init__(self, *words: Any, **options: Any) -> None:
        self._package = module_of("fastsafetensors", "fastsafetensors")
        super().__init__(*words, **options)

    def _open(self) -> None:
        self._loader = self._package.SafeTensorsFileLoader(None, "cpu", nogds=True)
        self._loader.add_filenames({0: self._files})
        self._buffers = self._loader.copy_files_to_device()
        self._assign({name: self._buffers.get_tensor(name) for name in self._loader.get_keys()})

    def close(self) -> dict[str, Any]:
        """Frees the buffers."""
        super().close()
        self._buffers.close()
        self._loader.close()
        self._buffers = self._loader = None
        return {}


class RunaiStreamer(Contestant):
    """Weights by runai-model-streamer, which gives each tensor to the caller."""

    def __init__(self, *words: Any, **options: Any) -> None:
        self._package = module_of("runai_model_streamer", "runai-model-streamer")
        super().__init__(*words, **options)

    def _open(self) -> None:
        with self._package.SafetensorsStreamer() as streamer:
            streamer.stream_files(self._files)
            self._assign(dict(streamer.get_tensors()))


KINDS: dict[str, type[Contestant]] = {
    "resident": Resident, "sluice": Streamed, "mapped": Mapped, "accelerate": Offloaded,
    "fastsafetensors": FastSafetensors, "runai": RunaiStreamer,
}


def read_bytes() -> int:
    """Bytes that the kernel has read from disks for this process, all threads."""
    with open("/proc/self/io", encoding="ascii") as file:
        return int(dict(line.split(": ") for line in file)["read_bytes"])


def _in_memory(path: str) -> dict[str, torch.Tensor]:
    """The weights of a file by name, in memory of their own, at the file's phase in a huge page."""
    huge = 2 << 20
    size = os.path.getsize(path)
    memory = on_huge_pages(size + huge)
    first = -torch.frombuffer(memory, dtype=torch.uint8).data_ptr() % huge
    with open(path, "rb") as file:
        file.readinto(memoryview(memory)[first:first + size])
    (length,) = struct.unpack_from("<Q", memory, first)
    header = json.loads(memory[first + 8:first + 8 + length])
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(memory, dtype=torch.float32, offset=first + 8 + length
                                   + tensor["data_offsets"][0],
                                   count=(tensor["data_offsets"][1] - tensor["data_offsets"][0]) // 4
                                   ).view(tensor["shape"])
            for name, tensor in header.items()}


def answer(contestant: Contestant, request: dict[str, Any]) -> dict[str, Any]:
    """Calls the contestant as the request says."""
    result: dict[str, Any] = getattr(contestant, request["call"])(**request["arguments"])
    return result


def main() -> None:
    """Serves the requests of standard input until it ends."""
    transformers.logging.set_verbosity_error()
    # Output of libraries goes to the errors.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    words = json.loads(sys.argv[1])

    def tell(**line: Any) -> None:
        print(json.dumps(line), file=out, flush=True)

    try:
        contestant = KINDS[words.pop("kind")](**words)
        tell(value={})
    except Skipped as skipped:
        return tell(skipped=str(skipped))
    with contextlib.suppress(KeyboardInterrupt):
        for line in sys.stdin:
            try:
                tell(value=answer(contestant, json.loads(line)))
            except Exception:  # whatever it is, the parent shows it
                tell(error=traceback.format_exc())


if __name__ == "__main__":
    main()
