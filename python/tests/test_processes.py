"""Processes: fork, spawn, workers of PyTorch, and the end of the interpreter."""

import pytest


def test_a_child_of_fork_is_refused_and_harms_nothing(run_program):
    code, out, errors = run_program("""
runtime = sluice.Runtime(**SMALL)
tensor = runtime.tensor(1 << 20, name="weights")
values = np.arange(1 << 20, dtype=np.float32)
tensor.write(values)
lease = runtime.lease(tensor[0:1000])
view = lease.__enter__()
trace = runtime.trace("trace.json")
trace.__enter__()
child = os.fork()
if child == 0:
    for use in (tensor.read, runtime.stats, lambda: runtime.tensor(4), lambda: view[0],
                runtime.lease(tensor).__enter__, runtime.trace("other.json").__enter__):
        try:
            print(use())
        except sluice.FailedPrecondition as error:
            print("a child makes a runtime of its own" in str(error))
    lease.__exit__(None, None, None)
    runtime.close()
    with sluice.Runtime(**SMALL) as own:
        mine = own.tensor(1000)
        mine.write(values[:1000])
        print(np.array_equal(mine.read(), values[:1000]))
    sys.exit(0)
_, status = os.waitpid(child, 0)
trace.__exit__(None, None, None)
print(status, np.array_equal(view.numpy(), values[0:1000]))
lease.__exit__(None, None, None)
print(np.array_equal(tensor.read(), values))
""")
    assert (code, out, errors) == (0, "True\n" * 7 + "0 True\nTrue\n", "")


def test_data_loader_workers_are_safe_or_refused(run_program):
    code, out, errors = run_program("""
import torch

class Rows(torch.utils.data.Dataset):
    def __init__(self, values, tensor=None):
        self.values, self.tensor = values, tensor
    def __len__(self):
        return 8
    def __getitem__(self, row):
        return torch.from_numpy(self.values[row] if self.tensor is None else self.tensor.read()[row])

def load(rows, method):
    loader = torch.utils.data.DataLoader(rows, num_workers=2, multiprocessing_context=method)
    try:
        return sorted(int(batch.sum()) for batch in loader)
    except Exception as error:
        return str(error)

values = np.arange(80, dtype=np.int64).reshape(8, 10)
runtime = sluice.Runtime(**SMALL)
tensor = runtime.tensor(values.shape, "int64", name="rows")
tensor.write(values)
expected = sorted(int(row.sum()) for row in values)
with runtime.lease(tensor, mode="rw") as view:
    print(load(Rows(values), "fork") == expected)
print("a child makes a runtime of its own" in load(Rows(values, tensor), "fork"))
print("'rows' cannot be copied or pickled" in load(Rows(values, tensor), "spawn"))
print(np.array_equal(tensor.read(), values))
""")
    assert (code, out, errors) == (0, "True\n" * 4, "")


def test_a_torch_tensor_that_was_sent_away_is_named(run_program):
    code, out, errors = run_program("""
import torch
runtime = sluice.Runtime(**SMALL)
tensor = runtime.tensor(1000, name="weights")
queue = torch.multiprocessing.get_context("fork").SimpleQueue()
with runtime.lease(tensor, mode="rw") as view:
    view[:] = 5
    sent = view.torch()
    queue.put(sent)
try:
    with runtime.lease(tensor) as view:
        view.torch()
except sluice.FailedPrecondition as error:
    print("'weights' have left its memory" in str(error))
print(float(sent.sum()))
del sent
with runtime.lease(tensor) as view:
    print(float(view.torch().sum()))
""")
    assert errors == ""
    assert (code, out) == (0, "True\n5000.0\n5000.0\n")


@pytest.mark.parametrize("end", ["import torch; kept = view.torch()", "sys.exit(3)", "1 / 0"])
def test_the_interpreter_leaves_with_transfers_in_flight(run_program, end):
    code, out, errors = run_program(f"""
runtime = sluice.Runtime(**SMALL)
tensor = runtime.tensor((128, 16 * 1024))
tensor.write(np.ones((128, 16 * 1024), np.float32))
runtime.prefetch(tensor[0:20])
lease = runtime.lease(tensor[100:101], mode="rw")
view = lease.__enter__()
array = view.numpy()
runtime.prefetch(tensor[20:40])
print("leaving", flush=True)
{end}
""")
    expected = {"1 / 0": 1, "sys.exit(3)": 3}.get(end, 0)
    assert (code, out) == (expected, "leaving\n"), errors
    assert ("ZeroDivisionError" in errors) if end == "1 / 0" else errors == ""


DAEMONS = """
runtime = sluice.Runtime(**SMALL)
tensor = runtime.tensor((128, 16 * 1024))
started = threading.Event()
def work():
    for row in range({rounds}):
        with runtime.lease(tensor[row % 128 : row % 128 + 1], mode="rw") as view:
            view += 1
        started.set()
for _ in range(4):
    threading.Thread(target=work, daemon={daemon}).start()
started.wait()
class Slow:
    def __del__(self):
        time.sleep(0.2)  # gives up the GIL while the interpreter ends
slow = Slow()
slow.itself = slow
print("leaving")
"""


def test_the_interpreter_waits_for_threads_that_work(run_program):
    assert run_program(DAEMONS.format(rounds=200, daemon=False)) == (0, "leaving\n", "")


def test_the_interpreter_leaves_while_daemon_threads_work(run_program):
    for _ in range(4):
        assert run_program(DAEMONS.format(rounds=10**9, daemon=True)) == (0, "leaving\n", "")


def test_the_interpreter_leaves_while_a_daemon_thread_waits(run_program):
    assert run_program("""
runtime = sluice.Runtime(**SMALL)
tensor = runtime.tensor(10)
lease = runtime.lease(tensor, mode="rw")
lease.__enter__()
def wait():
    with runtime.lease(tensor):
        pass
threading.Thread(target=wait, daemon=True).start()
time.sleep(0.1)
print("leaving")
""") == (0, "leaving\n", "")


def test_the_interpreter_leaves_while_a_daemon_thread_reads_outside_a_lease(run_program):
    for _ in range(3):
        assert run_program("""
runtime = sluice.Runtime(**SMALL)
array = runtime.tensor((128, 16 * 1024)).numpy()
started = threading.Event()
def read():
    while True:
        array.sum()  # without the GIL
        started.set()
threading.Thread(target=read, daemon=True).start()
started.wait()
print("leaving")
""") == (0, "leaving\n", "")


def test_a_free_threaded_python_is_refused_by_name(run_program):
    code, _, errors = run_program("""
import importlib, sysconfig
real = sysconfig.get_config_var
sysconfig.get_config_var = lambda name: 1 if name == "Py_GIL_DISABLED" else real(name)
importlib.reload(sluice)
""")
    assert code == 1
    assert "ImportError: sluice: this is a free-threaded build of Python" in errors


def test_a_sub_interpreter_is_refused_by_name(run_program):
    code, out, errors = run_program("""
import _xxsubinterpreters
other = _xxsubinterpreters.create()
program = f"import sys; sys.path[:] = {sys.path!r}; import sluice"
try:
    _xxsubinterpreters.run_string(other, program)
except _xxsubinterpreters.RunFailedError as error:
    print("ImportError" in str(error), "sluice: this is a sub-interpreter" in str(error))
_xxsubinterpreters.destroy(other)
with sluice.Runtime(**SMALL) as runtime:
    print(runtime.tensor(4).read())
""")
    assert (code, out, errors) == (0, "True True\n[0. 0. 0. 0.]\n", "")
