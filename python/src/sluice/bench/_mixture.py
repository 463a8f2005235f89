"""Mixtures whose experts stream: bytes per token, against the lab's policies on the same uses."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import struct
import subprocess
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch

import sluice.torch
from sluice import _command

from ._checkpoint import module_of
from ._rows import Row, Rows, Setting

# Shapes of transformers' classes, by Setting.quick: 100 and 150 MB of experts in fp32, or four times
# as much. Widths are multiples of 128, and inputs have 256 and more: the bits of products depend on it.
_SHARED = {"num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 1024, "head_dim": 64,
           "max_position_embeddings": 1024, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None,
           "tie_word_embeddings": False}
SHAPES: dict[str, dict[bool, dict[str, Any]]] = {
    "mixtral": {
        quick: {"num_hidden_layers": 8, "num_local_experts": 8, "num_experts_per_tok": 2,
                "hidden_size": hidden, "intermediate_size": 2 * hidden}
        for quick, hidden in ((True, 256), (False, 512))
    },
    "qwen3_moe": {
        quick: {"num_hidden_layers": 6, "num_experts": 64, "num_experts_per_tok": 8,
                "hidden_size": hidden, "moe_intermediate_size": hidden // 2, "intermediate_size": 256}
        for quick, hidden in ((True, 256), (False, 512))
    },
}
_CLASSES = {"mixtral": "MixtralConfig", "qwen3_moe": "Qwen3MoeConfig"}

# Pages of an expert. One more is read for it, as its bytes begin within a page.
_PAGES = 24

# Share of the experts' bytes that is in memory.
_SHARE = 0.3

# Bytes that are allowed over those of the lab's lfu, and those of lru over ours: 1 / (1 - 20 %).
_BYTES, _BELOW_LRU = 1.05, 1.25


def tokens_of(setting: Setting) -> int:
    """Tokens that are decoded to settle, and once more to be measured."""
    return 128 if setting.quick else 768


def mixture(name: str, setting: Setting) -> Rows:
    """A model whose routers choose by a Zipf law, under 30 % of its experts' bytes."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # products of one row take longer by several
    try:
        return _compare(name, setting)
    finally:
        torch.set_num_threads(threads)


def _compare(name: str, setting: Setting) -> Rows:
    folder = os.path.join(setting.directory, name)
    _write(name, SHAPES[name][setting.quick], folder)
    choices = Choices(_config(folder), tokens_of(setting))
    wanted = choices.decode(_resident(folder))
    budget = _budget(folder)
    trace = os.path.join(setting.directory, f"{name}-experts.jsonl")
    done = {policy: _measure(folder, choices, policy, budget, trace) for policy in ("lru", "lfu")}
    lab = lab_bytes(trace, done["lfu"]["budget_bytes"], ["lfu", "lru", "min"])
    return _rows(done, wanted, lab, choices)


def _rows(done: dict[str, dict[str, Any]], wanted: list[str], lab: dict[str, int],
          choices: "Choices") -> Rows:
    tokens, ours = choices.tokens, done["lfu"]
    per_token = {policy: nbytes / tokens for policy, nbytes in lab.items()}
    value, lru = ours["read_bytes"] / tokens, done["lru"]["read_bytes"] / tokens
    experts = ours["weight_bytes"] // choices.experts
    outputs = [one == other for each in done.values() for one, other in zip(each["outputs"], wanted * 2)]
    return {
        "": Row(value, "bytes", per_token["lfu"] / value, 1 / _BYTES, {
            "lab_bytes": per_token["lfu"], "budget_bytes": ours["budget_bytes"],
            "weight_bytes": ours["weight_bytes"], "tokens": tokens, "hit_ratio": ours["hit_ratio"],
            "fixed_hit_ratio": choices.fixed_hit_ratio(ours["budget_bytes"] // experts),
        }),
        "/lru": Row(lru, "bytes", lru / value, _BELOW_LRU, {
            "lab_bytes": per_token["lru"], "hit_ratio": done["lru"]["hit_ratio"]}),
        "/least": Row(per_token["min"], "bytes", figures={"over_least": value / per_token["min"]}),
        "/equal": Row(sum(outputs), "outputs", sum(outputs) / len(outputs), 1.0,
                      {"outputs": len(outputs)}),
    }


class Choices:
    """Experts of each layer for each token, and the tokens.

    They follow a Zipf law of exponent 1 over an order of the layer's own, without repetition.
    """

    def __init__(self, config: Any, tokens: int) -> None:
        generator = torch.Generator().manual_seed(3)
        self.tokens = tokens
        layers, count = config.num_hidden_layers, config.num_local_experts
        self.experts = layers * count
        law = (1 / torch.arange(1, count + 1, dtype=torch.float64)).expand(tokens, count)
        self._chosen = [torch.randperm(count, generator=generator)[
            torch.multinomial(law, config.num_experts_per_tok, generator=generator)]
            for _ in range(layers)]
        self._inputs = torch.randint(2, config.vocab_size, (tokens,), generator=generator).tolist()

    def decode(self, model: Any) -> list[str]:
        """Decodes the tokens, one a pass; the digest of each pass's output."""
        handles = [layer.mlp.gate.register_forward_hook(_Chooser(chosen))
                   for layer, chosen in zip(model.model.layers, self._chosen)]
        digests: list[str] = []
        cache: dict[str, Any] = {}
        with torch.inference_mode():
            for token in self._inputs:
                out = model(torch.tensor([[token]]), use_cache=True, **cache)
                name = "cache" if "cache" in out else "past_key_values"  # name before transformers 5.24
                cache = {name: out[name]}
                digests.append(hashlib.sha256(out.logits.numpy().data).hexdigest())
        for handle in handles:
            handle.remove()
        return digests

    def fixed_hit_ratio(self, experts: int) -> float:
        """The hit ratio where the experts that are used most often stay for ever."""
        uses = Counter((layer, expert) for layer, chosen in enumerate(self._chosen)
                       for expert in chosen.flatten().tolist())
        return sum(count for _, count in uses.most_common(experts)) / sum(uses.values())


class _Chooser:
    """A hook of a router that chooses for it. Weights remain those of its logits."""

    def __init__(self, chosen: torch.Tensor) -> None:
        self._chosen = chosen
        self._at = 0

    def __call__(self, router: torch.nn.Module, inputs: Any, output: Any) -> Any:
        logits = output[0]
        chosen = self._chosen[self._at:self._at + len(logits)]
        self._at += len(logits)
        weights = logits.softmax(-1).gather(1, chosen)
        return logits, weights / weights.sum(-1, keepdim=True), chosen


def _measure(folder: str, choices: Choices, policy: str, dram: int, trace: str) -> dict[str, Any]:
    """Decodes twice by a stream: what the second time has read, and outputs of both."""
    model = _on_meta(folder)
    with sluice.torch.stream_weights(model, folder, dram=dram, experts=policy,
                                     page_bytes=_page_bytes(folder)) as stream:
        outputs = choices.decode(model)
        before = stream.report()["experts"]
        with stream.trace_experts(trace):
            outputs += choices.decode(model)
        after = stream.report()["experts"]
    read, leased = (after[name] - before[name] for name in ("read_bytes", "leased_bytes"))
    return {**after, "outputs": outputs, "read_bytes": read, "hit_ratio": 1 - read / leased}


def lab_bytes(trace: str, budget: int, policies: Sequence[str]) -> dict[str, int]:
    """Bytes that policies of ``sluice lab`` read for a trace that repeats.

    A page is the largest power of two that divides an expert, so no two share one.
    """
    with open(trace, encoding="utf-8") as file:
        nbytes = next(line["bytes"] for line in map(json.loads, file) if "tensor" in line)
    ran = subprocess.run(
        [_command.path(), "lab", "run", trace, "--tiers", f"dram={budget}", "--link",
         "dram-nvme=1GiB/s", "--page", str(nbytes & -nbytes), "--policy", ",".join(policies),
         "--prefetch-ops", "0", "--iterations", "4", "--json"],
        capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in ran.stdout.splitlines()]
    return {line["policy"]: line["links"]["dram-nvme"]["in_bytes"] for line in lines}


def _write(name: str, shape: dict[str, Any], folder: str) -> None:
    transformers = module_of("transformers", "transformers")
    torch.manual_seed(1)
    config = getattr(transformers, _CLASSES[name])(**{**_SHARED, **shape})
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder, max_shard_size="8GB")


def _config(folder: str) -> Any:
    return module_of("transformers", "transformers").AutoConfig.from_pretrained(folder)


def _on_meta(folder: str) -> Any:
    with module_of("accelerate", "accelerate").init_empty_weights(include_buffers=False):
        model = module_of("transformers", "transformers").AutoModelForCausalLM.from_config(_config(folder))
    return model.eval().requires_grad_(False)  # PyTorch chooses some products by that


def _resident(folder: str) -> Any:
    """The model in memory, with the eager loop, and weights at the file's addresses modulo 64."""
    model = module_of("transformers", "transformers").AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, experts_implementation="eager").eval().requires_grad_(False)
    (path,) = pathlib.Path(folder).glob("*.safetensors")
    with open(path, "rb") as file:
        phase = 8 + struct.unpack("<Q", file.read(8))[0]
    for parameter in model.parameters():
        room = torch.empty(parameter.nbytes + 64, dtype=torch.uint8)
        begin = (phase - room.data_ptr()) % 64
        same = room[begin:begin + parameter.nbytes].view(parameter.dtype).view(parameter.shape)
        parameter.data = same.copy_(parameter.data)
    return model


def _page_bytes(folder: str) -> int:
    """Bytes of a page, a power of two."""
    config = _config(folder)
    width: int = getattr(config, "moe_intermediate_size", config.intermediate_size)
    return 3 * 4 * width * int(config.hidden_size) // _PAGES


def _budget(folder: str) -> int:
    """All weights beside the experts, and a share of the experts."""
    with sluice.torch.stream_weights(_on_meta(folder), folder, dram=1 << 40, experts="lfu",
                                     page_bytes=_page_bytes(folder)) as stream:
        report = stream.report()
    experts = report["experts"]
    dense: int = report["budget_bytes"] - experts["budget_bytes"]
    return dense + int(_SHARE * experts["weight_bytes"])
