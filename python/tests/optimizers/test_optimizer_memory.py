"""Parameters that are given other memory: optimizers follow them, as torch's do."""

import itertools
import sys

import optimizing
import pytest
import torch

import sluice.torch

KINDS = [
    ("AdamW", torch.float32, {}),
    ("AdamW", torch.bfloat16, {"states": "8bit"}),
    ("SGD", torch.bfloat16, {"states": "bf16", "master": False, "momentum": 0.9}),
    ("SGD", torch.bfloat16, {}),
    ("Adagrad", torch.float32, {}),
    ("Lion", torch.float16, {"states": "8bit"}),
]

SHAPES = [(300, 200), (), (7, 3)]


def move(params, change=torch.clone):
    for param in params:
        param.data = change(param.data)


def made(name, params, runtime, **options):
    return getattr(sluice.torch, name)(params, lr=1e-2, runtime=runtime, **options)


def states_of(optimizer):
    state = optimizer.state_dict()["state"]
    return [state[index][name] for index in sorted(state) for name in sorted(state[index])]


@pytest.mark.parametrize("before", [0, 2])
@pytest.mark.parametrize("name,dtype,options", KINDS)
def test_states_stay_as_they_are(make_runtime, seed, name, dtype, options, before):
    params, reference = (optimizing.parameters(seed, dtype) for _ in range(2))
    optimizer = made(name, params, make_runtime(), **options)
    optimizing.run(optimizer, params, seed, before)
    move(params)
    optimizing.run(optimizer, params, seed, 2, first=before)
    expected = made(name, reference, make_runtime(), **options)
    optimizing.run(expected, reference, seed, before + 2)
    assert optimizing.same(params, reference)
    assert optimizing.same(states_of(optimizer), states_of(expected))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_new_memory_may_have_new_values(make_runtime, seed, dtype):
    params, reference = (optimizing.parameters(seed, dtype, SHAPES) for _ in range(2))
    optimizer, expected = (made("AdamW", each, make_runtime()) for each in (params, reference))
    for first in (0, 2):
        for each, weights in ((optimizer, params), (expected, reference)):
            optimizing.run(each, weights, seed, 2, first=first)
        move(params, lambda data: data * 0.7)
        with torch.no_grad():
            for param in reference:
                param.mul_(0.7)
    optimizer.load_state_dict(optimizer.state_dict())
    for each, weights in ((optimizer, params), (expected, reference)):
        optimizing.run(each, weights, seed, 1, first=4)
    assert optimizing.same(params, reference)


def test_a_module_that_is_converted_is_followed(runtime, seed):
    torch.manual_seed(seed)
    model = torch.nn.Linear(64, 8)
    optimizer = made("AdamW", model.parameters(), runtime)
    address = model.weight.data_ptr()
    model.to("cpu:0")
    model.share_memory()
    assert model.weight.data_ptr() != address
    before = model.weight.detach().clone()
    model(torch.ones(2, 64)).sum().backward()
    optimizer.step()
    assert not torch.equal(before, model.weight)


def test_saves_and_loads_are_of_the_new_memory(make_runtime, spill, seed):
    params, other = (optimizing.parameters(seed + number, torch.bfloat16, SHAPES) for number in range(2))
    optimizer = made("AdamW", params, make_runtime())
    optimizing.run(optimizer, params, seed, 2)
    move(params, lambda data: data * 0.7)
    optimizer.save(spill)
    saved = [param.detach().clone() for param in params]
    optimizing.run(optimizer, params, seed, 1, first=2)
    move(params)
    optimizer.load(spill)
    assert optimizing.same(params, saved)
    second = made("AdamW", other, make_runtime())
    second.load(spill)
    assert optimizing.same(other, saved) and optimizing.same(states_of(second), states_of(optimizer))


def test_parameters_may_change_places(make_runtime, seed):
    params, reference = (optimizing.parameters(seed, shapes=[(8, 4), (8, 4)]) for _ in range(2))
    optimizer, expected = (made("AdamW", each, make_runtime()) for each in (params, reference))
    optimizing.run(optimizer, params, seed, 1)
    params[0].data, params[1].data = params[1].data, params[0].data
    optimizing.run(optimizer, params, seed, 1, first=1)
    optimizing.run(expected, reference, seed, 1)
    values = [param.detach().clone() for param in reference]
    with torch.no_grad():
        for param, value in zip(reference, reversed(values)):
            param.copy_(value)
    optimizing.run(expected, reference, seed, 1, first=1)
    assert optimizing.same(params, reference)


def inference():
    with torch.inference_mode():
        return torch.ones(8, 4)


def freed():
    data = torch.ones(8, 4)
    data.untyped_storage().resize_(0)
    return data


IMPOSSIBLE = {
    "is not contiguous": lambda params: torch.ones(4, 8).t(),
    r"was made in torch.inference_mode\(\)": lambda params: inference(),
    "other memory .* or a freed storage": lambda params: freed(),
    "at an address that is no multiple of 4": lambda params: torch.frombuffer(
        bytearray(129), dtype=torch.float32, offset=1, count=32).view(8, 4),
    "overlaps that of the parameter '0' of this optimizer": lambda params: params[0].data,
}


@pytest.mark.parametrize("problem", IMPOSSIBLE)
def test_impossible_memory_is_refused_and_changes_nothing(make_runtime, seed, problem):
    params, reference = (optimizing.parameters(seed, shapes=[(8, 4), (8, 4)]) for _ in range(2))
    optimizer = made("AdamW", params, make_runtime())
    optimizing.run(optimizer, params, seed, 1)
    own = params[1].data
    params[1].data = IMPOSSIBLE[problem](params)
    for param in params:
        param.grad = torch.ones(8, 4)
    for call in (optimizer.step, lambda: optimizer.save("/tmp"), lambda: optimizer.load_state_dict(
            optimizer.state_dict())):
        with pytest.raises(sluice.InvalidArgument, match=f"parameter '1' .*{problem}"):
            call()
    params[1].data = own
    optimizing.run(optimizer, params, seed, 1, first=1)
    optimizing.run(made("AdamW", reference, make_runtime()), reference, seed, 2)
    assert optimizing.same(params, reference)


def test_memory_of_another_optimizer_is_refused_and_that_from_before_stays_owned(make_runtime, seed):
    first, second = (optimizing.parameters(seed, shapes=[(8, 4)]) for _ in range(2))
    optimizers = [made("SGD", each, make_runtime()) for each in (first, second)]
    own = first[0].data
    first[0].data = second[0].data
    first[0].grad = torch.ones(8, 4)
    with pytest.raises(sluice.InvalidArgument, match="'0' has memory that overlaps .* of another optimizer"):
        optimizers[0].step()
    first[0].data = own
    optimizers[0].step()
    with pytest.raises(sluice.InvalidArgument, match="belongs to another optimizer"):
        made("SGD", first, make_runtime())


def test_a_closed_optimizer_stays_closed(make_runtime, seed):
    params = optimizing.parameters(seed, shapes=SHAPES)
    optimizer = made("AdamW", params, make_runtime())
    optimizer.close()
    move(params)
    with pytest.raises(sluice.FailedPrecondition, match="is closed"):
        optimizing.run(optimizer, params, seed, 1)
    again = made("AdamW", params, make_runtime())
    optimizing.run(again, params, seed, 1)


class InterruptedCore:
    """A core in which Ctrl-C comes before or after a move."""

    def __init__(self, core, does):
        self.core = core
        self.does = does

    def __getattr__(self, name):
        return getattr(self.core, name)

    def move(self, places):
        if self.does:
            self.core.move(places)
        raise KeyboardInterrupt


@pytest.mark.parametrize("does", [False, True])
def test_ctrl_c_between_the_memories_loses_nothing(make_runtime, seed, does):
    params, reference = (optimizing.parameters(seed, torch.bfloat16, SHAPES) for _ in range(2))
    optimizer = made("AdamW", params, make_runtime())
    optimizing.run(optimizer, params, seed, 1)
    move(params)
    core = optimizer._core
    optimizer._core = InterruptedCore(core, does)
    with pytest.raises(KeyboardInterrupt):
        optimizing.run(optimizer, params, seed, 1, first=1)
    optimizer._core = core
    optimizing.run(optimizer, params, seed, 1, first=1)
    optimizing.run(made("AdamW", reference, make_runtime()), reference, seed, 2)
    assert optimizing.same(params, reference)


def ctrl_c_at(line):
    """A trace function that raises KeyboardInterrupt at that line, of those of _owners.py and _slots.py that run."""
    left = [line]

    def trace(frame, event, argument):
        if frame.f_code.co_filename.endswith(("_owners.py", "_slots.py")) and event == "line":
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt
        return trace

    return trace


@pytest.mark.parametrize("back", [False, True])
def test_ctrl_c_at_any_line_of_a_move_loses_nothing(runtime, back):
    params = [torch.nn.Parameter(torch.zeros(8, 4)) for _ in range(2)]
    optimizer = sluice.torch.SGD(params, lr=1.0, runtime=runtime)
    interrupted, before = 0, sys.gettrace()
    for line in itertools.count(1):
        own = [param.data for param in params]
        move(params)
        for param in params:
            param.grad = torch.ones(8, 4)
        sys.settrace(ctrl_c_at(line))
        try:
            optimizer.step()
        except KeyboardInterrupt:
            interrupted += 1
            sys.settrace(before)
            if back:
                for param, data in zip(params, own):
                    param.data = data
            optimizer.step()
        finally:
            sys.settrace(before)
        assert all(torch.equal(param, torch.full((8, 4), float(-line))) for param in params)
        if interrupted < line:
            break
    assert interrupted > 40
    with pytest.raises(sluice.InvalidArgument, match="belongs to another optimizer"):
        sluice.torch.SGD(params, runtime=runtime)
    sluice.torch.SGD([torch.nn.Parameter(torch.ones(3))], runtime=runtime)


@pytest.mark.parametrize("early", [False, True])
def test_a_parameter_without_a_part_in_the_step_says_when_it_may_move(runtime, early):
    first, second = (torch.nn.Parameter(torch.ones(8, 4)) for _ in range(2))
    optimizer = sluice.torch.SGD([first, second], lr=1.0, runtime=runtime, step_in_backward=early)
    first.sum().backward()
    if not early:
        core = optimizer._core
        optimizer._core = WaitInterrupted(core)
        with pytest.raises(KeyboardInterrupt):
            optimizer.step()
        optimizer._core = core
        first.grad = None
    own = second.data
    move([second])
    second.grad = torch.ones(8, 4)
    with pytest.raises(sluice.FailedPrecondition, match="'1' was given other memory"):
        optimizer.step()
    if early:
        second.data = own
    else:
        optimizer.wait()
    optimizer.step()
    assert torch.equal(first, torch.zeros(8, 4)) and torch.equal(second, torch.zeros(8, 4))


class WaitInterrupted:
    """A core in which Ctrl-C ends each wait."""

    def __init__(self, core):
        self.core = core

    def __getattr__(self, name):
        return getattr(self.core, name)

    def wait(self):
        raise KeyboardInterrupt


def test_a_state_dict_names_a_parameter_of_another_shape(runtime):
    param = torch.nn.Parameter(torch.ones(8, 4))
    optimizer = sluice.torch.AdamW([param], runtime=runtime)
    param.grad = torch.ones(8, 4)
    optimizer.step()
    for data in (torch.ones(3, 5), torch.empty(0)):
        param.data = data
        with pytest.raises(sluice.InvalidArgument, match=r"'0' had shape \(8, 4\) when it was added"):
            optimizer.state_dict()


def test_a_parameter_may_have_the_memory_of_an_older_gradient(runtime, seed):
    params = optimizing.parameters(seed, shapes=[(8, 4), (8, 4)])
    optimizer = made("SGD", params, runtime)
    gradients = [torch.ones(8, 4), torch.ones(8, 4)]
    for param, gradient in zip(params, gradients):
        param.grad = gradient
    optimizer.step()
    optimizer.zero_grad()
    added = torch.nn.Parameter(gradients[0])
    optimizer.add_param_group({"params": [added]})
    params[1].data = gradients[1]
    for param in (params[1], added):
        param.grad = torch.ones(8, 4)
    optimizer.step()
    assert torch.equal(added, params[1]) and torch.allclose(added, torch.tensor(0.99))


@pytest.mark.parametrize("option", ["step_in_backward", "overlap"])
def test_early_and_late_updates_follow(make_runtime, seed, option):
    params, reference = (optimizing.parameters(seed, torch.bfloat16, SHAPES) for _ in range(2))
    optimizer = made("AdamW", params, make_runtime(), **{option: True})
    expected = made("AdamW", reference, make_runtime())
    for number in range(3):
        for each, weights in ((optimizer, params), (expected, reference)):
            sum((weight * number).square().sum() for weight in weights).backward()
            each.step()
            each.zero_grad()
        if option == "overlap":
            optimizer.wait()
        move(params)
    assert optimizing.same(params, reference)


def test_memory_that_may_lack_an_update_of_backward_is_refused(runtime, seed):
    params = optimizing.parameters(seed, shapes=SHAPES)
    optimizer = made("SGD", params, runtime, step_in_backward=True)
    sum(param.square().sum() for param in params).backward()
    own = params[0].data
    params[0].data = own.clone()
    with pytest.raises(sluice.FailedPrecondition, match="'0' was given other memory"):
        optimizer.step()
    params[0].data = own
    optimizer.step()


def test_a_frozen_parameter_that_cannot_be_followed_is_in_nobodys_way(runtime, seed):
    params = optimizing.parameters(seed, shapes=[(8, 4), (8, 4)])
    optimizer = made("SGD", params, runtime)
    params[0].requires_grad_(False)
    params[0].data = params[0].data.half()
    before = params[1].detach().clone()
    params[1].data = before.clone()
    params[1].grad = torch.ones(8, 4)
    optimizer.step()
    assert torch.allclose(params[1], before - 0.01)


def test_a_state_dict_has_the_values_of_new_memory(runtime, seed):
    params = optimizing.parameters(seed, torch.bfloat16, SHAPES)
    optimizer = made("AdamW", params, runtime)
    optimizing.run(optimizer, params, seed, 1)
    params[0].data = torch.full(SHAPES[0], 7.0, dtype=torch.bfloat16)
    master = optimizer.state_dict()["state"][0]["master"]
    assert torch.equal(master, torch.full(SHAPES[0], 7.0))
    added = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    optimizer.add_param_group({"params": [added]})


def test_memory_that_may_lack_an_update_is_refused(runtime, seed):
    torch.manual_seed(seed)
    model = torch.nn.Linear(256, 256)
    optimizer = made("AdamW", model.parameters(), runtime, overlap=True)
    model(torch.ones(2, 256)).square().mean().backward()
    own = model.weight.data
    with optimizing.Held(runtime):
        optimizer.step()
        optimizer.zero_grad()
        model.weight.data = own.clone()
    for call in (lambda: model(torch.ones(2, 256)), model.state_dict, optimizer.wait, optimizer.step):
        with pytest.raises(sluice.FailedPrecondition, match="'0' was given other memory"):
            call()
    model.weight.data = own
    optimizer.wait()
    model.weight.data = own.clone()
    model(torch.ones(2, 256)).square().mean().backward()
    optimizer.step()
    optimizer.wait()
    assert not torch.equal(model.weight, own)


def test_memory_that_may_lack_a_failed_update_is_refused(make_runtime, spill, seed):
    params = optimizing.parameters(seed)
    optimizer = made("AdamW", params, make_runtime(dram="1MiB"))
    optimizing.run(optimizer, params, seed, 2)
    optimizing.lose_states(spill)
    for param, gradient in zip(params, optimizing.gradients(seed, 2, params)):
        param.grad = gradient
    with pytest.raises(sluice.DataLoss):
        optimizer.step()
    move(params[:1])
    with pytest.raises(sluice.FailedPrecondition, match="'0' was given other memory"):
        optimizer.step()
