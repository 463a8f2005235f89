"""The note of a save: what it has besides parameters and states, as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Optional

import torch

from .. import errors


def check_note(note: Any) -> None:
    """Raises InvalidArgument for a user's note that is no text."""
    if not isinstance(note, str):
        raise errors.InvalidArgument(f"the note of a save is {type(note).__name__}; it must be text")


def note_of(groups: Iterable[Mapping[str, Any]], empty: Mapping[str, int], changed: Iterable[str],
            note: str, mark: Optional[Mapping[str, Any]]) -> str:
    """The note of a save, as JSON: the plain options of groups, and the user's note.

    ``empty``: steps of the parameters without elements, by name. ``changed``: see Note. ``mark``: of
    several ranks.
    """
    options = [{key: _plain(value) for key, value in group.items()
                if key not in ("params", "param_names") and _plain(value) is not _NOT_PLAIN}
               for group in groups]
    return json.dumps({"note": note, "param_groups": options, "empty": dict(empty),
                       "changed": list(changed), "ranks": mark})


class Note(NamedTuple):
    """Contents of a save besides its states."""

    groups: list[dict[str, Any]]  # options of each
    empty: dict[str, int]         # steps of the parameters without elements, by name
    changed: list[str]            # parameters whose rates changed whether torch keeps states, unstepped
    text: str                     # the user's
    mark: Optional[dict[str, Any]]


def parse_note(text: str) -> Note:
    """Parses a text of note_of; a save that C++ wrote has the note alone."""
    try:
        parsed = json.loads(text)
        groups, note = parsed["param_groups"], parsed["note"]
    except (ValueError, TypeError, KeyError):
        return Note([], {}, [], text, None)
    options = [{key: tuple(value) if isinstance(value, list) else value
                for key, value in group.items()} for group in groups]
    return Note(options, parsed.get("empty", {}), parsed.get("changed", []), note, parsed.get("ranks"))


_NOT_PLAIN = object()


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return value.item()
    if isinstance(value, (tuple, list)):
        values = [_plain(each) for each in value]
        return _NOT_PLAIN if _NOT_PLAIN in values else values
    return value if value is None or isinstance(value, (bool, int, float, str)) else _NOT_PLAIN
