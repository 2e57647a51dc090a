"""From a scan to a Spark frame with the table's columns: hidden columns put to use, computed columns added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.connector.changelog import ROW_KIND
from penstock.connector.scan import ARRIVED, Scan, write_scan
from penstock.connector.spark.source.columns import FILE_ROWS, ROW, SKIPPED, WATERMARK_BEFORE
from penstock.connector.spark.source.data_source import SCAN_OPTION, ScanDataSource
from penstock.connector.spark.source.watermark import carry_watermark, mark


def skipped_metric(view: str) -> str:
    """Return the name of the observed metric that counts the bad records left out by the source behind `view`."""
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

    Columns come out in table order, the kinds of changes (ROW_KIND) behind them. `view` names the scan in metrics and
    in its file below `workdir`.
    """
    frame = _loaded(spark, scan, view=view, workdir=workdir, streaming=streaming)
    if scan.rowtime is not None:
        frame = carry_watermark(frame)
    return ScanFrame(
        frame=_with_computed(frame, scan, computed),
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
    """Load a scan by its data source; bad records that were left out are counted, and their markers dropped."""
    path = workdir / f"{view}.json"
    write_scan(scan, path)
    spark.dataSource.register(ScanDataSource)
    reader = spark.readStream if streaming else spark.read
    frame: DataFrame = reader.format(ScanDataSource.name()).option(SCAN_OPTION, str(path)).load()
    if SKIPPED not in frame.columns:
        return frame
    if streaming:
        frame = frame.observe(
            skipped_metric(view),
            F.coalesce(F.sum(SKIPPED), F.lit(0)).alias("skipped"),
            F.count(SKIPPED).alias("markers"),
        )
    return frame.filter(F.col(SKIPPED).isNull()).drop(SKIPPED)


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
