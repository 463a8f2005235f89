"""``python -m sluice generate``: text from a model that is larger than memory."""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Optional

from . import errors

# Exit codes of the command: the user's error, one of I/O, an interrupt, and an output that nobody reads.
_USER_ERROR, _FAILURE, _INTERRUPTED, _UNREAD = 2, 3, 130, 141
_FAILURES = (errors.DataLoss, errors.Unavailable)

# Seconds between two updates of a terminal, and the code that clears its line.
_PROGRESS_SECONDS = 0.5
_WIPE = "\r\x1b[K"


def main(words: list[str]) -> int:
    """Runs the command with its arguments; returns its exit code."""
    options = _parser().parse_args(words)
    try:
        result = generate(options.model, options.prompt, options.dram, options.tokens,
                          options.experts, out=sys.stderr if options.json else sys.stdout)
        print(json.dumps(result) if options.json else _summary(result), flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing more is written to it at exit
        return _UNREAD
    except (errors.Error, OSError, ValueError, ImportError) as error:
        print(f"sluice: {error}", file=sys.stderr)
        return _FAILURE if isinstance(error, _FAILURES) or _is_of_disk(error) else _USER_ERROR
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


def _is_of_disk(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def generate(model: str, prompt: str, dram: str, tokens: int, experts: Optional[str],
             out: Any) -> dict[str, Any]:
    """Writes the text to ``out`` as it comes, and returns it with what was measured."""
    torch, transformers, accelerate = _packages()
    import sluice.torch

    _check(model, prompt)
    config = transformers.AutoConfig.from_pretrained(model, local_files_only=True)
    tokenizer = _tokenizer(transformers, model)
    with accelerate.init_empty_weights(include_buffers=False), _quiet(transformers):
        module = transformers.AutoModelForCausalLM.from_config(config).eval()
    with contextlib.suppress(OSError):  # a folder without generation_config.json
        module.generation_config = transformers.GenerationConfig.from_pretrained(model)
    inputs = tokenizer([prompt], return_tensors="pt")
    if inputs["input_ids"].numel() == 0:
        raise errors.InvalidArgument(f"--prompt {prompt!r} has no token: give text to go on from")
    with sluice.torch.stream_weights(
        module, model, dram=dram, experts=experts
    ) as stream, torch.inference_mode():
        begin = time.perf_counter()
        with progress(stream.report, sys.stderr) as end_progress:
            streamer = _streamer(transformers, tokenizer, out, end_progress)
            module.generate(**inputs, max_new_tokens=tokens, streamer=streamer)
        times = [at - begin for at in streamer.times]
        report = stream.report()
    return _result(streamer.text, times, report)


@contextlib.contextmanager
def progress(report: Callable[[], dict[str, Any]], out: Any) -> Iterator[Callable[[], None]]:
    """Shows on a terminal how far the first pass is, until what it gives is called."""
    if not out.isatty():
        yield lambda: None
        return
    ended = threading.Event()

    def show() -> None:
        while not ended.wait(_PROGRESS_SECONDS):
            units = report()["units"]
            done = sum(unit["entries"] > 0 for unit in units)
            print(f"{_WIPE}first pass: {done} of {len(units)} units", end="", file=out, flush=True)
        print(_WIPE, end="", file=out, flush=True)

    thread = threading.Thread(target=show, name="sluice-progress")
    thread.start()

    def end() -> None:
        ended.set()
        thread.join()

    try:
        yield end
    finally:
        end()


def _check(model: str, prompt: str) -> None:
    """Raises InvalidArgument for a model that is no directory, and for a prompt that is no text."""
    if not os.path.isdir(model):
        raise errors.InvalidArgument(f"--model {model!r} is no directory; it takes one with config.json, the "
                                     "tokenizer and safetensors files")
    try:
        prompt.encode()
    except UnicodeEncodeError:
        raise errors.InvalidArgument("--prompt has bytes that are no UTF-8") from None


def _tokenizer(transformers: Any, model: str) -> Any:
    try:
        return transformers.AutoTokenizer.from_pretrained(model, local_files_only=True)
    except Exception as error:  # the library of tokenizers raises no class of its own
        raise errors.InvalidArgument(f"--model {model!r}: its tokenizer cannot be read: {error}") from error


def _packages() -> tuple[Any, Any, Any]:
    try:
        import accelerate
        import torch
        import transformers
    except ImportError as error:
        raise errors.FailedPrecondition(
            f"generate needs {error.name}: pip install torch transformers accelerate"
        ) from None
    return torch, transformers, accelerate


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """A context without the warnings of a model that is made without its weights."""
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(before)


def _streamer(transformers: Any, tokenizer: Any, out: Any, at_first: Callable[[], None]) -> Any:
    class Streamer(transformers.TextStreamer):  # type: ignore[misc]
        """Writes text as it comes, and notes when each token did."""

        def __init__(self) -> None:
            super().__init__(tokenizer, skip_prompt=True, skip_special_tokens=True)
            self.times: list[float] = []
            self.text = ""

        def put(self, value: Any) -> None:
            if not self.next_tokens_are_prompt:
                if not self.times:
                    at_first()
                self.times.append(time.perf_counter())
            super().put(value)

        def on_finalized_text(self, text: str, stream_end: bool = False) -> None:
            self.text += text
            print(text, end="\n" if stream_end else "", file=out, flush=True)

    return Streamer()


def _result(text: str, times: list[float], report: dict[str, Any]) -> dict[str, Any]:
    later = times[-1] - times[0] if len(times) > 1 else 0.0
    passes = max(1, report["passes"] - 1)
    return {
        "text": text,
        "tokens": len(times),
        "first_token_seconds": times[0] if times else None,
        "tokens_per_second": (len(times) - 1) / later if later > 0 else None,
        "read_bytes_per_token": report["read_bytes"] // passes,
        "leased_bytes_per_token": report["leased_bytes"] // passes,
        "read_gib_per_second": report["read_gib_per_second"],
        "resident_share": report["resident_share"],
        "stall_share": report["stall_share"],
        "bound_by": report["bound_by"],
        "weight_bytes": report["weight_bytes"],
        "budget_bytes": report["budget_bytes"],
        **({"experts": report["experts"]} if "experts" in report else {}),
    }


def _summary(result: dict[str, Any]) -> str:
    rate: Optional[float] = result["tokens_per_second"]
    first: Optional[float] = result["first_token_seconds"]
    mib = 1 << 20
    lines = [
        f"{result['tokens']} tokens"
        + (f", the first after {first:.2f} s" if first is not None else "")
        + (f", then {rate:.2f} a second" if rate is not None else ""),
        f"{result['weight_bytes'] / mib:.0f} MiB of weights in {result['budget_bytes'] / mib:.0f} MiB; "
        f"a token reads {result['read_bytes_per_token'] / mib:.1f} MiB, "
        f"{result['resident_share']:.0%} of its bytes are in memory already",
        f"bound by {result['bound_by']}: it waited for weights {result['stall_share']:.0%} of the time, "
        f"and read {result['read_gib_per_second']:.2f} GiB/s",
    ]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sluice generate",
        description="Generates text with a model of transformers whose weights stay in their files. "
        "It runs on the CPU, and its weights may exceed memory.")
    parser.add_argument("--model", metavar="DIR", required=True,
                        help="a directory with config.json, the tokenizer and safetensors files")
    parser.add_argument("--prompt", metavar="TEXT", required=True, help="what the text goes on from")
    parser.add_argument("--dram", metavar="SIZE", required=True, help='budget for weights: "4GiB"')
    parser.add_argument("--tokens", metavar="N", type=int, default=64,
                        help="tokens at most (default: 64)")
    parser.add_argument("--experts", metavar="POLICY",
                        help='lease the experts of a mixture one by one; which stay: "lfu" or "lru"')
    parser.add_argument("--json", action="store_true",
                        help="standard output is one JSON object; the text goes to standard error")
    return parser
