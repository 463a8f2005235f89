"""step_in_backward: updates begin in backward, and what needs whole gradients is refused by name."""

import copy
import io
import pickle
import time

import numpy
import optimizing
import pytest
import torch
from torch.utils.checkpoint import checkpoint
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import sluice.torch
from sluice.torch import _early

WIDTH = 256


def model_of(seed, dtype=torch.float32, layers=6):
    torch.manual_seed(seed)
    made = (torch.nn.Linear(WIDTH, WIDTH) for _ in range(layers))
    return torch.nn.Sequential(*made).to(dtype)


def loss_of(model, step):
    generator = torch.Generator().manual_seed(step)
    inputs = torch.randn(8, WIDTH, generator=generator).to(next(model.parameters()).dtype)
    return model(inputs).float().square().mean()


def train(model, optimizer, steps=4):
    for step in range(steps):
        loss_of(model, step).backward()
        optimizer.step()
        optimizer.zero_grad()


def early(model, runtime, **options):
    return sluice.torch.AdamW(model.parameters(), lr=1e-2, runtime=runtime, step_in_backward=True,
                              **options)


@pytest.mark.parametrize("held", [0, 64 << 20])
@pytest.mark.parametrize("dtype,states", [(torch.float32, "fp32"), (torch.bfloat16, "bf16")])
def test_a_step_in_backward_gives_the_bits_of_one_after_it(runtime, make_runtime, monkeypatch, seed, dtype,
                                                    states, held):
    monkeypatch.setattr(_early, "_HELD_BYTES", held)
    model, reference = model_of(seed, dtype), model_of(seed, dtype)
    optimizer = early(model, runtime, states=states)
    after = sluice.torch.AdamW(reference.parameters(), lr=1e-2, states=states,
                               runtime=make_runtime(dram="16MiB"))
    train(model, optimizer)
    train(reference, after)
    assert optimizing.same(model.parameters(), reference.parameters())
    assert {state["step"].item() for state in optimizer.state.values()} == {4}
    assert optimizing.same(optimizer.state_dict()["state"][0].values(),
                           after.state_dict()["state"][0].values())


def test_updates_come_before_step(runtime, seed):
    model, before = model_of(seed), model_of(seed)
    optimizer = early(model, runtime)
    loss_of(model, 0).backward()
    for _ in range(1000):
        if not any(map(torch.equal, model.parameters(), before.parameters())):
            return
        time.sleep(0.01)
    pytest.fail("10 s have passed")


def test_gradients_are_given_back_in_backward(runtime, monkeypatch, seed):
    largest = WIDTH * WIDTH * 4
    monkeypatch.setattr(_early, "_HELD_BYTES", largest)
    model = model_of(seed)
    optimizer = early(model, runtime)
    held = []

    def count(_):
        held.append(sum(each.nbytes for each in optimizer._step.gradients if each is not None))

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(count)
    with optimizing.Held(runtime) as dram:
        dram.let_go_later()  # no update goes on until then
        loss_of(model, 0).backward()
    assert len(held) == 12 and max(held) <= 2 * largest
    assert all(isinstance(p.grad, _early.UsedGradient) for p in model.parameters())
    assert "used up in backward" in repr(model[0].weight.grad)
    optimizer.step()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_gradients_by_hand_and_none(runtime, seed):
    model, reference = model_of(seed), model_of(seed)
    optimizer, theirs = early(model, runtime), torch.optim.AdamW(reference.parameters(), lr=1e-2)
    optimizer.step()
    assert not optimizer.state
    for each, made in ((model, optimizer), (reference, theirs)):
        loss_of(torch.nn.Sequential(*each[:3]), 0).backward()  # the others have none
        each[5].weight.grad = torch.ones(WIDTH, WIDTH)
        made.step()
    assert optimizing.off_by(model.parameters(), reference.parameters(), 1e-2) <= 1e-6
    assert len(optimizer.state) == 7


def test_a_use_of_an_updated_parameter_is_an_error_of_autograd(runtime, seed):
    model = model_of(seed)
    optimizer = early(model, runtime)
    kept = (model[0].weight * model[0].weight).sum()
    loss_of(model, 0).backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        kept.backward()


def accumulate(model, optimizer):
    loss_of(model, 0).backward()
    loss_of(model, 1).backward()


def accumulate_cleared(model, optimizer):
    loss_of(model, 0).backward()
    model.zero_grad()
    loss_of(model, 1).backward()


def clip(model, optimizer):
    loss_of(model, 0).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)


def scale(model, optimizer):
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(loss_of(model, 0)).backward()
    scaler.step(optimizer)


def share_between_segments(model, optimizer):
    inputs = torch.randn(8, WIDTH, requires_grad=True)
    for _ in range(2):
        inputs = checkpoint(model[0], inputs, use_reentrant=True)
    inputs.sum().backward()


def read(model, optimizer):
    loss_of(model, 0).backward()
    return model[0].weight.grad.abs()


@pytest.mark.parametrize("use,name", [
    (lambda gradient: gradient.numpy(), r"numpy\(\)"), (lambda gradient: gradient.tolist(), r"tolist\(\)"),
    (numpy.asarray, r"numpy\(\)"), (copy.copy, "pickle"), (pickle.dumps, "pickle"),
    (lambda gradient: torch.save(gradient, io.BytesIO()), "torch.save"), (copy.deepcopy, "aten.clone"),
    (lambda gradient: gradient.share_memory_(), r"share_memory\(\)"),
    (lambda gradient: gradient.untyped_storage(), r"untyped_storage\(\)"),
])
def test_a_use_that_is_no_operation_is_refused_by_name(runtime, seed, use, name):
    model = model_of(seed, layers=1)
    optimizer = early(model, runtime)
    loss_of(model, 0).backward()
    with pytest.raises(sluice.FailedPrecondition, match=f"of parameter '0' was used up in backward .*{name}"):
        use(model[0].weight.grad)
    optimizer.step()


@pytest.mark.parametrize("misuse,origin", [
    (accumulate, r"the gradient of parameter '\d+' was used up .* accumulation"),
    (accumulate_cleared, r"parameter '\d+' was updated in this step already .* for accumulation"),
    (clip, r"the gradient of parameter '0' was used up .* clip_grad_norm_, or Trainer"),
    (scale, "the gradient of parameter '0' was used up .* GradScaler"),
    (share_between_segments, r"parameter '\d' was used up .* segments of a reentrant checkpoint share"),
    (read, "the gradient of parameter '0' was used up .* aten.abs"),
])
def test_options_that_need_whole_gradients_are_refused_by_name(runtime, seed, misuse, origin):
    model = model_of(seed)
    optimizer = early(model, runtime)
    with pytest.raises(sluice.FailedPrecondition, match=origin):
        misuse(model, optimizer)
    optimizer.zero_grad()
    optimizer.step()  # completes the one that has begun
    train(model, optimizer, 1)


def test_clip_norm_is_refused(runtime):
    with pytest.raises(sluice.InvalidArgument, match="clip_norm=1.0 needs the gradients of all"):
        early(torch.nn.Linear(4, 4), runtime, clip_norm=1.0)


class WithoutNorm(Trainer):
    def _get_grad_norm(self, *_, **__):
        return None


@pytest.mark.parametrize("kind,max_grad_norm", [(Trainer, 1.0), (Trainer, 0.0), (WithoutNorm, 0.0)])
def test_trainer_works_without_a_norm(runtime, spill, seed, kind, max_grad_norm):
    seed %= 1 << 31
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=32, n_positions=8, vocab_size=64,
                                       bos_token_id=0, eos_token_id=0))
    tokens = torch.randint(0, 64, (8, 8))
    arguments = TrainingArguments(
        output_dir=spill / "out", max_steps=3, per_device_train_batch_size=4, report_to=[],
        max_grad_norm=max_grad_norm, use_cpu=True, disable_tqdm=True, save_strategy="no", seed=seed,
    )
    optimizer = early(model, runtime)
    trainer = kind(model, arguments, train_dataset=[{"input_ids": t, "labels": t} for t in tokens],
                   optimizers=(optimizer, None))
    if kind is Trainer:
        with pytest.raises(sluice.FailedPrecondition, match="set its max_grad_norm to 0"):
            trainer.train()
        return
    trainer.train()
    assert {state["step"].item() for state in optimizer.state.values()} == {3}


def test_a_model_of_one_rank_under_ddp_is_refused(run_program):
    code, out, err = run_program("""
import torch, sluice.torch
import torch.distributed as dist
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meeting"), rank=0, world_size=1)
runtime = sluice.Runtime(**SMALL)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
optimizer = sluice.torch.AdamW(model.parameters(), runtime=runtime, step_in_backward=True)
try:
    model(torch.ones(1, 4)).sum().backward()
except sluice.FailedPrecondition as error:
    print(error)
""")
    assert code == 0, err
    assert "DistributedDataParallel needs it" in out


def test_states_are_not_read_or_saved_within_a_step(runtime, spill, seed):
    model = model_of(seed)
    optimizer = early(model, runtime)
    loss_of(model, 0).backward()
    for call in (optimizer.state_dict, lambda: optimizer.save(spill), lambda: optimizer.load(spill)):
        with pytest.raises(sluice.FailedPrecondition, match="call step\\(\\) first"):
            call()
    optimizer.step()
    optimizer.save(spill)
    optimizer.load(spill)
    train(model, optimizer, 1)


def test_an_update_that_fails_is_told_by_step(make_runtime, spill, seed):
    runtime = make_runtime(dram="1MiB")
    model = model_of(seed)
    optimizer = early(model, runtime)
    train(model, optimizer, 2)
    optimizer.save(spill)
    optimizing.lose_states(spill)
    loss_of(model, 2).backward()
    with pytest.raises(sluice.DataLoss, match=r"step 3: '\d+', elements"):
        optimizer.step()
    with pytest.raises(sluice.DataLoss, match="step 3:"):  # the missing part is tried again first
        loss_of(model, 3).backward()
    optimizer.zero_grad()
    optimizer.close()
    again = early(model, make_runtime())
    again.load(spill)
    train(model, again, 1)
    assert {state["step"].item() for state in again.state.values()} == {3}


def test_the_end_within_a_step(runtime, seed):
    model = model_of(seed)
    optimizer = early(model, runtime)
    loss_of(model, 0).backward()
    optimizer.close()
    assert all(parameter.grad is None for parameter in model.parameters())
    again = early(model, runtime)
    train(model, again, 2)
    loss_of(model, 0).backward()
    del again, optimizer  # gradients go after what reads them


@pytest.mark.parametrize("does", [False, True])
@pytest.mark.parametrize("call", ["begin", "go_on", "wait"])
def test_ctrl_c_neither_repeats_nor_loses_an_update(runtime, seed, monkeypatch, call, does):
    mine, reference = torch.nn.Linear(300, 2), torch.nn.Linear(300, 2)
    reference.load_state_dict(mine.state_dict())
    optimizer, theirs = early(mine, runtime), torch.optim.AdamW(reference.parameters(), lr=1e-2)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(optimizer, "_core", optimizing.Interrupting(optimizer._core, call, does))
        mine(torch.ones(300)).sum().backward()
        optimizer.step()
    optimizer.step()
    reference(torch.ones(300)).sum().backward()
    if call == "begin":  # backward has ended with the first gradient
        updated = [each for each in mine.parameters() if each in optimizer.state]
        assert len(updated) == 1
        for each, other in zip(mine.parameters(), reference.parameters()):
            other.grad = other.grad if each in optimizer.state else None
    theirs.step()
    assert optimizing.off_by(mine.parameters(), reference.parameters(), 1e-2) <= 1e-6
    assert {state["step"].item() for state in optimizer.state.values()} == {1}
    assert all(each.grad is None for each in mine.parameters())


@pytest.mark.parametrize("part", ["increment_version", "version_of"])
def test_ctrl_c_within_the_note_of_an_update_leaves_it_whole(runtime, seed, monkeypatch, part):
    mine = torch.nn.Linear(300, 2)
    optimizer = early(mine, runtime)

    def interrupt(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(_early, part, interrupt)
        mine(torch.ones(300)).sum().backward()
    before = [each.detach().clone() for each in mine.parameters()]
    optimizer.step()
    optimizer.step()
    assert {state["step"].item() for state in optimizer.state.values()} == {1}
    assert len(optimizer.state) == 1 and all(each.grad is None for each in mine.parameters())
    for each in mine.parameters():
        each.grad = torch.zeros_like(each)
    optimizer.step()
    assert not any(map(torch.equal, mine.parameters(), before))
