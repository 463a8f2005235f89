"""Large members of ModuleLists where most weights fit: they have two parts, of several modules each."""

import checkpoints
import pytest
import torch
from checkpoints import MODELS, leases_of, stream_of
from safetensors.torch import load_file

# Pages so small that members of the models here are large.
SMALL_PAGE = 4096
FIRST, SECOND = "self_attn to mlp.gate_proj", "mlp.up_proj to mlp.down_proj"


def names_of(stream):
    return [unit["name"] for unit in stream.report()["units"]]


def read_per_pass(folder, prompt):
    model = checkpoints.on_meta(MODELS["llama"])
    with stream_of(model, folder, share=0.8, page_bytes=SMALL_PAGE) as stream, torch.no_grad():
        for _ in range(12):
            model(prompt)
        return stream.report()["read_bytes"] / 11


def test_a_layer_has_two_parts_where_most_weights_fit(tmp_path):
    folder = checkpoints.write_model(tmp_path, MODELS["llama"])
    model, resident = checkpoints.on_meta(MODELS["llama"]), checkpoints.resident(folder)
    prompt = torch.randint(2, 512, (1, 9))
    with stream_of(model, folder, share=0.8, page_bytes=SMALL_PAGE) as stream, torch.no_grad():
        for _ in range(4):
            assert torch.equal(model(prompt).logits, resident(prompt).logits)
        layers = (f"model.layers.{i}" for i in range(8))
        parts = [" to ".join(f"{layer}.{name}" for name in part.split(" to "))
                 for layer in layers for part in (FIRST, SECOND)]
        assert names_of(stream) == ["model.embed_tokens", *parts, "model.norm", "lm_head"]
        assert all(unit["entries"] == 4 for unit in stream.report()["units"])
        assert [op["name"] for op in stream._runtime.schedule("pass")["ops"]] == names_of(stream)
        assert not leases_of(stream)


def test_less_is_read_than_with_whole_layers(tmp_path, monkeypatch):
    folder = checkpoints.write_model(tmp_path, MODELS["llama"])
    prompt = torch.ones(1, 4, dtype=torch.int64)
    joined = read_per_pass(folder, prompt)
    monkeypatch.setattr("sluice.torch._streaming._parts._PAGES", 1 << 20)
    assert joined < read_per_pass(folder, prompt)


def test_parts_without_weights_of_their_own_are_joined_by_those_below(tmp_path):
    def container(width=256):
        return torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.Linear(width, width))

    def block():
        return torch.nn.Sequential(*(container() for _ in range(4)))

    torch.manual_seed(3)
    resident, model = (torch.nn.ModuleList(block() for _ in range(8)) for _ in range(2))
    path = checkpoints.save(tmp_path / "m.safetensors", resident)
    with stream_of(model.requires_grad_(False), path, share=0.8, page_bytes=SMALL_PAGE) as stream:
        assert names_of(stream)[:2] == ["0.0 to 0.1", "0.2 to 0.3"] and len(names_of(stream)) == 8 * 2


class Crossed(torch.nn.Module):
    """A block whose modules run in another order than they are made."""

    def __init__(self, order, width=256):
        super().__init__()
        self.layers = torch.nn.ModuleDict({name: torch.nn.Linear(width, width) for name in "abcd"})
        self.order = order

    def forward(self, x):
        for name in self.order:
            x = self.layers[name](x)
        return x


@pytest.mark.parametrize("order,stays", [("abcd", True), ("dcba", True), ("badc", True), ("acbd", False)])
def test_a_layer_whose_parts_would_come_twice_becomes_whole(order, stays, tmp_path):
    torch.manual_seed(3)
    resident, model = (torch.nn.ModuleList(Crossed(order) for _ in range(4)) for _ in range(2))
    path = checkpoints.save(tmp_path / "m.safetensors", resident)
    checkpoints.align(path)
    resident.load_state_dict(load_file(path), assign=True)
    resident.requires_grad_(False)
    x = torch.randn(2, 256)
    with stream_of(model.requires_grad_(False), path, share=0.8, page_bytes=SMALL_PAGE) as stream:
        for _ in range(3):
            for block, expected in zip(model, resident):
                assert torch.equal(block(x), expected(x))
        assert ("1" not in names_of(stream)) == stays
        assert not leases_of(stream)
