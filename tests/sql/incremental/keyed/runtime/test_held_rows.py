"""Which rows of state files a worker holds, and which it lets go."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.sql.incremental.keyed.files.manifest import BucketId, StateFile
from penstock.sql.incremental.keyed.runtime import held_rows
from penstock.sql.incremental.keyed.runtime.held_rows import HeldBucket, HeldRows

ROWS = pa.table({"c0": [1, 2, 3]})


def bucket(number: int) -> HeldBucket:
    return "/state", "id", BucketId(stage="s", input="i", bucket=number)


def file(name: str) -> StateFile:
    return StateFile(name=name, first=0, last=0, rows=ROWS.num_rows, bytes=100)


class Reads:
    """A reader of files that tells which were read."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, of: StateFile) -> pa.Table:
        self.names.append(of.name)
        return ROWS


def test_a_bucket_without_files_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    held, read = HeldRows(), Reads()
    assert held.rows_of(bucket(1), (), read) is None
    monkeypatch.setattr(held_rows, "MOST_BYTES", 1)
    held.add(bucket(2), file("b"), ROWS)
    held.add(bucket(3), file("c"), ROWS)
    assert held.rows_of(bucket(3), [file("c")], read) is not None
    assert not read.names
    held.rows_of(bucket(2), [file("b")], read)
    assert read.names == ["b"], "let go for the newer bucket"


def test_a_bucket_whose_files_are_gone_takes_no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    held, read = HeldRows(), Reads()
    monkeypatch.setattr(held_rows, "MOST_BYTES", 2 * ROWS.nbytes)
    held.add(bucket(1), file("a"), ROWS)
    assert held.rows_of(bucket(1), (), read) is None
    held.add(bucket(2), file("b"), ROWS)
    held.add(bucket(3), file("c"), ROWS)
    for number, name in ((2, "b"), (3, "c")):
        held.rows_of(bucket(number), [file(name)], read)
    assert not read.names


def test_rows_of_one_file_are_read_once() -> None:
    held, read = HeldRows(), Reads()
    first = held.rows_of(bucket(1), [file("a")], read)
    both = held.rows_of(bucket(1), [file("a"), file("b")], read)
    assert first is not None
    assert both is not None
    assert (first.num_rows, both.num_rows) == (3, 6)
    assert read.names == ["a", "b"]
