"""Faults below a model that streams: unreadable files, a full disk, and the end of the process."""

import contextlib
import errno
import os
import pathlib
import threading

import checkpoints
import pytest
import sluice
import sluice.torch
import torch
from checkpoints import MIXTURES, leases_of

pytestmark = pytest.mark.usefixtures("one_thread")

PAGE = 4096


@pytest.fixture(scope="module")
def folder(module_path):
    """A mixture whose fused weights are put together from several files."""
    return checkpoints.write_model(module_path / "model", MIXTURES["mixtral"], shards=True)


def stream_of(model, path, **options):
    return checkpoints.stream_of(model, path, **{"share": 0.3, "page_bytes": PAGE, **options})


@contextlib.contextmanager
def unreadable(path):
    """Reads of the open file fail with EIO: its descriptors are of the process's memory, which has
    nothing at low addresses."""
    path = os.path.realpath(path)
    links = {each: os.path.realpath(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")}
    kept = {int(each): os.dup(int(each)) for each, place in links.items() if place == path}
    assert kept, f"{path} is not open"
    memory = os.open("/proc/self/mem", os.O_RDONLY)
    try:
        for descriptor in kept:
            os.dup2(memory, descriptor)
        yield
    finally:
        os.close(memory)
        for descriptor, copy in kept.items():
            os.dup2(copy, descriptor)
            os.close(copy)


def error_of(model, prompt):
    """The error of a forward in a thread of its own, so that one that hangs is seen."""
    raised = []

    def run():
        try:
            with torch.no_grad():
                model(prompt)
        except sluice.Error as error:
            raised.append((type(error), str(error)))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "the forward hangs"
    return raised[0] if raised else None


@pytest.mark.parametrize("experts", [None, "lfu"])
def test_files_that_cannot_be_read_now_are_named_and_lose_nothing(experts, folder):
    files = sorted(folder.glob("*.safetensors"))
    assert len(files) >= 3
    wanted = checkpoints.resident(folder, experts_implementation="eager")
    model = checkpoints.on_meta(MIXTURES["mixtral"])
    model.set_experts_implementation("eager")
    prompts = [torch.randint(2, 128, (1, 9)) for _ in range(4)]
    with torch.no_grad():
        logits = [wanted(prompt).logits for prompt in prompts]
    with stream_of(model, folder, experts=experts) as stream, torch.no_grad():
        for number, file in enumerate(files[::2]):
            assert torch.equal(model(prompts[number]).logits, logits[number])
            with unreadable(file):
                kind, text = error_of(model, prompts[-1])
            assert kind is sluice.Unavailable and file.name in text and "EIO" in text, (kind, text)
            assert not leases_of(stream)
        for prompt, expected in zip(prompts, logits):
            assert torch.equal(model(prompt).logits, expected)


def run_experts(model, calls):
    """Outputs of the first layer's experts, for a token per call."""
    with torch.no_grad():
        return [model.model.layers[0].mlp.experts(
            torch.ones(1, 64), numbers[None], torch.ones(1, len(numbers))) for numbers in calls]


def test_a_full_disk_leaves_no_half_trace_and_no_work_is_lost(small_disk, folder, caplog):
    disk = small_disk("16k").seen
    model, calls = checkpoints.on_meta(MIXTURES["mixtral"]), torch.arange(8).view(4, 2).repeat(40, 1)
    path, outputs = disk / "experts.jsonl", []
    with stream_of(model, folder, experts="lfu") as stream:
        with stream.trace_experts(path):
            run_experts(model, calls[:1])
        before = path.read_text()
        with pytest.raises(OSError) as raised:
            with stream.trace_experts(path):
                outputs.append(run_experts(model, calls))
        assert raised.value.errno == errno.ENOSPC and raised.value.filename == str(path)
        with pytest.raises(KeyboardInterrupt):  # the interrupt matters more than the trace
            with stream.trace_experts(path):
                outputs.append(run_experts(model, calls))
                raise KeyboardInterrupt
        assert f"No space left on device: '{path}'" in caplog.text
        assert path.read_text() == before and os.listdir(disk) == ["experts.jsonl"]
        assert all(torch.equal(first, second) for first, second in zip(*outputs))
        assert not leases_of(stream)


def contents(folder):
    return {each.name: each.read_bytes() for each in folder.iterdir()}


def test_a_process_that_is_killed_leaves_nothing(run_program, spill, folder, seed):
    """While pages are put together from files, experts stay leased, and pages go to nvme."""
    before = contents(folder)
    code, out, errors = run_program(f"""
import random, signal
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import checkpoints, sluice.torch, torch
from checkpoints import MIXTURES, on_meta, stream_of

def work(running):
    runtime = sluice.Runtime(**SMALL)
    tensor = runtime.tensor((128, 16 * 1024))
    values = np.ones((128, 16 * 1024), np.float32)
    models = [on_meta(MIXTURES["mixtral"]) for _ in range(2)]
    models[0].set_experts_implementation("eager")
    streams = [stream_of(model, {str(folder)!r}, 0.3, page_bytes=4096, experts=experts)
               for model, experts in zip(models, (None, "lfu"))]
    while True:
        with torch.no_grad():
            for model in models:
                model(torch.randint(2, 128, (1, 9)))
        tensor.write(values)
        if running is not None:
            os.write(running, b"r")
        running = None

torch.set_num_threads(1)
chance = random.Random({seed})
for _ in range(2):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        work(writer)
    os.close(writer)
    assert os.read(reader, 1) == b"r"
    time.sleep(0.2 * chance.random())
    files = [os.readlink(f"/proc/{{child}}/fd/{{each}}") for each in os.listdir(f"/proc/{{child}}/fd")]
    assert any(each.startswith({str(spill)!r}) for each in files), files
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    with sluice.Runtime(**SMALL):
        print(os.listdir({str(spill)!r}))
""")
    assert (code, out) == (0, "[]\n" * 2), errors
    assert contents(folder) == before
