"""Models that stream: outputs equal to those of the resident model, bit for bit, and what is read."""

import copy

import checkpoints
import pytest
import torch
import transformers
from checkpoints import MODELS, PAGE, Blocks, leases_of, stream_of
from safetensors.torch import load_file

import sluice


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shards", [False, True], ids=["file", "shards"])
@pytest.mark.parametrize("name", MODELS)
def test_outputs_are_those_of_the_resident_model(name, shards, dtype, tmp_path):
    folder = checkpoints.write_model(tmp_path, MODELS[name], shards=shards, dtype=dtype)
    resident = checkpoints.resident(folder, dtype)
    model = checkpoints.on_meta(MODELS[name], dtype=dtype)
    prompt = torch.randint(2, 512, (1, 17))
    with stream_of(model, folder) as stream, torch.no_grad():
        for _ in range(3):
            assert torch.equal(model(prompt).logits, resident(prompt).logits)
        assert not leases_of(stream)
        wanted = resident.generate(prompt, max_new_tokens=12, do_sample=False)
        assert torch.equal(model.generate(prompt, max_new_tokens=12, do_sample=False), wanted)
        assert wanted.shape == (1, 29)
        report = stream.report()
        assert report["passes"] == 15
        # Half of the weights fit: so each pass reads, and does not read all.
        assert 0 < report["resident_share"] < 0.6
        assert stream._runtime.stats()["schedule_divergences"] == 0
    assert stream.report() == {**report, **stream.report()}


def test_one_pass_is_recorded_and_then_planned(tmp_path):
    folder = checkpoints.write_model(tmp_path, MODELS["llama"])
    model = checkpoints.on_meta(MODELS["llama"])
    with stream_of(model, folder) as stream, torch.no_grad():
        model(torch.ones(1, 4, dtype=torch.int64))
        # Units are expected in the order of the modules until there is a recording.
        assert stream._runtime.stats()["prefetch"]["issued"] > 50
        for _ in range(3):
            model(torch.ones(1, 4, dtype=torch.int64))
        schedule = stream._runtime.schedule("pass")
        names = [op["name"] for op in schedule["ops"]]
        layers = [f"model.layers.{i}" for i in range(8)]
        assert names == ["model.embed_tokens", *layers, "model.norm", "lm_head"]
        report = stream.report()
        assert [unit["entries"] for unit in report["units"]] == [4] * 11
        assert report["unused"] == []
        weights = sum(unit["bytes"] for unit in report["units"])
        assert weights == checkpoints.bytes_of(model) == report["weight_bytes"]
        assert report["first_pass"]["read_bytes"] >= weights
        # Two of three passes' bytes at least cross, as half of them fits.
        assert report["read_bytes"] >= 0.4 * 3 * weights


def test_the_first_pass_leaves_what_the_second_begins_with(tmp_path):
    folder = checkpoints.write_model(tmp_path, MODELS["llama"])
    model = checkpoints.on_meta(MODELS["llama"])
    with stream_of(model, folder) as stream, torch.no_grad():
        model(torch.ones(1, 4, dtype=torch.int64))
        read = stream.report()["first_pass"]["read_bytes"]
        first = stream._units[:2]
        for unit in first:
            unit.then = []  # none is asked for meanwhile
            unit.enter(unit)
            unit.leave(unit)
        again = stream.report()["first_pass"]["read_bytes"] - read
        # Pages that they share with others may have left.
        assert again <= 3 * PAGE < 12 * PAGE < sum(unit.nbytes for unit in first)


def test_with_room_for_all_every_byte_is_read_once(tmp_path):
    folder = checkpoints.write_model(tmp_path, MODELS["gpt2"])
    model = checkpoints.on_meta(MODELS["gpt2"])
    with stream_of(model, folder, share=1000) as stream, torch.no_grad():
        for _ in range(5):
            model(torch.ones(1, 4, dtype=torch.int64))
        report = stream.close()
    # No more memory is taken than the weights have.
    assert 0 <= report["budget_bytes"] - report["weight_bytes"] < 2 * PAGE
    assert report["resident_share"] == 1 and report["read_bytes"] == 0
    assert report["first_pass"]["read_bytes"] <= report["weight_bytes"] + 2 * PAGE


def test_tied_weights_are_one_parameter_before_during_and_after(tmp_path):
    folder = checkpoints.write_model(tmp_path, MODELS["gpt2"])
    model = checkpoints.on_meta(MODELS["gpt2"])
    with stream_of(model, folder):
        assert model.lm_head.weight is model.transformer.wte.weight
        assert not model.lm_head.weight.requires_grad
    assert model.lm_head.weight is model.transformer.wte.weight
    assert model.lm_head.weight.device.type == "meta" and model.lm_head.weight.requires_grad


def test_a_resident_model_streams_and_is_given_back_on_meta(tmp_path):
    folder = checkpoints.write_model(tmp_path, MODELS["llama"])
    model, resident = checkpoints.resident(folder), checkpoints.resident(folder)
    forward = model.forward
    prompt = torch.ones(1, 4, dtype=torch.int64)
    with stream_of(model, folder) as stream, torch.no_grad():
        assert torch.equal(model(prompt).logits, resident(prompt).logits)
        addresses = [parameter.data_ptr() for parameter in model.parameters()]
        model(prompt)
        assert addresses == [parameter.data_ptr() for parameter in model.parameters()]
        assert all(parameter % 64 == other.data_ptr() % 64
                   for parameter, other in zip(addresses, resident.parameters()))
    assert all(parameter.device.type == "meta" for parameter in model.parameters())
    assert all(buffer.device.type == "cpu" for buffer in model.buffers())
    assert model.forward == forward and "forward" not in model.model.layers[0].__dict__
    assert stream.close() == stream.report()
    with stream_of(model, folder), torch.no_grad():  # once more
        assert torch.equal(model(prompt).logits, resident(prompt).logits)


@pytest.mark.parametrize("resident", [False, True])
def test_a_recurrent_module_lets_its_weights_go(resident, tmp_path):
    class Recurrent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(32, 32, num_layers=2)
            self.head = torch.nn.Linear(32, 8)

        def forward(self, inputs):
            return self.head(self.lstm(inputs)[0])

    made = Recurrent().eval().requires_grad_(False)
    path = checkpoints.save(tmp_path / "m.safetensors", made)
    model = copy.deepcopy(made) if resident else copy.deepcopy(made).to("meta")
    inputs = torch.randn(5, 3, 32)
    with torch.no_grad():
        with sluice.torch.stream_weights(model, path, dram="2MiB", page_bytes=checkpoints.PAGE):
            # The list would keep the memory of a resident model.
            assert model.lstm._flat_weights[0] is model.lstm.weight_ih_l0
            for _ in range(2):
                assert torch.allclose(model(inputs), made(inputs), rtol=1e-6, atol=1e-6)
        assert all(each.device.type == "meta" for each in model.lstm._flat_weights)


def test_parameters_show_the_files_outside_units(tmp_path):
    folder = checkpoints.write_model(tmp_path, MODELS["llama"])
    model, resident = checkpoints.on_meta(MODELS["llama"]), checkpoints.resident(folder)
    with stream_of(model, folder) as stream:
        for _ in range(2):
            for name, tensor in resident.state_dict().items():
                assert torch.equal(model.state_dict()[name], tensor), name
            with torch.no_grad():
                model(torch.ones(1, 4, dtype=torch.int64))
        state = model.state_dict()
        with pytest.raises(sluice.FailedPrecondition, match="torch storage"):
            stream.close()
        assert torch.equal(state["lm_head.weight"], resident.lm_head.weight)
        del state
        stream.close()


class Odd(torch.nn.Module):
    """Parameters above layers, an attention, a parametrized layer, a batch norm."""

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(64))
        self.stem = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), Blocks(64, 3))
        self.attention = torch.nn.MultiheadAttention(64, 4, batch_first=True)
        self.norm = torch.nn.BatchNorm1d(64)
        self.skewed = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(64, 64))
        self.nested = torch.nn.ModuleList([torch.nn.ModuleList([torch.nn.Linear(64, 64)])])

    def forward(self, x):
        x = self.stem(x * self.scale)
        x = x + self.attention(x, x, x)[0]
        x = self.norm(x.transpose(1, 2)).transpose(1, 2)
        for (layer,) in self.nested:
            x = layer(x)
        return self.skewed(x)


def test_modules_of_every_kind_are_in_a_unit(tmp_path):
    resident = Odd()
    resident(torch.randn(4, 7, 64))  # the batch norm has statistics now
    resident.eval()
    path = checkpoints.save(tmp_path / "m.safetensors", resident)
    # The bits of some products depend on a weight's address, and on whether it requires grad.
    resident.load_state_dict(load_file(path), assign=True)
    resident.requires_grad_(False)
    model = Odd().eval()
    with stream_of(model, path, share=0.9, page_bytes=4096) as stream, torch.no_grad():
        x = torch.randn(2, 7, 64)
        for _ in range(3):
            assert torch.equal(model(x), resident(x))
        # Parameters above units are always leased.
        assert leases_of(stream) == [f"'{name}': 1 lease, 1 torch storage"
                                     for name in ("scale", "skewed.bias")]
        units = {unit["name"]: unit["entries"] for unit in stream.report()["units"]}
        assert units == {"stem.0": 3, "stem.2.first": 3, "stem.2.blocks.0": 3, "stem.2.blocks.1": 3,
                         "stem.2.blocks.2": 3, "stem.2.last": 3, "attention": 3, "norm": 3,
                         "skewed.parametrizations.weight": 3, "nested.0.0": 3}


def test_an_encoder_and_its_decoder_have_passes_of_their_own(tmp_path):
    config = transformers.T5Config(
        d_model=128, d_ff=256, d_kv=32, num_layers=6, num_heads=4, vocab_size=512,
        decoder_start_token_id=0)
    kind = transformers.AutoModelForSeq2SeqLM
    torch.manual_seed(0)
    kind.from_config(config).save_pretrained(tmp_path)
    resident, model = kind.from_pretrained(tmp_path), checkpoints.on_meta(config, kind)
    prompt = torch.randint(2, 512, (1, 9))
    with stream_of(model, tmp_path) as stream:
        for _ in range(2):
            wanted = resident.generate(prompt, max_new_tokens=6, do_sample=False)
            assert torch.equal(model.generate(prompt, max_new_tokens=6, do_sample=False), wanted)
        for key, block in (("pass encoder", "encoder.block.5"), ("pass", "decoder.block.5")):
            names = [op["name"] for op in stream._runtime.schedule(key)["ops"]]
            assert block in names and len(names) in (8, 9)


def test_a_base_model_takes_the_files_of_a_head_model_and_the_reverse(tmp_path):
    folder = checkpoints.write_model(tmp_path / "head", MODELS["llama"])
    prompt = torch.randint(2, 512, (1, 9))
    base = checkpoints.on_meta(MODELS["llama"], transformers.AutoModel)
    wanted = transformers.AutoModel.from_pretrained(folder)
    with stream_of(base, folder) as stream, torch.no_grad():
        assert torch.equal(base(prompt).last_hidden_state, wanted(prompt).last_hidden_state)
        assert stream.report()["unused"] == ["lm_head.weight"]
    tied = checkpoints.llama(tie_word_embeddings=True)
    transformers.AutoModel.from_config(tied).save_pretrained(tmp_path / "base")
    head = checkpoints.on_meta(tied)
    wanted = checkpoints.resident(tmp_path / "base")
    with stream_of(head, tmp_path / "base"), torch.no_grad():
        assert torch.equal(head(prompt).logits, wanted(prompt).logits)
