"""Tables in the memory of the process: their options and names. What is written: `tests/contract/sink_writes.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.catalog.errors import OptionError, StateMismatchError, UnsupportedError
from penstock.catalog.model.table import PrimaryKey, Schema, Table
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import Sink, SourceKind
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


def test_it_takes_changes_by_its_key_alone() -> None:
    """As a Delta table does; an option that it does not know is refused."""
    assert sink_of(memory()).capabilities.accepts is ChangelogMode.INSERT_ONLY
    assert sink_of(memory("id")).capabilities.accepts is ChangelogMode.ALL
    with pytest.raises(OptionError, match="unsupported option"):
        sink_of(memory(path="x"))


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
