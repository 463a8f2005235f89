"""Parameters that are spread over two ranks other than by FSDP2 alone. See cases.py."""

import cases
import torch
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

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
