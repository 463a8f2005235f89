"""Models whose weights transformers fuses when it loads them: put together from the files' rows."""

import checkpoints
import pytest
import sluice
import sluice.torch
import torch
import transformers
from checkpoints import MIXTURES, PAGE, leases_of, stream_of
from safetensors.torch import load_file, save_file

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def folders(module_path):
    return {name: checkpoints.write_model(module_path / name, config)
            for name, config in MIXTURES.items()}


@pytest.mark.parametrize("implementation", ["eager", "grouped_mm"])
@pytest.mark.parametrize("name", MIXTURES)
def test_outputs_are_those_of_the_resident_model(name, implementation, folders):
    wanted = checkpoints.resident(folders[name], experts_implementation=implementation)
    wanted.requires_grad_(False)
    model = checkpoints.on_meta(MIXTURES[name])
    model.set_experts_implementation(implementation)
    prompt = torch.randint(2, 128, (1, 17))
    with stream_of(model, folders[name], share=0.6, page_bytes=4096) as stream, torch.no_grad():
        for _ in range(3):
            assert torch.equal(model(prompt).logits, wanted(prompt).logits)
        tokens = wanted.generate(prompt, max_new_tokens=8, do_sample=False)
        assert torch.equal(model.generate(prompt, max_new_tokens=8, do_sample=False), tokens)
        assert not leases_of(stream)
        report = stream.report()
        assert "experts" not in report and report["unused"] == []
        assert sum(unit["bytes"] for unit in report["units"]) == checkpoints.bytes_of(wanted)
        # The plan depends on measured rates: so the share is bounded by the budget alone.
        assert 0 < report["resident_share"] < 0.6
        assert stream._runtime.stats()["schedule_divergences"] == 0


def test_fused_weights_are_on_meta_outside_a_unit(folders):
    model, wanted = checkpoints.on_meta(MIXTURES["mixtral"]), checkpoints.resident(folders["mixtral"])
    layer = model.model.layers[1]
    seen = []
    layer.mlp.gate.register_forward_hook(
        lambda *_: seen.append(layer.mlp.experts.gate_up_proj.detach().clone()))
    with stream_of(model, folders["mixtral"], share=0.4) as stream, torch.no_grad():
        for _ in range(2):
            model(torch.ones(1, 4, dtype=torch.int64))
            for kind, parameter in layer.mlp.named_parameters():
                assert parameter.device.type == ("meta" if "experts" in kind else "cpu")
        rows = wanted.model.layers[1].mlp.experts.gate_up_proj
        assert len(seen) == 2 and all(torch.equal(each, rows) for each in seen)
        layer.mlp.experts.down_proj = torch.nn.Parameter(torch.zeros(1))
        with pytest.raises(sluice.FailedPrecondition, match="'model.layers.1.*down_proj' has been moved"):
            model(torch.ones(1, 4, dtype=torch.int64))
        assert not leases_of(stream)


@pytest.mark.parametrize("experts", [None, "lru"])
def test_state_dicts_that_would_be_on_meta_are_refused(experts, folders, tmp_path):
    model = checkpoints.on_meta(MIXTURES["mixtral"])
    with stream_of(model, folders["mixtral"], experts=experts):
        layer = model.model.layers[1]
        for module in (model, layer, layer.mlp.experts):
            with pytest.raises(sluice.FailedPrecondition,
                               match="'model.layers.*gate_up_proj' .* copy the files"):
                torch.save(module.state_dict(), tmp_path / "state")
        assert not (tmp_path / "state").exists()
        torch.save(layer.self_attn.state_dict(), tmp_path / "state")
    assert len(model.state_dict()) == 4 * 9 + 3
    wanted = checkpoints.resident(folders["mixtral"]).model.layers[1].self_attn.state_dict()
    saved = torch.load(tmp_path / "state")
    assert saved.keys() == wanted.keys() and all(torch.equal(saved[key], wanted[key]) for key in wanted)


class Fused(transformers.PreTrainedModel):
    """A model of transformers that has q, k and v as rows of one weight, in ``layers`` that share it.

    Each layer runs within the one before. ``held``: the model itself has the weight.
    """

    config_class = transformers.LlamaConfig

    def __init__(self, layers=1, held=False):
        super().__init__(transformers.LlamaConfig())
        qkv = torch.nn.Linear(64, 96)
        if held:
            self.weight, self.bias = qkv.weight, qkv.bias
        self.layers = torch.nn.ModuleList(
            torch.nn.Linear(4, 4) if held else Layer(qkv) for _ in range(layers))
        self.post_init()

    def forward(self, x):
        if isinstance(self.layers[0], Layer):
            return self.layers[0](x, *self.layers[1:])
        return torch.nn.functional.linear(x, self.weight, self.bias)


class Layer(torch.nn.Module):
    def __init__(self, qkv):
        super().__init__()
        self.qkv = qkv

    def forward(self, x, *inner):
        before = inner[0](x, *inner[1:]) if inner else 0
        return self.qkv(x) + before


@pytest.fixture
def converters(monkeypatch):
    """The converters of Fused."""
    from transformers import conversion_mapping, core_model_loading as loading

    made = [loading.WeightConverter([f"{part}_{kind}" for part in "qkv"], kind, [loading.Concatenate(0)])
            for kind in ("weight", "bias")]
    monkeypatch.setattr(conversion_mapping, "get_model_conversion_mapping", lambda _: made)
    return made


def write_rows(folder, prefix="layers.0.qkv."):
    """Writes the files of Fused. Returns its result for 3 rows."""
    tensors = {f"{part}_{kind}": torch.randn(rows, 64) if kind == "weight" else torch.randn(rows)
               for part, rows in zip("kqv", (16, 64, 16)) for kind in ("weight", "bias")}
    save_file({prefix + name: tensor for name, tensor in tensors.items()}, folder / "m.safetensors")
    x = torch.randn(3, 64)
    return x, torch.nn.functional.linear(
        x, *(torch.cat([tensors[f"{part}_{kind}"] for part in "qkv"]) for kind in ("weight", "bias")))


def test_concatenated_rows(tmp_path, converters):
    """Weights of several rows in a row: a model of transformers that has its q, k and v so."""
    model = Fused().eval()
    x, wanted = write_rows(tmp_path)
    with sluice.torch.stream_weights(model, tmp_path, dram="64MiB") as stream, torch.no_grad():
        assert stream.report()["budget_bytes"] == 2 * stream._runtime.page_bytes
        assert torch.equal(model(x), wanted)
    converters[0].operations[0].dim = 1
    with pytest.raises(sluice.InvalidArgument,
                       match=r"q_weight'.*'layers.0.*weight' by .*\(Concatenate\)"):
        stream_of(model, tmp_path, share=2.0)


@pytest.mark.parametrize("layers", [2, 3])
def test_units_that_share_a_fused_weight(layers, tmp_path, converters):
    """The one that leaves first leaves the weight to the other."""
    model = Fused(layers).eval()
    x, wanted = write_rows(tmp_path)
    with sluice.torch.stream_weights(model, tmp_path, dram="64MiB") as stream, torch.no_grad():
        for _ in range(2):
            assert torch.equal(model(x), sum([wanted] * layers))
        assert [unit["entries"] for unit in stream.report()["units"]] == [2] * layers
        assert model.layers[0].qkv.weight.is_meta and not leases_of(stream)
        model.layers[1].qkv.weight = torch.nn.Parameter(torch.zeros(1))
        with pytest.raises(sluice.FailedPrecondition, match="qkv.weight' has been moved"):
            model(x)


def test_a_fused_weight_that_is_always_leased(tmp_path, converters):
    model = Fused(held=True).eval()
    x, wanted = write_rows(tmp_path, "")
    tensors = load_file(tmp_path / "m.safetensors")
    save_file({**tensors, "layers.0.weight": torch.zeros(4, 4), "layers.0.bias": torch.zeros(4)},
              tmp_path / "m.safetensors")
    with sluice.torch.stream_weights(model, tmp_path, dram="64MiB"), torch.no_grad():
        assert torch.equal(model(x), wanted)
    assert all(each.is_meta and each.requires_grad for each in model.parameters())


@pytest.mark.parametrize("experts", [None, "lru"])
def test_checkpoints_that_are_not_whole(experts, folders, tmp_path):
    path = folders["mixtral"] / "model.safetensors"
    expert = "model.layers.1.block_sparse_moe.experts.3"

    def refused(match, **changes):
        tensors = {**load_file(path), **{f"{expert}.{name}.weight": tensor
                                         for name, tensor in changes.items()}}
        other = tmp_path / "other.safetensors"
        save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, other)
        model = checkpoints.on_meta(MIXTURES["mixtral"])
        with pytest.raises(sluice.InvalidArgument, match=match):
            stream_of(model, other, share=2.0, experts=experts)
        assert all(layer.mlp.experts.config is model.config for layer in model.model.layers)

    refused(r"8 of '.*w1.weight', 7 of '.*w3.weight' for 'model.layers.1.*gate_up_proj'", w3=None)
    refused(r"'model.layers.1.*down_proj' has shape \(8, 64, 96\), .* 7 weights", w2=None)
    refused(r"'model.layers.1.*' has shape .* 14 weights", w1=None, w3=None)
    refused(r"'model.layers.1.*gate_up_proj' has shape .* 16 weights", w1=torch.zeros(95, 64))
    refused(r"'model.layers.1.*gate_up_proj' has shape .* 16 weights",
            w1=torch.zeros(95, 64), w3=torch.zeros(97, 64))
    refused(rf"gate_up_proj' is float32, and '{expert}.w3.weight' .* is float16",
            w3=torch.zeros(96, 64).half())


def test_parts_of_other_runtimes_types_and_sizes_are_refused(tmp_path):
    """Tensors are known by number, so those of another runtime would be wrong bytes."""
    save_file({"a": torch.ones(2, 8), "b": torch.zeros(2, 8), "c": torch.ones(4, 8).half()},
              tmp_path / "m.safetensors")
    with sluice.Runtime(dram="1MiB", page_bytes=4096) as runtime, \
            sluice.Runtime(dram="1MiB", page_bytes=4096) as other:
        weights, others = (each.open_weights(tmp_path) for each in (runtime, other))
        fused = weights._fused("fused", (4, 8), [weights["a"], weights["b"]])
        with runtime.lease(fused.tensor) as view:
            assert torch.equal(view.torch(), torch.cat([torch.ones(2, 8), torch.zeros(2, 8)]))
        for parts, shape, match in (
                ((weights["a"], others["b"]), (4, 8), "part 'b' belongs to another runtime"),
                ((weights["a"], weights["c"]), (6, 8), "'a', which is F32, and of 'c', which is F16"),
                ((weights["a"], weights["b"]), (5, 8), r"shape \(5, 8\), and its parts have 32 elem"),
                ((), (0, 8), "its parts have 0 elements")):
            with pytest.raises(sluice.InvalidArgument, match=match):
                weights._fused("fused", shape, parts)
        assert not hasattr(weights, "fused")
        del weights, others, fused, view, parts


def test_other_conversions_are_named(tmp_path):
    config = transformers.NomicBertConfig(
        hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=4, vocab_size=128)
    kind = transformers.AutoModel
    kind.from_config(config).save_pretrained(tmp_path)
    with pytest.raises(sluice.InvalidArgument,
                       match=r"conversion \(Chunk\).*save_original_format=False"):
        stream_of(checkpoints.on_meta(config, kind), tmp_path)
