"""Large members of ModuleLists, which are leased part by part."""

import threading
import time

import checkpoints
import pytest
import torch
from checkpoints import MODELS, Blocks, leases_of, stream_of
from safetensors.torch import load_file

import sluice
from sluice.torch._streaming._units import Leaving

# Pages so small that members of the models here are large.
SMALL_PAGE = 4096
LINEARS = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
           "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]


def names_of(stream):
    return [unit["name"] for unit in stream.report()["units"]]


def test_a_large_layer_is_leased_by_its_linears_in_their_order(tmp_path):
    folder = checkpoints.write_model(tmp_path, MODELS["llama"])
    model, resident = checkpoints.on_meta(MODELS["llama"]), checkpoints.resident(folder)
    prompt = torch.randint(2, 512, (1, 9))
    with stream_of(model, folder, page_bytes=SMALL_PAGE) as stream, torch.no_grad():
        for _ in range(4):
            assert torch.equal(model(prompt).logits, resident(prompt).logits)
        parts = [f"model.layers.{i}.{name}" for i in range(8) for name in LINEARS]
        assert names_of(stream) == ["model.embed_tokens", *parts, "model.norm", "lm_head"]
        assert all(unit["entries"] == 4 for unit in stream.report()["units"])
        names = [op["name"] for op in stream._runtime.schedule("pass")["ops"]]
        assert names == ["model.embed_tokens", *parts, "model.norm", "lm_head"]
        assert not leases_of(stream)
        assert stream._runtime.stats()["schedule_divergences"] == 0
        stream.close()
    assert all(parameter.device.type == "meta" for parameter in model.parameters())
    assert all("forward" not in module.__dict__ for module in model.modules())


def test_less_is_read_than_with_whole_layers(tmp_path, monkeypatch):
    folder = checkpoints.write_model(tmp_path, MODELS["llama"])
    prompt = torch.ones(1, 4, dtype=torch.int64)

    def read_per_pass():
        model = checkpoints.on_meta(MODELS["llama"])
        with stream_of(model, folder, page_bytes=SMALL_PAGE) as stream, torch.no_grad():
            for _ in range(12):
                model(prompt)
            return stream.report()["read_bytes"] / 11

    divided = read_per_pass()
    monkeypatch.setattr("sluice.torch._streaming._parts._PAGES", 1 << 20)
    assert divided < read_per_pass()


def test_layers_are_whole_where_all_weights_fit(tmp_path):
    folder = checkpoints.write_model(tmp_path, MODELS["llama"])
    model = checkpoints.on_meta(MODELS["llama"])
    with stream_of(model, folder, share=1000, page_bytes=SMALL_PAGE) as stream:
        assert "model.layers.3" in names_of(stream)


class Pair(torch.nn.Module):
    """A block of two layers; ``how`` is a function of its forward."""

    def __init__(self, how, width=256):
        super().__init__()
        self.up = torch.nn.Linear(width, width)
        self.down = torch.nn.Linear(width, width)
        self.how = how

    def forward(self, x):
        return self.how(self, x)


def bypassing(block, x):
    return torch.nn.functional.linear(block.up(x), block.down.weight, block.down.bias)


def calling_twice(block, x):
    return block.up(block.down(block.up(x)))


class Attending(torch.nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(width, 4, batch_first=True)
        self.out = torch.nn.Linear(width, width)

    def forward(self, x):
        return self.out(self.attention(x, x, x)[0])


class Owning(torch.nn.Module):
    """A block with large parameters of its own beside a layer."""

    def __init__(self, width=256):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(width, width) / width)
        self.out = torch.nn.Linear(width, width)

    def forward(self, x):
        return self.out(x @ self.weight)


def blocks_of(kind):
    torch.manual_seed(0)
    model = Blocks(256, blocks=0)
    model.blocks.extend(kind() for _ in range(8))
    return model.eval().requires_grad_(False)


def made(kind, tmp_path):
    """A resident model whose weights lie as in the file, the same one to stream, and the file."""
    resident, path = blocks_of(kind), checkpoints.save(tmp_path / "m.safetensors", blocks_of(kind))
    checkpoints.align(path)
    resident.load_state_dict(load_file(path), assign=True)
    return resident.requires_grad_(False), blocks_of(kind), path


def entries_of(stream):
    return {unit["name"]: unit["entries"] for unit in stream.report()["units"]}


NAMES = ["first", *[f"blocks.{i}" for i in range(8)], "last"]


def encoder_layer():
    return torch.nn.TransformerEncoderLayer(256, 4, 256, batch_first=True)


@pytest.mark.parametrize("kind", [encoder_layer, Owning])
def test_members_whose_own_forward_uses_large_weights_stay_whole(kind, tmp_path):
    resident, model, path = made(kind, tmp_path)
    x = torch.randn(2, 3, 256)
    # The norms have less than a page.
    with stream_of(model, path, share=0.4, page_bytes=2 * SMALL_PAGE) as stream, torch.no_grad():
        for _ in range(3):
            assert torch.equal(model(x), resident(x))
        assert names_of(stream) == NAMES


class Wrapping(torch.nn.Module):
    """A block of a module with large parameters of its own, and a layer."""

    def __init__(self, width=256):
        super().__init__()
        self.attention = Owning(width)
        self.out = torch.nn.Linear(width, width)

    def forward(self, x):
        return self.out(self.attention(x))


@pytest.mark.parametrize("kind", [Attending, Wrapping])
def test_modules_that_cannot_be_divided_are_parts(kind, tmp_path):
    resident, model, path = made(kind, tmp_path)
    x = torch.randn(2, 3, 256)
    with stream_of(model, path, share=0.4, page_bytes=SMALL_PAGE) as stream, torch.no_grad():
        for _ in range(3):
            assert torch.equal(model(x), resident(x))
        parts = [f"blocks.{i}.{name}" for i in range(8) for name in ("attention", "out")]
        assert names_of(stream) == ["first", *parts, "last"]
        assert all(count == 3 for count in entries_of(stream).values())


@pytest.mark.parametrize("how", [bypassing, calling_twice])
def test_a_member_that_uses_its_modules_otherwise_becomes_whole(how, tmp_path):
    resident, model, path = made(lambda: Pair(how), tmp_path)
    x = torch.randn(2, 256)
    with stream_of(model, path, share=0.4, page_bytes=SMALL_PAGE) as stream, torch.no_grad():
        for _ in range(4):
            assert torch.equal(model(x), resident(x))
        entries = entries_of(stream)
        assert entries["blocks.2"] == 3 and entries["blocks.2.up"] == (1 if how is bypassing else 2)
        names = [op["name"] for op in stream._runtime.schedule("pass")["ops"]]
        assert names == NAMES
        assert not leases_of(stream)
        stream.close()
    assert all("forward" not in module.__dict__ for module in model.modules())


def test_a_member_that_does_not_fit_stays_divided(tmp_path):
    resident, model, path = made(lambda: Pair(bypassing), tmp_path)
    x = torch.randn(2, 256)
    # A block has 128.5 pages.
    with stream_of(model, path, dram=100 * SMALL_PAGE, page_bytes=SMALL_PAGE) as stream, torch.no_grad():
        for _ in range(4):
            assert torch.equal(model(x), resident(x))
        assert "blocks.2" not in names_of(stream)


def straight(block, x):
    return block.down(torch.nn.functional.gelu(block.up(x)))


@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt()], ids=["error", "Ctrl-C"])
def test_a_run_that_fails_leaves_no_lease_and_its_member_divided(error, tmp_path):
    def failing(block, x):
        x = block.up(x)
        if fails:
            raise error
        return block.down(x)

    resident, model, path = made(lambda: Pair(failing), tmp_path)
    x, fails = torch.randn(2, 256), []
    with stream_of(model, path, share=0.4, page_bytes=SMALL_PAGE) as stream, torch.no_grad():
        for _ in range(2):
            fails.append(True)
            with pytest.raises(type(error)):
                model(x)
            fails.clear()
            assert not leases_of(stream) and not stream._passes.running
            assert torch.equal(model(x), resident(x))
        assert "blocks.0" not in names_of(stream)


@pytest.mark.parametrize("error", [sluice.TierFull("no"), KeyboardInterrupt()], ids=["full", "Ctrl-C"])
@pytest.mark.parametrize("after", [False, True], ids=["before it", "after it"])
def test_a_lease_that_fails_leaves_neither_it_nor_the_one_before(error, after, tmp_path, monkeypatch):
    resident, model, path = made(lambda: Pair(straight), tmp_path)
    x = torch.randn(2, 256)
    with stream_of(model, path, share=0.4, page_bytes=SMALL_PAGE) as stream, torch.no_grad():
        for _ in range(3):  # planned, so that parts are handed over
            assert torch.equal(model(x), resident(x))
        (part,) = (unit for unit in stream._units if unit.name == "blocks.2.down")
        lease, handed = part._lease, []

        def failing(lane, before):
            handed.append(len(before))
            if after:
                lease(lane, before)
            raise error

        monkeypatch.setattr(part, "_lease", failing)
        with pytest.raises(type(error)):
            model(x)
        assert handed == [2], "weight and bias of the part before"
        monkeypatch.setattr(part, "_lease", lease)
        assert not leases_of(stream) and not stream._passes.running
        assert torch.equal(model(x), resident(x))


def unit_of(stream, name):
    (unit,) = (unit for unit in stream._units if unit.name == name)
    return unit


# Methods of the next unit, or of the one before, in which Ctrl-C comes: at their begin, or at their end.
STEPS = [("blocks.2.down", "enter"), ("blocks.2.down", "_is_to_lease"), ("blocks.2.down", "_end_leasing"),
         ("blocks.2.up", "leave"), ("blocks.2.up", "_end_leasing"), ("blocks.2.up", "release")]


@pytest.mark.parametrize("after", [False, True], ids=["at its begin", "at its end"])
@pytest.mark.parametrize("step", STEPS, ids=".".join)
def test_an_interrupt_of_a_hand_over_leaves_nothing(step, after, tmp_path, monkeypatch):
    resident, model, path = made(lambda: Pair(straight), tmp_path)
    x = torch.randn(2, 256)
    with stream_of(model, path, share=0.4, page_bytes=SMALL_PAGE) as stream, torch.no_grad():
        for _ in range(3):
            assert torch.equal(model(x), resident(x))
        down, unit = unit_of(stream, "blocks.2.down"), unit_of(stream, step[0])
        method, interrupted, calls = getattr(unit, step[1]), [], entries_of(stream)

        def interrupt(*args, **kwargs):
            # The unit before is left by its own run, too: only the hand-over counts.
            due = not interrupted and (unit is down or entries_of(stream)[unit.name] > calls[unit.name])
            if due:
                interrupted.append(step)
            if due and not after:
                raise KeyboardInterrupt
            result = method(*args, **kwargs)
            if due:
                raise KeyboardInterrupt
            return result

        monkeypatch.setattr(unit, step[1], interrupt)
        with pytest.raises(KeyboardInterrupt):
            model(x)
        assert interrupted and not leases_of(stream) and not stream._passes.running
        assert not any(each.running or each._leasing for each in stream._units)
        monkeypatch.undo()
        before = entries_of(stream)
        assert torch.equal(model(x), resident(x))
        assert all(count == before[name] + 1 for name, count in entries_of(stream).items())


def test_a_thread_that_waits_for_anothers_lease_gives_its_own_back(tmp_path):
    _, model, path = made(lambda: Pair(straight), tmp_path)
    # A linear has 65 pages, with the bias, or 66.
    with stream_of(model, path, dram=70 * SMALL_PAGE, page_bytes=SMALL_PAGE) as stream:
        up, down = unit_of(stream, "blocks.2.up"), unit_of(stream, "blocks.2.down")
        up.again_after = 0  # value once there is a plan
        both_inside = threading.Event()

        def other():
            up.enter("other")
            both_inside.set()
            down.enter("other", Leaving(up))  # waits for the frames of up
            down.leave("other")

        up.enter("this")
        thread = threading.Thread(target=other, daemon=True)
        thread.start()
        both_inside.wait()
        while down._leasing is None:
            time.sleep(0.001)
        first = threading.Thread(target=down.enter, args=("this", Leaving(up)), daemon=True)
        first.start()
        first.join(60)
        assert not first.is_alive(), "deadlock"
        thread.join()
        down.leave("this")
        assert not leases_of(stream)


def test_leases_go_back_where_the_next_unit_is_leased_already(tmp_path):
    _, model, path = made(lambda: Pair(straight), tmp_path)
    with stream_of(model, path, share=0.4, page_bytes=SMALL_PAGE) as stream:
        up, down = unit_of(stream, "blocks.2.up"), unit_of(stream, "blocks.2.down")
        up.again_after = 0  # value once there is a plan
        leaving = Leaving(up)
        down.enter("other")
        up.enter("this")
        down.enter("this", leaving)
        assert not any("up" in lease for lease in leases_of(stream))
        for entry in ("this", "other"):
            assert down.running
            down.leave(entry)
        assert not leases_of(stream)


def test_parts_that_are_called_by_themselves_are_leased(tmp_path):
    resident, model, path = made(lambda: Pair(straight), tmp_path)
    x = torch.randn(2, 256)
    with stream_of(model, path, share=0.4, page_bytes=SMALL_PAGE) as stream, torch.no_grad():
        assert torch.equal(model.blocks[3].down(x), resident.blocks[3].down(x))
        assert entries_of(stream)["blocks.3.down"] == 1 and not leases_of(stream)
        assert torch.equal(model(x), resident(x))
        assert entries_of(stream)["blocks.3.up"] == 1 and entries_of(stream)["blocks.3.down"] == 2


def test_a_stream_is_not_closed_between_two_parts(tmp_path, monkeypatch):
    resident, model, path = made(lambda: Pair(straight), tmp_path)
    refused = []
    with stream_of(model, path, share=0.4, page_bytes=SMALL_PAGE) as stream, torch.no_grad():
        (part,) = (unit for unit in stream._units if unit.name == "blocks.0.down")
        enter = part.enter

        def close_before(entry, before):
            with pytest.raises(sluice.FailedPrecondition, match="the model runs"):
                stream.close()
            refused.append(entry)
            enter(entry, before)

        monkeypatch.setattr(part, "enter", close_before)
        x = torch.randn(2, 256)
        assert torch.equal(model.blocks[0](x), resident.blocks[0](x))
        assert len(refused) == 1


def test_a_list_alone_has_passes_through_its_members(tmp_path):
    resident, model = blocks_of(lambda: Pair(straight)).blocks, blocks_of(lambda: Pair(straight)).blocks
    path = checkpoints.save(tmp_path / "m.safetensors", resident)
    checkpoints.align(path)
    resident.load_state_dict(load_file(path), assign=True)
    resident.requires_grad_(False)
    x = torch.randn(2, 256)
    with stream_of(model, path, share=0.4, page_bytes=SMALL_PAGE) as stream, torch.no_grad():
        for _ in range(3):
            y = wanted = x
            for block, other in zip(model, resident):
                y, wanted = block(y), other(wanted)
            assert torch.equal(y, wanted)
        assert stream.report()["passes"] == 3
        assert len(stream._runtime.schedule("pass 0")["ops"]) == 16


class Nesting(torch.nn.Module):
    """A block with a part whose forward calls another part, and computes on."""

    def __init__(self, width=256):
        super().__init__()
        self.up = Outer(width)
        self.down = torch.nn.Linear(width, width)

    def forward(self, x):
        return self.up(x, self.down)


class Outer(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(width, width) / width)

    def forward(self, x, layer):
        return layer(x) @ self.weight


def test_a_part_that_calls_another_one_stays_leased(tmp_path):
    resident, model, path = made(Nesting, tmp_path)
    x = torch.randn(2, 256)
    leased = []
    with stream_of(model, path, share=0.4, page_bytes=SMALL_PAGE) as stream, torch.no_grad():
        model.blocks[1].down.register_forward_hook(lambda *_: leased.append(leases_of(stream)))
        for _ in range(3):
            assert torch.equal(model(x), resident(x))
        assert all(any("up.weight" in lease for lease in each) for each in leased)
        entries = entries_of(stream)
        assert entries["blocks.1"] == 2 and entries["blocks.1.up"] == 1
        assert not leases_of(stream)


class Many(torch.nn.Module):
    """A block of modules that have less than a page each."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(30, 30) for _ in range(80))

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([layer(x[..., :30]), x[..., 30:]], -1)
        return x


class Normed(torch.nn.Module):
    """A block whose weight a hook makes before the forward."""

    def __init__(self, width=256):
        super().__init__()
        self.up = torch.nn.utils.weight_norm(torch.nn.Linear(width, width))
        self.down = torch.nn.Linear(width, width)

    def forward(self, x):
        return self.down(self.up(x))


@pytest.mark.filterwarnings("ignore:.*weight_norm.*:FutureWarning")
@pytest.mark.parametrize("kind", [Many, Normed])
def test_members_without_parts_of_their_own_stay_whole(kind, tmp_path):
    resident, model, path = made(kind, tmp_path)
    x = torch.randn(2, 256)
    with stream_of(model, path, share=0.5, page_bytes=SMALL_PAGE) as stream, torch.no_grad():
        for _ in range(3):
            assert torch.equal(model(x), resident(x))
        assert names_of(stream) == NAMES


def test_a_unit_that_does_not_fit_is_divided_whatever_the_share(tmp_path):
    # Two layers of 257 KiB: 60 % of them are less than the largest, 80 % less than the block.
    resident = Pair(straight)
    list_of = torch.nn.ModuleList([resident]).requires_grad_(False)
    path = checkpoints.save(tmp_path / "m.safetensors", list_of)
    checkpoints.align(path)
    list_of.load_state_dict(load_file(path), assign=True)
    list_of.requires_grad_(False)
    model = torch.nn.ModuleList([Pair(straight)]).requires_grad_(False)
    x = torch.randn(2, 256)
    with stream_of(model, path, share=0.8, page_bytes=SMALL_PAGE) as stream, torch.no_grad():
        for _ in range(3):
            assert torch.equal(model[0](x), resident(x))
        assert names_of(stream) == ["0.up", "0.down"]


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradients_of_divided_members_under_checkpoint(reentrant, tmp_path):
    resident, model, path = made(lambda: Pair(straight), tmp_path)
    x = torch.randn(3, 256)
    with stream_of(model, path, share=0.4, page_bytes=SMALL_PAGE) as stream:
        gradients = []
        for each in (resident, model, model):
            each.use_reentrant = reentrant
            given = x.clone().requires_grad_()
            each(given).square().mean().backward()
            gradients.append(given.grad)
        assert all(torch.equal(gradients[0], other) for other in gradients)
        assert not leases_of(stream) and not stream._passes.running
        assert "blocks.0" not in names_of(stream)
        del given, gradients
