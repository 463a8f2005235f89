"""Saves of two ranks that cannot be loaded, as their parts do not belong together. See cases.py."""

import errno
import os
import pathlib
import unittest.mock

import cases
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import sluice.torch


def halves(mesh):
    """An optimizer's parameter of which each rank has four rows."""
    torch.manual_seed(1)
    rows = distribute_tensor(torch.randn(8, 4), mesh, [Replicate()] * (mesh.ndim - 1) + [Shard(0)])
    return torch.nn.Parameter(rows)


def update(parameter, optimizer):
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    optimizer.zero_grad()


def own_file(directory):
    return pathlib.Path(directory, f"rank-{dist.get_rank()}-of-2", "optimizer.sluice")


def on_rank_1(change):
    """Calls `change` on rank 1, between barriers: the next call of every rank comes after it."""
    dist.barrier()
    if dist.get_rank() == 1:
        change()
    dist.barrier()


def damage(file, tensor):
    """Changes one bit of a tensor's bytes in a file."""
    content = bytearray(file.read_bytes())
    content[content.index(cases.local_of(tensor).detach().numpy().tobytes())] ^= 1
    file.write_bytes(content)


def unequal_saves(directory):
    """Errors of saves and loads of which rank 1 has another part than rank 0."""
    errors = {}
    parameter = halves(init_device_mesh("cpu", (2,)))
    with sluice.Runtime(**cases.RESIDENT) as runtime:
        optimizer = sluice.torch.AdamW([parameter], lr=cases.LR, runtime=runtime)

        def note_error_of_load(name):
            before = cases.digest([parameter, *cases.states_of(optimizer)], cases.local_of)
            errors[name] = cases.error_of(lambda: optimizer.load(directory))
            if cases.digest([parameter, *cases.states_of(optimizer)], cases.local_of) != before:
                errors["changed"].append(name)

        errors["changed"] = []
        file = own_file(directory)
        update(parameter, optimizer)
        optimizer.save(directory)
        older = file.read_bytes()
        update(parameter, optimizer)
        optimizer.save(directory)
        newer, saved = file.read_bytes(), parameter.detach().clone()
        on_rank_1(lambda: file.write_bytes(older))
        update(parameter, optimizer)
        note_error_of_load("other save")
        on_rank_1(file.unlink)
        note_error_of_load("no file")
        on_rank_1(lambda: file.write_bytes(newer))
        on_rank_1(lambda: damage(file, saved))
        errors["damaged"] = cases.error_of(lambda: optimizer.load(directory))
        parameter.grad = torch.ones_like(parameter)
        errors["step"] = cases.error_of(optimizer.step)
        on_rank_1(lambda: file.write_bytes(newer))
        errors["mended"] = cases.error_of(lambda: optimizer.load(directory))
        errors["steps"] = optimizer.state[parameter]["step"].item()
        on_rank_1(lambda: optimizer._core.save(str(file.parent), "a save of one process"))
        note_error_of_load("no ranks")
        on_rank_1(lambda: (file.unlink(), file.parent.rmdir(), file.parent.touch()))
        errors["no folder"] = cases.error_of(lambda: optimizer.save(directory))
    return errors


def other_layouts(directory):
    """Errors of a save of rows that are spread over the ranks in another way."""
    errors = {}
    with sluice.Runtime(**cases.RESIDENT) as runtime:

        def optimizer_of(mesh):
            parameter = halves(mesh)
            return parameter, sluice.torch.AdamW([parameter], lr=cases.LR, runtime=runtime)

        parameter, optimizer = optimizer_of(init_device_mesh("cpu", (2,)))
        update(parameter, optimizer)
        optimizer.save(directory)
        for name, mesh in (("backwards", DeviceMesh("cpu", [1, 0])),
                           ("of two dimensions", init_device_mesh("cpu", (1, 2)))):
            other, second = optimizer_of(mesh)
            before = cases.digest([other])
            errors[name] = cases.error_of(lambda second=second: second.load(directory))
            errors[name + " changed"] = cases.digest([other]) != before
    return errors


def unlike_calls(directory):
    """Errors of calls of which rank 1 makes another one than rank 0, and of those without a group."""
    parameter = halves(init_device_mesh("cpu", (2,)))
    second = dist.get_rank() == 1
    errors = {}
    with sluice.Runtime(**cases.RESIDENT) as runtime:
        optimizer = sluice.torch.AdamW([parameter], lr=cases.LR, clip_norm=1.0, runtime=runtime)
        update(parameter, optimizer)
        calls = {
            "note": lambda: optimizer.save(directory, 5 if second else "text"),
            "save": lambda: optimizer.save("a\0b" if second else directory),
            "load": lambda: optimizer.load(5 if second else directory),
            "none": lambda: optimizer.save(os.path.join(directory, "none")),
            "save, load": lambda: optimizer.load(directory) if second else optimizer.save(directory),
        }
        for name, call in calls.items():
            errors[name] = cases.error_of(call)
        with unittest.mock.patch("torch.distributed.is_initialized", return_value=False):
            parameter.grad = torch.ones_like(parameter)
            errors["no group"] = [cases.error_of(call) for call in (
                optimizer.step, lambda: optimizer.save(directory), lambda: optimizer.load(directory))]
        with sluice.Runtime(**cases.RESIDENT) as other:
            lion = sluice.torch.Lion([halves(parameter.device_mesh)], runtime=other)
            lion.save(directory)
        errors["kind"] = cases.error_of(lambda: optimizer.load(directory))
        parameter.grad = None if second else torch.ones_like(parameter)
        optimizer.step()  # nothing has changed in the load
        norm, steps = optimizer.gradient_norm, optimizer.state[parameter]["step"].item()
    left = sorted(path.name for path in own_file(directory).parent.iterdir())
    return {"errors": errors, "norm": norm, "steps": steps, "left": left}


def killed(directory):
    """Loads and saves after a save that ended when rank 0's file had its name, and rank 1's had not."""
    parameter = halves(init_device_mesh("cpu", (2,)))
    file = own_file(directory)
    waiting = file.parent / "next" / file.name
    with sluice.Runtime(**cases.RESIDENT) as runtime:
        optimizer = sluice.torch.AdamW([parameter], lr=cases.LR, runtime=runtime)
        saves = []
        for _ in range(2):
            update(parameter, optimizer)
            optimizer.save(directory)
            saves.append((file.read_bytes(), cases.digest([parameter])))
        (older, _), (newer, wanted) = saves

        def end_early(first):
            waiting.parent.mkdir()
            waiting.write_bytes(newer)
            (waiting.parent / ".sluice-0123.partial").touch()
            file.unlink() if first else file.write_bytes(older)

        def loaded():
            update(parameter, optimizer)
            error = cases.error_of(lambda: optimizer.load(directory))
            left = sorted(path.name for path in file.parent.iterdir())
            return [error, cases.digest([parameter]) == wanted, left]

        answers = []
        for first in (True, False):
            on_rank_1(lambda first=first: end_early(first))
            answers.append(loaded())
        on_rank_1(lambda: end_early(False))
        with unittest.mock.patch.object(optimizer, "_write", side_effect=sluice.TierFull("full")):
            refused = cases.error_of(lambda: optimizer.save(directory))
        answers.append(loaded())
    return {"loaded": answers, "refused": refused}


def failed_rename(directory):
    """A save of which rank 1's file is whole and cannot take its name."""
    parameter = halves(init_device_mesh("cpu", (2,)))
    rename = os.replace

    def fail(source, target):
        if source.endswith("next/optimizer.sluice") and dist.get_rank() == 1:
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    with sluice.Runtime(**cases.RESIDENT) as runtime:
        optimizer = sluice.torch.AdamW([parameter], lr=cases.LR, runtime=runtime)
        update(parameter, optimizer)
        optimizer.save(directory)
        before = own_file(directory).read_bytes()
        update(parameter, optimizer)
        with unittest.mock.patch("os.replace", fail):
            error = cases.error_of(lambda: optimizer.save(directory))
        dist.barrier()
        left = sorted(path.name for path in own_file(directory).parent.iterdir())
        same = own_file(directory).read_bytes() == before
        loaded = cases.error_of(lambda: optimizer.load(directory))
        steps = optimizer.state[parameter]["step"].item()
    return {"error": error, "left": left, "same": same, "loaded": loaded, "steps": steps}
