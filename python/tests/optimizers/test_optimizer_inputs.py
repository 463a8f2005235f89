"""Wrong input of an optimizer's user: a named error before anything is lost."""

import copy
import gc
import pickle

import optimizing
import pytest
import torch

import sluice.torch


def parameter(*shape, dtype=torch.float32):
    return torch.nn.Parameter(torch.ones(shape, dtype=dtype))


@pytest.mark.parametrize("tensor,options,message", [
    (torch.nn.Parameter(torch.ones(4, device="meta")), {}, "parameter '0' is on meta; only"),
    (torch.nn.Parameter(torch.ones(4, 5).t()), {}, "parameter '0' is not contiguous"),
    (parameter(4, dtype=torch.float64), {}, "parameter '0' is torch.float64; parameters are"),
    (parameter(4, dtype=torch.complex64), {}, "parameter '0' is complex"),
    (parameter(4, dtype=torch.float16), {"master": False}, "is float16, which needs master=True"),
    (torch.ones(4).to_sparse().requires_grad_(), {}, "parameter '0' is sparse"),
    (torch._neg_view(torch.ones(4)).requires_grad_(), {}, "'0' is a view that negates"),
])
def test_a_wrong_parameter_is_refused(runtime, tensor, options, message):
    with pytest.raises(sluice.InvalidArgument, match=message):
        sluice.torch.AdamW([tensor], runtime=runtime, **options)


def test_names_of_parameters_are_those_of_the_model(runtime):
    model = torch.nn.Linear(3, 4).double()
    with pytest.raises(sluice.InvalidArgument, match="parameter 'weight' is torch.float64"):
        sluice.torch.AdamW(model.named_parameters(), runtime=runtime)


def test_a_parameter_has_one_optimizer(runtime):
    weight = parameter(4)
    first = sluice.torch.AdamW([weight], runtime=runtime)
    with pytest.raises(sluice.InvalidArgument, match="'0' belongs to another optimizer of sluice"):
        sluice.torch.SGD([weight], runtime=runtime)
    first.close()
    second = sluice.torch.SGD([weight], runtime=runtime)
    first.close()  # again: it is not the one that has the parameter
    with pytest.raises(sluice.InvalidArgument, match="'0' belongs to another optimizer of sluice"):
        sluice.torch.SGD([weight], runtime=runtime)
    del second
    gc.collect()
    sluice.torch.SGD([weight], runtime=runtime)


def test_an_optimizer_that_a_cycle_keeps_makes_way(runtime):
    weight = parameter(4)
    first = sluice.torch.AdamW([weight], runtime=runtime)
    first.mine = first
    gc.disable()
    try:
        del first
        second = sluice.torch.SGD([weight], lr=1.0, runtime=runtime)
    finally:
        gc.enable()
    weight.grad = torch.ones(4)
    second.step()
    assert (weight == 0).all()


def test_parameters_do_not_share_memory(runtime):
    whole = torch.ones(10)
    views = [torch.nn.Parameter(whole[:6]), torch.nn.Parameter(whole[5:])]
    overlaps = "'1' has memory that overlaps that of the parameter '0' of this optimizer; give each"
    with pytest.raises(sluice.InvalidArgument, match=overlaps):
        sluice.torch.AdamW(views, runtime=runtime)
    optimizer = sluice.torch.AdamW([views[0], parameter(0), parameter(0)], runtime=runtime)
    for again in (whole[5:], whole[:6], whole[2:4], whole[:1]):
        with pytest.raises(sluice.InvalidArgument, match="overlaps that of the parameter '0' of this"):
            optimizer.add_param_group({"params": [parameter(4), torch.nn.Parameter(again)]})
    optimizer.add_param_group({"params": [torch.nn.Parameter(whole[6:])]})
    assert len(optimizer.param_groups) == 2


@pytest.mark.parametrize("part", [slice(0, 4), slice(3, 9), slice(5, 7), slice(7, 20), slice(0, 20)])
def test_optimizers_do_not_share_memory(runtime, part):
    whole = torch.ones(20)
    firsts = [torch.nn.Parameter(whole[begin:begin + 4]) for begin in (3, 12)]
    first = sluice.torch.AdamW([firsts[0]], runtime=runtime)
    others = sluice.torch.AdamW([firsts[1], torch.nn.Parameter(whole[10:12])], runtime=runtime)
    weight = torch.nn.Parameter(whole[part])
    with pytest.raises(sluice.InvalidArgument, match="'0' has memory that overlaps that .* of another"):
        sluice.torch.SGD([weight], runtime=runtime)
    for between in (whole[0:3], whole[7:10], whole[16:]):
        sluice.torch.SGD([torch.nn.Parameter(between)], runtime=runtime).close()
    first.close()
    del others
    gc.collect()
    sluice.torch.SGD([weight], runtime=runtime)


@pytest.mark.parametrize("gradient,message", [
    (torch.ones(4, 4).t()[:, :2], "not contiguous"),
    (torch.ones(4, 2).to_sparse(), "is sparse"),
])
def test_a_wrong_gradient_is_refused_and_nothing_is_updated(runtime, gradient, message):
    weights = [parameter(8), parameter(4, 2)]
    optimizer = sluice.torch.AdamW(weights, runtime=runtime)
    weights[0].grad, weights[1].grad = torch.ones(8), gradient
    with pytest.raises(sluice.InvalidArgument, match=f"the gradient of parameter '1' .*{message}"):
        optimizer.step()
    assert (weights[0] == 1).all() and not optimizer.state
    weights[1].grad = torch.ones(4, 2)
    optimizer.step()
    assert (weights[0] != 1).all() and (weights[1] != 1).all()


@pytest.mark.parametrize("data,message", [
    (torch.ones(4, 2, dtype=torch.complex64), "is complex .*take torch.view_as_real"),
    (torch.ones(4, 2, dtype=torch.float64), "is torch.float64; gradients are float32, bfloat16 or"),
    (torch.ones(2, 4), r"has shape \(2, 4\), the parameter \(4, 2\)"),
    (torch.ones(4, 1).expand(4, 2), r"is not contiguous .*take .contiguous\(\)"),
])
def test_a_gradient_whose_data_was_replaced_is_refused(runtime, data, message):
    weights = [parameter(8), parameter(4, 2)]
    optimizer = sluice.torch.AdamW(weights, runtime=runtime)
    weights[0].grad, weights[1].grad = torch.ones(8), torch.ones(4, 2)
    weights[1].grad.data = data
    with pytest.raises(sluice.InvalidArgument, match=f"the gradient of parameter '1' {message}"):
        optimizer.step()
    assert (weights[0] == 1).all() and not optimizer.state


@pytest.mark.parametrize("options", [{}, {"step_in_backward": True}])
def test_a_gradient_that_negates_its_memory_is_used_as_it_reads(runtime, options):
    mine, reference = ([parameter(), parameter()] for _ in range(2))
    for params, make in ((mine, lambda p: sluice.torch.SGD(p, lr=1.0, runtime=runtime, **options)),
                         (reference, lambda p: torch.optim.SGD(p, lr=1.0))):
        optimizer = make(params)
        (torch.complex(*params).conj() * torch.tensor(3 + 4j)).real.backward()
        optimizer.step()
    assert optimizing.same(mine, reference)


def test_a_frozen_parameter_is_as_in_torch(runtime):
    mine, reference = [parameter(8), parameter(4)], [parameter(8), parameter(4)]
    for params, make in ((mine, lambda p: sluice.torch.AdamW(p, runtime=runtime)),
                         (reference, torch.optim.AdamW)):
        optimizer = make(params)
        for step in range(3):
            params[1].requires_grad_(step != 1)
            optimizer.zero_grad()
            loss = sum((each * each).sum() for each in params)
            loss.backward()
            optimizer.step()
        assert [optimizer.state[each]["step"] for each in params] == [3, 2]
    assert optimizing.off_by(mine, reference, 1e-3) <= 1e-6


FROZEN = r"parameter '1' is frozen .* clear it \(p.grad = None\), or unfreeze"


@pytest.mark.parametrize("options", [{}, {"overlap": True}, {"step_in_backward": True}])
def test_a_frozen_parameter_with_a_gradient_is_refused_before_the_step(runtime, options):
    weights = [parameter(8), parameter(4)]
    optimizer = sluice.torch.AdamW(weights, runtime=runtime, **options)
    weights[0].grad, weights[1].grad = torch.ones(8), torch.ones(4)
    weights[1].requires_grad_(False)
    for _ in range(2):
        with pytest.raises(sluice.InvalidArgument, match=FROZEN):
            optimizer.step()
        assert all((each == 1).all() for each in weights) and not optimizer.state
    weights[1].grad = None
    optimizer.step()
    optimizer.close()
    assert (weights[0] != 1).all() and (weights[1] == 1).all()


def test_a_frozen_parameter_with_a_gradient_is_refused_as_backward_begins_its_step(runtime):
    weights = [parameter(8), parameter(4)]
    optimizer = sluice.torch.AdamW(weights, runtime=runtime, step_in_backward=True)
    weights[1].grad = torch.ones(4)
    weights[1].requires_grad_(False)
    with pytest.raises(sluice.InvalidArgument, match=FROZEN):
        weights[0].sum().backward()
    assert (weights[0] == 1).all() and not optimizer.state
    weights[1].requires_grad_()
    optimizer.step()
    assert all((each != 1).all() for each in weights)


def test_a_parameter_frozen_after_backward_used_its_gradient_has_made_the_step(runtime):
    weights = [parameter(8), parameter(4)]
    optimizer = sluice.torch.AdamW(weights, runtime=runtime, step_in_backward=True)
    sum(each.sum() for each in weights).backward()
    weights[1].requires_grad_(False)
    optimizer.step()
    assert [optimizer.state[each]["step"] for each in weights] == [1, 1]
    assert weights[1].grad is None


def test_a_parameter_keeps_its_shape_and_type(runtime):
    weights = [parameter(8), parameter(4, 2)]
    optimizer = sluice.torch.AdamW(weights, runtime=runtime)
    own = weights[1].data
    for data, message in [
        (own.view(2, 4), r"parameter '1' had shape \(4, 2\) when it was added and has \(2, 4\)"),
        (torch.ones(4, 2, dtype=torch.bfloat16), "parameter '1' was torch.float32 when it was added"),
    ]:
        weights[1].data = data
        weights[0].grad, weights[1].grad = torch.ones(8), torch.ones_like(weights[1])
        with pytest.raises(sluice.InvalidArgument, match=message):
            optimizer.step()
        with pytest.raises(sluice.InvalidArgument, match=message):
            optimizer.save("/tmp")
        weights[1].grad = None
        weights[1].data = own
    assert (weights[0] == 1).all()
    weights[1].untyped_storage().resize_(0)
    weights[1].grad = torch.ones(4, 2)
    with pytest.raises(sluice.InvalidArgument, match="other memory .* or a freed storage"):
        optimizer.step()


def test_a_closure_is_refused_with_a_reason(runtime):
    weight = parameter(4)
    optimizer = sluice.torch.AdamW([weight], runtime=runtime)
    weight.grad, called = torch.ones(4), []
    with pytest.raises(sluice.InvalidArgument, match="AdamW: step refuses closures: .* give closures=True"):
        optimizer.step(lambda: called.append(1))
    assert not called and (weight == 1).all()
    optimizer.step(None)
    assert optimizer.state[weight]["step"] == 1


def test_a_closure_that_cannot_be_called_is_refused(runtime):
    optimizer = sluice.torch.AdamW([parameter(4)], runtime=runtime)
    with pytest.raises(sluice.InvalidArgument, match="step: the closure is 5, which cannot be called"):
        optimizer.step(5)


def test_copies_are_refused(runtime):
    optimizer = sluice.torch.AdamW([parameter(4)], runtime=runtime)
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(sluice.InvalidArgument, match="AdamW cannot be copied or pickled"):
            copying(optimizer)


def test_a_group_that_cannot_be_added_leaves_no_trace(runtime, seed):
    weights = optimizing.parameters(seed, shapes=[(8,), (4,)])
    optimizer = sluice.torch.AdamW(weights[:1], runtime=runtime)
    with pytest.raises(sluice.InvalidArgument, match="parameter '2' is torch.float64"):
        optimizer.add_param_group({"params": [weights[1], parameter(4, dtype=torch.float64)]})
    assert len(optimizer.param_groups) == 1
    optimizer.add_param_group({"params": [weights[1]]})
    optimizing.run(optimizer, weights, seed, 1)
    assert len(optimizer.state) == 2


def test_states_that_do_not_fit_are_refused(make_runtime):
    weight = parameter(10000, 1000)
    with pytest.raises(sluice.TierFull):
        sluice.torch.AdamW([weight], runtime=make_runtime())
    sluice.torch.Lion([weight], runtime=make_runtime(), states="8bit").close()


def test_empty_parameters_are_let_through(runtime):
    weights = [parameter(0, 4), parameter(4)]
    optimizer = sluice.torch.AdamW(weights, runtime=runtime)
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    assert (weights[1] != 1).all()
    optimizer.load_state_dict(optimizer.state_dict())
