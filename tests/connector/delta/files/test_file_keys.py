"""Keys of files that are read before the batch's thread asks for them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.catalog.model.type_parser import parse_type
from penstock.connector.delta.files.file_keys import (
    FileKeys,
    KeyField,
    KeysAhead,
    UnreadableKeysError,
)
from penstock.connector.delta.files.live_files import LiveFile


def reader(folder: Path, name: str = "id") -> FileKeys:
    """What reads a column of whole numbers."""
    return FileKeys(folder=folder, fields=(KeyField(name=name, type=parse_type("BIGINT")),))


def file(folder: Path, name: str, *ids: int) -> LiveFile:
    """A file of a table."""
    parquet.write_table(pa.table({"id": pa.array(ids, pa.int64())}), folder / name)
    return LiveFile(add={"path": name, "size": 1})


def test_keys_are_taken_once(tmp_path: Path) -> None:
    """With their positions; of other files nothing is known."""
    ahead = KeysAhead()
    ahead.follow(reader(tmp_path))
    ahead.read(file(tmp_path, "a", 7, 5))
    found = ahead.take("a")

    assert found is not None
    assert (found[0].low.tolist(), found[1].tolist()) == ([7, 5], [0, 1])
    assert (ahead.take("a"), ahead.take("b")) == (None, None)


def test_keys_of_other_columns_are_forgotten(tmp_path: Path) -> None:
    """And nothing is read before it is known which are asked for."""
    ahead = KeysAhead()
    ahead.read(file(tmp_path, "a", 1))
    assert ahead.take("a") is None
    ahead.follow(reader(tmp_path))
    ahead.read(file(tmp_path, "a", 1))
    ahead.follow(reader(tmp_path))
    ahead.read(file(tmp_path, "b", 2))
    assert ahead.take("a") is not None
    ahead.follow(reader(tmp_path, "other"))
    assert ahead.take("b") is None
    with pytest.raises(UnreadableKeysError):
        ahead.read(file(tmp_path, "b", 2))
