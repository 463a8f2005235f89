"""``python -m sluice.bench``: what the PyTorch layer takes, against ceilings in the same rounds."""

from __future__ import annotations

import argparse
import fnmatch
import json
import sys
import tempfile
from typing import Callable

from . import _activations, _deepspeed, _optimizer, _saved
from ._rows import Row, Setting, Skipped

CASES: dict[str, Callable[[Setting], Row]] = {
    "step/nvme": _optimizer.step_on_nvme,
    "step/layer": _optimizer.layer_over_library,
    "step/deepspeed": _deepspeed.step_fp32,
    "step/deepspeed/bf16": _deepspeed.step_bf16,
    "train/deepspeed": _deepspeed.whole,
    "saved/stays": _saved.small_tensor,
    "saved/parameter": _saved.parameter,
    "activations/offload": _activations.offload,
    "activations/torch.save": _activations.against_torch_save,
}


def main() -> int:
    """Prints a JSON line per case. Returns 1 if one misses its target."""
    parser = argparse.ArgumentParser(prog="python -m sluice.bench", description=__doc__)
    parser.add_argument("--dir", required=True, help="a directory of your own on the disk to measure")
    parser.add_argument("--quick", action="store_true", help="smaller, 3 rounds instead of 11")
    parser.add_argument("--case", default="*", help="cases that match; *, ? and [] match")
    arguments = parser.parse_args()
    chosen = [name for name in CASES if fnmatch.fnmatchcase(name, arguments.case)]
    if not chosen:
        parser.error(f"no case matches {arguments.case!r}; there are {', '.join(CASES)}")
    missed = False
    with tempfile.TemporaryDirectory(prefix="sluice-bench-", dir=arguments.dir) as directory:
        setting = Setting(directory, arguments.quick)
        for name in chosen:
            try:
                line = CASES[name](setting).as_dict(name)
            except Skipped as skipped:
                line = {"case": name, "skipped": str(skipped)}
            print(json.dumps(line), flush=True)
            missed |= line.get("reached") is False
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
