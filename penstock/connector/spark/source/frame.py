"""From a scan to a Spark frame with the table's columns: hidden columns put to use, computed columns added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.connector.changelog import ROW_KIND
from penstock.connector.expression import PartialAggregate
from penstock.connector.scan import ARRIVED, Scan, write_scan
from penstock.connector.spark.internals import knows_data_source, make_active
from penstock.connector.spark.source.columns import (
    FILE_ROWS,
    FILTERED,
    FUTURE,
    LOST,
    MERGED,
    ROW,
    SKIPPED,
    WATERMARK_BEFORE,
)
from penstock.connector.spark.source.data_source import (
    SCAN_OPTION,
    ScanDataSource,
    register_data_source,
)
from penstock.connector.spark.source.watermark import carry_watermark, mark

_LEFT_OUT = {
    SKIPPED: "skipped",
    FUTURE: "future",
    LOST: "lost",
    FILTERED: "filtered",
    MERGED: "merged",
}
"""Columns of rows that only say how many others a task left out, and the names of the sums."""


def skipped_metric(view: str) -> str:
    """Return the name of the observed metric that counts the rows left out by the source behind `view`."""
    return f"penstock_skipped_{view}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFrame:
    """A table as a frame. `late_bound`: the frame still has the hidden column `__watermark_before`."""

    frame: DataFrame
    late_bound: bool


def read_scan_frame(
    spark: SparkSession,
    scan: Scan,
    *,
    view: str,
    workdir: Path,
    streaming: bool,
    computed: Mapping[str, str],
) -> ScanFrame:
    """Read a scan, as a stream or once. `computed` has the Spark SQL of the needed computed columns.

    Columns come out in table order, the kinds of changes (ROW_KIND) behind them; those of groups and of
    buckets in the order of the scan's. `view` names the scan in metrics and in its file below `workdir`.
    """
    frame = _loaded(spark, scan, view=view, workdir=workdir, streaming=streaming)
    if scan.rowtime is not None:
        frame = carry_watermark(frame)
    if scan.buckets is not None:
        names = [name for name, _ in scan.buckets.typed_columns()]
        return ScanFrame(frame=frame.select(*names), late_bound=False)
    return ScanFrame(
        frame=_of_groups(frame, scan.aggregate)
        if scan.aggregate is not None
        else _with_computed(frame, scan, computed),
        late_bound=WATERMARK_BEFORE in frame.columns,
    )


def read_file_frame(spark: SparkSession, scan: Scan, *, view: str, workdir: Path) -> DataFrame:
    """Read a scan with an output as a stream: a row for each file that a task wrote, and how many rows they have."""
    assert scan.output is not None, "tasks write files"
    frame = _loaded(spark, scan, view=view, workdir=workdir, streaming=True)
    rows = F.coalesce(F.sum(FILE_ROWS), F.lit(0)).alias("written")
    return frame.observe(f"penstock_files_{view}", rows)


def _loaded(
    spark: SparkSession, scan: Scan, *, view: str, workdir: Path, streaming: bool
) -> DataFrame:
    """Load a scan by its data source; what tasks left out is counted, and the rows that say so are dropped."""
    path = workdir / f"{view}.json"
    write_scan(scan, path)
    make_active(spark)  # where Spark looks for the data source of a read, too
    if not knows_data_source(spark, ScanDataSource.name()):
        register_data_source(spark, ScanDataSource)
    reader = spark.readStream if streaming else spark.read
    frame: DataFrame = reader.format(ScanDataSource.name()).option(SCAN_OPTION, str(path)).load()
    counts = {name: of for name, of in _LEFT_OUT.items() if name in frame.columns}
    if not counts:
        return frame
    marker, *_ = counts  # a row that has one of them has all
    if streaming:
        sums = [F.coalesce(F.sum(name), F.lit(0)).alias(of) for name, of in counts.items()]
        markers = F.count(marker).alias("markers")
        frame = frame.observe(skipped_metric(view), *sums, markers)
    return frame.filter(F.col(marker).isNull()).drop(*counts)


def _of_groups(frame: DataFrame, aggregate: PartialAggregate) -> DataFrame:
    time = None if aggregate.time is None else aggregate.time.name
    names = [name for name, _ in aggregate.typed_columns()]
    names += [name for name in (WATERMARK_BEFORE,) if name in frame.columns]
    return frame.select(
        *(mark(F.col(f"`{n}`"), n) if n == time else F.col(f"`{n}`") for n in names)
    )


def _with_computed(frame: DataFrame, scan: Scan, computed: Mapping[str, str]) -> DataFrame:
    rowtime = scan.rowtime.column if scan.rowtime is not None else None
    selected = []
    for column in scan.table.schema.columns:
        if column.name in computed:
            value = F.expr(computed[column.name])
        elif column.name in scan.columns:
            value = F.col(f"`{column.name}`")
        else:
            continue
        selected.append(
            mark(value, column.name) if column.name == rowtime else value.alias(column.name)
        )
    names = (ROW_KIND, WATERMARK_BEFORE, ARRIVED, ROW)
    hidden = [F.col(name) for name in names if name in frame.columns]
    return frame.select(*selected, *hidden)
