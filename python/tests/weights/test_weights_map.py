"""Weights by name for accelerate's hooks: safetensors folders, and both forms of its offload index."""

import accelerate
import checkpoints
import pytest
import torch
from accelerate.hooks import attach_align_device_hook, remove_hook_from_module
from accelerate.utils import OffloadedWeightsLoader, offload_state_dict
from safetensors.torch import load_file, save_file

import sluice
import sluice.torch


def weights_map(source, **options):
    return sluice.torch.WeightsMap(source, **{"dram": "2MiB", "page_bytes": 4096, **options})


def run_with(model, weights, x):
    """Outputs of three passes of a model on meta whose weights accelerate's hooks take from the map."""
    attach_align_device_hook(model, execution_device=torch.device("cpu"), offload=True,
                             weights_map=weights)
    with torch.no_grad():
        outputs = [model(x) for _ in range(3)]
    remove_hook_from_module(model, recurse=True)
    return outputs


def sources(folder):
    """One set of weights as a folder of safetensors, as one of accelerate, and as a mixed index."""
    state = {name: tensor.clone() for name, tensor in checkpoints.Blocks().state_dict().items()}
    save_file(state, folder / "model.safetensors")
    (folder / "raw").mkdir()
    offload_state_dict(folder / "raw", state)
    index = {name: {"safetensors_file": str(folder / "model.safetensors"), "weight_name": name,
                    "dtype": "float32"} for name in state if "up" in name}
    index |= {name: {"dtype": "float32", "shape": list(state[name].shape)}
              for name in state if "up" not in name}
    return state, [(folder, {}), (folder / "raw", {}), (index, {"folder": folder / "raw"})]


@pytest.mark.parametrize("form", range(3), ids=["safetensors", "raw", "index"])
def test_accelerate_computes_with_the_files_weights(form, tmp_path):
    state, found = sources(tmp_path)
    source, options = found[form]
    resident = checkpoints.Blocks()
    resident.load_state_dict(state)
    x = torch.randn(3, 128)
    with weights_map(source, **options) as weights:
        assert list(weights) != [] and set(weights) == set(state) and len(weights) == len(state)
        with accelerate.init_empty_weights():
            model = checkpoints.Blocks()
        for output in run_with(model, weights, x):
            assert torch.equal(output, resident(x))
        # One pass is recorded, as accelerate asks for each key once: the next ones come ahead.
        assert len(weights._runtime.schedule("weights")["ops"]) == len(state)
        stats = weights.stats()
        assert stats["evictions"]["dropped_clean"] > 0 and stats["schedule_divergences"] == 0
        assert stats["prefetch"]["issued"] > 0


def test_tied_weights_have_several_names(tmp_path):
    config = checkpoints.gpt2()
    folder = checkpoints.write_model(tmp_path, config)
    resident = checkpoints.resident(folder)
    tied = {"lm_head.weight": "transformer.wte.weight"}
    ids = torch.randint(2, 500, (2, 9))
    with weights_map(folder, names=tied, dram="3MiB") as weights, torch.no_grad():
        model = checkpoints.on_meta(config)
        for output in run_with(model, weights, ids):
            assert torch.equal(output.logits, resident(ids).logits)
        del output
        stats = weights.stats()
        assert stats["evictions"]["dropped_clean"] > 0 and stats["schedule_divergences"] == 0
    with pytest.raises(sluice.InvalidArgument, match="names: the files have no 'nothing'"):
        weights_map(folder, names={"lm_head.weight": "nothing"}, dram="3MiB")


def test_the_map_gives_the_tensors_of_accelerates_own_loader(tmp_path):
    state = {"a": torch.randn(5, 7).bfloat16(), "b": torch.tensor(2.5), "c": torch.arange(9),
             "d": torch.randn(4, 4).to(torch.float8_e4m3fn), "e": torch.randn(3).half()}
    offload_state_dict(tmp_path, state)
    theirs = OffloadedWeightsLoader(save_folder=tmp_path)
    with weights_map(tmp_path) as ours:
        for name, tensor in state.items():
            given, wanted = ours[name], theirs[name]
            assert given.dtype == wanted.dtype == tensor.dtype
            assert torch.equal(given.reshape(-1).view(torch.uint8), wanted.reshape(-1).view(torch.uint8))
            del given
        assert "a" in ours and "z" not in ours
        with pytest.raises(KeyError):
            ours["z"]


def test_another_dtype_of_the_index_is_a_copy(tmp_path):
    save_file({"w": torch.randn(8, 8)}, tmp_path / "m.safetensors")
    index = {"renamed": {"safetensors_file": str(tmp_path / "m.safetensors"), "weight_name": "w",
                         "dtype": "bfloat16"}}
    with weights_map(index) as weights:
        wanted = load_file(tmp_path / "m.safetensors")["w"].bfloat16()
        assert torch.equal(weights["renamed"], wanted)


def test_errors(tmp_path):
    _, [(_, _), (raw, _), (index, options)] = sources(tmp_path)
    with pytest.raises(sluice.TierFull, match="dram=[0-9]+ is the least"):
        weights_map(raw, dram="64KiB")
    with pytest.raises(sluice.InvalidArgument, match="give the folder of its .dat file"):
        weights_map(index)
    (tmp_path / "raw" / "first.bias.dat").write_bytes(b"1234")
    with pytest.raises(sluice.InvalidArgument, match=r"'first.bias' .*512 bytes; .*first.bias.dat has 4"):
        weights_map(index, **options)
    (tmp_path / "raw" / "first.bias.dat").unlink()
    with pytest.raises(sluice.InvalidArgument, match="first.bias.dat does not exist"):
        weights_map(raw)
    index["blocks.0.up.bias"]["weight_name"] = "nothing"
    with pytest.raises(sluice.InvalidArgument, match="'blocks.0.up.bias' as 'nothing' of .*no such"):
        weights_map(index, folder=raw)
    with pytest.raises(sluice.NotFound):
        weights_map(tmp_path / "none")


def test_tensors_keep_the_map_open(tmp_path):
    _, [(source, _), *_] = sources(tmp_path)
    weights = weights_map(source)
    bias = weights["last.bias"]
    with pytest.raises(sluice.FailedPrecondition, match="'last.bias': 1 torch storage"):
        weights.close()
    del bias
    weights.close()


@pytest.mark.parametrize("change, message", [
    ({"names": 3}, "names is 3; it must be a dict"),
    ({"names": {"a": []}}, r"names: the files have no \[\]"),
    ({"source": 3}, "source is 3; it must be a path"),
    ({"source": {"w": 3}}, "the index has 'w' as 3, not as a dict"),
    ({"source": {"w": {"shape": [1]}}, "folder": "."}, "'w' as .*, without a shape and a dtype"),
    ({"source": {"w": {"shape": [1], "dtype": "float32"}}, "folder": 3}, "folder is 3; it must be a path"),
    ({"source": {"w": {"safetensors_file": "m.safetensors", "dtype": "float3"}}},
     "'w' as 'float3', which is no dtype of torch"),
])
def test_a_wrong_type_is_named(tmp_path, monkeypatch, change, message):
    monkeypatch.chdir(tmp_path)
    save_file({"w": torch.ones(8)}, "m.safetensors")
    options = {"source": "m.safetensors", **change}
    with pytest.raises(sluice.InvalidArgument, match=message):
        weights_map(options.pop("source"), **options)
    with pytest.raises(sluice.InvalidArgument, match="index.json is no JSON"):
        (tmp_path / "index.json").write_text("{")
        weights_map(tmp_path)
