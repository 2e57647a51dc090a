"""Drives maintained queries batch by batch and keeps what their changes make, for the tests of this folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import duckdb
from sqlglot import exp, parse_one

from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.sql.dialect.flink.dialect import Flink
from penstock.sql.incremental.stages import (
    INPUT_INDEX,
    INPUT_TIME,
    IncrementalQuery,
    RecomputeOperator,
    Stage,
    StageInput,
    StreamInput,
    input_column,
)
from penstock.sql.plan.rules.flow import OperatorKind, UpdatingOperator

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.sql.incremental.keyed.runtime.run import KeyedRun
    from penstock.sql.incremental.operators.query import IncrementalRun

Row = tuple[Any, ...]
Change = tuple[Any, ...]
"""A row, then its kind."""

ADDED = (RowKind.INSERT, RowKind.UPDATE_AFTER)
COLUMNS = {"k": "INT", "v": "INT"}


def parsed(sql: str) -> exp.Query:
    """A query in Flink's dialect."""
    tree = parse_one(sql, dialect=Flink)
    assert isinstance(tree, exp.Query)
    return tree


def recomputed(
    name: str,
    query: str,
    *inputs: StageInput,
    key: tuple[str, ...] | None = None,
    joins: bool = False,
) -> RecomputeOperator:
    """A stage that computes `query` anew."""
    mechanism = UpdatingOperator(way=OperatorKind.AGGREGATE, key=key or (), state="rows")
    return RecomputeOperator(
        name=name, inputs=inputs, query=parsed(query), key=key, joins=joins, mechanism=mechanism
    )


def feeds(*names: str, changes: ChangelogMode = ChangelogMode.ALL) -> tuple[StreamInput, ...]:
    """Feeds with the columns `k` and `v`."""
    return tuple(StreamInput(name=name, columns=tuple(COLUMNS), changes=changes) for name in names)


def maintained(
    feeding: tuple[StreamInput, ...],
    *stages: Stage,
    columns: str,
    key: tuple[str, ...] | None = None,
) -> IncrementalQuery:
    """A maintained query; `columns` with spaces between."""
    return IncrementalQuery(feeds=feeding, stages=stages, columns=tuple(columns.split()), key=key)


def tagged(
    spark: SparkSession, query: IncrementalQuery, batch: Mapping[str, Sequence[Change]], now_s: int
) -> DataFrame:
    """What the streaming query gives for a batch: the changes of each feed, at a time in seconds."""
    fields = ", ".join(f"{name}: {kind}" for name, kind in COLUMNS.items())
    structs = [
        f"{input_column(n)} STRUCT<{fields}"
        + ("" if feed.changes is ChangelogMode.INSERT_ONLY else f", {ROW_KIND}: TINYINT")
        + ">"
        for n, feed in enumerate(query.feeds)
    ]
    rows = []
    for n, feed in enumerate(query.feeds):
        for change in batch.get(feed.name, ()):
            columns = [None] * len(query.feeds)
            given = change[:-1] if feed.changes is ChangelogMode.INSERT_ONLY else change
            columns[n] = given  # type: ignore[call-overload]
            rows.append((n, datetime.fromtimestamp(now_s, UTC), *columns))
    return spark.createDataFrame(
        rows, f"{INPUT_INDEX} INT, {INPUT_TIME} TIMESTAMP, {', '.join(structs)}"
    )


def open_run(
    frame: DataFrame, query: IncrementalQuery, folder: str, ttl_ms: int = 0, *, keyed: bool
) -> IncrementalRun | KeyedRun:
    """A run of `query` over frames as `frame`, its state in `folder`: by keyed operators, or computing keys anew."""
    from penstock.sql.incremental.keyed.operator import RunBySpark
    from penstock.sql.incremental.keyed.runtime.run import KeyedRun, keyed_plan
    from penstock.sql.incremental.operators.query import IncrementalRun

    if not keyed:
        return IncrementalRun(query, folder, ttl_ms)
    plan = keyed_plan(frame.sparkSession, query, frame.schema, ttl_ms)
    assert not isinstance(plan, RunBySpark), plan.reason
    return KeyedRun(query, plan, folder)


class Pipeline:
    """A run, its batches, and the rows that its changes make."""

    def __init__(
        self, spark: SparkSession, query: IncrementalQuery, run: IncrementalRun | KeyedRun
    ) -> None:
        self.spark, self.query, self.run = spark, query, run
        self.rows: Counter[Row] = Counter()
        self.batches = 0

    def give(self, *, now_s: int = 0, **batch: Sequence[Change]) -> list[Change]:
        """Run the next batch and apply its changes, which are given."""
        changes = self.again(self.batches, now_s=now_s, **batch)
        self.batches += 1
        for *row, kind in changes:
            self.rows[tuple(row)] += 1 if kind in ADDED else -1
            assert self.rows[tuple(row)] >= 0, f"{row} goes and was not there"
        self.rows = +self.rows
        return changes

    def again(
        self, batch_id: int, *, now_s: int = 0, turned: bool = False, **batch: Sequence[Change]
    ) -> list[Change]:
        """Run a batch without applying what it gives; `turned` as in `batch_of`."""
        frame = tagged(self.spark, self.query, batch, now_s)
        with batch_of(self.run, frame, batch_id, now_s, turned=turned) as changes:
            return [tuple(row) for row in changes.collect()]


def batch_of(
    run: IncrementalRun | KeyedRun,
    frame: DataFrame,
    batch_id: int,
    now_s: int = 0,
    *,
    turned: bool = False,
) -> AbstractContextManager[DataFrame]:
    """A batch of a run at a time in seconds.

    Keyed operators run every second one in one task; `turned`: this one the other way.
    """
    from penstock.sql.incremental.keyed.runtime.run import KeyedRun

    if isinstance(run, KeyedRun):
        return run.batch(frame, batch_id, now_s * 1000, records=(batch_id + turned) % 2 or None)
    return run.batch(frame, batch_id)


def computed(sql: str, tables: Mapping[str, Counter[Row]]) -> Counter[Row]:
    """The batch answer: `sql` over all rows, by another engine."""
    with duckdb.connect() as connection:
        for name, rows in tables.items():
            connection.execute(f"CREATE TABLE {name} (k INT, v INT)")
            if rows:
                connection.executemany(f"INSERT INTO {name} VALUES (?, ?)", list(rows.elements()))
        return Counter(connection.execute(sql).fetchall())
