"""Two processes of torch.distributed, which run the functions of cases.py together."""

import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile

# PyTorch takes seconds to import, many of them on a machine that does more.
START_SECONDS = 150

CASES = pathlib.Path(__file__).with_name("cases.py")


class Ranks:
    """The processes of all tests of a run; a failure ends them, and the next test gets others.

    ``run_by``: a command that runs each of them, as prlimit(1) does.
    """

    def __init__(self, count=2, run_by=()):
        self._count = count
        self._run_by = run_by
        self._processes = []
        self._meeting = None

    def run(self, case, timeout=120, **options):
        """Runs a case. Returns the result of each rank. A list as an option has a value for each rank."""
        if not self._processes:
            self._start()
        try:
            for rank, process in enumerate(self._processes):
                own = {key: each[rank] if isinstance(each, list) else each
                       for key, each in options.items()}
                process.stdin.write(json.dumps([case, own]) + "\n")
                process.stdin.flush()
            return [self._answer(process, timeout) for process in self._processes]
        except BaseException:
            self.close()
            raise

    def _start(self):
        # A file instead of a port of ours: gloo takes free ports by itself. New groups need it, too.
        self._meeting = tempfile.TemporaryDirectory(prefix="sluice-python-ranks-")
        modules = [str(CASES.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
        store = os.path.join(self._meeting.name, "store")
        for rank in range(self._count):
            environment = {
                **os.environ, "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(self._count),
                "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": os.pathsep.join(modules),
            }
            self._processes.append(subprocess.Popen(
                [*self._run_by, sys.executable, CASES, store, str(rank), str(self._count)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment))
        try:
            for process in self._processes:
                assert self._answer(process, START_SECONDS) == "ready"
        except BaseException:
            self.close()
            raise

    def _answer(self, process, timeout):
        """The line with an answer; a rank that fails says why, and the others may wait for ever."""
        waiting, _, _ = select.select([process.stdout], [], [], timeout)
        line = process.stdout.readline() if waiting else ""
        assert line, f"a rank gave no answer within {timeout} s, or ended"
        answer = json.loads(line)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def close(self):
        """Ends the processes."""
        for process in self._processes:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
        self._processes = []
        if self._meeting is not None:
            self._meeting.cleanup()
            self._meeting = None
