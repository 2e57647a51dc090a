"""Reading real Delta tables, once and as streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from delta.tables import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from penstock.catalog.errors import StateMismatchError, UnknownObjectError
from penstock.catalog.model.table import Table
from penstock.connector.contract import EngineSource, SourceKind
from penstock.connector.delta.connector import DeltaConnector
from penstock.connector.delta.table import stored_schema
from tests.connector.delta.tables import delta_table, rows

NUMBERS = {"id": "BIGINT"}


def source_of(table: Table, project: Path) -> EngineSource:
    connector = DeltaConnector(project=project)
    connector.check(table)
    source = connector.source(table)
    assert source.kind is SourceKind.ENGINE
    return source  # type: ignore[return-value]


def append(spark: SparkSession, path: Path, *numbers: int) -> None:
    frame = spark.createDataFrame([(n, str(n)) for n in numbers], "id BIGINT, text STRING")
    frame.write.format("delta").mode("append").save(str(path))


def drain(frame: DataFrame, project: Path) -> list[tuple[Any, ...]]:
    """Run a stream to its end and give what it read so far."""
    query = (
        frame.writeStream.format("delta")
        .option("checkpointLocation", str(project / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(project / "copy"))
    )
    query.awaitTermination()
    return rows(frame.sparkSession, project / "copy")


def test_the_declared_columns_are_read(spark: SparkSession, tmp_path: Path) -> None:
    """By name, in the order and case of the declaration; a scan has an end."""
    append(spark, tmp_path / "orders", 1, 2)
    source = source_of(delta_table(columns={"TEXT": "STRING", "id": "BIGINT"}), tmp_path)
    frame = source.frame(spark, streaming=False)

    assert source.bounded
    assert frame.columns == ["TEXT", "id"]
    assert sorted(tuple(row) for row in frame.collect()) == [("1", 1), ("2", 2)]


def test_a_stream_reads_what_is_appended(spark: SparkSession, tmp_path: Path) -> None:
    """First all there is, then what is new."""
    source = source_of(delta_table(columns=NUMBERS), tmp_path)
    append(spark, tmp_path / "orders", 1, 2)
    assert drain(source.frame(spark, streaming=True), tmp_path) == [(1,), (2,)]
    append(spark, tmp_path / "orders", 3)

    assert drain(source.frame(spark, streaming=True), tmp_path) == [(1,), (2,), (3,)]


def test_a_stream_starts_where_it_is_told(spark: SparkSession, tmp_path: Path) -> None:
    """A read once is of the whole table, whatever the options say of streams."""
    for number in (1, 2, 3):
        append(spark, tmp_path / "orders", number)
    for run, (options, read) in enumerate(
        (
            ({"scan.starting-version": "1", "scan.max-files-per-batch": "1"}, [(2,), (3,)]),
            ({"startingVersion": "2"}, [(3,)]),
            ({"scan.starting-timestamp": "2020-01-01 00:00:00"}, [(1,), (2,), (3,)]),
        )
    ):
        table = delta_table(tmp_path / "orders", columns=NUMBERS, options=options)
        source = source_of(table, tmp_path)

        assert drain(source.frame(spark, streaming=True), tmp_path / str(run)) == read
        assert source.frame(spark, streaming=False).count() == 3


def test_a_stream_does_not_pass_over_changed_rows(spark: SparkSession, tmp_path: Path) -> None:
    """An update told as appended rows would count them twice."""
    append(spark, tmp_path / "orders", 1, 2)
    source = source_of(delta_table(columns=NUMBERS), tmp_path)
    drain(source.frame(spark, streaming=True), tmp_path)
    DeltaTable.forPath(spark, str(tmp_path / "orders")).update("id = 1", {"id": "10"})
    with pytest.raises(StreamingQueryException, match="DELTA_SOURCE_TABLE_IGNORE_CHANGES"):
        drain(source.frame(spark, streaming=True), tmp_path)


def test_a_table_that_was_not_written_yet_is_empty(spark: SparkSession, tmp_path: Path) -> None:
    """Reading does not make it; a stream has nothing to begin at."""
    table = delta_table(columns={"id": "BIGINT NOT NULL", "tags": "ARRAY<STRING NOT NULL>"})
    source = source_of(table, tmp_path)
    frame = source.frame(spark, streaming=False)
    with pytest.raises(UnknownObjectError, match="no Delta table at"):
        source.frame(spark, streaming=True)

    assert frame.collect() == []
    assert frame.schema == stored_schema(table)
    assert not (tmp_path / "orders").exists()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"id": "INT"}, "column id has type bigint, declared is int"),
        ({"id": "BIGINT", "more": "STRING"}, "has no column more; its columns are: id, text"),
    ],
)
def test_a_table_that_is_not_the_declared_one_is_refused(
    spark: SparkSession, tmp_path: Path, declared: dict[str, str], message: str
) -> None:
    """Before anything runs, naming the column."""
    append(spark, tmp_path / "orders", 1)
    for streaming in (False, True):
        with pytest.raises(StateMismatchError) as caught:
            source_of(delta_table(columns=declared), tmp_path).frame(spark, streaming=streaming)
        assert message in caught.value.message


def test_names_with_dots_and_backticks_are_names(spark: SparkSession, tmp_path: Path) -> None:
    """They are no paths into rows."""
    spark.sql("SELECT 1 AS `a.b`, 2 AS `c``d`").write.format("delta").save(str(tmp_path / "orders"))
    source = source_of(delta_table(columns={"a.b": "INT", "c`d": "INT"}), tmp_path)

    assert [tuple(row) for row in source.frame(spark, streaming=False).collect()] == [(1, 2)]
