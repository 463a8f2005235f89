"""Wrong arguments of optimizers, and of their groups: each is named, with the fix."""

import math

import numpy
import pytest
import torch

import sluice.torch


def parameter(*shape):
    return torch.nn.Parameter(torch.ones(shape))


# Options of AdamW, and the error.
WRONG = [
    ({"runtime": None}, "AdamW: runtime is None; it must be the sluice.Runtime that pages the states"),
    ({"runtime": 3}, "runtime is 3; it must be"),
    ({"weigth_decay": 0.1}, "AdamW: unknown option 'weigth_decay'; known are .*weight_decay"),
    ({"decoupled_weight_decay": True}, "AdamW: unknown option 'decoupled_weight_decay'; known are am.*"
                                       "clip_norm, closures, differentiable, .*, threads, weight_decay$"),
    ({"dampening": 0}, "AdamW: unknown option 'dampening'"),
    ({"fused": True}, "AdamW: fused=True is not supported, as it chooses .*; leave it False"),
    ({"foreach": True}, "AdamW: foreach=True is not supported, as it chooses"),
    ({"amsgrad": True}, "AdamW: amsgrad=True is not supported, as there is no paged state"),
    ({"maximize": True}, "AdamW: maximize=True is not supported, as updates minimize; negate the loss"),
    ({"capturable": True}, "AdamW: capturable=True is not supported, as it is for CUDA graphs"),
    ({"differentiable": True}, "AdamW: differentiable=True is not supported, as autograd does not"),
    ({"lr": -1.0}, "AdamW: lr is -1.0; it must be a number from 0 to 1e[+]30"),
    ({"lr": None}, "lr is None; it must be a number"),
    ({"lr": "1e-3"}, "lr is '1e-3'; it must be a number"),
    ({"lr": math.nan}, "lr is nan; it must be a number"),
    ({"lr": math.inf}, "lr is inf; it must be a number"),
    ({"lr": torch.ones(2)}, r"lr is tensor.*; it must be a number"),
    ({"betas": (0.9, 1.0)}, r"betas is \(0.9, 1.0\); it must be two numbers from 0 to 1, 1 itself not"),
    ({"betas": (0.9,)}, r"betas is \(0.9,\); it must be two numbers"),
    ({"betas": "ab"}, "betas is 'ab'; it must be two numbers"),
    ({"betas": 0.9}, "betas is 0.9; it must be two numbers"),
    ({"eps": -1}, "eps is -1; it must be"),
    ({"weight_decay": math.nan}, "weight_decay is nan; it must be"),
    ({"states": None}, 'states is None; it must be "fp32", "bf16" or "8bit"'),
    ({"states": "fp8"}, 'states is "fp8"; allowed are fp32, bf16, 8bit'),
    ({"lowest": None}, 'lowest is None; it must be "nvme" or "dram"'),
    ({"lowest": "hbm"}, "lowest is hbm, allowed are dram and nvme"),
    ({"master": None}, "master is None; it must be True or False"),
    ({"overlap": 1}, "overlap is 1; it must be True or False"),
    ({"closures": None}, "closures is None; it must be True or False"),
    ({"step_in_backward": "no"}, "step_in_backward is 'no'; it must be True or False"),
    ({"seed": -1}, "seed is -1; it must be an integer from 0 to 18446744073709551615"),
    ({"seed": 1.5}, "seed is 1.5; it must be an integer"),
    ({"threads": 0}, "threads is 0; it must be an integer from 1 to 256"),
    ({"threads": 1.5}, "threads is 1.5; it must be an integer"),
    ({"clip_norm": -1.0}, "clip_norm is -1.0; it must be a finite number above 0, or None"),
    ({"clip_norm": math.inf}, "clip_norm is inf; it must be"),
    ({"clip_norm": "1"}, "clip_norm is '1'; it must be"),
]


@pytest.mark.parametrize("options,message", WRONG)
def test_a_wrong_option_is_named(runtime, options, message):
    weight = parameter(4)
    with pytest.raises(sluice.InvalidArgument, match=message):
        sluice.torch.AdamW([weight], **{"runtime": runtime, **options})
    sluice.torch.AdamW([weight], runtime=runtime).close()


def test_a_missing_runtime_is_named():
    with pytest.raises(sluice.InvalidArgument, match="Lion: runtime is None; it must be the sluice"):
        sluice.torch.Lion([parameter(4)])


@pytest.mark.parametrize("kind,options,message", [
    (sluice.torch.SGD, {"momentum": 0.9, "dampening": 0.5}, "SGD: dampening=0.5 is not supported"),
    (sluice.torch.SGD, {"momentum": 1.0}, "SGD: momentum is 1.0; it must be a number from 0 to 1, 1 its"),
    (sluice.torch.SGD, {"momentum": None}, "SGD: momentum is None; it must be"),
    (sluice.torch.SGD, {"nesterov": True}, "nesterov=True needs a momentum"),
    (sluice.torch.SGD, {"nesterov": True, "momentum": None}, "nesterov=True needs a momentum"),
    (sluice.torch.SGD, {"nesterov": torch.ones(2)}, "SGD: nesterov is .*; it must be True or False"),
    (sluice.torch.SGD, {"dampening": numpy.zeros(2)}, "SGD: dampening=.* is not supported"),
    (sluice.torch.SGD, {"states": "\ud800"}, "SGD: states is .*; it must be \"fp32\""),
    (sluice.torch.SGD, {"fused": True}, "SGD: fused=True is not supported"),
    (sluice.torch.Lion, {"maximize": True}, "Lion: maximize=True is not supported"),
    (sluice.torch.Adagrad, {"initial_accumulator_value": 1}, "initial_accumulator_value=1 is not suppo"),
    (sluice.torch.Adagrad, {"lr_decay": -1}, "Adagrad: lr_decay is -1; it must be a number from 0"),
])
def test_a_wrong_option_of_the_others_is_named(runtime, kind, options, message):
    with pytest.raises(sluice.InvalidArgument, match=message):
        kind([parameter(4)], runtime=runtime, **options)


@pytest.mark.parametrize("value", [False, None])
@pytest.mark.parametrize("kind", [sluice.torch.AdamW, sluice.torch.SGD, sluice.torch.Lion])
def test_defaults_of_torchs_options_are_taken(runtime, kind, value):
    names = ("amsgrad", "maximize", "capturable", "differentiable", "foreach", "fused")
    weight = parameter(4)
    optimizer = kind([weight], runtime=runtime, **dict.fromkeys(names, value))
    weight.grad = torch.ones(4)
    optimizer.step()
    assert (weight != 1).all()
    if kind is sluice.torch.AdamW:
        torch.optim.AdamW([parameter(4)]).load_state_dict(optimizer.state_dict())


def test_numbers_may_be_tensors_and_those_of_numpy(runtime):
    weight = parameter(4)
    optimizer = sluice.torch.SGD([weight], lr=torch.tensor(0.5), runtime=runtime, seed=numpy.int64(3),
                                 threads=numpy.int64(2), clip_norm=numpy.float32(100.0))
    weight.grad = torch.ones(4)
    optimizer.step()
    assert (weight == 0.5).all()


@pytest.mark.parametrize("params,message", [
    (parameter(4), "AdamW: params argument .* should be an iterable of Tensors.*Parameters are model.par"),
    ([], "AdamW: optimizer got an empty parameter list. Parameters are"),
    (None, "AdamW: 'NoneType' object is not iterable. Parameters are"),
    (torch.nn.Linear(2, 2), "AdamW: 'Linear' object is not iterable. Parameters are"),
    ({"a": parameter(4)}, "can only optimize Tensors, but one of the params is str. Parameters are"),
    ([()], "add_param_group: tuple index out of range. Parameters are"),
    ([[parameter(4)]], "one of the params is list. Parameters are"),
    ([{"lr": 1.0}], "a group has no 'params'. Parameters are"),
    ([{"params": [parameter(4)], "lr": None}], "parameter group 0: lr is None; it must be"),
    ([{"params": [parameter(4)], "states": "8bit"}], "group 0: states is the same for all groups"),
    ([parameter(4) * 2], "can't optimize a non-leaf Tensor"),
    ([torch.ones(4, dtype=torch.int32)], "parameter '0' is torch.int32; parameters are"),
    ([torch.nn.UninitializedParameter()], "parameter '0' is that of a lazy module"),
])
def test_wrong_parameters_are_named(runtime, params, message):
    with pytest.raises(sluice.InvalidArgument, match=message):
        sluice.torch.AdamW(params, runtime=runtime)


def test_a_parameter_of_inference_mode_is_named(runtime):
    with torch.inference_mode():
        weight = torch.ones(4)
    with pytest.raises(sluice.InvalidArgument, match="'0' was made in torch.inference_mode"):
        sluice.torch.AdamW([weight], runtime=runtime)


def test_a_group_that_is_not_added_leaves_no_trace(runtime):
    first, second = parameter(4), parameter(4)
    optimizer = sluice.torch.AdamW([first], runtime=runtime)
    for group, message in [
        ([second], "add_param_group: param_group must be a dict"),
        ({"lr": 1.0}, "a group has no 'params'"),
        ({"params": [second], "lr": math.nan}, "parameter group 1: lr is nan; it must be"),
        ({"params": [second], "betas": (0.9,)}, "parameter group 1: betas is"),
        ({"params": [second], "seed": 3}, "parameter group 1: seed is the same for all groups"),
        ({"params": [first]}, "some parameters appear in more than one parameter group"),
    ]:
        with pytest.raises(sluice.InvalidArgument, match=message):
            optimizer.add_param_group(group)
    assert len(optimizer.param_groups) == 1
    optimizer.add_param_group({"params": (each for each in [parameter(4), second])})
    assert len(optimizer.param_groups[1]["params"]) == 2


def parameter_by_hand(group):
    group["params"].append(parameter(4))


@pytest.mark.parametrize("options", [{}, {"step_in_backward": True}])
@pytest.mark.parametrize("change,message", [
    (lambda group: group.update(lr=math.nan), "parameter group 1: lr is nan; it must be"),
    (lambda group: group.update(lr=None), "parameter group 1: lr is None; it must be"),
    (lambda group: group.update(betas=(0.9,)), r"parameter group 1: betas is \(0.9,\); it must be"),
    (lambda group: group.pop("lr"), "parameter group 1 has no lr; set it"),
    (parameter_by_hand, "param_groups has a tensor that was put there by hand; add_param_group adds"),
])
def test_a_group_that_becomes_wrong_is_named_and_nothing_is_updated(runtime, spill, options, change,
                                                                    message):
    weights = [parameter(8), parameter(4)]
    groups = [{"params": [each]} for each in weights]
    optimizer = sluice.torch.AdamW(groups, runtime=runtime, **options)
    change(optimizer.param_groups[1])
    weights[0].grad = torch.ones(8)
    with pytest.raises(sluice.InvalidArgument, match=message):
        optimizer.step()
    assert (weights[0] == 1).all() and not optimizer.state
    with pytest.raises(sluice.InvalidArgument, match=message):
        optimizer.save(spill)
