"""Waiting: threads, timeouts, Ctrl-C; no waiting call holds the GIL."""

import threading
import time

import numpy as np
import pytest

import sluice


def in_thread(target):
    thread = threading.Thread(target=target)
    thread.start()
    return thread


def test_a_lease_waits_for_another_thread(runtime):
    tensor = runtime.tensor(10, "int64", name="t")
    asked = threading.Event()
    seen = []

    def reader():
        asked.set()
        with runtime.lease(tensor) as view:
            seen.append(view[0])

    with runtime.lease(tensor, mode="rw") as view:
        thread = in_thread(reader)
        asked.wait()
        view[0] = 41
        view[0] += 1
    thread.join()
    assert seen == [42]


def test_threads_on_one_runtime_see_each_other(runtime, seed):
    counters = [runtime.tensor(64 * 1024, "int64", name=f"c{i}") for i in range(12)]  # 6 MiB
    rounds, failures = 60, []

    def work(number):
        rng = np.random.default_rng([seed, number])
        for _ in range(rounds):
            with runtime.lease(counters[rng.integers(len(counters))], mode="rw") as view:
                if view.numpy().min() != view.numpy().max():
                    failures.append(number)
                view += 1

    threads = [in_thread(lambda number=number: work(number)) for number in range(4)]
    for thread in threads:
        thread.join()
    assert failures == []
    assert sum(int(each.read()[0]) for each in counters) == rounds * len(threads)


def test_a_timeout_names_the_op_and_the_tensors(runtime):
    tensor = runtime.tensor(10, name="held")
    caught = []

    def waiter():
        with pytest.raises(sluice.TimedOut) as error:
            runtime.lease(tensor, timeout=0.01).__enter__()
        caught.append(str(error.value))

    with runtime.lease(tensor, mode="rw"):
        in_thread(waiter).join()
    assert caught == ["op 'lease held': no lease of 'held' within the timeout"]
    with runtime.lease(tensor, mode="rw", timeout=60):
        pass


def test_a_thread_that_would_wait_for_itself_is_told(runtime):
    tensor, other = runtime.tensor((4, 4), name="t"), runtime.tensor(4, name="other")
    with runtime.lease(tensor, mode="rw"):
        for use in (runtime.lease(tensor).__enter__, tensor.read,
                    lambda: tensor.write(np.zeros((4, 4), np.float32))):
            with pytest.raises(sluice.WouldDeadlock, match="holds a lease of 't' already"):
                use()
        other.read()
        with pytest.raises(sluice.WouldDeadlock, match="share a page"):
            runtime.lease(tensor[3:4]).__enter__()
    with runtime.lease(tensor[0:1], mode="rw"):
        with pytest.raises(sluice.WouldDeadlock, match="share a page"):
            runtime.lease(tensor[3:4]).__enter__()
    with runtime.lease((tensor[0:1], "rw"), (tensor[3:4], "rw")) as (one, two):
        one += 1
        two += 2
    assert tensor.read().tolist() == [[1] * 4, [0] * 4, [0] * 4, [2] * 4]
    with runtime.lease(tensor) as one, runtime.lease(tensor) as two:
        assert np.array_equal(one.numpy(), two.numpy())
    tensor.read()


def test_threads_that_would_wait_for_each_other_are_told(runtime):
    one, other = runtime.tensor(10, name="one"), runtime.tensor(10, name="other")
    both, told = threading.Barrier(2), []

    def lease(first, second):
        with runtime.lease(first, mode="rw"):
            both.wait()
            try:
                with runtime.lease(second, mode="rw"):
                    pass
            except sluice.WouldDeadlock as error:
                told.append(str(error))

    threads = [in_thread(lambda: lease(one, other)), in_thread(lambda: lease(other, one))]
    for thread in threads:
        thread.join()
    (text,) = told
    assert "would deadlock: what it needs, pages or room, is held by ops that wait" in text


def test_a_lease_that_does_not_fit_beside_the_outer_one_is_told(runtime):
    large, larger = (runtime.tensor(3 << 18, name=name) for name in ("large", "larger"))
    with runtime.lease(large), runtime.lease(larger[: 100]):
        with pytest.raises(sluice.WouldDeadlock, match="op 'lease larger' would deadlock"):
            runtime.lease(larger).__enter__()
        with pytest.raises(sluice.TierFull):
            runtime.lease(large, larger).__enter__()
    with runtime.lease(larger):
        pass


def test_a_reader_within_a_reader_does_not_wait_for_a_writer_that_waits(runtime):
    tensor = runtime.tensor(10, name="shared")
    with runtime.lease(tensor):
        with runtime.lease(tensor):
            pass
        writer = in_thread(lambda: tensor.write(np.ones(10, np.float32)))
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            with runtime.lease(tensor, timeout=60) as view:
                assert not view.numpy().any()
        assert writer.is_alive()
    writer.join()
    assert tensor.read().all()


@pytest.mark.parametrize("call", [
    "runtime.lease(tensor).__enter__()",
    "tensor.read()",
    "tensor.write(np.zeros(10, np.float32))",
    "runtime.op('o').__enter__().lease(tensor).__enter__()",
])
def test_ctrl_c_ends_a_waiting_call(run_program, call):
    code, out, errors = run_program(f"""
import signal
runtime = sluice.Runtime(**SMALL)
tensor = runtime.tensor(10)
held, release = threading.Event(), threading.Event()
def hold():
    with runtime.lease(tensor, mode="rw"):
        held.set()
        release.wait()
thread = threading.Thread(target=hold)
thread.start()
held.wait()
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    {call}
    print("got it")
except KeyboardInterrupt:
    print("interrupted")
release.set()
thread.join()
with runtime.lease(tensor, mode="rw", timeout=60):
    print("and it works")
""")
    assert (code, out, errors) == (0, "interrupted\nand it works\n", "")
