"""overlap: step() returns at once, and whoever reads parameters through modules waits."""

import copy
import io

import optimizing
import pytest
import torch

import sluice.torch

WIDTH = 256


class Net(torch.nn.Module):
    """Modules of many kinds, tied weights, parameters in a list, and one that is read by its parent."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(64, WIDTH)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.scales = torch.nn.ParameterList(torch.nn.Parameter(torch.ones(WIDTH)) for _ in range(2))
        self.attention = torch.nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.head = torch.nn.Linear(WIDTH, 64, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        hidden = self.embed(tokens)
        for layer in self.layers:
            hidden = torch.tanh(layer(hidden)) * self.scales[0] + self.scales[1]
        hidden, _ = self.attention(hidden, hidden, hidden)
        return self.head(hidden)


def model_of(seed, dtype=torch.float32):
    torch.manual_seed(seed)
    return Net().to(dtype)


def loss_of(model, step):
    tokens = torch.randint(0, 64, (4, 16), generator=torch.Generator().manual_seed(step))
    return model(tokens).float().square().mean()


def train(model, optimizer, steps=4):
    losses = []
    for step in range(steps):
        loss = loss_of(model, step)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def overlapped(model, runtime, **options):
    return sluice.torch.AdamW(model.parameters(), lr=1e-2, runtime=runtime, overlap=True, **options)


@pytest.mark.parametrize("clip_norm", [None, 0.1])
@pytest.mark.parametrize("dtype,states", [(torch.float32, "fp32"), (torch.bfloat16, "8bit")])
def test_overlap_gives_the_bits_of_a_step_that_blocks(runtime, make_runtime, seed, dtype, states, clip_norm):
    model, reference = model_of(seed, dtype), model_of(seed, dtype)
    optimizer = overlapped(model, runtime, states=states, clip_norm=clip_norm)
    blocking = sluice.torch.AdamW(reference.parameters(), lr=1e-2, states=states, clip_norm=clip_norm,
                                  runtime=make_runtime(dram="16MiB"))
    assert train(model, optimizer) == train(reference, blocking)
    optimizer.wait()
    assert optimizing.same(model.parameters(), reference.parameters())
    assert {state["step"].item() for state in optimizer.state.values()} == {4}
    assert optimizer.gradient_norm == blocking.gradient_norm
    assert optimizing.same(optimizer.state_dict()["state"][0].values(),
                           blocking.state_dict()["state"][0].values())


READS = {
    "forward": lambda model, optimizer: loss_of(model, 1),
    "state_dict": lambda model, optimizer: model.state_dict(),
    "layer": lambda model, optimizer: model.layers[2](torch.ones(1, WIDTH)),
    "attention": lambda model, optimizer: model.attention(*(torch.ones(1, 1, WIDTH),) * 3),
    "wait": lambda model, optimizer: optimizer.wait(),
    "norm": lambda model, optimizer: optimizer.gradient_norm,
    "close": lambda model, optimizer: optimizer.close(),
    "states": lambda model, optimizer: optimizer.state_dict(),
    "zero": lambda model, optimizer: optimizer.zero_grad(set_to_none=False),
}


@pytest.mark.parametrize("read", READS)
def test_step_returns_at_once_and_reads_wait(runtime, seed, read):
    model = model_of(seed)
    optimizer = overlapped(model, runtime)
    train(model, optimizer, 1)
    optimizer.wait()
    loss_of(model, 0).backward()
    with optimizing.Held(runtime) as held:
        optimizer.step()  # would not return if it waited
        before = model.layers[2].weight.detach().clone()
        held.let_go_later()
        READS[read](model, optimizer)
        assert not torch.equal(model.layers[2].weight, before)


def test_the_runtime_completes_the_step_when_it_closes(make_runtime, seed):
    runtime = make_runtime()
    model, reference = model_of(seed), model_of(seed)
    optimizer = overlapped(model, runtime)
    train(model, optimizer, 2)
    runtime.close()
    train(reference, sluice.torch.AdamW(reference.parameters(), lr=1e-2, runtime=make_runtime()), 2)
    assert optimizing.same(model.state_dict().values(), reference.state_dict().values())
    assert torch.equal(loss_of(model, 5), loss_of(reference, 5))
    with pytest.raises(sluice.FailedPrecondition, match="is closed"):
        optimizer.step()


def test_an_optimizer_that_goes_completes_its_step(runtime, make_runtime, seed):
    model, reference = model_of(seed), model_of(seed)
    optimizer = overlapped(model, runtime)
    train(model, optimizer, 1)
    del optimizer
    train(reference, sluice.torch.AdamW(reference.parameters(), lr=1e-2, runtime=make_runtime()), 1)
    assert optimizing.same(model.parameters(), reference.parameters())


def test_a_gradient_of_a_parameter_that_no_module_has_read_is_refused(runtime, seed):
    model = model_of(seed)
    optimizer = overlapped(model, runtime)
    train(model, optimizer, 1)
    functional = torch.nn.functional.linear(torch.ones(1, WIDTH), model.layers[1].weight)
    with pytest.raises(sluice.FailedPrecondition, match="'3' was used while its update was under way"):
        functional.sum().backward()
    optimizer.zero_grad()
    optimizer.wait()
    torch.nn.functional.linear(torch.ones(1, WIDTH), model.layers[1].weight).sum().backward()
    optimizer.step()


def test_an_update_that_fails_is_told_by_who_waits_for_it(make_runtime, spill, seed):
    runtime = make_runtime(dram="1MiB")
    model = model_of(seed)
    optimizer = overlapped(model, runtime)
    train(model, optimizer, 2)
    optimizer.save(spill)
    optimizing.lose_states(spill)
    loss_of(model, 2).backward()
    optimizer.step()
    optimizer.zero_grad()
    for call in (lambda: loss_of(model, 3), model.state_dict, optimizer.wait, optimizer.step):
        with pytest.raises(sluice.DataLoss, match=r"step 3: '\d+', elements"):
            call()
    optimizer.close()
    again = overlapped(model, make_runtime())
    again.load(spill)
    train(model, again, 1)
    assert {state["step"].item() for state in again.state.values()} == {3}


def test_steps_without_forward_follow_each_other(runtime, make_runtime, seed):
    params, reference = optimizing.parameters(seed), optimizing.parameters(seed)
    optimizer = sluice.torch.AdamW(params, runtime=runtime, overlap=True)
    blocking = sluice.torch.AdamW(reference, runtime=make_runtime())
    for each, made in ((params, optimizer), (reference, blocking)):
        for param, gradient in zip(each, optimizing.gradients(seed, 0, each)):
            param.grad = gradient
        for _ in range(3):
            made.step()
    optimizer.wait()
    assert optimizing.same(params, reference)
    assert optimizer.state[params[0]]["step"] == 3


def test_a_compiled_model_waits_as_a_whole(runtime, make_runtime, seed):
    model, reference = model_of(seed).layers[0], model_of(seed).layers[0]
    compiled = torch.compile(model, backend="eager")
    for each, params, made in ((compiled, model, overlapped(model, runtime)),
                               (reference, reference, sluice.torch.AdamW(
                                   reference.parameters(), lr=1e-2, runtime=make_runtime()))):
        for _ in range(3):
            each(torch.ones(2, WIDTH)).square().mean().backward()
            made.step()
            made.zero_grad()
        made.state_dict()
    assert optimizing.same(model.parameters(), reference.parameters())


@pytest.mark.parametrize("part", ["", "layers.2"])
def test_a_module_that_is_compiled_in_place_waits_for_its_parameters(runtime, seed, part):
    model = model_of(seed)
    model.get_submodule(part).compile(backend="eager")
    optimizer = overlapped(model, runtime)
    train(model, optimizer, 2)
    loss_of(model, 2).backward()
    with optimizing.Held(runtime) as held, torch.no_grad():
        optimizer.step()
        held.let_go_later()
        beside = loss_of(model, 3)
        optimizer.wait()
        assert torch.equal(beside, loss_of(model, 3))


def test_a_module_that_is_compiled_in_place_as_one_graph_is_refused(runtime, seed):
    torch._dynamo.reset()  # it keeps what has broken graphs before, and lets it run
    model = model_of(seed)
    model.compile(backend="eager", fullgraph=True)
    optimizer = overlapped(model, runtime)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="_Hook.overlap_waits_outside_the_graph"):
        loss_of(model, 0)
    optimizer.close()
    loss_of(model, 0).backward()


def test_copies_and_files_of_a_model_wait_for_nobody(runtime, seed):
    model = model_of(seed)
    optimizer = overlapped(model, runtime)
    train(model, optimizer, 2)
    optimizer.wait()
    for other in (copy.deepcopy(model), through_a_file(model)):
        optimizer.step()
        assert optimizing.same(other.state_dict().values(), list(other.state_dict().values()))
        loss_of(other, 0).backward()


def through_a_file(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def test_hooks_end_with_the_optimizer(runtime, seed):
    hooks = torch.nn.modules.module._global_forward_pre_hooks
    before = len(hooks)
    model = model_of(seed)
    optimizer = overlapped(model, runtime)
    assert len(hooks) == before + 1
    train(model, optimizer, 1)
    own = [each._state_dict_pre_hooks for each in model.modules()]
    assert sum(len(each) for each in own) > 0
    optimizer.close()
    assert len(hooks) == before
    assert sum(len(each) for each in own) == 0
    again = overlapped(model, runtime)
    train(model, again, 1)
    del again
    assert len(hooks) == before
    assert sum(len(each) for each in own) == 0


@pytest.mark.parametrize("part", ["", "layers.2", "attention", "scales"])
def test_a_state_that_is_loaded_beside_an_update_is_not_undone(runtime, seed, part):
    model = model_of(seed)
    best = copy.deepcopy(model.state_dict())
    optimizer = overlapped(model, runtime)
    module = model.get_submodule(part)
    loaded = {name.removeprefix(f"{part}."): value for name, value in best.items() if name.startswith(part)}
    for step in range(3):
        loss_of(model, step).backward()
        optimizer.step()
        module.load_state_dict(loaded)
        optimizer.wait()
        assert all(torch.equal(value, loaded[name]) for name, value in module.state_dict().items())
        optimizer.zero_grad()


class Scripted(torch.nn.Module):
    """A parameter of its own, above a module of TorchScript."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(WIDTH))
        self.act = torch.jit.script(torch.nn.GELU())

    def forward(self, x):
        return self.act(x * self.scale)


def test_modules_above_torchscript_wait(runtime):
    model = Scripted()
    optimizer = overlapped(model, runtime)
    for _ in range(3):
        model(torch.ones(2, WIDTH)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    model.load_state_dict({"scale": torch.zeros(WIDTH)})
    optimizer.wait()
    assert not model.scale.any()


def test_both_kinds_of_overlap_are_refused(runtime, seed):
    with pytest.raises(sluice.InvalidArgument, match="overlap=True and step_in_backward=True"):
        overlapped(model_of(seed), runtime, step_in_backward=True)


def test_a_step_that_ctrl_c_kept_from_its_begin_leaves_nothing_to_wait_for(runtime, seed, monkeypatch):
    model = model_of(seed)
    optimizer = overlapped(model, runtime)
    loss_of(model, 0).backward()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(optimizer, "_core", optimizing.Interrupting(optimizer._core, "start", False))
        optimizer.step()
    optimizer.wait()
    optimizer.zero_grad()
    weight = next(each for each in model.parameters() if each.dim() == 2)
    torch.nn.functional.linear(torch.ones(1, weight.shape[1]), weight).sum().backward()
    assert weight.grad is not None


@pytest.mark.parametrize("does", [False, True])
def test_ctrl_c_at_the_begin_of_a_step_neither_repeats_nor_loses_it(runtime, make_runtime, seed, monkeypatch,
                                                                    does):
    model, reference = model_of(seed), model_of(seed)
    optimizer = overlapped(model, runtime)
    loss_of(model, 0).backward()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(optimizer, "_core", optimizing.Interrupting(optimizer._core, "start", does))
        optimizer.step()
    assert optimizer._overlap._unread
    optimizer.step()
    optimizer.zero_grad()
    loss_of(model, 1).backward()
    optimizer.step()
    optimizer.wait()
    train(reference, sluice.torch.AdamW(reference.parameters(), lr=1e-2, runtime=make_runtime()), 2)
    assert optimizing.same(model.parameters(), reference.parameters())
    assert {state["step"].item() for state in optimizer.state.values()} == {2}


def test_optimizers_of_one_runtime_work_at_the_same_time(make_runtime):
    """Their ops would wait for each other in one lane, and each may hold what the other needs."""
    for _ in range(8):
        runtime = make_runtime(dram="2MiB", page_bytes="16KiB")
        params = [[torch.nn.Parameter(torch.ones(300, 200, dtype=torch.float16)) for _ in range(2)]
                  for _ in range(2)]
        optimizers = [sluice.torch.SGD(each, lr=0.1, momentum=0.9, states="8bit", runtime=runtime, overlap=True)
                      for each in params]
        for _ in range(10):
            for param in (*params[0], *params[1]):
                param.grad = torch.ones_like(param)
            for optimizer in optimizers:
                optimizer.step()
            with torch.no_grad():
                for optimizer in optimizers:
                    optimizer.wait()
                for param in (*params[0], *params[1]):
                    param.mul_(0.9)
        assert optimizing.same(*params)
        runtime.close()


def test_the_lane_of_an_optimizer_that_is_gone_is_taken_again(runtime):
    def optimizers(count):
        return [sluice.torch.SGD([torch.nn.Parameter(torch.ones(3))], runtime=runtime) for _ in range(count)]

    def lanes(made):
        with runtime.iteration("lanes"):
            for optimizer in made:
                optimizer.param_groups[0]["params"][0].grad = torch.ones(3)
                optimizer.step()
        return {op["lane"] for op in runtime.schedule("lanes")["ops"]}

    kept = optimizers(3)
    assert lanes(kept) == {"optimizer.0", "optimizer.1", "optimizer.2"}
    del kept[1]
    assert lanes([kept[0], *optimizers(1)]) == {"optimizer.0", "optimizer.1"}
