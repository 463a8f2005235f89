"""Cases of two ranks: each function is a case, and runs on both ranks at once.

    cases.py STORE RANK RANKS

Lines ["case", {options}] come by stdin; a line {"result": ...} or {"error": ...} answers each. A case
of another module has its name before a dot.
"""

import contextlib
import datetime
import hashlib
import importlib
import json
import logging
import os
import sys
import traceback
import unittest.mock

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

import sluice.torch
from sluice.torch import _pager

LR = 1e-3

# Budgets of the host: a rank has half of them, and several times as many bytes of states.
PAGED = {"dram": "2MiB", "nvme_bytes": "64MiB", "page_bytes": "64KiB", "tiers.nvme.keep_free": 0}
RESIDENT = {"dram": "64MiB", "page_bytes": "64KiB"}


def layers(seed, dtype=torch.float32):
    """Rows that divide by two, an odd number of them, and one row, of which a rank has none."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Linear(1152, 1000), torch.nn.GELU(), torch.nn.Linear(1000, 37), torch.nn.GELU(),
        torch.nn.Linear(37, 1),
    ).to(dtype)


def sharded(seed, dtype=torch.float32, mesh=(2,)):
    model = layers(seed, dtype)
    names = ("replicas", "shards")[-len(mesh):]
    mesh = init_device_mesh("cpu", mesh, mesh_dim_names=names)
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def in_replicas(seed, dtype=torch.float32):
    """Two replicas of one shard each: FSDP2 averages gradients over both dimensions."""
    return sharded(seed, dtype, (2, 1))


def replicated(seed, dtype=torch.float32):
    return DistributedDataParallel(layers(seed, dtype))


KINDS = {"fsdp": sharded, "hsdp": in_replicas, "ddp": replicated}


def loss_of(model, step):
    generator = torch.Generator().manual_seed(1000 * step + dist.get_rank())
    batch = torch.randn(8, 1152, generator=generator).to(next(model.parameters()).dtype)
    return (model(batch).float() - 1).square().mean()


def backward(model, step):
    loss = loss_of(model, step)
    loss.backward()
    return loss.item()


def train(model, optimizer, steps, clip=None, accumulate=False):
    losses = []
    for step in steps:
        if accumulate:
            model.set_requires_gradient_sync(False)
            backward(model, step + 100)
            model.set_requires_gradient_sync(True)
        losses.append(backward(model, step))
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
    return losses


def local_of(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def whole_of(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def digest(tensors, part=whole_of):
    """A hash of the tensors' bits, which are collected from all ranks."""
    made = hashlib.sha256()
    with torch.no_grad():
        for tensor in tensors:
            values = part(tensor).detach().contiguous().reshape(-1)
            made.update(values.view(torch.uint8).numpy().tobytes())
    return made.hexdigest()


def states_of(optimizer):
    state = optimizer.state_dict()["state"]
    return [state[index][name] for index in sorted(state) for name in sorted(state[index])]


def adamw(model, runtime, **options):
    return sluice.torch.AdamW(model.parameters(), lr=LR, runtime=runtime, **options)


@contextlib.contextmanager
def runtimes(spill):
    """A runtime that pages, and one that holds everything."""
    with sluice.Runtime(nvme=spill, **PAGED) as paged, sluice.Runtime(**RESIDENT) as resident:
        yield paged, resident


def bits(spill, seed, kind, dtype, early=False, accumulate=False, **options):
    """Steps with paged states, with resident ones, and with torch's optimizer."""
    models = [KINDS[kind](seed, getattr(torch, dtype)) for _ in range(3)]
    with runtimes(spill) as (paged, resident):
        first = adamw(models[0], paged, step_in_backward=early, **options)
        losses = train(models[0], first, range(5), accumulate=accumulate)
        second = adamw(models[1], resident, **options)
        train(models[1], second, range(5), accumulate=accumulate)
        expected = train(models[2], torch.optim.AdamW(models[2].parameters(), lr=LR), range(5),
                         options.get("clip_norm"), accumulate)
        first.wait()
        second.wait()
        stats = paged.stats()
        return {
            "parameters": [digest(model.parameters()) for model in models[:2]],
            "states": [digest(states_of(each)) for each in (first, second)],
            "steps": sorted({state["step"].item() for state in first.state.values()}),
            "with states": len(first.state),
            "losses": losses, "expected": expected, "norm": first.gradient_norm,
            "budget": stats["tiers"]["dram"]["budget_bytes"],
            "read": stats["links"]["dram-nvme"]["in"]["bytes"],
        }


def activations(spill, seed):
    """The gradients of this rank without and with offloaded activations, and what was stashed."""
    found = []
    _pager._LATEST_BYTES = 0  # all go down
    for model in (sharded(seed), replicated(seed)):
        grads = []
        with sluice.Runtime(nvme=spill, **PAGED) as runtime:
            offload = sluice.torch.offload_activations(runtime, min_bytes=4096)
            for context in (contextlib.nullcontext(), offload, offload):
                with context:
                    loss = loss_of(model, 0)
                loss.backward()
                grads.append(digest((each.grad for each in model.parameters()), local_of))
                model.zero_grad()
            found.append({"gradients": grads, "stashed": offload.stats()["stashed"]})
    return found


def one_row(directory, seed, **options):
    """Steps of a model of which rank 1 has no element, a state dict and a save between them."""
    def model_of():
        torch.manual_seed(seed)
        return fully_shard(torch.nn.Linear(1152, 1), mesh=init_device_mesh("cpu", (2,)))

    clip = options.get("clip_norm")
    reference = model_of()
    train(reference, torch.optim.AdamW(reference.parameters(), lr=LR), range(4), clip)
    model = model_of()
    with sluice.Runtime(**RESIDENT) as runtime:
        optimizer = adamw(model, runtime, **options)
        train(model, optimizer, range(2))
        optimizer.load_state_dict(optimizer.state_dict())
        optimizer.save(directory)
        again = model_of()
        second = adamw(again, runtime, **options)
        second.load(directory)
        train(again, second, range(2, 4))
        pairs = zip(again.parameters(), reference.parameters())
        return {
            "steps": [state["step"].item() for state in second.state.values()],
            "norm": second.gradient_norm,
            "numbers": second.last_step,
            "off by": max((whole_of(a) - whole_of(b)).abs().max().item() for a, b in pairs),
        }


def replica_beside_one_row(seed, **options):
    """Bits of a parameter that all ranks have, beside one of which rank 1 has no element."""
    torch.manual_seed(seed)
    mesh = init_device_mesh("cpu", (2,))
    rows, replica = (torch.nn.Parameter(distribute_tensor(torch.randn(1, 512).bfloat16(), mesh, [placement]))
                     for placement in (Shard(0), Replicate()))
    with sluice.Runtime(**RESIDENT) as runtime:
        optimizer = sluice.torch.AdamW([rows, replica], lr=LR, runtime=runtime, **options)
        for _ in range(3):
            for parameter in (rows, replica):
                gradient = torch.randn(1, 512).bfloat16()
                parameter.grad = distribute_tensor(gradient, mesh, parameter.placements)
            optimizer.step()
        return digest([replica], DTensor.to_local)


def layout(spill, seed):
    """Each state's layout: whether it is that of its parameter, and the elements of this rank."""
    model = sharded(seed, torch.bfloat16)
    with sluice.Runtime(nvme=spill, **PAGED) as runtime:
        optimizer = adamw(model, runtime)
        train(model, optimizer, range(1))
        state = optimizer.state_dict()["state"]
        found = []
        for index, parameter in enumerate(model.parameters()):
            for name in ("exp_avg", "exp_avg_sq", "master"):
                each = state[index][name]
                found.append([each.placements == parameter.placements, each.dtype == torch.float32,
                              each.shape == parameter.shape, each.to_local().numel()])
        return found


def states(model, optimizer, **options):
    pair = get_state_dict(model, optimizer, options=StateDictOptions(**options))
    return dict(zip(("model", "optimizer"), pair))


def load_into(model, optimizer, checkpoint, **options):
    made = states(model, optimizer, **options)
    dcp.load(made, checkpoint_id=checkpoint)
    set_state_dict(model, optimizer, model_state_dict=made["model"],
                   optim_state_dict=made["optimizer"], options=StateDictOptions(**options))


def save(spill, seed, checkpoint, dtype, **options):
    """Three steps, a checkpoint of torch.distributed, three more steps."""
    model = sharded(seed, getattr(torch, dtype))
    with sluice.Runtime(nvme=spill, **PAGED) as runtime:
        optimizer = adamw(model, runtime)
        train(model, optimizer, range(3))
        made = states(model, optimizer, **options)
        dcp.save(made, checkpoint_id=checkpoint)
        before = [digest(model.parameters()), digest(states_of(optimizer))]
        losses = train(model, optimizer, range(3, 6))
        return {"saved": before, "losses": losses, "end": digest(model.parameters())}


def load(spill, seed, checkpoint, dtype, **options):
    """Three steps after a checkpoint."""
    model = sharded(seed, getattr(torch, dtype))
    with sluice.Runtime(nvme=spill, **PAGED) as runtime:
        optimizer = adamw(model, runtime)
        load_into(model, optimizer, checkpoint, **options)
        before = [digest(model.parameters()), digest(states_of(optimizer))]
        losses = train(model, optimizer, range(3, 6))
        return {"saved": before, "losses": losses, "end": digest(model.parameters())}


def full(spill, seed):
    """Whether a whole state dict of rank 0 gives every rank its part."""
    model, other = sharded(seed), sharded(seed + 1)
    with sluice.Runtime(nvme=spill, **PAGED) as runtime:
        optimizer, second = adamw(model, runtime), adamw(other, runtime)
        train(model, optimizer, range(2))
        made = states(model, optimizer, full_state_dict=True)
        set_state_dict(other, second, model_state_dict=made["model"],
                       optim_state_dict=made["optimizer"],
                       options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
        both = ((model, optimizer), (other, second))
        loaded = [digest(states_of(each)) for _, each in both]
        for each in both:
            train(*each, range(2, 4))
        return loaded, [digest(each.parameters()) for each, _ in both]


def save_own(spill, seed, directory, kind):
    """The ranks' saves, or that of rank 0, loaded under another budget; steps after and without it."""
    model, other = KINDS[kind](seed), KINDS[kind](seed + 1)
    with runtimes(spill) as (paged, resident):
        optimizer, second = adamw(model, paged), adamw(other, resident)
        train(model, optimizer, range(2))
        if kind == "fsdp" or dist.get_rank() == 0:
            optimizer.save(directory, note="two steps")
        dist.barrier()
        note = second.load(directory)
        steps = sorted({state["step"].item() for state in second.state.values()})
        for each in ((model, optimizer), (other, second)):
            train(*each, range(2, 4))
        return {"note": note, "steps": steps, "with states": len(second.state),
                "parameters": [digest(each.parameters()) for each in (model, other)]}


def load_own(spill, seed, directory):
    model = sharded(seed)
    with sluice.Runtime(nvme=spill, **PAGED) as runtime:
        return error_of(lambda: adamw(model, runtime).load(directory))


def error_of(call):
    try:
        call()
    except sluice.Error as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def accumulate(model, optimizer):
    backward(model, 0)
    backward(model, 1)


def clip(model, optimizer):
    backward(model, 0)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def misuse(spill, seed):
    """The errors of what several ranks cannot do, and whether parameters are as before."""
    errors = {}
    with sluice.Runtime(nvme=spill, **PAGED) as runtime:
        model = sharded(seed)
        errors["overlap"] = error_of(lambda: adamw(model, runtime, overlap=True))
        for call in (accumulate, clip):
            early = sharded(seed)
            optimizer = adamw(early, runtime, step_in_backward=True)
            errors[call.__name__] = error_of(lambda: call(early, optimizer))
            optimizer.close()
        optimizer = adamw(model, runtime)
        train(model, optimizer, range(1))
        before = digest([*model.parameters(), *states_of(optimizer)])
        weight = model[0].weight
        made = optimizer.state_dict()
        made["state"][0]["exp_avg"] = torch.zeros(weight.shape)
        errors["plain state"] = error_of(lambda: optimizer.load_state_dict(made))
        replicate = [Replicate()]
        made["state"][0]["exp_avg"] = torch.zeros_like(weight).redistribute(placements=replicate)
        errors["placements"] = error_of(lambda: optimizer.load_state_dict(made))
        weight.grad = torch.zeros_like(weight).redistribute(placements=replicate)
        errors["gradient"] = error_of(optimizer.step)
        weight.grad, own = torch.zeros_like(weight), weight._local_tensor
        weight._local_tensor = own.clone()
        errors["memory"] = error_of(optimizer.step)
        weight._local_tensor = own
        errors["changed"] = digest([*model.parameters(), *states_of(optimizer)]) != before
        partial = DTensor.from_local(torch.ones(4), weight.device_mesh, [Partial()])
        errors["partial"] = error_of(
            lambda: sluice.torch.SGD([torch.nn.Parameter(partial)], runtime=runtime))
        with unittest.mock.patch("sluice.torch._optimizer.ranks", lambda: 1):  # a process without ranks
            alone = adamw(torch.nn.Linear(2, 2), runtime, clip_norm=1.0)
        optimizer.close()
        errors["clip_norm"] = error_of(lambda: alone.add_param_group({"params": [weight]}))
        plain = replicated(seed)
        adam = adamw(plain, runtime, step_in_backward=True)
        before = digest(plain.parameters())
        errors["ddp"] = error_of(lambda: backward(plain, 0))
        errors["ddp changed"] = digest(plain.parameters()) != before
        adam.close()
    return errors


class Heard(logging.Handler):
    """The lines of the logger sluice."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def without_share(spill):
    """Log of an optimizer about a runtime with the whole budgets by default, and about one by choice."""
    heard = Heard()
    logging.getLogger("sluice").addHandler(heard)
    size = os.environ.pop("LOCAL_WORLD_SIZE")
    rank = os.environ.pop("LOCAL_RANK")
    try:
        for share in (None, (0, 1)):
            with sluice.Runtime(dram="1MiB", page_bytes="64KiB", share=share) as runtime:
                adamw(torch.nn.Linear(2, 2), runtime).close()
    finally:
        os.environ.update(LOCAL_WORLD_SIZE=size, LOCAL_RANK=rank)
        logging.getLogger("sluice").removeHandler(heard)
    return heard.lines


def answer(line):
    name, options = json.loads(line)
    module, _, function = name.rpartition(".")
    try:
        case = getattr(importlib.import_module(module), function) if module else globals()[function]
        return {"result": case(**options)}
    except BaseException:
        return {"error": traceback.format_exc()}


def main():
    store, rank, ranks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    replies, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    os.dup2(2, 1)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks,
                            timeout=datetime.timedelta(seconds=60))
    reply = {"result": "ready"}
    while True:
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
        line = sys.stdin.readline()
        if not line:
            os._exit(0)
        reply = answer(line)


if __name__ == "__main__":
    main()
