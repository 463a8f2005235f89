"""Gradients of transformers with saved tensors in a runtime have the bits of plain autograd."""

import contextlib

import pytest
import torch
from test_activations import LEAST, all_go_down, copied_down, nothing_left, offload, small  # noqa: F401
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

SIZES = {"vocab_size": 160, "bos_token_id": 0, "eos_token_id": 0}


def gpt2(**options):
    config = GPT2Config(n_layer=2, n_head=2, n_embd=32, n_positions=32, **SIZES, **options)
    return GPT2LMHeadModel(config)


def llama(**options):
    config = LlamaConfig(num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                         hidden_size=32, intermediate_size=72, max_position_embeddings=32, **SIZES,
                         attention_dropout=0.1, **options)
    return LlamaForCausalLM(config)


MODELS = {
    "gpt2": gpt2,  # tied weights, dropout
    "gpt2, eager attention": lambda: gpt2(attn_implementation="eager"),
    "gpt2, untied": lambda: gpt2(tie_word_embeddings=False),
    "llama": llama,
    "llama, tied": lambda: llama(tie_word_embeddings=True),
}


def checkpointing(model, reentrant):
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": reentrant})
    if reentrant:
        model.enable_input_require_grads()


def gradients(model, seed, context=contextlib.nullcontext, batches=1, within=False):
    """Gradients summed over batches; backward runs within the context, or after it."""
    torch.manual_seed(seed)
    model.train()
    model.zero_grad()
    for _ in range(batches):
        tokens = torch.randint(0, 160, (4, 32))
        with context():
            loss = model(input_ids=tokens, labels=tokens).loss
            if within:
                loss.backward()
        if not within:
            loss.backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


@pytest.fixture
def make(seed):
    def make(name):
        torch.manual_seed(seed)
        return MODELS[name]()

    return make


@pytest.mark.parametrize("name", MODELS)
def test_gradients_have_the_bits_of_plain_autograd(small, offload, make, seed, name):
    model = make(name)
    expected = gradients(model, seed, batches=3)
    assert equal(gradients(model, seed, lambda: offload, batches=3), expected)
    stats = offload.stats()
    assert stats["stashed"] > 30 and stats["shared"] > 0 and stats["fetched"] > 0
    assert nothing_left(small)


@pytest.mark.parametrize("width", [1000, 1152])
def test_gradients_of_odd_widths(small, offload, seed, width):
    torch.manual_seed(seed)
    config = GPT2Config(n_layer=1, n_head=8, n_embd=width, n_positions=32, **SIZES)
    model = GPT2LMHeadModel(config)
    expected = gradients(model, seed, batches=2)
    assert equal(gradients(model, seed, lambda: offload, batches=2), expected)
    assert offload.stats()["stashed"] > 15 and offload.stats()["fetched"] > 0
    assert nothing_left(small)


@pytest.mark.parametrize("within", [False, True], ids=["after", "within"])
@pytest.mark.parametrize("reentrant", [False, True], ids=["plain", "reentrant"])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_gradients_with_checkpointing(small, offload, make, seed, name, reentrant, within):
    model = make(name)
    checkpointing(model, reentrant)
    expected = gradients(model, seed, batches=2)
    assert equal(gradients(model, seed, lambda: offload, batches=2, within=within), expected)
    stashed = offload.stats()["stashed"]
    assert stashed >= 4, "the input of each layer"
    if reentrant and within:
        assert stashed > 30, "the recomputation saves within the context"
    assert nothing_left(small)


def test_the_second_step_asks_ahead_in_the_recorded_order(offload, make, seed):
    model = make("llama")
    for _ in range(2):
        before = offload.stats()
        tokens = torch.randint(0, 160, (4, 32))
        with offload:
            loss = model(input_ids=tokens, labels=tokens).loss
        copied_down(offload)
        loss.backward()
        after = offload.stats()
        fetched = after["fetched"] - before["fetched"]
        assert fetched == after["stashed"] - before["stashed"], "each once"
    assert after["ahead"] - before["ahead"] == fetched - 1, "all but the first"


def test_a_model_that_saves_nothing_for_frozen_parts(small, offload, make, seed):
    model = make("llama")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("layers.1" in name or "lm_head" in name)

    def trained(context=contextlib.nullcontext):
        model.zero_grad()
        tokens = torch.randint(0, 160, (4, 32), generator=torch.Generator().manual_seed(seed))
        torch.manual_seed(seed)
        with context():
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        return {name: each.grad.clone() for name, each in model.named_parameters()
                if each.requires_grad}

    model.train()
    expected = trained()
    assert equal(trained(lambda: offload), expected)
    assert nothing_left(small)


@pytest.mark.parametrize("reentrant", [False, True], ids=["plain", "reentrant"])
def test_a_context_within_a_checkpointed_function(small, offload, reentrant):
    from torch.utils.checkpoint import checkpoint

    def block(x):
        with offload:
            return torch.sin(torch.cos(torch.sin(x)))

    def grad(function):
        x = torch.linspace(0, 1, LEAST).view(64, 64).requires_grad_()
        checkpoint(function, torch.sin(x), use_reentrant=reentrant).sum().backward()
        return x.grad

    assert torch.equal(grad(block), grad(lambda x: torch.sin(torch.cos(torch.sin(x)))))
    assert offload.stats()["stashed"] > 0
    assert nothing_left(small)


class Layers(torch.nn.Module):
    """Layers that may run within a context of their own."""

    def __init__(self, context):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4))
        self.context = context

    def forward(self, x):
        with self.context():
            for layer in self.layers:
                x = torch.nn.functional.gelu(layer(x))
            return x.sum()


@pytest.mark.parametrize("outside", [True, False], ids=["around the call", "in the model"])
def test_a_compiled_model(small, offload, seed, outside):
    torch.manual_seed(seed)
    plain, inside = Layers(contextlib.nullcontext), Layers(lambda: offload)
    inside.load_state_dict(plain.state_dict())
    torch.compiler.reset()
    compiled = torch.compile(plain if outside else inside, backend="aot_eager")
    x = torch.randn(64, 64)

    def trained(model, context=contextlib.nullcontext):
        model.zero_grad()
        with context():
            loss = model(x)
        loss.backward()
        return [parameter.grad.clone() for parameter in model.parameters()]

    expected = trained(torch.compile(plain, backend="aot_eager"))
    for _ in range(2):
        found = trained(compiled, (lambda: offload) if outside else contextlib.nullcontext)
        assert all(torch.equal(one, other) for one, other in zip(found, expected))
    assert offload.stats()["stashed"] >= 4
    assert nothing_left(small)
