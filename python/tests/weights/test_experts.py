"""Mixtures of experts that stream: with each expert leased while it computes."""

import json
import threading

import checkpoints
import pytest
import sluice
import sluice.torch
import torch
import transformers
from checkpoints import MIXTURES, MORE_MIXTURES, leases_of
from safetensors import safe_open
from sluice.torch._streaming import _experts

pytestmark = pytest.mark.usefixtures("one_thread")

PAGE = 4096


def stream_of(model, path, share=0.3, **options):
    return checkpoints.stream_of(model, path, share, **{"page_bytes": PAGE, "experts": "lfu", **options})


def phase_of(path):
    """First byte of the tensors of a file, modulo 64."""
    with open(path, "rb") as file:
        return (8 + int.from_bytes(file.read(8), "little")) % 64


def resident(folder, dtype=torch.float32):
    """The model in memory, with the eager loop, and experts at the phase of the file."""
    model = checkpoints.resident(folder, dtype, experts_implementation="eager").requires_grad_(False)
    for name, parameter in model.named_parameters():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            parameter.data = checkpoints.at_phase(parameter.data, phase_of(folder / "model.safetensors"))
    return model


@pytest.fixture(scope="module", params=["published", "own"])
def folders(request, module_path):
    """Checkpoints with a key for each expert, or with those of a layer fused."""
    folder = module_path / request.param
    folder.mkdir()
    return {name: checkpoints.write_model(folder / name, config, aligned=False,
                                          save_original_format=request.param == "published")
            for name, config in MIXTURES.items()}


@pytest.mark.parametrize("name", MIXTURES)
def test_outputs_are_those_of_the_resident_model(name, folders):
    with safe_open(folders[name] / "model.safetensors", "pt") as file:
        fused = any(key.endswith("experts.gate_up_proj") for key in file.keys())
    assert fused == (folders[name].parent.name == "own")
    wanted, model = resident(folders[name]), checkpoints.on_meta(MIXTURES[name])
    prompt = torch.randint(2, 128, (1, 17))
    with stream_of(model, folders[name]) as stream, torch.no_grad():
        for _ in range(3):
            assert torch.equal(model(prompt).logits, wanted(prompt).logits)
        assert not leases_of(stream)
        tokens = wanted.generate(prompt, max_new_tokens=12, do_sample=False)
        assert torch.equal(model.generate(prompt, max_new_tokens=12, do_sample=False), tokens)
        report = stream.report()
        experts = report["experts"]
        assert report["budget_bytes"] <= 0.3 * checkpoints.bytes_of(wanted)
        assert experts["tokens"] == 3 * 17 + 17 + 11
        assert experts["policy"] == "lfu" and 0 < experts["hit_ratio"] < 0.9
        assert experts["bytes_per_token"] == experts["read_bytes"] / experts["tokens"]
        # Eleven tokens use as many experts of each layer at most; what all of them have does not come.
        assert experts["leased_bytes"] - experts["read_bytes"] > 0
        assert experts["weight_bytes"] == sum(
            parameter.nbytes for layer in wanted.model.layers
            for parameter in layer.mlp.experts.parameters())
        assert stream._runtime.stats()["schedule_divergences"] == 0
        # Neither of the two runtimes keeps weights of the other.
        total = checkpoints.bytes_of(wanted)
        assert total == sum(runtime.stats()["live_bytes"]
                            for runtime in (stream._runtime, stream._experts.runtime))
        ahead = stream._experts.runtime.stats()["prefetch"]
        assert ahead["issued"] > 100 and ahead["wasted"] < 0.1 * ahead["issued"]
    assert stream.report()["experts"]["leases"] == experts["leases"]


def test_each_class_that_is_known_has_the_eager_loop(tmp_path):
    """The loop works with one lease for each expert, and with one for a whole layer."""
    configs = {**MIXTURES, **MORE_MIXTURES}
    classes = {type(module).__name__ for config in configs.values()
               for name, module in checkpoints.on_meta(config).named_modules()
               if name.endswith(".experts")}
    assert classes == set(_experts.CLASSES)
    prompt = torch.randint(2, 128, (1, 17))
    for name, config in MORE_MIXTURES.items():
        folder = checkpoints.write_model(tmp_path / name, config, save_original_format=False)
        wanted = resident(folder)
        for experts in ("lfu", None):
            model = checkpoints.on_meta(config)
            model.set_experts_implementation("eager")
            with stream_of(model, folder, share=0.9, experts=experts) as stream, torch.no_grad():
                for _ in range(2):
                    assert torch.equal(model(prompt).logits, wanted(prompt).logits), name
                assert ("experts" in stream.report()) == (experts is not None)


@pytest.mark.parametrize("name", MIXTURES)
def test_leases_are_of_the_rows_that_compute(name, folders):
    """Outputs do not show it: outside a lease the rows are those of the file, too."""
    wanted, model = checkpoints.resident(folders[name]), checkpoints.on_meta(MIXTURES[name])
    with stream_of(model, folders[name]):
        for layer, other in zip(model.model.layers, wanted.model.layers):
            products = other.mlp.experts.gate_up_proj, other.mlp.experts.down_proj
            leases = layer.mlp.experts.__dict__["_sluice_leases"]
            for number, expert in enumerate(leases.experts):
                rows = [*leases.rows[number].up, *leases.rows[number].down]
                assert torch.equal(torch.cat(leases.rows[number].up), products[0][number])
                assert torch.equal(torch.cat(leases.rows[number].down), products[1][number])
                assert [(tensor.storage_offset() * 4, tensor.nbytes, "r") for tensor in rows] == [
                    request[1:4] for request in expert.requests]
                assert len({request[0] for request in expert.requests}) == len(rows)
                assert expert.nbytes == sum(tensor.nbytes for tensor in rows)
                assert PAGE * len(expert.pages) >= expert.nbytes
        del rows


def test_bfloat16_in_shards(tmp_path):
    config = checkpoints.mixtral(hidden_size=128, intermediate_size=256, num_hidden_layers=6)
    folder = checkpoints.write_model(tmp_path, config, shards=True, dtype=torch.bfloat16)
    assert len(set(json.loads((folder / "model.safetensors.index.json").read_text())
                   ["weight_map"].values())) > 5
    wanted = checkpoints.resident(folder, torch.bfloat16, experts_implementation="eager")
    model = checkpoints.on_meta(config, dtype=torch.bfloat16)
    prompt = torch.randint(2, 128, (2, 9))
    with stream_of(model, folder), torch.no_grad():
        for _ in range(2):
            assert torch.equal(model(prompt).logits, wanted(prompt).logits)


def test_a_model_has_its_own_implementation_before_and_after(folders):
    model = checkpoints.resident(folders["mixtral"])
    experts = model.model.layers[1].mlp.experts
    assert model.get_experts_implementation() == {"": "grouped_mm"}
    with stream_of(model, folders["mixtral"]) as stream, torch.no_grad():
        assert experts.config._experts_implementation == "sluice"
        assert experts.gate_up_proj.device.type == "meta"
        with pytest.raises(sluice.InvalidArgument, match="streams cannot be copied"):
            experts.__dict__["_sluice_leases"].__reduce__()
        with pytest.raises(sluice.FailedPrecondition, match="'model.layers.2.*gate_up_proj' has been moved"):
            model.model.layers[2].mlp.experts.double()
            model(torch.ones(1, 4, dtype=torch.int64))
        model.model.layers[1].mlp.experts.down_proj = torch.nn.Parameter(torch.zeros(1))
        with pytest.raises(sluice.FailedPrecondition, match="'model.layers.1.*down_proj' has been moved"):
            model(torch.ones(1, 4, dtype=torch.int64))
        assert not leases_of(stream)
    assert experts.config is model.config and model.config._experts_implementation == "grouped_mm"
    assert experts.down_proj.device.type == "meta" and "_sluice_leases" not in experts.__dict__
    # The implementation stays known: a resident model may name it, and runs the eager loop.
    named = checkpoints.resident(folders["mixtral"], experts_implementation="sluice")
    eager = checkpoints.resident(folders["mixtral"], experts_implementation="eager")
    with torch.no_grad():
        prompt = torch.randint(2, 128, (1, 9))
        assert torch.equal(named(prompt).logits, eager(prompt).logits)
    with stream_of(named, folders["mixtral"], experts=None) as stream:
        assert stream.report()["experts"]["policy"] == "lfu"


def test_models_of_one_config_are_independent(folders):
    config = checkpoints.mixtral()
    wanted = resident(folders["mixtral"])
    first, second = checkpoints.on_meta(config), checkpoints.on_meta(config)
    third = transformers.AutoModelForCausalLM.from_config(config).eval()
    assert all(each.config is config for each in (first, second, third))
    prompt = torch.randint(2, 128, (1, 9))
    with torch.no_grad():
        implementation, logits = config._experts_implementation, third(prompt).logits
        streams = [stream_of(first, folders["mixtral"]), stream_of(second, folders["mixtral"])]
        assert torch.equal(first(prompt).logits, wanted(prompt).logits)
        streams[0].close()
        assert torch.equal(second(prompt).logits, wanted(prompt).logits)
        # A third one, which is in memory or streams whole layers, is not switched either.
        assert config._experts_implementation == implementation
        assert torch.equal(third(prompt).logits, logits)
        with stream_of(first, folders["mixtral"], share=0.9, experts=None) as stream:
            assert "experts" not in stream.report()
        streams[1].close()
    assert all(layer.mlp.experts.config is config for layer in second.model.layers)


def test_the_least_budget_is_named_and_suffices(folders):
    model, wanted = checkpoints.on_meta(MIXTURES["qwen3_moe"]), resident(folders["qwen3_moe"])
    with pytest.raises(sluice.TierFull, match="one unit .* and one expert") as error:
        stream_of(model, folders["qwen3_moe"], dram=5 * PAGE)
    assert all(layer.mlp.experts.config is model.config for layer in model.model.layers)
    least = int(str(error.value).rpartition("dram=")[2].split()[0])
    prompt = torch.randint(2, 128, (1, 9))
    with stream_of(model, folders["qwen3_moe"], dram=least) as stream, torch.no_grad():
        for _ in range(2):
            assert torch.equal(model(prompt).logits, wanted(prompt).logits)
        assert stream.report()["budget_bytes"] == least
    with pytest.raises(sluice.TierFull):
        stream_of(model, folders["qwen3_moe"], dram=least - PAGE)
    # Every byte is read once if there is room for all, and no more memory is taken.
    with stream_of(model, folders["qwen3_moe"], dram="1GiB") as stream, torch.no_grad():
        model(prompt)
        before = stream.report()["experts"]["read_bytes"]
        model(prompt)
        assert stream.report()["experts"]["read_bytes"] == before
        assert stream.report()["budget_bytes"] < 1.5 * checkpoints.bytes_of(wanted)


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
def test_an_expert_that_fails_leaves_no_lease(error, folders):
    model, wanted = checkpoints.on_meta(MIXTURES["mixtral"]), resident(folders["mixtral"])
    prompt = torch.randint(2, 128, (1, 9))
    with stream_of(model, folders["mixtral"]) as stream, torch.no_grad():
        def failing(*_):
            assert "model.layers.2.mlp.experts" in str(leases_of(stream))
            raise error

        for _ in range(2):
            hook = model.model.layers[2].mlp.experts.act_fn.register_forward_pre_hook(failing)
            with pytest.raises(type(error)):
                model(prompt)
            assert not leases_of(stream)
            hook.remove()
            assert torch.equal(model(prompt).logits, wanted(prompt).logits)


def test_close_ends_both_runtimes_though_one_is_in_use(folders):
    model, other = checkpoints.on_meta(MIXTURES["mixtral"]), checkpoints.on_meta(MIXTURES["mixtral"])
    with pytest.raises(ValueError), stream_of(model, folders["mixtral"]) as stream:
        weight = model.lm_head.weight
        raise ValueError
    with stream_of(other, folders["mixtral"]) as second:
        view = other.lm_head.weight
        with pytest.raises(sluice.FailedPrecondition, match="'lm_head.weight': 1 torch storage"):
            second.close()
        assert second._experts.runtime.closed and not second._runtime.closed
        del view
    assert stream._experts.runtime.closed and not stream._runtime.closed
    del weight
    for each in (stream, second):
        assert each.close()["experts"]["policy"] == "lfu" and each._runtime.closed


def test_close_is_refused_while_a_module_of_experts_runs_by_itself(folders):
    model = checkpoints.on_meta(MIXTURES["mixtral"])
    stream = stream_of(model, folders["mixtral"])
    experts = model.model.layers[0].mlp.experts
    compute, refused = experts._apply_gate, []

    def close_meanwhile(products):
        with pytest.raises(sluice.FailedPrecondition, match="the model runs") as error:
            stream.close()
        refused.append(error)
        return compute(products)

    experts._apply_gate = close_meanwhile
    with torch.no_grad():
        experts(torch.ones(1, 64), torch.tensor([[1, 2]]), torch.ones(1, 2))
    assert len(refused) == 2 and stream.close()["experts"]["leases"] == 2


def test_two_threads_may_run_the_model(folders):
    model, wanted = checkpoints.on_meta(MIXTURES["mixtral"]), resident(folders["mixtral"])
    prompts = [torch.randint(2, 128, (1, 9)) for _ in range(2)]
    with torch.no_grad():
        outputs = [wanted(prompt).logits for prompt in prompts]
    wrong = []

    def run(i):
        with torch.no_grad():
            for _ in range(4):
                if not torch.equal(model(prompts[i]).logits, outputs[i]):
                    wrong.append(i)

    with stream_of(model, folders["mixtral"], share=0.5) as stream:
        threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and not leases_of(stream)


def refused(config, folder, match, **options):
    model = checkpoints.on_meta(config)
    with pytest.raises(sluice.InvalidArgument, match=match):
        stream_of(model, folder, 2.0, **options)
    assert not any("forward" in module.__dict__ for module in model.modules())


def test_models_that_cannot_be_leased_by_expert_are_refused(tmp_path, folders):
    llama = checkpoints.llama(num_hidden_layers=1)
    refused(llama, checkpoints.write_model(tmp_path / "llama", llama), "LlamaForCausalLM has no experts")
    refused(MIXTURES["mixtral"], folders["mixtral"], 'is "lfru"; allowed are lfu, lru, or an object', experts="lfru")
    odd = checkpoints.mixture(
        transformers.GptOssConfig, num_hidden_layers=1, head_dim=16, num_local_experts=4,
        layer_types=["full_attention"])
    refused(odd, checkpoints.write_model(tmp_path / "odd", odd),
            "is a GptOssExperts, and only .*leave experts out")
    # NemotronH's experts sum in the dtype of the router's weights, here float32.
    odd = transformers.NemotronHConfig(
        vocab_size=128, hidden_size=64, layers_block_type=["moe"], n_routed_experts=8,
        moe_intermediate_size=32, moe_shared_expert_intermediate_size=32)
    refused(odd, checkpoints.write_model(tmp_path / "sums", odd), "is a NemotronHExperts")
    odd._experts_implementation = "sluice"
    refused(odd, tmp_path / "sums", "is a NemotronHExperts", experts=None)
    module = checkpoints.on_meta(MIXTURES["mixtral"]).model.layers[1].mlp.experts
    module._is_expert_parallel = True
    with pytest.raises(sluice.InvalidArgument, match="'split' are split among processes"):
        _experts._refuse_others([("split", module)])
    with pytest.raises(sluice.InvalidArgument, match="only models of transformers"):
        sluice.torch.stream_weights(
            checkpoints.Blocks(), checkpoints.save(tmp_path / "m.safetensors", checkpoints.Blocks()),
            dram="4MiB", experts="lru")
