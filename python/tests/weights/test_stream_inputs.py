"""Refusals of a stream of weights: by name, and with the model as it was."""

import copy
import pickle

import checkpoints
import pytest
import torch
import transformers
from checkpoints import PAGE, Blocks
from safetensors.torch import load_file, save_file

import sluice
import sluice.torch


@pytest.fixture
def path(tmp_path):
    return checkpoints.save(tmp_path / "m.safetensors", Blocks())


def stream(model, path, **options):
    return sluice.torch.stream_weights(model, path, **{"dram": "2MiB", "page_bytes": PAGE, **options})


def refused(model, path, match, kind=sluice.InvalidArgument, **options):
    """Whether the model is as it was after an error that says ``match``."""
    before = dict(model.named_parameters())
    with pytest.raises(kind, match=match):
        stream(model, path, **options)
    after = dict(model.named_parameters())
    return list(before) == list(after) and all(before[name] is after[name] for name in before)


def changed(path, **changes):
    """Another file, with these tensors changed, or none of them."""
    tensors = {**load_file(path), **changes}
    other = path.with_name("other.safetensors")
    save_file({name: tensor for name, tensor in tensors.items() if tensor is not None}, other)
    return other


def test_weights_that_do_not_fit_the_model(path):
    missing = changed(path, **{"last.bias": None, "blocks.3.up.weight": None})
    assert refused(Blocks(), missing, "the files have no 'blocks.3.up.weight', 'last.bias'")
    wide = changed(path, **{"first.bias": torch.zeros(129)})
    assert refused(Blocks(), wide, r"'first.bias' has shape \(128,\), and .*other.* has \(129,\)")
    half = changed(path, **{"first.bias": torch.zeros(128).half()})
    assert refused(Blocks(), half, "'first.bias' is float32, and .* is float16")
    assert refused(Blocks().double(), path, "is float64, and .* is float32")
    with stream(Blocks(), changed(path, **{"more": torch.zeros(3)})) as found:
        assert found.report()["unused"] == ["more"]


def test_what_transformers_keeps_in_float32_is_float32_in_the_files(tmp_path):
    config = transformers.T5Config(
        vocab_size=199, d_model=64, d_kv=16, d_ff=512, num_layers=2, num_heads=4, pad_token_id=0,
        decoder_start_token_id=0, eos_token_id=None, dtype=torch.float16)
    made = transformers.T5ForConditionalGeneration(config).half()
    made.save_pretrained(tmp_path / "half")
    resident = transformers.T5ForConditionalGeneration.from_pretrained(
        tmp_path / "half", dtype=torch.float16).eval().requires_grad_(False)
    name = "encoder.block.0.layer.1.DenseReluDense.wo.weight"
    assert resident.get_parameter(name).dtype == torch.float32
    resident.save_pretrained(tmp_path / "kept")
    message = f"'{name}' is float32, and .* is float16: .*write the files as transformers has it in memory"
    model = checkpoints.on_meta(config, transformers.AutoModelForSeq2SeqLM, torch.float16)
    assert model.get_parameter(name).dtype == torch.float16
    assert refused(model, tmp_path / "half", message)
    assert refused(copy.deepcopy(resident), tmp_path / "half", message)
    inputs = {"input_ids": torch.tensor([[3, 4, 5]]), "decoder_input_ids": torch.tensor([[0, 7]])}
    with stream(model, tmp_path / "kept"), torch.no_grad():
        assert torch.equal(model(**inputs).logits, resident(**inputs).logits)
        assert torch.equal(model(**inputs).logits, resident(**inputs).logits)
        assert model.get_parameter(name).dtype == torch.float32
    assert model.get_parameter(name).dtype == torch.float16


def test_what_transformers_computes_and_writes_nowhere_stays(tmp_path):
    config = transformers.MarianConfig(
        vocab_size=199, decoder_vocab_size=199, d_model=64, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96,
        max_position_embeddings=64, pad_token_id=0, eos_token_id=2, decoder_start_token_id=0)
    transformers.MarianMTModel(config).save_pretrained(tmp_path / "marian")
    resident, model = (transformers.MarianMTModel.from_pretrained(tmp_path / "marian").eval().requires_grad_(False)
                       for _ in range(2))
    table = "model.encoder.embed_positions.weight"
    on_meta = checkpoints.on_meta(config, transformers.AutoModelForSeq2SeqLM)
    assert refused(on_meta, tmp_path / "marian", f"'{table}' is on meta, and in no file, as transformers")
    inputs = {"input_ids": torch.tensor([[3, 4]]), "decoder_input_ids": torch.tensor([[0, 7]])}
    before = model.get_parameter(table)
    with stream(model, tmp_path / "marian"), torch.no_grad():
        assert torch.equal(model(**inputs).logits, resident(**inputs).logits)
        assert model.get_parameter(table) is before
    assert model.get_parameter(table) is before
    assert model.get_parameter("model.encoder.layers.0.fc1.weight").device.type == "meta"


@pytest.mark.parametrize("how", [copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("dram", ["700KiB", "4MiB"])
def test_a_part_with_fused_experts_is_not_copied(tmp_path, how, dram):
    config = checkpoints.mixtral()
    transformers.MixtralForCausalLM(config).save_pretrained(tmp_path / "mixtral")
    model = checkpoints.on_meta(config)
    with stream(model, tmp_path / "mixtral", dram=dram, page_bytes=4096), torch.no_grad():
        model(torch.tensor([[1, 2, 3]]))
        for part in (model, model.model.layers[0], model.model.layers[0].mlp):
            with pytest.raises(sluice.InvalidArgument, match="a model that streams cannot be copied or pickled"):
                how(part)


def test_the_least_budget_is_named_and_suffices(path):
    model = Blocks()
    assert refused(model, path, "dram is 262144 bytes, .*'blocks.[0-7]'.*: dram=", sluice.TierFull,
                   dram=4 * PAGE)
    with pytest.raises(sluice.TierFull) as error:
        stream(model, path, dram=PAGE)
    least = int(str(error.value).rpartition("dram=")[2].split()[0])
    resident = Blocks()
    resident.load_state_dict(load_file(path))
    x = torch.randn(3, 128)
    with stream(model, path, dram=least), torch.no_grad():
        for _ in range(4):
            assert torch.equal(model(x), resident(x))
    assert refused(model, path, f"dram={least} is the least", sluice.TierFull, dram=least - PAGE)


def test_a_unit_within_another_needs_room_for_both(path):
    model, resident = Blocks(), Blocks()
    resident.load_state_dict(load_file(path))
    for each in (model, resident):
        each.blocks[2].inner = (each.blocks[5],)  # no submodule of its own
    x = torch.randn(3, 128)
    with stream(model, path, dram=5 * PAGE) as found, torch.no_grad():
        for _ in range(2):
            with pytest.raises(sluice.TierFull, match="'blocks.5' runs within 'blocks.2', .* dram=") as error:
                model(x)
            assert not [phrase for phrase in found._runtime._session.in_use() if "lease" in phrase]
    least = int(str(error.value).rpartition("dram=")[2].split()[0])
    with stream(model, path, dram=least), torch.no_grad():
        for _ in range(3):
            assert torch.equal(model(x), resident(x))


def test_places_and_tiers(path):
    assert refused(Blocks(), path, "hbm: .*CUDA is not there yet", hbm="1GiB")
    assert refused(Blocks(), path, "nvme: weights are read from their files", nvme="/data")
    assert refused(Blocks(), path, 'did you mean "page_bytes"', page_byte=4096)
    assert refused(Blocks(), path.with_name("none"), "none", sluice.NotFound)
    with pytest.raises(sluice.InvalidArgument, match="takes a torch.nn.Module, not dict"):
        stream({}, path)
    with pytest.raises(sluice.InvalidArgument, match="no parameters"):
        stream(torch.nn.ReLU(), path)


def test_buffers_on_meta(path, tmp_path):
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(checkpoints.llama())
    folder = checkpoints.write_model(tmp_path / "llama", checkpoints.llama())
    assert refused(model, folder, "buffer 'model.rotary_emb.inv_freq' is on meta.*include_buffers=False")


def test_a_model_that_is_compiled_or_streams(path):
    model = Blocks()
    compiled = torch.compile(model, backend="eager")
    assert refused(compiled, path, "is compiled", sluice.FailedPrecondition)
    model.blocks[2].compile(backend="eager")
    assert refused(model, path, "'blocks.2' is compiled", sluice.FailedPrecondition)
    model = Blocks()
    with stream(model, path):
        assert refused(model, path, "streams already", sluice.FailedPrecondition)


def test_a_model_that_streams_is_not_copied_moved_or_replaced(path):
    model = Blocks()
    with stream(model, path) as found, torch.no_grad():
        for copies in (copy.deepcopy, pickle.dumps):
            with pytest.raises(sluice.InvalidArgument, match="streams cannot be copied"):
                copies(model)
        with pytest.raises(sluice.InvalidArgument, match="cannot be copied"):
            copy.deepcopy(found)
        model.blocks[1].down.bias = torch.nn.Parameter(torch.zeros(128))
        with pytest.raises(sluice.FailedPrecondition, match="'blocks.1.down.bias' has been moved"):
            model(torch.randn(3, 128))
    model = Blocks()
    with stream(model, path), torch.no_grad():
        model.double()
        with pytest.raises(sluice.FailedPrecondition, match="'first.weight' has been moved"):
            model(torch.randn(3, 128))


def test_a_state_is_not_loaded_into_weights_of_the_files(path):
    model = Blocks()
    state = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
    x = torch.randn(3, 128)
    with stream(model, path), torch.no_grad():
        right = model(x)
        model.extra = torch.nn.Linear(2, 2)
        for module, loaded in ((model, state), (model.first, {"bias": state["first.bias"]})):
            with pytest.raises(sluice.FailedPrecondition, match="'first..*' shows a file"):
                module.load_state_dict(loaded, strict=False)
        layer = copy.deepcopy(model.blocks[0].up)
        layer.load_state_dict({"bias": state["blocks.0.up.bias"]}, strict=False)
        assert not layer.bias.any() and pickle.loads(pickle.dumps(model.blocks[0].up)).bias.any()
        model.load_state_dict({"extra.bias": torch.full((2,), 5.0)}, strict=False)  # an adapter's load
        assert model.extra.bias.eq(5).all() and torch.equal(model(x), right)
    assert not any(module._load_state_dict_pre_hooks for module in model.modules())


def test_a_stream_is_not_closed_while_the_model_runs(path):
    model = Blocks()
    with stream(model, path) as found, torch.no_grad():
        model.blocks[2].register_forward_hook(lambda *_: found.close())
        with pytest.raises(sluice.FailedPrecondition, match="the model runs"):
            model(torch.randn(3, 128))


def test_tied_weights_that_the_files_have_twice(tmp_path):
    config = checkpoints.llama(tie_word_embeddings=True)
    folder = checkpoints.write_model(tmp_path, config)
    path = folder / "model.safetensors"
    embedding = load_file(path)["model.embed_tokens.weight"]
    equal = changed(path, **{"lm_head.weight": embedding.clone()})
    with stream(checkpoints.on_meta(config), equal) as found:
        assert found.report()["unused"] == []
    other = changed(path, **{"lm_head.weight": embedding + 1})
    assert refused(checkpoints.on_meta(config), other, "ties .*different elements")
