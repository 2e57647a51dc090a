"""Rows that a task holds: a table of all of them, whether they stay in memory or go to a file."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.sql.incremental.keyed.files import spooled_rows
from penstock.sql.incremental.keyed.files.spooled_rows import (
    SpooledRows,
    is_large,
    spooled,
    taken,
)
from penstock.sql.incremental.keyed.tables import fetched, in_order, process_duckdb
from tests.sql.incremental.keyed.files.test_file_content import files_of_at_most

ROWS = pa.table({"n": pa.array(range(1_000)), "t": pa.array([f"{n % 7} é" for n in range(1_000)])})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an executor."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'local'},elsewhere")
    return tmp_path / "local"


@pytest.mark.parametrize(("most", "files"), [(10_000_000, 0), (4_000, 1), (0, 1)])
def test_rows_come_back_as_they_were_given(
    folder: Path, monkeypatch: pytest.MonkeyPatch, most: int, files: int
) -> None:
    """In their order; beyond the bound they are in a file, which has no name once they are asked for."""
    monkeypatch.setattr(spooled_rows, "MOST_BYTES", most)
    rows = SpooledRows(ROWS.schema)
    for batch in ROWS.to_batches(max_chunksize=130):
        rows.add(batch)

    assert len(list(folder.glob("*"))) == files
    found = rows.table()
    assert found.equals(ROWS)
    assert is_large(found) == bool(files)
    assert not list(folder.glob("*"))


def test_rows_that_nobody_asks_for_leave_no_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a task that fails."""
    monkeypatch.setattr(spooled_rows, "MOST_BYTES", 0)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()
        raise ValueError("read no further")

    with pytest.raises(ValueError, match="read no further"):
        spooled(ROWS.schema, failing())
    assert folder.exists()
    assert not list(folder.glob("*"))


def test_a_full_disk_leaves_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though what is to be written at the end fails, too. A limit on the size of files stands for the disk."""
    monkeypatch.setattr(spooled_rows, "MOST_BYTES", 0)
    many = pa.table({"n": pa.array(range(100_000))})
    with (
        files_of_at_most(100_000),
        pytest.raises(OSError, match=os.strerror(errno.EFBIG)),
    ):
        spooled(many.schema, many.to_batches(max_chunksize=1_000))

    assert folder.exists()
    assert not list(folder.glob("*"))


def test_a_file_that_cannot_be_begun_is_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has a name before anything is written to it."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(spooled_rows, "MOST_BYTES", 0)
    monkeypatch.setattr(pa.ipc, "new_file", fail)
    with pytest.raises(OSError, match="full"):
        spooled(ROWS.schema, ROWS.to_batches())

    assert folder.exists()
    assert not list(folder.glob("*"))


@pytest.mark.parametrize("most", [10_000_000, 0])
def test_rows_are_taken_in_memory_and_from_a_file(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """In the order of their positions, whichever pieces they are in."""
    monkeypatch.setattr(spooled_rows, "MOST_BYTES", most)
    monkeypatch.setattr(spooled_rows, "BATCH_ROWS", 70)
    rows = spooled(ROWS.schema, ROWS.to_batches(max_chunksize=130))
    positions = [*range(999, 0, -7), 0, 0, 129, 130, 999, *range(120, 140)]

    assert taken(rows, pa.array(positions)).equals(ROWS.take(positions))
    assert taken(rows, pa.chunked_array([[5], [3]])).column("n").to_pylist() == [5, 3]
    assert taken(rows, pa.array([], pa.int64())).equals(ROWS.slice(0, 0))


def test_no_rows_have_the_columns() -> None:
    """Of an input without changes."""
    assert spooled(ROWS.schema, []).equals(ROWS.schema.empty_table())


def test_mapped_rows_take_no_memory_of_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither does a result of DuckDB that is read in batches, of which DuckDB keeps none, either."""
    monkeypatch.setattr(spooled_rows, "MOST_BYTES", 1 << 20)
    query = "SELECT range AS n, range * 3 AS m FROM range(8000000)"
    before, process = pa.total_allocated_bytes(), anonymous_bytes()
    found = fetched(process_duckdb(), query, is_large=True)

    assert (found.num_rows, found.nbytes) == (8_000_000, 128_000_000)
    assert pa.total_allocated_bytes() - before < 16 << 20
    assert anonymous_bytes() - process < 64 << 20
    assert found.column("m")[-1].as_py() == 3 * 7_999_999


def anonymous_bytes() -> int:
    """The memory of this process that is no file's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (size,) = (int(line.split()[1]) for line in lines if line.startswith("RssAnon:"))
    return size << 10


@pytest.mark.parametrize("most", [0, 1 << 20])
def test_rows_are_sorted_in_memory_and_on_disk(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """With the types that they have."""
    monkeypatch.setattr(spooled_rows, "MOST_BYTES", most)
    times = pa.array([3, 1, 2], pa.timestamp("us", "UTC"))
    rows = pa.table({"z": times, "place": pa.array([2, 0, 1])})

    found = in_order(rows, 1)
    assert found.schema == rows.schema
    assert found.column("z").cast(pa.int64()).to_pylist() == [1, 2, 3]
