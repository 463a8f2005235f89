"""``python -m sluice.bench``: what the PyTorch layer takes, against ceilings in the same rounds."""

from __future__ import annotations

import argparse
import fnmatch
import functools
import json
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, Callable, Union

from . import _activations, _deepspeed, _encoder, _loading, _mixture, _optimizer, _saved, _stream
from ._rows import Row, Rows, Setting, Skipped

# The first word of a case is its part.
CASES: dict[str, Callable[[Setting], Union[Row, Rows]]] = {
    "step/nvme": _optimizer.step_on_nvme,
    "step/layer": _optimizer.layer_over_library,
    "step/deepspeed": _deepspeed.step_fp32,
    "step/deepspeed/bf16": _deepspeed.step_bf16,
    "train/deepspeed": _deepspeed.whole,
    "saved/stays": _saved.small_tensor,
    "saved/parameter": _saved.parameter,
    "activations/offload": _activations.offload,
    "activations/torch.save": _activations.against_torch_save,
    "stream/cold": _stream.cold,
    "stream/warm": _stream.warm,
    **{f"stream/{percent}": functools.partial(_stream.capped, percent) for percent in (25, 50, 75)},
    "stream/load": _loading.loading,
    "stream/encoder": _encoder.encoder,
    **{f"stream/mixture/{name}": functools.partial(_mixture.mixture, name)
       for name in _mixture.SHAPES},
}


def main() -> int:
    """Prints a JSON line per case. Returns 1 if one misses its target."""
    arguments = _parser().parse_args()
    chosen = [name for name in CASES if fnmatch.fnmatchcase(name, arguments.case)
              and arguments.part in ("", name.split("/")[0])]
    if not chosen:
        _parser().error(f"no case matches {arguments.case!r}; there are {', '.join(CASES)}")
    missed = False
    with tempfile.TemporaryDirectory(prefix="sluice-bench-", dir=arguments.dir) as directory:
        setting = Setting(directory, arguments.quick)
        for name in chosen:
            for line in lines_of(name, setting):
                print(json.dumps(line), flush=True)
                missed |= line.get("reached") is False
    return int(missed)


def lines_of(name: str, setting: Setting) -> Iterator[dict[str, Any]]:
    """Runs a case: its lines."""
    try:
        result = CASES[name](setting)
    except Skipped as skipped:
        result = {"": skipped}
    for suffix, row in ({"": result} if isinstance(result, Row) else result).items():
        if isinstance(row, Skipped):
            yield {"case": name + suffix, "skipped": str(row)}
        else:
            yield row.as_dict(name + suffix)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m sluice.bench", description=__doc__)
    parts = list(dict.fromkeys(name.split("/")[0] for name in CASES))
    parser.add_argument("part", nargs="?", default="", choices=["", *parts], metavar="PART",
                        help=f"only cases of {', '.join(parts)}")
    parser.add_argument("--dir", default=".",
                        help="a directory of your own on the disk to measure; else the current one")
    parser.add_argument("--quick", action="store_true", help="smaller, 3 rounds instead of 11")
    parser.add_argument("--case", default="*", help="cases that match; *, ? and [] match")
    return parser


if __name__ == "__main__":
    sys.exit(main())
