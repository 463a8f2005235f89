#!/usr/bin/env python3
"""Writes the schedules of workloads/schedules/, which are computed from the shapes of models.

    scripts/make_schedules.py            writes them
    scripts/make_schedules.py --check    compares them with what is there; exit 1 when one differs

Times are those of a roofline: the larger of arithmetic and memory traffic, rounded to 1 us. The same
script gives the same bytes on every machine. docs/lab.md describes format and schedules.
"""

import argparse
import json
import pathlib
import sys

DIRECTORY = pathlib.Path(__file__).resolve().parent.parent / "workloads" / "schedules"
GPU_FLOPS, GPU_BYTES = 120e12, 1.5e12  # per second, as attained
CPU_BYTES = 40e9
LAUNCH_SECONDS = 5e-6


def seconds(flops, touched, flops_rate=GPU_FLOPS, bytes_rate=GPU_BYTES):
    return round(LAUNCH_SECONDS + max(flops / flops_rate, touched / bytes_rate), 6)


class Schedule:
    """One iteration of one key: tensors and ops, numbered as they are added."""

    def __init__(self, name, key):
        self.name, self.key = name, key
        self.tensors, self.ops = [], []

    def tensor(self, size, kind, persistent=False, **more):
        self.tensors.append({"tensor": len(self.tensors), "bytes": size, "persistent": persistent,
                             "kind": kind, **more})
        return len(self.tensors) - 1

    def bytes_of(self, uses):
        return sum(use[2] if isinstance(use, list) else self.tensors[use]["bytes"] for use in uses)

    def op(self, name, reads, writes, flops=0.0, **more):
        cpu = more.get("lane") == "cpu"
        touched = self.bytes_of(reads) + self.bytes_of(writes)
        time = seconds(flops, touched, bytes_rate=CPU_BYTES if cpu else GPU_BYTES)
        self.ops.append({"op": len(self.ops), "name": name, "seconds": time, "reads": reads,
                         "writes": writes, **more})
        return len(self.ops) - 1

    def text(self):
        header = {"schedule": self.name, "version": 1, "key": self.key, "ops": len(self.ops),
                  "tensors": len(self.tensors), "source": "scripts/make_schedules.py"}
        return "".join(json.dumps(line) + "\n" for line in [header, *self.tensors, *self.ops])


def transformer_training(layers=16, width=2048, batch=16, context=1024, vocabulary=32768):
    """A decoder in bf16 with Adam in fp32, all of it in hbm. Tensors that forward keeps for
    backward can be made again; the small tensors of a layer share a segment."""
    s = Schedule("transformer-training", "train")
    tokens = batch * context
    activation = tokens * width * 2

    def parameter(count, name, **more):
        """Parameter, gradient and optimizer states of `count` elements."""
        return (s.tensor(2 * count, "parameter", True, name=name, **more),
                s.tensor(2 * count, "gradient", name=name + ".grad"),
                s.tensor(12 * count, "optimizer", True, name=name + ".adam"))

    embedding = parameter(vocabulary * width, "embedding")
    blocks = []
    for i in range(layers):
        norms = [s.tensor(2 * width, "parameter", True, name=f"l{i}.norm{j}", segment=i)
                 for j in range(2)]
        blocks.append({"norms": norms,
                       "attention": parameter(4 * width * width, f"l{i}.attention"),
                       "mlp": parameter(8 * width * width, f"l{i}.mlp"),
                       "kept": [s.tensor(factor * activation, "activation", name=f"l{i}.kept{j}")
                                for j, factor in enumerate((4, 5))],
                       "out": s.tensor(activation, "activation", name=f"l{i}.out")})
    stream = s.tensor(activation, "activation", name="stream")
    logits = s.tensor(tokens * vocabulary * 2, "activation", name="logits")
    backs = [s.tensor(activation, "gradient", name=f"back{i}") for i in range(layers + 1)]

    s.op("embedding.forward", [embedding[0]], [stream])
    for i, block in enumerate(blocks):
        source = blocks[i - 1]["out"] if i else stream
        for j, part in enumerate(("attention", "mlp")):
            flops = 2.0 * tokens * (4 if j == 0 else 8) * width * width
            reads = [source if j == 0 else block["kept"][0], block["norms"][j], block[part][0]]
            writes = [block["kept"][j]] if j == 0 else [block["kept"][j], block["out"]]
            again = seconds(flops, s.bytes_of(reads) + s.bytes_of(writes))
            s.op(f"l{i}.{part}.forward", reads, writes, flops, recompute_seconds=again)
    flops = 2.0 * tokens * vocabulary * width
    s.op("loss.forward", [blocks[-1]["out"], embedding[0]], [logits], flops)
    s.op("loss.backward", [logits, embedding[0], blocks[-1]["out"]], [backs[layers], embedding[1]],
         2 * flops)
    for i in reversed(range(layers)):
        block = blocks[i]
        source = blocks[i - 1]["out"] if i else stream
        for j, part in ((1, "mlp"), (0, "attention")):
            flops = 4.0 * tokens * (4 if j == 0 else 8) * width * width
            reads = [block["kept"][j], block[part][0], block["norms"][j], backs[i + 1]]
            reads += [source, backs[i]] if j == 0 else [block["kept"][0]]
            s.op(f"l{i}.{part}.backward", reads, [backs[i], block[part][1]], flops)
    for name, states in [("embedding", embedding)] + [
            (f"l{i}.{part}", block[part]) for i, block in enumerate(blocks)
            for part in ("attention", "mlp")]:
        s.op(f"{name}.update", [states[1], states[0], states[2]], [states[0], states[2]])
    return [s]


def streaming_step(key, tokens, past, layers, width, cache_tokens):
    s = Schedule("layer-streaming-inference", key)
    shard = 12 * width * width // 4 * 2
    vocabulary = s.tensor(32000 * width * 2, "parameter", True, name="vocabulary", home="file")
    weights = [[s.tensor(shard, "parameter", True, name=f"l{i}.weights{j}", home="file")
                for j in range(4)] for i in range(layers)]
    per_token = 2 * 2 * width // 8
    caches = [s.tensor(cache_tokens * per_token, "kv", True, name=f"l{i}.kv")
              for i in range(layers)]
    streams = [s.tensor(tokens * width * 2, "activation", name=f"stream{i}")
               for i in range(layers + 1)]
    logits = s.tensor(32000 * 4, "activation", name="logits")
    s.op("embedding", [[vocabulary, 0, tokens * width * 2]], [streams[0]])
    for i in range(layers):
        new = [caches[i], past * per_token, tokens * per_token]
        old = [[caches[i], 0, past * per_token]] if past else []
        flops = 2.0 * tokens * 4 * width * width
        s.op(f"l{i}.attention", [streams[i], weights[i][0], *old], [new, streams[i + 1]], flops)
        s.op(f"l{i}.mlp", [streams[i + 1], *weights[i][1:]], [streams[i + 1]], 2 * flops)
    s.op("head", [streams[layers], vocabulary], [logits], 2.0 * 32000 * width)
    return s


def layer_streaming_inference(layers=48, width=8192):
    """A model larger than memory, read from its file layer by layer: the prompt, then one token."""
    return [streaming_step("prefill", 1024, 0, layers, width, 4096),
            streaming_step("decode", 1, 1024, layers, width, 4096)]


def zero_offload_adam(layers=24, width=4096, batch=4, context=1024, parts=4):
    """Forward and backward in hbm. Gradients go to dram layer by layer. There the lane `cpu` updates
    the fp32 states part by part, beside the backward pass of the layers before."""
    s = Schedule("zero-offload-adam", "train")
    tokens = batch * context
    count = 12 * width * width
    weights = [s.tensor(2 * count, "parameter", True, name=f"l{i}.weights") for i in range(layers)]
    states = [s.tensor(12 * count, "optimizer", True, name=f"l{i}.adam") for i in range(layers)]
    gradients = [s.tensor(2 * count, "gradient", name=f"l{i}.grad") for i in range(layers)]
    kept = [s.tensor(18 * tokens * width, "activation", name=f"l{i}.kept") for i in range(layers)]
    flops = 2.0 * tokens * count
    for i in range(layers):
        reads = [weights[i]] + ([kept[i - 1]] if i else [])
        s.op(f"l{i}.forward", reads, [kept[i]], flops)
    updates = []
    for i in reversed(range(layers)):
        backward = s.op(f"l{i}.backward", [weights[i], kept[i]], [gradients[i]], 2 * flops)
        for part in range(parts):
            step = [2 * count // parts, 12 * count // parts]
            gradient = [gradients[i], part * step[0], step[0]]
            state = [states[i], part * step[1], step[1]]
            weight = [weights[i], part * step[0], step[0]]
            waits = [backward] + ([updates[-1]] if updates else [])
            updates.append(s.op(f"l{i}.update.{part}", [gradient, state], [state, weight],
                                lane="cpu", tier="dram", after=waits))
    return [s]


WORKLOADS = {"transformer-training": transformer_training,
             "layer-streaming-inference": layer_streaming_inference,
             "zero-offload-adam": zero_offload_adam}


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--directory", type=pathlib.Path, default=DIRECTORY)
    options = parser.parse_args(arguments)
    different = 0
    for name, make in WORKLOADS.items():
        path = options.directory / f"{name}.jsonl"
        text = "".join(schedule.text() for schedule in make())
        if not options.check:
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            print(f"{path} is not what {pathlib.Path(__file__).name} makes; run it")
            different += 1
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
