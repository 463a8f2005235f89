"""Text files that appear whole, or not at all."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator

_log = logging.getLogger("sluice")


@contextlib.contextmanager
def written_at_end(path: str, text: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Writes ``text()`` to a file when the ``with`` block ends, also if it ends by an error.

    Raises OSError before the block if no file can be made there. An OSError at the end names the
    path, and leaves what was there before; it is only logged if the block has raised.
    """
    if not _is_stream(path):  # the real path of a pipe names no file
        path = os.path.realpath(path) if os.path.islink(path) else os.path.abspath(path)
    _check(path)
    try:
        yield
    except BaseException:
        with _logged():
            _write(path, text())
        raise
    _write(path, text())


def _check(path: str) -> None:
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not _is_stream(path):
        with _naming(path):
            tempfile.TemporaryFile(dir=os.path.dirname(path)).close()


def _write(path: str, text: Iterable[str]) -> None:
    with _naming(path):
        if not _is_stream(path):
            _replace(path, text)
            return
        with open(path, "w", encoding="utf-8") as stream:
            stream.writelines(text)


def _replace(path: str, text: Iterable[str]) -> None:
    partial = os.path.join(os.path.dirname(path), f".sluice-{secrets.token_hex(8)}.partial")
    try:
        with open(partial, "x", encoding="utf-8") as file:
            file.writelines(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(partial)
        raise


def _is_stream(path: str) -> bool:
    """Whether the path is of a pipe or a device, which gets text as it comes."""
    return os.path.exists(path) and not os.path.isfile(path)


@contextlib.contextmanager
def _naming(path: str) -> Iterator[None]:
    """An OSError of the block names the path: that of a full disk has none."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


@contextlib.contextmanager
def _logged() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        _log.warning("a file was not written: %s", error)
