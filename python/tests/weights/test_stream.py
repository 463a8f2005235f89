"""Models that stream: outputs equal to those of the resident model, bit for bit, and what is left."""

import threading

import checkpoints
import pytest
import torch
import transformers
from checkpoints import PAGE, Blocks
from safetensors.torch import load_file

import sluice
import sluice.torch

MODELS = {"llama": checkpoints.llama(), "gpt2": checkpoints.gpt2()}


def stream_of(model, path, share=0.5, **options):
    """The model as a stream, under a budget of a share of its weights."""
    dram = int(checkpoints.bytes_of(model) * share)
    return sluice.torch.stream_weights(model, path, **{"dram": dram, "page_bytes": PAGE, **options})


def leases_of(stream):
    return [phrase for phrase in stream._runtime._session.in_use() if "lease" in phrase]


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
        assert 0.1 < report["resident_share"] < 0.6
        assert stream._runtime.stats()["schedule_divergences"] == 0
    assert stream.report() == {**report, **stream.report()}


def test_one_pass_is_recorded_and_then_planned(tmp_path):
    folder = checkpoints.write_model(tmp_path, MODELS["llama"])
    model = checkpoints.on_meta(MODELS["llama"])
    with stream_of(model, folder) as stream, torch.no_grad():
        model(torch.ones(1, 4, dtype=torch.int64))
        # Before there is a recording, units are expected in the order of the modules.
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


def test_with_room_for_all_every_byte_is_read_once(tmp_path):
    folder = checkpoints.write_model(tmp_path, MODELS["gpt2"])
    model = checkpoints.on_meta(MODELS["gpt2"])
    with stream_of(model, folder, share=1000) as stream, torch.no_grad():
        for _ in range(5):
            model(torch.ones(1, 4, dtype=torch.int64))
        report = stream.close()
    # Nor is more memory taken than the weights have.
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


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
def test_a_forward_that_fails_leaves_no_lease(error, tmp_path):
    resident, model = Blocks(), Blocks()
    path = checkpoints.save(tmp_path / "m.safetensors", resident)
    x = torch.randn(3, 128)
    with stream_of(model, path) as stream, torch.no_grad():
        for _ in range(2):
            model.blocks[4].error = error
            with pytest.raises(type(error)):
                model(x)
            assert not leases_of(stream) and not stream._passes.running
            model.blocks[4].error = None
            assert torch.equal(model(x), resident(x))


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradients_and_leases_under_checkpoint(reentrant, tmp_path):
    resident, model = Blocks(), Blocks()
    path = checkpoints.save(tmp_path / "m.safetensors", resident)
    x = torch.randn(3, 128)
    with stream_of(model, path) as stream:
        gradients = []
        for each in (resident, resident, model, model):
            each.use_reentrant = reentrant
            given = x.clone().requires_grad_()
            each(given).square().mean().backward()
            gradients.append(given.grad)
        assert all(torch.equal(gradients[0], other) for other in gradients)
        # Each block ran again in backward, up to what backward needs. Outside of it the files are read.
        assert [unit["entries"] for unit in stream.report()["units"]] == [2, *[4] * 8, 2]
        assert not leases_of(stream) and not stream._passes.running
        del given, gradients


def test_a_model_that_transformers_checkpoints(tmp_path):
    folder = checkpoints.write_model(tmp_path, MODELS["llama"])
    resident, model = checkpoints.resident(folder), checkpoints.on_meta(MODELS["llama"])
    gradients = []
    with stream_of(model, folder) as stream:
        for each in (resident, model, model):
            each.train()
            each.activation_checkpointing_enable()
            given = torch.linspace(-1, 1, 9 * 128).view(1, 9, 128).requires_grad_()
            each(inputs_embeds=given).logits.square().mean().backward()
            gradients.append(given.grad)
        assert not leases_of(stream)
        assert all(torch.equal(gradients[0], other) for other in gradients)


def test_two_threads_may_run_the_model(tmp_path):
    folder = checkpoints.write_model(tmp_path, MODELS["llama"])
    resident, model = checkpoints.resident(folder), checkpoints.on_meta(MODELS["llama"])
    prompts = [torch.randint(2, 512, (1, 9)) for _ in range(2)]
    with torch.no_grad():
        wanted = [resident(prompt).logits for prompt in prompts]
    wrong = []

    def run(i):
        with torch.no_grad():
            for _ in range(5):
                if not torch.equal(model(prompts[i]).logits, wanted[i]):
                    wrong.append(i)

    with stream_of(model, folder, share=0.7) as stream:
        threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and not leases_of(stream)


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


def test_a_model_that_streams_may_be_compiled(tmp_path):
    resident, model = Blocks(blocks=3), Blocks(blocks=3)
    path = checkpoints.save(tmp_path / "m.safetensors", resident)
    resident.requires_grad_(False)
    x = torch.randn(3, 128)
    with stream_of(model, path, share=0.6) as stream, torch.no_grad():
        compiled = torch.compile(model, backend="aot_eager")
        for _ in range(3):
            assert torch.equal(compiled(x), resident(x))
        assert [unit["entries"] for unit in stream.report()["units"]] == [3] * 5
        assert not leases_of(stream)
        del compiled
        torch.compiler.reset()


def test_a_stray_write_names_the_weight(run_program, tmp_path):
    path = checkpoints.save(tmp_path / "m.safetensors", Blocks())
    code, _, errors = run_program(
        f"sys.path.insert(0, {checkpoints.__file__.rpartition('/')[0]!r})\n"
        "import torch, checkpoints, sluice.torch\n"
        "model = checkpoints.Blocks()\n"
        f"stream = sluice.torch.stream_weights(model, {str(path)!r}, dram='4MiB')\n"
        "with torch.no_grad(): model.blocks[3].up.weight[0, 0] = 1\n"
    )
    assert code == -11, errors
    assert "blocks.3.up.weight" in errors and "outside a lease" in errors


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
