"""State dicts of optimizers: torch's take ours and ours take torch's; saves."""

import copy
import io
import mmap
import os

import optimizing
import pytest
import torch
from torch.distributed.checkpoint.state_dict import (
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)

import sluice.torch
from sluice.torch import _states


def test_the_state_is_empty_before_the_first_step(runtime, seed):
    optimizer = sluice.torch.AdamW(optimizing.parameters(seed), runtime=runtime)
    state_dict = optimizer.state_dict()
    assert state_dict["state"] == {}
    assert state_dict["param_groups"][0]["params"] == list(range(len(optimizing.SHAPES)))
    optimizer.load_state_dict(state_dict)  # accelerate makes this call
    assert not optimizer.state


def test_adagrad_has_its_sums_from_the_start_as_torchs(runtime, spill, seed):
    """torch.distributed.checkpoint takes a step with an optimizer that has none."""
    options = {"lr": 0.1, "lr_decay": 0.5}
    mine, reference = (optimizing.parameters(seed) for _ in range(2))
    optimizer = sluice.torch.Adagrad(mine, runtime=runtime, **options)
    optimizer.save(spill)
    optimizer.load(spill)
    torchs = torch.optim.Adagrad(reference, **options)
    for each in (torchs.state_dict(), optimizer.state_dict()):
        optimizer.load_state_dict(each)
    torchs.load_state_dict(optimizer.state_dict())
    model = torch.nn.ParameterList(mine)
    get_optimizer_state_dict(model, optimizer)
    for params, each in ((mine, optimizer), (reference, torchs)):
        optimizing.run(each, params, seed, 3)
    assert [state["step"] for state in optimizer.state.values()] == [3] * len(mine)
    assert optimizing.off_by(mine, reference, 0.1) <= 1e-6


PAIRS = [
    (sluice.torch.AdamW, torch.optim.AdamW, {"lr": 1e-2}),
    (sluice.torch.Adam, torch.optim.Adam, {"lr": 1e-2}),
    (sluice.torch.SGD, torch.optim.SGD, {"lr": 1e-2, "momentum": 0.9}),
    (sluice.torch.Adagrad, torch.optim.Adagrad, {"lr": 1e-2}),
]


@pytest.mark.parametrize("ours,theirs,options", PAIRS)
def test_torch_goes_on_with_our_state(runtime, seed, ours, theirs, options):
    mine, reference = optimizing.parameters(seed), optimizing.parameters(seed)
    first = ours(mine, runtime=runtime, **options)
    optimizing.run(first, mine, seed, 3)
    second = theirs(mine, lr=5.0)
    second.load_state_dict(first.state_dict())
    optimizing.run(second, mine, seed, 3, first=3)
    optimizing.run(theirs(reference, **options), reference, seed, 6)
    assert optimizing.off_by(mine, reference, 1e-2) <= 1e-6


@pytest.mark.parametrize("ours,theirs,options", PAIRS)
def test_ours_goes_on_with_torchs_state(runtime, seed, ours, theirs, options):
    mine, reference = optimizing.parameters(seed), optimizing.parameters(seed)
    first = theirs(mine, **options)
    optimizing.run(first, mine, seed, 3)
    second = ours(mine, lr=5.0, runtime=runtime)
    second.load_state_dict(first.state_dict())
    optimizing.run(second, mine, seed, 3, first=3)
    optimizing.run(theirs(reference, **options), reference, seed, 6)
    assert second.param_groups[0]["lr"] == 1e-2
    assert optimizing.off_by(mine, reference, 1e-2) <= 1e-6


@pytest.mark.parametrize("model_first", [True, False])
def test_a_model_is_loaded_before_or_after_its_optimizer(runtime, seed, model_first):
    saved = optimizing.parameters(seed, torch.bfloat16)
    first = sluice.torch.AdamW(saved, lr=1e-3, runtime=runtime)
    optimizing.run(first, saved, seed, 3)
    state_dict, values = first.state_dict(), [each.detach().clone() for each in saved]
    loaded = optimizing.parameters(seed + 1, torch.bfloat16)
    second = sluice.torch.AdamW(loaded, lr=1e-3, runtime=runtime)
    loads = [lambda: [each.data.copy_(value) for each, value in zip(loaded, values)],
             lambda: second.load_state_dict(state_dict)]
    for load in loads if model_first else reversed(loads):
        load()
    for params, optimizer in ((saved, first), (loaded, second)):
        optimizing.run(optimizer, params, seed, 2, first=3)
    assert optimizing.same(loaded, saved)
    masters = ([state["master"] for state in each.state_dict()["state"].values()]
               for each in (second, first))
    assert optimizing.same(*masters)


def test_masters_in_a_state_dict_are_those_of_parameters_that_were_written(runtime, seed):
    params = optimizing.parameters(seed, torch.bfloat16)
    optimizer = sluice.torch.AdamW(params, lr=1e-3, runtime=runtime)
    optimizing.run(optimizer, params, seed, 2)
    with torch.no_grad():
        params[0].view(-1)[::2] = 100.0
    master = optimizer.state_dict()["state"][0]["master"]
    assert (master.view(-1)[::2] == 100.0).all() and torch.equal(master.bfloat16(), params[0])
    assert not torch.equal(master, params[0].float()), "the others have their digits"


@pytest.mark.parametrize("states", ["fp32", "bf16", "8bit"])
@pytest.mark.parametrize("dtype,master", [(torch.float32, True), (torch.bfloat16, True),
                                          (torch.bfloat16, False), (torch.float16, True)])
def test_a_state_dict_carries_every_bit(runtime, seed, states, dtype, master):
    shapes = [(129, 100), (17,), ()]
    options = {"lr": 1e-3, "states": states, "master": master, "runtime": runtime}
    straight = optimizing.parameters(seed, dtype, shapes)
    first = sluice.torch.AdamW(straight, **options)
    optimizing.run(first, straight, seed, 4)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    resumed = [torch.nn.Parameter(param.detach().clone()) for param in straight]
    optimizing.run(first, straight, seed, 4, first=4)
    second = sluice.torch.AdamW(resumed, **options)
    file.seek(0)
    second.load_state_dict(torch.load(file))
    optimizing.run(second, resumed, seed, 4, first=4)
    assert optimizing.same(straight, resumed)


def test_steps_are_counted_on(runtime, seed):
    params = optimizing.parameters(seed, shapes=[(8,), (9,)])
    optimizer = sluice.torch.AdamW(params, runtime=runtime)
    state_dict = torch.optim.AdamW(params).state_dict()
    state_dict["state"] = {0: {"step": torch.tensor(1000003.0), "exp_avg": torch.ones(8),
                               "exp_avg_sq": torch.ones(8)}}
    optimizer.load_state_dict(state_dict)
    assert list(optimizer.state) == [params[0]]
    optimizing.run(optimizer, params, seed, 1)
    assert [state["step"].item() for state in optimizer.state_dict()["state"].values()] == [1000004, 1]


def test_tensors_are_mapped_one_storage_each(runtime, seed):
    params = optimizing.parameters(seed)
    optimizer = sluice.torch.AdamW(params, runtime=runtime)
    optimizing.run(optimizer, params, seed, 2)
    state_dict = optimizer.state_dict()
    for index, state in state_dict["state"].items():
        for name in ("exp_avg", "exp_avg_sq"):
            assert state[name].shape == params[index].shape
            assert state[name].untyped_storage().nbytes() == state[name].nbytes
            assert state[name].data_ptr() % mmap.PAGESIZE % 64 == 0
    with open("/proc/self/maps") as maps:
        assert "(deleted)" in maps.read()
    copied = copy.deepcopy(state_dict)
    kept = {index: state["exp_avg"].clone() for index, state in state_dict["state"].items()}
    optimizing.run(optimizer, params, seed, 1)
    assert all(torch.equal(kept[i], s["exp_avg"]) for i, s in state_dict["state"].items())
    assert all(torch.equal(kept[i], s["exp_avg"]) for i, s in copied["state"].items())


def test_hooks_see_the_state_dict(runtime, seed):
    params = optimizing.parameters(seed, shapes=[(8,)])
    optimizer = sluice.torch.AdamW(params, runtime=runtime)
    optimizing.run(optimizer, params, seed, 1)
    seen = []
    optimizer.register_state_dict_post_hook(lambda _, made: seen.append(sorted(made["state"][0])))
    optimizer.register_load_state_dict_pre_hook(lambda _, made: seen.append(len(made["state"])))
    optimizer.register_load_state_dict_post_hook(lambda _: seen.append("loaded"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == [["exp_avg", "exp_avg_sq", "step"], 1, "loaded"]


def broken(state_dict, change):
    made = copy.deepcopy(state_dict)
    change(made)
    return made


@pytest.mark.parametrize("change,message", [
    (lambda d: d.pop("param_groups"), "no 'state' or no 'param_groups'"),
    (lambda d: d["param_groups"].append(d["param_groups"][0]), "has 2 parameter groups, the optimizer 1"),
    (lambda d: d["param_groups"][0]["params"].pop(), "1 parameters in the state dict and 2"),
    (lambda d: d["param_groups"][0].update(amsgrad=True), "amsgrad=True is not supported"),
    (lambda d: d["param_groups"][0].update(decoupled_weight_decay=False), "is that of Adam"),
    (lambda d: d["state"][1].pop("exp_avg_sq"), "parameter '1' has no state 'exp_avg_sq'"),
    (lambda d: d["state"][1].update(max_exp_avg_sq=1), "'1' has a state 'max_exp_avg_sq'"),
    (lambda d: d["state"][1].update(exp_avg=torch.ones(5)), r"'1' has shape \(4,\), its state"),
    (lambda d: d["state"][1].update(exp_avg=7), "'exp_avg' in the state dict that is no dense"),
    (lambda d: d["state"][1].update(exp_avg=torch.ones(4, device="meta")), "'exp_avg' .* is on meta"),
    (lambda d: d["state"][1].update(step=torch.tensor(1.5)), "has 1.5 steps in the state dict"),
    (lambda d: d["state"][1].update(step=float("inf")), "'1' has inf steps in the state dict"),
    (lambda d: d["state"][1].update(step=torch.ones(3)), "'1' has a 'step' in the state dict that is no"),
    (lambda d: d["param_groups"][0].update(params=[0, 0]), "'1' is number 0 .*, as parameter '0' is"),
    (lambda d: d.update(state=[1]), "has 'state' as list, not as a dict"),
    (lambda d: d["state"].update({1: 7}), "has the states of parameter 1 as int, not as a dict"),
    (lambda d: d.update(param_groups=None), "has 'param_groups' as NoneType, not as a list"),
    (lambda d: d.update(param_groups=[1]), "group 0 of the state dict is no dict with a list 'params'"),
    (lambda d: d["param_groups"][0].update(params=[[0], [1]]), "group 0 of the state dict is no dict"),
    (lambda d: d["param_groups"][0].update(lr=-3), "group 0 of the state dict: lr is -3; it must be"),
    (lambda d: d["param_groups"][0].update(lr=float("nan")), "lr is nan; it must be"),
    (lambda d: d["param_groups"][0].update(weight_decay=-1), "weight_decay is -1; it must be"),
    (lambda d: d["param_groups"][0].update(betas=None), "betas is None; it must be two numbers"),
    (lambda d: d["param_groups"][0].update(betas=(0.9, 1.5)), r"betas is \(0.9, 1.5\); it must be two"),
])
def test_a_wrong_state_dict_is_refused_and_nothing_changes(runtime, seed, change, message):
    params = optimizing.parameters(seed, shapes=[(8,), (4,)])
    optimizer = sluice.torch.AdamW(params, runtime=runtime)
    optimizing.run(optimizer, params, seed, 2)
    before = optimizer.state_dict()
    with pytest.raises(sluice.InvalidArgument, match=message):
        optimizer.load_state_dict(broken(before, change))
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    for index, state in before["state"].items():
        assert optimizing.same(state.values(), after["state"][index].values())


def test_broken_state_dicts_and_paths_are_named(runtime, spill):
    optimizer = sluice.torch.AdamW([torch.nn.Parameter(torch.ones(4))], runtime=runtime)
    with pytest.raises(sluice.InvalidArgument, match="the state dict is NoneType; take that of state_dict"):
        optimizer.load_state_dict(None)
    for call in (optimizer.save, optimizer.load):
        for path in (None, 3, "a\0b"):
            with pytest.raises(sluice.InvalidArgument, match="the directory of a save is .*; it must be"):
                call(path)
    with pytest.raises(sluice.InvalidArgument, match="the note of a save is int; it must be text"):
        optimizer.save(spill, note=3)
    optimizer.save(os.fsencode(spill), note="bytes")
    assert optimizer.load(spill) == "bytes"


def test_states_go_to_no_other_place_than_the_directory_that_was_named(make_runtime, spill, seed):
    place = spill / "gone"
    place.mkdir(mode=0o700)
    parameters = optimizing.parameters(seed)
    optimizer = sluice.torch.AdamW(parameters, runtime=make_runtime(nvme=place))
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    place.rmdir()
    with pytest.raises(sluice.TierFull, match=f"{place} takes no file of the .* bytes of the states"):
        optimizer.state_dict()


def end_in_the_middle(monkeypatch, call, at):
    """Has the load of a state dict end before it writes a parameter: the first is number 1."""
    write, written = _states.Loaded.write, []

    def fail(load, core):
        written.append(load)
        if len(written) == at:
            raise sluice.Unavailable("the disk is away")
        write(load, core)

    with monkeypatch.context() as patch, pytest.raises(sluice.Unavailable):
        patch.setattr(_states.Loaded, "write", fail)
        call()


def test_a_load_that_ends_in_the_middle_is_not_saved(runtime, seed, tmp_path, monkeypatch):
    params = optimizing.parameters(seed, shapes=[(8,), (4,)])
    optimizer = sluice.torch.AdamW(params, runtime=runtime)
    optimizing.run(optimizer, params, seed, 2)
    good = optimizer.state_dict()
    optimizer.save(tmp_path)
    end_in_the_middle(monkeypatch, lambda: optimizer.load_state_dict(good), 2)
    before = (tmp_path / "optimizer.sluice").read_bytes()
    for call in (lambda: optimizer.save(tmp_path), optimizer.state_dict):
        with pytest.raises(sluice.FailedPrecondition, match="the last load ended in the middle"):
            call()
    assert (tmp_path / "optimizer.sluice").read_bytes() == before
    optimizer.load_state_dict(good)
    optimizer.save(tmp_path)


@pytest.mark.parametrize("at", [1, 2])
def test_a_first_load_that_ended_in_the_middle_leaves_rates_and_gradients(runtime, seed, monkeypatch, at):
    torch.manual_seed(seed)
    model, reference = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3)
    theirs = torch.optim.AdamW(reference.parameters(), lr=0.5)
    optimizing.run(theirs, list(reference.parameters()), seed, 2)
    optimizer = sluice.torch.AdamW(model.parameters(), lr=0.25, runtime=runtime)
    end_in_the_middle(monkeypatch, lambda: optimizer.load_state_dict(theirs.state_dict()), at)
    with pytest.raises(sluice.FailedPrecondition, match="the last load ended in the middle"):
        get_optimizer_state_dict(model, optimizer)
    assert optimizer.param_groups[0]["lr"] == 0.25
    assert all(each.grad is None for each in model.parameters())
    optimizer.load_state_dict(theirs.state_dict())
    assert get_optimizer_state_dict(model, optimizer)["state"]["bias"]["step"] == 2


@pytest.mark.parametrize("at", [1, 2])
def test_a_load_that_ended_in_the_middle_is_repeated_by_distributed_checkpoint(runtime, seed,
                                                                              monkeypatch, at):
    torch.manual_seed(seed)
    model = torch.nn.Linear(4, 3)
    optimizer = sluice.torch.AdamW(model.parameters(), runtime=runtime)
    optimizing.run(optimizer, list(model.parameters()), seed, 2)
    want = optimizer.state_dict()
    good = get_optimizer_state_dict(model, optimizer)
    optimizing.run(optimizer, list(model.parameters()), seed, 1)
    weights = [each.detach().clone() for each in model.parameters()]
    end_in_the_middle(monkeypatch, lambda: set_optimizer_state_dict(model, optimizer, good), at)
    with pytest.raises(sluice.FailedPrecondition, match="set_optimizer_state_dict takes the same"):
        get_optimizer_state_dict(model, optimizer)
    assert all(each.grad is None for each in model.parameters())  # else it has tried to make a step
    set_optimizer_state_dict(model, optimizer, good)
    got = optimizer.state_dict()
    assert got["param_groups"] == want["param_groups"] and optimizing.same(weights, model.parameters())
    for index, state in want["state"].items():
        assert optimizing.same(state.values(), [got["state"][index][name] for name in state])


def test_a_load_after_one_that_ended_in_the_middle_leaves_nothing_of_it(runtime, seed, monkeypatch):
    mine, reference = (optimizing.parameters(seed, shapes=[(8,), (4,)]) for _ in range(2))
    optimizer = sluice.torch.SGD(mine, lr=0.1, momentum=0.9, runtime=runtime)
    empty = optimizer.state_dict()
    full = torch.optim.SGD(mine, lr=0.1, momentum=0.9).state_dict()
    full["state"] = {index: {"momentum_buffer": torch.ones(8 - 4 * index)} for index in range(2)}
    end_in_the_middle(monkeypatch, lambda: optimizer.load_state_dict(full), 2)
    optimizer.load_state_dict(empty)
    optimizing.run(optimizer, mine, seed, 1)
    optimizing.run(torch.optim.SGD(reference, lr=0.1, momentum=0.9), reference, seed, 1)
    assert optimizing.off_by(mine, reference, 0.1) <= 1e-6


@pytest.mark.parametrize("dtype,master", [(torch.float32, True), (torch.bfloat16, True),
                                          (torch.bfloat16, False)])
def test_a_save_is_loaded_under_another_budget(make_runtime, spill, seed, dtype, master):
    params = optimizing.parameters(seed, dtype)
    options = {"lr": 1e-3, "master": master, "states": "8bit"}
    first = sluice.torch.AdamW(params, runtime=make_runtime(), **options)
    optimizing.run(first, params, seed, 2)
    first.param_groups[0]["lr"] = 5e-3
    first.save(spill, note="epoch 1")
    resumed = optimizing.parameters(seed + 1, dtype)
    second = sluice.torch.AdamW(resumed, runtime=make_runtime(dram="32MiB"), **options)
    assert second.load(spill) == "epoch 1"
    assert second.param_groups[0]["lr"] == 5e-3
    assert optimizing.same(params, resumed)
    for each, own in ((first, params), (second, resumed)):
        optimizing.run(each, own, seed, 2, first=2)
    assert optimizing.same(params, resumed)
    assert [s["step"].item() for s in second.state.values()] == [4] * len(params)


@pytest.mark.parametrize("more", [0, 1, 7])
def test_what_came_from_a_state_dict_is_saved_and_loaded(runtime, spill, seed, more):
    params, resumed, loaded = (optimizing.parameters(seed) for _ in range(3))
    first = sluice.torch.AdamW(params, runtime=runtime)
    optimizing.run(first, params, seed, 5)
    second = sluice.torch.AdamW(resumed, runtime=runtime)
    second.load_state_dict(first.state_dict())
    optimizing.run(second, resumed, seed, more, first=5)
    second.save(spill)
    third = sluice.torch.AdamW(loaded, runtime=runtime)
    third.load(spill)
    assert [s["step"].item() for s in third.state_dict()["state"].values()] == [5 + more] * len(params)
    for each, own in ((second, resumed), (third, loaded)):
        optimizing.run(each, own, seed, 1, first=5 + more)
    assert optimizing.same(resumed, loaded)


def test_a_load_that_ctrl_c_ends_is_repeated(runtime, spill, seed, monkeypatch):
    params = optimizing.parameters(seed, shapes=[(8,)])
    optimizer = sluice.torch.AdamW(params, runtime=runtime)
    optimizing.run(optimizer, params, seed, 2)
    optimizer.save(spill)

    def interrupt(note):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(optimizer, "_take_note", interrupt)
        optimizer.load(spill)
    for call in (lambda: optimizing.run(optimizer, params, seed, 1), lambda: optimizer.save(spill)):
        with pytest.raises(sluice.FailedPrecondition, match="the last load ended in the middle"):
            call()
    optimizer.load(spill)
    optimizing.run(optimizer, params, seed, 1)
    assert optimizer.state_dict()["state"][0]["step"] == 3


def test_a_save_of_another_model_is_refused(runtime, spill, seed):
    params = optimizing.parameters(seed, shapes=[(8,)])
    sluice.torch.AdamW(params, runtime=runtime).save(spill)
    other = optimizing.parameters(seed, shapes=[(9,)])
    optimizer = sluice.torch.AdamW(other, runtime=runtime)
    with pytest.raises(sluice.InvalidArgument, match='number of elements of "0" is 8 in the save and 9'):
        optimizer.load(spill)
    with pytest.raises(sluice.NotFound):
        optimizer.load(spill / "nowhere")


@pytest.mark.parametrize("change,message", [
    (lambda state: state.pop("step"), "'1' has no 'step' in the state dict"),
    (lambda state: state.update(step=1e19), r"'1' has 1e\+19 steps in the state dict; they are whole"),
    (lambda state: state.update(step=torch.tensor(1.5)), "'1' has 1.5 steps in the state dict"),
    (lambda state: state.update(step="3"), "'1' has a 'step' in the state dict that is no number"),
    (lambda state: state.update(step=torch.ones(2)), "'1' has a 'step' in the state dict that is no number"),
    (lambda state: state.update(exp_avg=[1.0] * 4), "'1' has a state 'exp_avg' in the state dict that is no"),
])
def test_a_wrong_state_dict_is_refused_before_anything_is_loaded(runtime, seed, change, message):
    mine, reference = (optimizing.parameters(seed, shapes=[(8,), (4,)]) for _ in range(2))
    optimizer, theirs = sluice.torch.AdamW(mine, runtime=runtime), torch.optim.AdamW(reference, lr=1.0)
    optimizing.run(optimizer, mine, seed, 1)
    optimizing.run(theirs, reference, seed, 2)
    saved = copy.deepcopy(theirs.state_dict())
    change(saved["state"][1])
    before = optimizer.state_dict()
    with pytest.raises(sluice.InvalidArgument, match=message):
        optimizer.load_state_dict(saved)
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"]
    for index, state in before["state"].items():
        assert optimizing.same(state.values(), after["state"][index].values())
