"""The context of a batch.

Its watermarks, changes between stages, materialized frames, ingestion order, and SQL over frames.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as s
from sqlglot import exp

from penstock.connector.spark.internals import unpersist_local_checkpoint
from penstock.sql.checkpoint.watermarks import ALL_READ, EventTimeSpan, Watermarks
from penstock.sql.dialect import to_spark_query
from penstock.sql.dialect.rewrites.window_queries import to_spark_text
from penstock.sql.incremental.stages import first_ingestion_number


class MaterializedFrames:
    """Computes frames and releases all of them in the end. For the driver's thread."""

    def __init__(self) -> None:
        self._held: list[DataFrame] = []

    def hold(self, frame: DataFrame, *figures: Column) -> tuple[DataFrame, Row]:
        """Compute a frame; returns it materialized, and aggregates over it, the first of which is `rows`, their
        number.

        Not `persist`: a block that is lost would be computed again, perhaps not the same, between two scans. A block
        of a local checkpoint that is lost fails the batch, which is then replayed.
        """
        # not eager: the job that counts the rows computes them
        held = frame.localCheckpoint(eager=False)
        self._held.append(held)
        row = held.agg(F.count(F.lit(1)).alias("rows"), *figures).first()
        assert row is not None, "an aggregation without keys gives a row"
        return held, row

    def release(self) -> None:
        """Release all frames."""
        for frame in self._held:
            unpersist_local_checkpoint(frame)
        self._held.clear()


@contextmanager
def materialized_frames() -> Iterator[MaterializedFrames]:
    """Hold frames for as long as the block runs."""
    holder = MaterializedFrames()
    try:
        yield holder
    finally:
        holder.release()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchChanges:
    """The changes of a relation in a batch: its columns and ROW_KIND; without rows it need not be read.

    `late` counts the late rows that its stage dropped.
    """

    frame: DataFrame = field(repr=False)
    rows: int
    late: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchContext:
    """The batch that stages process: the same values on a replay.

    `now_ms` is its time since the epoch. `schemas` are the columns of all relations without ROW_KIND. `watermarks` are
    those of its sources; None where it has all rows of bounded tables. A time to live of 0 ms is none.
    """

    spark: SparkSession = field(repr=False)
    batch_id: int
    now_ms: int
    holder: MaterializedFrames = field(repr=False)
    schemas: Mapping[str, s.StructType] = field(repr=False)
    watermarks: Watermarks | None = None
    time_to_live_ms: int = 0

    def span(self, sources: Iterable[int]) -> EventTimeSpan:
        """Return the span of event time that the batch passes, by the watermarks of some sources."""
        return ALL_READ if self.watermarks is None else self.watermarks.span(sources)


_ROW_BITS = 33
"""Bits of monotonically_increasing_id below the number of the partition."""


def with_ingestion_order(rows: DataFrame, name: str, batch_id: int) -> DataFrame:
    """Add the column `name`: greater than in any batch before. `rows` are computed already; this counts them."""
    with_id = rows.withColumn(name, F.monotonically_increasing_id())
    partition = F.shiftright(name, _ROW_BITS)
    counted = with_id.groupBy(partition.alias("partition")).count().collect()
    counts = {row["partition"]: row["count"] for row in counted}
    first, offsets = 0, []
    for index in range(max(counts, default=-1) + 1):
        offsets.append(first)
        first += counts.get(index, 0)
    if not offsets:
        return with_id
    offset = F.array(*(F.lit(n).cast("bigint") for n in offsets))[partition.cast("int")]
    within = F.col(name).bitwiseAND((1 << _ROW_BITS) - 1)
    return with_id.withColumn(
        name, F.lit(first_ingestion_number(batch_id)).cast("bigint") + offset + within
    )


def over_tables(
    spark: SparkSession, query: exp.Query, tables: Mapping[str, DataFrame]
) -> DataFrame:
    """Return the frame of `query`, in Flink's dialect, over `tables`. Nothing is computed."""
    tag = uuid4().hex[:8]
    views = {name: f"penstock_{tag}_{index}" for index, name in enumerate(tables)}
    tree = query.copy()
    for node in list(tree.find_all(exp.Table)):
        if node.name in views and not node.db:
            alias = exp.to_identifier(node.alias or node.name, quoted=True)
            table_alias = node.args.get("alias")
            columns = table_alias.args.get("columns") if table_alias is not None else None
            node.set("alias", exp.TableAlias(this=alias, columns=columns))
            node.set("this", exp.to_identifier(views[node.name]))
    try:
        for name, view in views.items():
            tables[name].createOrReplaceTempView(view)
        # looks the views up at once, so that they can go
        return spark.sql(to_spark_text(tree, to_spark_query))
    finally:
        for view in views.values():
            spark.catalog.dropTempView(view)
