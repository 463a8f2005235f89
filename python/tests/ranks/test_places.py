"""Files of a rank's save, whatever a process that was killed has left beside them."""

import pytest

from sluice.torch import _places


@pytest.fixture
def rank(tmp_path, monkeypatch):
    """The folder of a rank in a directory of saves."""
    monkeypatch.setattr(_places, "_place", lambda directory, sharded: f"{directory}/rank-0-of-2")
    return tmp_path / "rank-0-of-2"


def _save(directory, content):
    aside = _places.make_next(str(directory))
    with open(f"{aside}/optimizer.sluice", "w", encoding="utf-8") as file:
        file.write(content)


def take(directory):
    _places.take_next(directory)
    _places.drop_next(directory)


def test_a_new_file_takes_the_name_of_the_old_one(tmp_path, rank):
    for content in ("old", "new"):
        _save(tmp_path, content)
        take(str(tmp_path))
    assert (rank / "optimizer.sluice").read_text() == "new"
    assert [path.name for path in rank.iterdir()] == ["optimizer.sluice"]


@pytest.mark.parametrize("ends", [take, _places.drop_next, _places.put_back])
def test_a_file_of_a_killed_process_is_no_hindrance(tmp_path, rank, ends):
    _save(tmp_path, "new")
    (rank / "next" / ".sluice-0123.partial").write_text("half")
    (rank / "next" / "before.sluice").write_text("older")
    _save(tmp_path, "new")
    ends(str(tmp_path))
    assert not (rank / "next").exists()


def test_the_file_from_before_is_put_back(tmp_path, rank):
    for content in ("old", "new"):
        _save(tmp_path, content)
        _places.take_next(str(tmp_path))
    assert (rank / "optimizer.sluice").read_text() == "new"
    _places.put_back(str(tmp_path))
    assert (rank / "optimizer.sluice").read_text() == "old"
    assert [path.name for path in rank.iterdir()] == ["optimizer.sluice"]
