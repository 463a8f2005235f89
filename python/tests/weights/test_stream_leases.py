"""Leases of a model that streams: what runs, fails or is interrupted leaves none."""

import itertools
import threading
import time

import checkpoints
import pytest
import torch
from checkpoints import MODELS, PAGE, Blocks, leases_of, stream_of

from sluice.torch._streaming import _changes, _units

# Code in which threads of a unit wait for each other and tell each other.
FILES = (threading.__file__, _changes.__file__, _units.__file__)
# Pages of models whose layers are leased whole, and so small ones that layers are divided.
PAGES = [PAGE, 4096]


def assert_layers(stream, whole):
    names = [unit["name"] for unit in stream.report()["units"]]
    assert ("model.layers.0" in names) == whole
    assert ("model.layers.0.mlp.up_proj" in names) == (not whole)


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


@pytest.mark.parametrize("where", ["_room.leave", "release", "_passes.leave", "_lease"])
def test_ctrl_c_at_the_begin_or_end_of_a_unit_leaves_no_lease(where, tmp_path, monkeypatch):
    resident, model = Blocks(), Blocks()
    path = checkpoints.save(tmp_path / "m.safetensors", resident)
    x = torch.randn(3, 128)
    with stream_of(model, path) as stream, torch.no_grad():
        model(x)
        *owner, name = where.split(".")
        unit = stream._units[4]
        place = unit if not owner else getattr(unit if owner == ["_room"] else stream, owner[0])
        method = getattr(place, name)

        def interrupted(*words):
            monkeypatch.undo()
            if name == "_lease":
                method(*words)
            raise KeyboardInterrupt

        monkeypatch.setattr(place, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            model(x)
        assert not leases_of(stream) and not stream._passes.running
        for _ in range(2):
            assert torch.equal(model(x), resident(x))
        assert stream.report()["passes"] == 4


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


@pytest.mark.parametrize("page_bytes", PAGES, ids=["whole", "divided"])
def test_a_model_that_transformers_checkpoints(page_bytes, tmp_path):
    folder = checkpoints.write_model(tmp_path, MODELS["llama"])
    resident, model = checkpoints.resident(folder), checkpoints.on_meta(MODELS["llama"])
    gradients = []
    with stream_of(model, folder, page_bytes=page_bytes) as stream:
        for each in (resident, model, model):
            each.train()
            each.activation_checkpointing_enable()
            given = torch.linspace(-1, 1, 9 * 128).view(1, 9, 128).requires_grad_()
            each(inputs_embeds=given).logits.square().mean().backward()
            gradients.append(given.grad)
        assert not leases_of(stream)
        assert all(torch.equal(gradients[0], other) for other in gradients)
        assert_layers(stream, whole=page_bytes == PAGE)


@pytest.mark.parametrize("page_bytes", PAGES, ids=["whole", "divided"])
def test_two_threads_may_run_the_model(page_bytes, tmp_path):
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

    with stream_of(model, folder, share=0.6, page_bytes=page_bytes) as stream:
        threads = [threading.Thread(target=run, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and not leases_of(stream)
        assert_layers(stream, whole=page_bytes == PAGE)


@pytest.mark.parametrize("page_bytes", PAGES, ids=["whole", "divided"])
def test_a_model_that_streams_may_be_compiled(page_bytes, tmp_path):
    resident, model = Blocks(blocks=3), Blocks(blocks=3)
    path = checkpoints.save(tmp_path / "m.safetensors", resident)
    resident.requires_grad_(False)
    x = torch.randn(3, 128)
    with stream_of(model, path, share=0.6, page_bytes=page_bytes) as stream, torch.no_grad():
        compiled = torch.compile(model, backend="aot_eager")
        for _ in range(3):
            assert torch.equal(compiled(x), resident(x))
        units = 5 if page_bytes == PAGE else 8
        assert [unit["entries"] for unit in stream.report()["units"]] == [3] * units
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


def test_threads_wait_for_room_that_others_leave(tmp_path):
    """A lease is that of all threads in the unit; one of them has asked for it, and may wait elsewhere."""
    resident, model = Blocks(), Blocks()
    path = checkpoints.save(tmp_path / "m.safetensors", resident)
    x = torch.randn(3, 128)
    right, results = resident(x), []

    def run():
        with torch.no_grad():
            for _ in range(40):
                results.append(torch.equal(model(x), right))

    with stream_of(model, path, dram="400KiB") as stream, torch.no_grad():
        model(x)
        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [True] * 160 and not leases_of(stream)


@pytest.mark.parametrize("waits", [False, True], ids=["alone", "another waits"])
def test_an_interrupt_anywhere_keeps_no_other_thread(waits, tmp_path, monkeypatch):
    resident, model = Blocks(blocks=1), Blocks(blocks=1)
    path = checkpoints.save(tmp_path / "m.safetensors", resident)
    x = torch.randn(3, 128)
    right, seen = resident(x), []
    with stream_of(model, path, share=1.5) as stream, torch.no_grad():
        unit, lease = stream._units[0], stream._units[0]._lease
        other, begun = None, not waits

        def start_other():
            nonlocal other
            other = threading.Thread(target=lambda: seen.append(model(x)), daemon=True)
            other.start()

        def lease_while_other_waits(*words):
            nonlocal begun
            monkeypatch.setattr(unit, "_lease", lease)
            start_other()
            while not unit._changes._waiting:
                time.sleep(0.001)
            begun = True
            return lease(*words)

        for at in itertools.count(1):
            if waits:
                monkeypatch.setattr(unit, "_lease", lease_while_other_waits)
            came = checkpoints.interrupted(lambda: model(x), at, FILES, lambda: begun)
            if not waits:
                start_other()
            other.join(60)
            assert not other.is_alive() and torch.equal(seen.pop(), right), at
            assert torch.equal(model(x), right) and not leases_of(stream), at
            begun = not waits
            if not came:
                break
        assert at > 20
