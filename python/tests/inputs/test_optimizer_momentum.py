"""SGD whose momentum begins, or ends, in the middle of a run: as torch's, or refused before anything changes."""

import optimizing
import pytest
import torch

import sluice.torch

SHAPES = [(300,), (37, 41), ()]


def pair(seed, runtime, dtype=torch.float32, **options):
    mine, reference = (optimizing.parameters(seed, dtype, SHAPES) for _ in range(2))
    return (mine, sluice.torch.SGD(mine, lr=0.1, runtime=runtime, **options),
            reference, torch.optim.SGD(reference, lr=0.1))


def set_momentum(value, *optimizers):
    for optimizer in optimizers:
        optimizer.param_groups[0]["momentum"] = value


@pytest.mark.parametrize("options", [{}, {"step_in_backward": True}, {"overlap": True}])
def test_a_momentum_that_begins_later_begins_as_torchs(runtime, seed, options):
    mine, optimizer, reference, theirs = pair(seed, runtime, **options)
    for params, each in ((mine, optimizer), (reference, theirs)):
        optimizing.run(each, params, seed, 3)
        set_momentum(0.9, each)
        optimizing.run(each, params, seed, 3, first=3)
    if "overlap" in options:
        optimizer.wait()
    assert optimizing.off_by(mine, reference, 0.1) <= 1e-6


@pytest.mark.parametrize("states", ["fp32", "bf16", "8bit"])
def test_without_momentum_there_is_no_state_to_carry_over(runtime, spill, seed, states):
    mine, optimizer, reference, theirs = pair(seed, runtime, states=states)
    for params, each in ((mine, optimizer), (reference, theirs)):
        optimizing.run(each, params, seed, 2)
    saved = optimizer.state_dict()
    assert [sorted(state) for state in saved["state"].values()] == [["step"]] * len(mine)
    assert [list(optimizer.state[each]) for each in mine] == [["step"]] * len(mine)
    optimizer.save(spill)
    for load in (lambda: optimizer.load_state_dict(saved), lambda: optimizer.load(spill)):
        load()
        set_momentum(0.9, optimizer)
        optimizing.run(optimizer, mine, seed, 1, first=2)
        assert list(optimizer.state[mine[0]])[0] == "momentum_buffer"
        buffer = optimizer.state_dict()["state"][0]["momentum_buffer"]
        limit = {"fp32": 1e-6, "bf16": 1e-2, "8bit": 5e-2}[states]
        wanted = optimizing.gradients(seed, 2, mine)[0]
        assert (buffer - wanted).abs().max() <= limit * wanted.abs().max()


def resumed_from(saved, make_runtime, seed, **options):
    """Other parameters and an optimizer that has loaded the save."""
    params = optimizing.parameters(seed + 1, shapes=SHAPES)
    optimizer = sluice.torch.SGD(params, lr=1.0, runtime=make_runtime(), **options)
    optimizer.load(saved)
    return params, optimizer


def test_a_momentum_that_was_set_and_saved_before_its_first_step(runtime, make_runtime, spill, seed):
    mine, optimizer, reference, theirs = pair(seed, runtime)
    for params, each in ((mine, optimizer), (reference, theirs)):
        optimizing.run(each, params, seed, 2)
        set_momentum(0.9, each)
    optimizer.save(spill)
    resumed, second = resumed_from(spill, make_runtime, seed)
    assert [sorted(state) for state in second.state_dict()["state"].values()] == [["step"]] * len(mine)
    set_momentum(0.0, second, theirs)  # there is none to lose yet
    for params, each in ((resumed, second), (reference, theirs)):
        optimizing.run(each, params, seed, 1, first=2)
        set_momentum(0.9, each)
        optimizing.run(each, params, seed, 2, first=3)
    assert optimizing.off_by(resumed, reference, 0.1) <= 1e-6


@pytest.mark.parametrize("options", [{}, {"step_in_backward": True}])
def test_a_momentum_that_ends_is_refused_before_anything_changes(runtime, seed, options):
    mine, optimizer, _, _ = pair(seed, runtime, momentum=0.9, **options)
    optimizing.run(optimizer, mine, seed, 2)
    before = [each.detach().clone() for each in mine]
    set_momentum(0, optimizer)
    with pytest.raises(sluice.InvalidArgument, match="'0' has a momentum, which torch keeps .* momentum=0"):
        optimizing.run(optimizer, mine, seed, 1, first=2)
    assert optimizing.same(mine, before)
    set_momentum(0.5, optimizer)
    optimizer.step()
    assert optimizer.state_dict()["state"][0]["step"] == 3


def test_a_momentum_that_has_ended_is_saved(runtime, make_runtime, spill, seed):
    mine, optimizer, reference, theirs = pair(seed, runtime)
    for params, each in ((mine, optimizer), (reference, theirs)):
        set_momentum(0.9, each)
        optimizing.run(each, params, seed, 2)
        set_momentum(0.0, each)
    optimizer.save(spill)
    resumed, second = resumed_from(spill, make_runtime, seed)
    buffers = [state["momentum_buffer"] for state in second.state_dict()["state"].values()]
    assert optimizing.same(buffers, [theirs.state[each]["momentum_buffer"] for each in reference])
    with pytest.raises(sluice.InvalidArgument, match="'0' has a momentum, which torch keeps .* momentum=0"):
        optimizing.run(second, resumed, seed, 1, first=2)
    for params, each in ((resumed, second), (reference, theirs)):
        set_momentum(0.9, each)
        optimizing.run(each, params, seed, 2, first=2)
    assert optimizing.off_by(resumed, reference, 0.1) <= 1e-6


def test_no_parameter_is_updated_in_backward_where_one_may_not_be(runtime):
    """The hook of the second layer comes before that of the first, whose momentum has ended."""
    layers = [torch.nn.Linear(4, 4, bias=False) for _ in range(2)]
    groups = [{"params": layer.parameters()} for layer in layers]
    optimizer = sluice.torch.SGD(groups, lr=0.1, momentum=0.9, runtime=runtime, step_in_backward=True)
    model = torch.nn.Sequential(*layers)
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    before = [each.detach().clone() for each in model.parameters()]
    optimizer.param_groups[0]["momentum"] = 0.0
    with pytest.raises(sluice.InvalidArgument, match="a step of sluice would lose it"):
        model(torch.ones(1, 4)).sum().backward()
    optimizer.param_groups[0]["momentum"] = 0.9
    optimizer.zero_grad()
    optimizer.step()
    assert optimizing.same(list(model.parameters()), before)


def test_a_momentum_of_torchs_is_kept_in_the_next_state_dict(runtime, seed):
    mine, optimizer, reference, theirs = pair(seed, runtime)
    set_momentum(0.9, optimizer, theirs)
    optimizing.run(theirs, reference, seed, 2)
    optimizer.load_state_dict(theirs.state_dict())
    got, want = (each.state_dict()["state"] for each in (optimizer, theirs))
    assert list(got) == list(want) == [0, 1, 2]
    assert all(torch.equal(got[index]["momentum_buffer"], want[index]["momentum_buffer"]) for index in want)
