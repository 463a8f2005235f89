"""Parameters that are spread over two ranks other than by FSDP2 alone. See cases.py."""

import os

import cases
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module)

import sluice.torch


def wrapped(model, use_orig_params):
    return FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=use_orig_params)


def layers():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))


def first_fsdp():
    """Errors of FSDP1's parameters in an optimizer that is made after the wrapper, and before it."""
    with sluice.Runtime(**cases.RESIDENT) as runtime:
        after = []
        for use_orig_params in (True, False):
            parameters = wrapped(layers(), use_orig_params).named_parameters()
            after.append(cases.error_of(lambda own=parameters: sluice.torch.SGD(own, runtime=runtime)))
        model = layers()
        optimizer = sluice.torch.SGD(model.named_parameters(), runtime=runtime)
        wrapped(model, True)(torch.ones(4)).sum().backward()
        return {"after": after, "before": cases.error_of(optimizer.step)}


def evaluated(directory):
    """What a model computes when it is saved, and after a load that a forward without backward precedes."""
    model = layers()
    fully_shard(model[0], reshard_after_forward=False)
    fully_shard(model)

    @torch.no_grad()
    def evaluate():
        return model(torch.ones(2, 4)).tolist()

    with sluice.Runtime(**cases.RESIDENT) as runtime:
        optimizer = sluice.torch.SGD(model.parameters(), lr=0.1, runtime=runtime)
        optimizer.save(directory)
        saved = evaluate()
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        later = evaluate()
        optimizer.load(directory)
        return {"saved": saved, "later": later, "loaded": evaluate()}


def sequence_parallel():
    """A model of which both ranks have half of each sequence: their gradients of the norms are summands."""
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.GELU(),
                                torch.nn.Linear(16, 8), torch.nn.LayerNorm(8))
    return parallelize_module(model, init_device_mesh("cpu", (2,)), {
        "0": SequenceParallel(), "1": ColwiseParallel(input_layouts=Shard(1)),
        "3": RowwiseParallel(output_layouts=Shard(1), use_local_output=False), "4": SequenceParallel()})


def train_sequences(model, optimizer, batches=1, clip=None, set_to_none=True):
    """Three steps. Returns the first norm, if there are norms."""
    norms = []
    for step in range(3):
        for batch in range(batches):
            generator = torch.Generator().manual_seed(10 * step + batch)
            whole = torch.randn(2, 4, 8, generator=generator)
            output = model(distribute_tensor(whole, model[0].weight.device_mesh, [Shard(1)]))
            (output.full_tensor() - whole).square().mean().backward()
        if clip is not None:
            norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), clip).full_tensor().item())
        optimizer.step()
        norms.append(getattr(optimizer, "gradient_norm", None))
        optimizer.zero_grad(set_to_none=set_to_none)
    return norms[0]


def sums(clip=None, clip_norm=None, step_in_backward=False, **options):
    """Differences from torch's optimizer after steps of a model with sequence parallelism."""
    model, reference = sequence_parallel(), sequence_parallel()
    rates = {"lr": 1e-2, "eps": 1e-3}
    with sluice.Runtime(**cases.RESIDENT) as runtime:
        optimizer = sluice.torch.AdamW(model.parameters(), runtime=runtime, clip_norm=clip_norm,
                                       step_in_backward=step_in_backward, **rates)
        norm = train_sequences(model, optimizer, clip=clip, **options)
        theirs = torch.optim.AdamW(reference.parameters(), **rates)
        expected = train_sequences(reference, theirs, clip=clip or clip_norm, **options)
        pairs = zip(model.parameters(), reference.parameters())
        return {
            "norms": [norm, expected],
            "off by": max((cases.whole_of(a) - cases.whole_of(b)).abs().max().item() for a, b in pairs),
            "digest": cases.digest(model.parameters()),
        }


def two_of_three(directory, dimensions):
    """A save and a load of ranks 0 and 1, while rank 2 does something else."""
    shape, names = ((1, 2), ("replicas", "shards")) if dimensions == 2 else ((2,), None)
    meshes = [DeviceMesh("cpu", torch.tensor(ranks).reshape(shape), mesh_dim_names=names)
              for ranks in ([0, 1], [0, 2])]
    with sluice.Runtime(**cases.RESIDENT) as runtime:
        found = {}
        if dist.get_rank() < 2:
            model, other = (fully_shard(layers(), mesh=meshes[0]) for _ in range(2))
            optimizer, second = (cases.adamw(each, runtime) for each in (model, other))
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
            optimizer.save(directory)
            second.load(directory)
            found["same"] = [cases.digest(each.parameters(), cases.local_of) for each in (model, other)]
            found["error"] = cases.error_of(lambda: second.save(os.path.join(directory, "none")))
            second.close()
        if dist.get_rank() == 0:
            both = [fully_shard(torch.nn.Linear(4, 4), mesh=mesh).weight for mesh in meshes]
            apart = sluice.torch.SGD(both, runtime=runtime)
            found["apart"] = [cases.error_of(lambda call=call: call(directory)) for call in (apart.save, apart.load)]
        return found


def stages(directory):
    """Errors of three ranks with a mesh of one rank each, all cut from one mesh."""
    own = init_device_mesh("cpu", (3, 1), mesh_dim_names=("stages", "shards"))["shards"]
    with sluice.Runtime(**cases.RESIDENT) as runtime:
        optimizer = cases.adamw(fully_shard(layers(), mesh=own), runtime)
        optimizer.save(directory)
        optimizer.load(directory)
        return cases.error_of(lambda: optimizer.save(5 if dist.get_rank() == 2 else directory))
