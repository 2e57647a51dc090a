"""An arrangement holds the sum of what the batches before wrote, in folders that are whole or refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.catalog.errors import StateMismatchError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.sql.incremental.state.state_table import StateTable

MS = 1000


def opened(spark: SparkSession, path: Path, ttl_ms: int = 0) -> StateTable:
    """An arrangement of rows (k, v) by k; a column has a name that parquet has not always taken."""
    from pyspark.sql import types as s

    from penstock.sql.incremental.stages import COUNT
    from penstock.sql.incremental.state.state_table import StateLayout, StateTable

    layout = StateLayout(
        dims=(s.StructField("k", s.IntegerType()), s.StructField("a v;", s.StringType())),
        values=(s.StructField(COUNT, s.LongType()),),
        key=("k",),
    )
    return StateTable(spark, str(path), layout, time_to_live_ms=ttl_ms)


def write(
    arrangement: StateTable, spark: SparkSession, batch: int, rows: Sequence[tuple[object, ...]]
) -> None:
    """Write rows (k, v, count, time)."""
    frame = spark.createDataFrame(list(rows), arrangement.layout.schema)
    arrangement.write(batch, frame, rows=len(rows))


def names(path: Path) -> list[str]:
    """The folders of an arrangement."""
    return sorted(file.name for file in path.iterdir())


def test_batches_are_put_together(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One base with the sums in their place; they go when a batch after it is committed."""
    monkeypatch.setattr("penstock.sql.incremental.state.state_table.MOST_BATCHES", 2)
    first = opened(spark, tmp_path)
    write(first, spark, 0, [(1, "x", 2, 5), (2, "y", 1, 6)])
    first.write_nothing(1)
    write(first, spark, 2, [(1, "x", -1, 7), (2, "y", -1, 8)])
    first.tidy(3, 9)
    first.tidy(3, 9)
    first.write_nothing(3)

    assert names(tmp_path) == ["base=2", "batch=0", "batch=1", "batch=2", "batch=3"]

    again = opened(spark, tmp_path)
    again.tidy(4, 9)
    rows = again.read(4)

    assert names(tmp_path) == ["base=2", "batch=3"]
    assert rows is not None
    assert [tuple(row) for row in rows.collect()] == [(1, "x", 1, 7)]


def test_what_expired_goes_with_the_next_base(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key goes as a whole; what keeps it may be a row that is gone itself."""
    monkeypatch.setattr("penstock.sql.incremental.state.state_table.MOST_BATCHES", 2)
    arrangement = opened(spark, tmp_path, 10 * MS)
    write(arrangement, spark, 0, [(1, "x", 1, 0), (2, "y", 1, 0), (2, "z", 1, 0)])
    write(arrangement, spark, 1, [(2, "z", -1, 5 * MS)])
    arrangement.tidy(2, 12 * MS)
    rows = arrangement.read(2)

    assert rows is not None
    assert [tuple(row) for row in rows.collect()] == [(2, "y", 1, 5 * MS)]


def test_a_folder_that_is_missing_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """By its name; nothing begins anew by itself. A base that was not finished is not there."""
    arrangement = opened(spark, tmp_path)
    for batch in range(3):
        arrangement.write_nothing(batch)
    (tmp_path / "base=2").mkdir()
    (tmp_path / "batch=1" / "_files.json").unlink()
    with pytest.raises(StateMismatchError, match="batch=1 is missing, or was not") as caught:
        opened(spark, tmp_path).read(3)

    assert "--from-scratch" in str(caught.value.hint)
    assert opened(spark, tmp_path).read(1) is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"part-0.parquet": 7}', "part-0.parquet is missing"),
        ('{"part-1.parquet": 7}', "part-1.parquet has 3 bytes of 7"),
        ('{"part', "_files.json was cut"),
    ],
)
def test_a_file_that_is_damaged_is_refused(
    spark: SparkSession, tmp_path: Path, text: str, why: str
) -> None:
    """Missing, shorter than it was written, or the list itself."""
    folder = tmp_path / "batch=0"
    folder.mkdir()
    (folder / "part-1.parquet").write_text("abc", "utf-8")
    (folder / "_files.json").write_text(text, "utf-8")

    with pytest.raises(StateMismatchError, match=why):
        opened(spark, tmp_path).read(1)
