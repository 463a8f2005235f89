"""Optimizers with paged states: torch's results, and the same bits for any budget."""

import threading
import time

import optimizing
import pytest
import torch

import sluice.torch

# The class, its options, and torch's: what the results are compared with; steps; and the share of
# elements that may differ by more: of gradient and decay that cancel, Adam's steps keep the sign.
KINDS = [
    (sluice.torch.AdamW, torch.optim.AdamW, {"lr": 1e-3, "weight_decay": 0.0}, 50, 0),
    (sluice.torch.AdamW, torch.optim.AdamW, {"lr": 1e-3}, 50, 0),
    (sluice.torch.AdamW, torch.optim.AdamW, {"lr": 1e-3, "weight_decay": 0.1}, 50, 0),
    (sluice.torch.Adam, torch.optim.Adam, {"lr": 1e-3}, 50, 0),
    (sluice.torch.Adam, torch.optim.Adam, {"lr": 1e-3, "weight_decay": 0.01}, 10, 1e-3),
    (sluice.torch.SGD, torch.optim.SGD, {"lr": 1e-2, "momentum": 0.9, "weight_decay": 0.01}, 10, 0),
    (sluice.torch.SGD, torch.optim.SGD, {"lr": 1e-2, "momentum": 0.9, "nesterov": True}, 10, 0),
    (sluice.torch.SGD, torch.optim.SGD, {"lr": 1e-2}, 10, 0),
    (sluice.torch.Adagrad, torch.optim.Adagrad, {"lr": 1e-2, "lr_decay": 0.1}, 10, 0),
]


@pytest.mark.parametrize("ours,theirs,options,steps,share", KINDS)
def test_recorded_gradients_give_what_torch_gives(runtime, seed, ours, theirs, options, steps, share):
    mine, reference = optimizing.parameters(seed), optimizing.parameters(seed)
    optimizer = ours(mine, runtime=runtime, **options)
    assert isinstance(optimizer, torch.optim.Optimizer)
    optimizing.run(optimizer, mine, seed, steps)
    optimizing.run(theirs(reference, **options), reference, seed, steps)
    assert optimizing.share_beyond(1e-6, mine, reference, options["lr"]) <= share


def test_the_states_are_paged(runtime, seed):
    params = optimizing.parameters(seed)
    optimizer = sluice.torch.AdamW(params, runtime=runtime)
    optimizing.run(optimizer, params, seed, 2)
    nvme = runtime.stats()["tiers"]["nvme"]
    count = sum(param.numel() for param in params)
    assert nvme["committed_bytes"] >= 8 * count
    assert runtime.stats()["links"]["dram-nvme"]["in"]["bytes"] > 4 << 20
    assert optimizer.last_step["compute_seconds"] > 0


@pytest.mark.parametrize("clip_norm", [None, 1e6])
def test_pages_that_stayed_in_dram_are_used_first(runtime, seed, clip_norm):
    params = optimizing.parameters(seed, shapes=[(256, 256)] * 20)
    optimizer = sluice.torch.AdamW(params, runtime=runtime, clip_norm=clip_norm)
    optimizing.run(optimizer, params, seed, 2)
    before = runtime.stats()["links"]["dram-nvme"]["in"]["bytes"]
    optimizing.run(optimizer, params, seed, 4, first=2)
    read = (runtime.stats()["links"]["dram-nvme"]["in"]["bytes"] - before) / 4
    states, dram = 8 * sum(param.numel() for param in params), 4 << 20
    assert 0 < read < states - dram // 2  # all of them, if every step began with the first


@pytest.mark.parametrize("states", ["fp32", "bf16", "8bit"])
@pytest.mark.parametrize("dtype,master", [(torch.float32, True), (torch.bfloat16, True),
                                          (torch.bfloat16, False), (torch.float16, True)])
def test_the_bits_are_those_of_states_that_stay_in_dram(make_runtime, seed, states, dtype, master):
    shapes = [(700, 1000), (17,)]
    runs = []
    for dram, lowest, threads in (("2MiB", "nvme", 2), ("64MiB", "dram", 1)):
        params = optimizing.parameters(seed, dtype, shapes)
        optimizer = sluice.torch.AdamW(params, lr=1e-2, runtime=make_runtime(dram=dram), lowest=lowest,
                                       states=states, master=master, threads=threads, seed=seed)
        optimizing.run(optimizer, params, seed, 3)
        runs.append(params + list(optimizer.state_dict()["state"][0].values()))
        optimizer.close()
    assert optimizing.same(*runs)
    assert not optimizing.same(runs[0][:2], optimizing.parameters(seed, dtype, shapes))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_master_keeps_what_is_below_the_parameters_precision(runtime, seed, dtype):
    shapes = [(100, 100)]
    half = optimizing.parameters(seed, dtype, shapes)
    full = [torch.nn.Parameter(param.detach().float()) for param in half]
    optimizing.run(sluice.torch.AdamW(half, lr=1e-5, runtime=runtime), half, seed, 20)
    optimizing.run(torch.optim.AdamW(full, lr=1e-5), full, seed, 20, through=dtype)
    rounded = [param.detach().to(dtype) for param in full]
    differ = (half[0] != rounded[0]).float().mean().item()
    assert differ < 0.002  # fp32 results, a bit apart, round to either side


def test_a_master_takes_what_the_program_writes(runtime, seed):
    params = optimizing.parameters(seed, torch.bfloat16, [(50, 50)])
    optimizer = sluice.torch.SGD(params, lr=0.0, runtime=runtime)
    optimizing.run(optimizer, params, seed, 1)
    with torch.no_grad():
        params[0][7] = 3.0
    optimizing.run(optimizer, params, seed, 1)
    assert (params[0][7] == 3.0).all()


def test_a_parameter_without_a_gradient_is_skipped(runtime, seed):
    mine, reference = optimizing.parameters(seed), optimizing.parameters(seed)
    optimizer = sluice.torch.AdamW(mine, runtime=runtime)
    theirs = torch.optim.AdamW(reference)
    for params, each in ((mine, optimizer), (reference, theirs)):
        for step in range(4):
            for number, gradient in enumerate(optimizing.gradients(seed, step, params)):
                params[number].grad = gradient if (number + step) % 3 else None
            each.step()
    assert optimizing.off_by(mine, reference, 1e-3) <= 1e-6
    ours, steps = optimizer.state_dict()["state"], theirs.state_dict()["state"]
    assert {i: s["step"].item() for i, s in ours.items()} == {
        i: s["step"].item() for i, s in steps.items()}


def test_a_step_without_gradients_changes_nothing(runtime, seed):
    params = optimizing.parameters(seed)
    optimizer = sluice.torch.AdamW(params, runtime=runtime)
    optimizer.step()
    assert not optimizer.state and optimizing.same(params, optimizing.parameters(seed))
    optimizing.run(optimizer, params, seed, 1)
    before = [param.detach().clone() for param in params]
    optimizer.step()
    assert optimizing.same(params, before)
    assert all(state["step"] == 1 for state in optimizer.state.values())
    assert bool(optimizer.state)


@pytest.mark.parametrize("options", [{}, {"overlap": True}, {"step_in_backward": True}], ids=str)
def test_a_closure_computes_the_gradients_of_its_step(runtime, seed, options):
    def trained(optimizer, weight):
        losses = []

        def closure():
            optimizer.zero_grad()
            loss = (weight * torch.arange(300.0)).sin().square().mean()
            loss.backward()
            losses.append(loss.item())
            return loss

        for _ in range(3):
            with torch.no_grad():  # the closure has gradients all the same
                assert optimizer.step(closure).item() == losses[-1]
            getattr(optimizer, "wait", lambda: None)()
        return losses

    (mine,), (reference,) = (optimizing.parameters(seed, shapes=[(300,)]) for _ in range(2))
    optimizer = sluice.torch.AdamW([mine], lr=1e-2, runtime=runtime, closures=True, **options)
    ours = trained(optimizer, mine)
    assert len(ours) == 3, "one call each"
    assert ours == pytest.approx(trained(torch.optim.AdamW([reference], lr=1e-2), reference), rel=1e-6)
    assert optimizing.off_by([mine], [reference], 1e-2) <= 1e-6


def test_an_error_in_a_closure_leaves_everything(runtime, seed):
    weights = optimizing.parameters(seed)
    optimizer = sluice.torch.AdamW(weights, runtime=runtime, closures=True)
    optimizing.run(optimizer, weights, seed, 1)
    before = [weight.detach().clone() for weight in weights]
    with pytest.raises(ZeroDivisionError):
        optimizer.step(lambda: 1 / 0)
    assert optimizing.same(weights, before)
    optimizing.run(optimizer, weights, seed, 1, first=1)
    assert optimizer.state[weights[0]]["step"] == 2


def test_schedulers_set_the_rate(runtime, seed):
    mine, reference = optimizing.parameters(seed), optimizing.parameters(seed)
    optimizer = sluice.torch.AdamW(mine, lr=1e-2, runtime=runtime)
    theirs = torch.optim.AdamW(reference, lr=1e-2)
    for each, params in ((optimizer, mine), (theirs, reference)):
        scheduler = torch.optim.lr_scheduler.OneCycleLR(each, max_lr=1e-2, total_steps=6)
        for step in range(5):
            optimizing.run(each, params, seed, 1, first=step)
            scheduler.step()
    assert optimizer.param_groups[0]["lr"] == theirs.param_groups[0]["lr"] != 1e-2
    assert optimizer.param_groups[0]["betas"] == theirs.param_groups[0]["betas"]
    assert optimizing.off_by(mine, reference, 1e-2) <= 1e-6


def test_groups_have_rates_of_their_own_and_may_come_later(runtime, seed):
    mine, reference = optimizing.parameters(seed), optimizing.parameters(seed)
    groups = lambda params: [{"params": params[:2], "lr": 1e-2}, {"params": params[2:4], "eps": 1e-3}]
    optimizer = sluice.torch.AdamW(groups(mine), runtime=runtime)
    theirs = torch.optim.AdamW(groups(reference))
    for each, params in ((optimizer, mine), (theirs, reference)):
        optimizing.run(each, params, seed, 2)
        each.add_param_group({"params": params[4:], "weight_decay": 0.5})
        optimizing.run(each, params, seed, 2, first=2)
    assert optimizing.off_by(mine, reference, 1e-3) <= 1e-6


def test_gradients_are_clipped_in_the_step_or_before_it(runtime, seed):
    fused, before, reference = (optimizing.parameters(seed) for _ in range(3))
    clipping = sluice.torch.AdamW(fused, runtime=runtime, clip_norm=1.0)
    plain = sluice.torch.AdamW(before, runtime=runtime)
    theirs = torch.optim.AdamW(reference)
    for step in range(3):
        for each, params in ((clipping, fused), (plain, before), (theirs, reference)):
            for param, gradient in zip(params, optimizing.gradients(seed, step, params)):
                param.grad = gradient
            if each is not clipping:
                norm = torch.nn.utils.clip_grad_norm_(params, 1.0)
            each.step()
        assert clipping.gradient_norm == pytest.approx(norm.item(), rel=1e-4)
    assert plain.gradient_norm is None
    assert optimizing.off_by(before, reference, 1e-3) <= 1e-6
    assert optimizing.off_by(fused, reference, 1e-3) <= 1e-5  # torch sums squares in fp32


def test_a_model_trains_as_with_torch(runtime, seed):
    def train(make):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(33, 65), torch.nn.GELU(), torch.nn.Linear(65, 5))
        optimizer = make(model.parameters())
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3)
        losses = []
        for step in range(8):
            for _ in range(2):  # accumulation
                inputs = torch.randn(16, 33)
                loss = model(inputs).square().mean() / 2
                scaler.scale(loss).backward()
                losses.append(loss.item())
            if step == 4:
                model[0].weight.grad[0, 0] = float("inf")
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        return losses, scaler.get_scale(), optimizer

    ours, scale, optimizer = train(lambda p: sluice.torch.AdamW(p, lr=1e-2, runtime=runtime))
    theirs, their_scale, _ = train(lambda p: torch.optim.AdamW(p, lr=1e-2))
    assert ours == pytest.approx(theirs, rel=1e-6)
    assert scale == their_scale
    assert next(iter(optimizer.state.values()))["step"] == 7  # the one with an infinity was skipped


def test_lion_follows_its_formula(runtime, seed):
    params, reference = optimizing.parameters(seed), optimizing.parameters(seed)
    moments = [torch.zeros_like(param) for param in reference]
    optimizer = sluice.torch.Lion(params, lr=1e-3, weight_decay=0.1, runtime=runtime)
    optimizing.run(optimizer, params, seed, 5)
    with torch.no_grad():
        for step in range(5):
            made = optimizing.gradients(seed, step, reference)
            for param, gradient, moment in zip(reference, made, moments):
                sign = (0.9 * moment + 0.1 * gradient).sign()
                param -= 1e-3 * (sign + 0.1 * param)
                moment.mul_(0.99).add_(gradient, alpha=0.01)
    close = [(a - b).abs() <= 1e-6 * (b.abs() + 0.05) for a, b in zip(params, reference)]
    assert sum((~each).sum().item() for each in close) <= 5  # signs of sums that cancel


def test_a_step_is_a_change_that_autograd_sees(runtime, seed):
    params = optimizing.parameters(seed, shapes=[(3,)])
    optimizer = sluice.torch.SGD(params, lr=0.1, runtime=runtime)
    loss = (params[0] * params[0]).sum()
    optimizing.run(optimizer, params, seed, 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_step_does_not_hold_the_gil(runtime, seed):
    params = optimizing.parameters(seed, shapes=[(1000, 1000)])
    optimizer = sluice.torch.AdamW(params, runtime=runtime)
    params[0].grad = torch.ones_like(params[0])
    held = runtime.tensor((16 * 63, 1024), "float32", name="held")  # all of dram but a page
    entered, counted = threading.Event(), []

    def hold():
        with runtime.lease(held, mode="rw", tier="dram"):
            entered.set()
            for count in range(20):  # the loop would stand still if step() held the GIL
                time.sleep(0.005)
                counted.append(count)

    thread = threading.Thread(target=hold)
    thread.start()
    entered.wait()
    optimizer.step()
    assert len(counted) == 20
    thread.join()


def test_the_end_of_a_runtime_is_the_end_of_its_optimizers(make_runtime, seed):
    params = optimizing.parameters(seed)
    with make_runtime() as runtime:
        optimizer = sluice.torch.AdamW(params, runtime=runtime)
        optimizing.run(optimizer, params, seed, 1)
    params[0].grad = torch.ones_like(params[0])
    with pytest.raises(sluice.FailedPrecondition, match="the optimizer, or its runtime, is closed"):
        optimizer.step()


def test_a_program_may_end_with_an_optimizer(run_program):
    code, out, err = run_program("""
import torch, sluice.torch
runtime = sluice.Runtime(**SMALL)
weight = torch.nn.Parameter(torch.ones(1000, 1000))
optimizer = sluice.torch.AdamW([weight], runtime=runtime)
weight.grad = torch.ones(1000, 1000)
optimizer.step()
if os.fork() == 0:
    try:
        optimizer.step()
    except sluice.FailedPrecondition as error:
        print("child:", error, flush=True)
    os._exit(0)
os.wait()
optimizer.step()
print("steps", int(optimizer.state[weight]["step"]))
""")
    assert code == 0, err
    assert "child: the runtime belongs to the parent" in out
    assert out.endswith("steps 2\n")


def test_a_step_after_an_interrupted_one_has_the_rate_of_its_own(runtime, seed, monkeypatch):
    mine, reference = (optimizing.parameters(seed, shapes=[(300,)]) for _ in range(2))
    optimizer = sluice.torch.Adagrad(mine, lr=0.1, lr_decay=0.5, runtime=runtime)

    def interrupt():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(optimizer, "_wait", interrupt)
        optimizing.run(optimizer, mine, seed, 1)
    optimizing.run(optimizer, mine, seed, 1, first=1)
    optimizing.run(torch.optim.Adagrad(reference, lr=0.1, lr_decay=0.5), reference, seed, 2)
    assert optimizing.off_by(mine, reference, 0.1) <= 1e-6


class Interrupting:
    """A core whose steps are met by Ctrl-C, right before or right after their begin."""

    def __init__(self, core, begins):
        self._core, self._begins = core, begins

    def start(self, updates, norm):
        if self._begins:
            self._core.start(updates, norm)
        raise KeyboardInterrupt

    def __getattr__(self, name):
        return getattr(self._core, name)


@pytest.mark.parametrize("begins", [False, True])
def test_ctrl_c_at_the_begin_of_a_step_neither_repeats_nor_loses_it(runtime, seed, monkeypatch, begins):
    mine, reference = (optimizing.parameters(seed, shapes=[(300,)]) for _ in range(2))
    optimizer = sluice.torch.AdamW(mine, runtime=runtime)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(optimizer, "_core", Interrupting(optimizer._core, begins))
        optimizing.run(optimizer, mine, seed, 1)
    optimizer.step()
    optimizing.run(torch.optim.AdamW(reference), reference, seed, 1)
    assert optimizing.off_by(mine, reference, 1e-3) <= 1e-6
    assert optimizer.state_dict()["state"][0]["step"] == 1


@pytest.mark.parametrize("options", [{}, {"step_in_backward": True}, {"clip_norm": 0.1}])
def test_a_compiled_function_makes_whole_train_steps(runtime, seed, options):
    def make(compiled):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64))
        optimizer = sluice.torch.AdamW(model.parameters(), lr=1e-2, runtime=runtime, **options)

        def train(inputs):
            loss = model(inputs).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        return model, optimizer, torch.compile(train, backend="eager") if compiled else train

    (mine, optimizer, train), (reference, _, plain) = make(True), make(False)
    for step in range(3):
        inputs = torch.full((4, 64), step + 1.0)
        assert torch.equal(train(inputs), plain(inputs))
    assert optimizing.same(mine.parameters(), reference.parameters())
    assert optimizer.state_dict()["state"][0]["step"] == 3
    within = torch.compile(lambda: optimizer.state_dict()["state"][0]["step"] + 1, backend="eager")
    assert within() == 4


@pytest.mark.parametrize("options", [{}, {"step_in_backward": True}, {"overlap": True}])
def test_ctrl_c_while_steps_are_counted_leaves_none_out(runtime, seed, monkeypatch, options):
    mine, reference = (optimizing.parameters(seed, shapes=[(300,), (8,), (9,)]) for _ in range(2))
    optimizer = sluice.torch.AdamW(mine, runtime=runtime, **options)
    note, noted = optimizer._note_steps, []

    def interrupt(slot):
        noted.append(slot)
        if len(noted) == 2:
            raise KeyboardInterrupt
        note(slot)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(optimizer, "_note_steps", interrupt)
        optimizing.run(optimizer, mine, seed, 1)
    optimizer.step()
    assert [state["step"] for state in optimizer.state_dict()["state"].values()] == [1, 1, 1]
    optimizing.run(optimizer, mine, seed, 1, first=1)
    optimizing.run(torch.optim.AdamW(reference), reference, seed, 2)
    assert [state["step"] for state in optimizer.state_dict()["state"].values()] == [2, 2, 2]
    assert optimizing.off_by(mine, reference, 1e-3) <= 1e-6
