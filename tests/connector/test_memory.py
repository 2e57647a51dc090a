"""Tables in the memory of the process: what is written is read back, by key where there is one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.catalog.errors import OptionError, StateMismatchError, UnsupportedError
from penstock.catalog.model.table import PrimaryKey, Schema, Table
from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.connector.contract import MicroBatch, Sink, SourceKind
from penstock.connector.memory.tables import clear_tables
from penstock.connector.registry import connector_of
from tests.catalog.examples import columns, identifier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[tuple[Any, ...]]


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    """No rows of other tests."""
    clear_tables()
    yield
    clear_tables()


def memory(*key: str, **options: str) -> Table:
    given = {"connector": "memory", **options}
    schema = Schema(
        columns=columns(id="BIGINT", tags="ARRAY<STRING>"),
        primary_key=PrimaryKey(columns=key) if key else None,
    )
    return Table(identifier=identifier("kept"), schema=schema, options=tuple(given.items()))


def sink_of(table: Table) -> Sink:
    return connector_of(table, project=Path("/")).sink(table)


def rows_of(spark: SparkSession, table: Table) -> Rows:
    source = connector_of(table, project=Path("/")).source(table)
    assert source.kind is SourceKind.SNAPSHOT
    return sorted(tuple(row) for row in source.frame(spark, streaming=False).collect())


def batch(spark: SparkSession, number: int) -> MicroBatch:
    return MicroBatch(spark=spark, checkpoint="/c", query_id="q", batch_id=number)


def test_it_takes_changes_by_its_key_alone() -> None:
    """As a Delta table does; an option that it does not know is refused."""
    assert sink_of(memory()).capabilities.accepts is ChangelogMode.INSERT_ONLY
    assert sink_of(memory("id")).capabilities.accepts is ChangelogMode.ALL
    with pytest.raises(OptionError, match="unsupported option"):
        sink_of(memory(path="x"))


def test_rows_are_appended_once_and_read_back(spark: SparkSession) -> None:
    """A batch that is run again adds nothing; nothing is there before the first."""
    table = memory()
    before = rows_of(spark, table)
    frame = spark.sql("SELECT 1L AS id, array('a') AS tags")
    for number in (0, 0, 1):
        sink_of(table).write_batch(frame, batch(spark, number))

    assert before == []
    assert rows_of(spark, table) == [(1, ["a"]), (1, ["a"])]


def test_with_a_key_the_last_change_counts(spark: SparkSession) -> None:
    """Within a batch and between batches; a delete takes the row away."""
    table = memory("id")

    def write(number: int, *changes: tuple[RowKind, int, str]) -> None:
        texts = [f"({int(kind)}Y, {key}L, array('{tag}'))" for kind, key, tag in changes]
        frame = spark.sql(
            f"SELECT id, tags, `{ROW_KIND}` FROM VALUES {', '.join(texts)} AS t(`{ROW_KIND}`, id, tags)"
        )
        sink_of(table).write_batch(frame.coalesce(1), batch(spark, number))

    write(0, (RowKind.INSERT, 1, "a"), (RowKind.INSERT, 2, "b"), (RowKind.INSERT, 3, "c"))
    write(
        1, (RowKind.UPDATE_BEFORE, 1, "a"), (RowKind.UPDATE_AFTER, 1, "z"), (RowKind.DELETE, 2, "b")
    )

    assert rows_of(spark, table) == [(1, ["z"]), (3, ["c"])]


def test_a_name_is_shared_by_tables_of_the_same_columns(spark: SparkSession) -> None:
    """Of others it is refused; and nothing is followed as a stream."""
    one, other = memory(name="shared"), memory(name="shared")
    sink_of(one).write(spark.sql("SELECT 1L AS id, array('a') AS tags"))
    narrow = Table(
        identifier=identifier("narrow"),
        schema=Schema(columns=columns(id="BIGINT")),
        options=one.options,
    )

    assert rows_of(spark, other) == [(1, ["a"])]
    with pytest.raises(StateMismatchError, match="have the columns id, tags"):
        rows_of(spark, narrow)
    source = connector_of(one, project=Path("/")).source(one)
    with pytest.raises(UnsupportedError, match="not followed as a stream"):
        source.frame(spark, streaming=True)
