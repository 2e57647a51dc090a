"""Rows of a small Delta table read from its files: what is asked for is read, and no more."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyarrow import fs

from penstock.connector.delta import log
from penstock.connector.delta.files import live_rows as rows_of_files
from penstock.connector.delta.files.live_rows import NotReadableHereError
from penstock.connector.delta.log import live_rows, newest_log
from penstock.connector.storage import Folder, open_folder

VALUE_BYTES, ROWS = 20_000, 400


class CountingFiles:
    """The local file system, and how many bytes of Parquet files were read of it."""

    def __init__(self) -> None:
        self.read = 0
        self._local = fs.LocalFileSystem()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._local, name)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file that counts."""
        files, opened = self, io.BytesIO(Path(path).read_bytes())

        class Counting:
            closed = False

            def read(self, size: int = -1) -> bytes:
                content = opened.read(size)
                files.read += len(content)
                return content

            def __getattr__(self, name: str) -> Any:
                return getattr(opened, name)

        return pa.PythonFile(Counting(), mode="r")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Two files of rows, each row with a number and a long value that cannot be compressed."""
    made = np.random.default_rng(7)
    for part in range(2):
        numbers = range(part * ROWS, (part + 1) * ROWS)
        values = [made.bytes(VALUE_BYTES) for _ in numbers]
        rows = pa.table({"n": pa.array(numbers, pa.int64()), "value": pa.array(values)})
        write_deltalake(str(tmp_path / "t"), rows, mode="append")
    return str(tmp_path / "t")


def counted(path: str) -> tuple[Folder, CountingFiles]:
    """The folder, over files that count."""
    files = CountingFiles()
    return Folder(system=files, path=path, shown=path), files


def test_columns_are_read_without_the_others(path: str) -> None:
    """The values are sixteen megabytes."""
    folder, files = counted(path)
    found = live_rows(folder)
    assert found is not None

    numbers = [n for _, batch in found.batches(["n"]) for n in batch["n"].to_pylist()]

    assert sorted(numbers) == list(range(2 * ROWS))
    assert files.read < ROWS * VALUE_BYTES / 8


def test_rows_are_picked_at_the_places_that_batches_have(path: str) -> None:
    """Of both files; the order is the table's."""
    found = live_rows(open_folder(path))
    assert found is not None
    place_of = {
        n: (file, row)
        for (file, first), batch in found.batches(["n"])
        for row, n in enumerate(batch["n"].to_pylist(), first)
    }

    wanted = [0, 39, 399, 400, 799]
    picked = dict(found.pick(["value", "n"], {place_of[n] for n in wanted}))

    assert sorted(row["n"] for row in picked.values()) == wanted
    assert all(picked[place_of[n]]["n"] == n for n in wanted)
    assert {len(row["value"]) for row in picked.values()} == {VALUE_BYTES}


def test_whole_rows_are_held_a_few_at_a_time(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may be as long as a record of Kafka."""
    held: list[int] = []
    plain: Callable[..., pa.Table] = rows_of_files.in_utc

    def counting(table: pa.Table) -> pa.Table:
        held.append(table.nbytes)
        return plain(table)

    monkeypatch.setattr(rows_of_files, "in_utc", counting)
    found = live_rows(open_folder(path))
    assert found is not None
    assert len(list(found.pick(["value"], {(0, 5), (1, 390)}))) == 2
    assert max(held) < ROWS * VALUE_BYTES / 8


def test_a_table_of_many_bytes_is_not_read_here(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the log has their sizes: no file is opened."""
    monkeypatch.setattr(log, "MOST_BYTES", 2 * ROWS * VALUE_BYTES - 1)
    folder, files = counted(path)

    with pytest.raises(NotReadableHereError, match="bytes"):
        live_rows(folder)
    assert files.read == 0


def test_a_table_of_many_rows_is_not_read_here(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first file is."""
    monkeypatch.setattr(rows_of_files, "MOST_ROWS", ROWS)
    found = live_rows(open_folder(path))
    assert found is not None

    with pytest.raises(NotReadableHereError, match="rows"):
        list(found.batches(["n"]))


def test_a_commit_is_another_newest_log(path: str, tmp_path: Path) -> None:
    """There is none where there is no table."""
    folder = open_folder(path)
    before = newest_log(folder)

    assert newest_log(folder) == before
    write_deltalake(path, pa.table({"n": [1], "value": [b""]}), mode="append")
    assert newest_log(folder) != before
    assert newest_log(open_folder(str(tmp_path / "none"))) is None
