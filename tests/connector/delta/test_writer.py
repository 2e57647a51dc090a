"""The size of files that a writer leaves, and OPTIMIZE."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.connector.delta.options import DeltaTarget, FileMaintenance
from penstock.connector.delta.writer import Optimizer
from penstock.connector.spark.internals import java_session, jvm_of
from penstock.connector.spark.session import configured
from tests.connector.delta.tables import delta_table, run_to_end
from tests.connector.delta.test_connector import commits, prepared

HOUR_MS = 3_600_000


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def operations(path: Path) -> list[str]:
    """What each commit of a table did."""
    infos = [action["commitInfo"] for action in commits(path) if "commitInfo" in action]
    return [info["operation"] for info in infos]  # type: ignore[index]


def test_small_files_are_put_together_once_an_interval(spark: SparkSession, tmp_path: Path) -> None:
    """Counted from the last OPTIMIZE, by whichever run; files of the size that is asked for stay."""
    path, clock = tmp_path / "orders", Clock()
    table = delta_table(columns={"id": "BIGINT"})
    sink, target = prepared(spark, table, tmp_path), DeltaTarget(table=table, location=str(path))
    one = Optimizer(clock=clock)
    sink.write(spark.range(4, numPartitions=2))
    one.run_if_due(spark, target, None)
    assert "OPTIMIZE" not in operations(path)
    one.run_if_due(spark, target, HOUR_MS)
    sink.write(spark.range(4, numPartitions=2))
    clock.seconds = 3599
    one.run_if_due(spark, target, HOUR_MS)
    another_run = Optimizer(clock=clock)
    another_run.run_if_due(spark, target, HOUR_MS)
    assert operations(path).count("OPTIMIZE") == 1
    clock.seconds = 3600
    one.run_if_due(spark, target, HOUR_MS)

    assert operations(path).count("OPTIMIZE") == 2


def test_an_optimize_that_fails_only_warns(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Rows go on flowing; the next try is an interval away."""
    clock = Clock()
    optimizer = Optimizer(clock=clock)
    target = DeltaTarget(table=delta_table(), location=str(tmp_path / "nothing"))
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            optimizer.run_if_due(spark, target, HOUR_MS)

    assert [record.message[:8] for record in caplog.records] == ["OPTIMIZE"]


@pytest.mark.parametrize(
    ("options", "compactions"),
    [
        ({}, 1),
        ({"auto-compaction": "false"}, 0),
        ({"auto-compaction": "true", "delta.autoOptimize.autoCompact": "false"}, 0),
    ],
)
def test_streams_compact_small_files_unless_told_otherwise(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], compactions: int
) -> None:
    """A stream of small batches leaves no thousands of files; the table's own property wins."""
    source = tmp_path / "in"
    sink = prepared(spark, delta_table(columns={"id": "BIGINT"}, options=options), tmp_path)
    for start in range(3):
        spark.range(start, start + 1, 1, 1).write.format("delta").mode("append").save(str(source))
    frame = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(str(source))
    with configured(spark, {"spark.databricks.delta.autoCompact.minNumFiles": "3"}):
        sink.start(frame, run_to_end(tmp_path / "checkpoint")).awaitTermination()

    assert operations(tmp_path / "orders").count("OPTIMIZE") == compactions
    assert spark.read.format("delta").load(str(tmp_path / "orders")).count() == 3


@pytest.mark.parametrize(("there", "compactions"), [(0, 0), (1, 0), (4, 1)])
def test_a_first_commit_is_compacted_only_where_there_are_many_files(
    spark: SparkSession, tmp_path: Path, there: int, compactions: int
) -> None:
    """Those that the table has already count, also when another process wrote them."""
    path, source = tmp_path / "orders", tmp_path / "in"
    minimum = {"spark.databricks.delta.autoCompact.minNumFiles": "4"}
    table = delta_table(columns={"id": "BIGINT"})
    if there:
        spark.range(0, there, 1, there).write.format("delta").save(str(path))
        forget_files(spark, path)
    spark.range(2).write.format("delta").save(str(source))
    frame = spark.readStream.format("delta").load(str(source)).repartition(2)
    with configured(spark, minimum):
        sink = prepared(spark, table, tmp_path)
        sink.start(frame, run_to_end(tmp_path / "checkpoint")).awaitTermination()

    assert operations(path).count("OPTIMIZE") == compactions
    assert spark.read.format("delta").load(str(path)).count() == there + 2


def forget_files(spark: SparkSession, path: Path) -> None:
    """Leave Delta without its counts of files, as in a process that has not written yet."""
    assert operations(path)
    delta = jvm_of(spark).org.apache.spark.sql.delta
    delta.stats.AutoCompactPartitionStats.instance(java_session(spark)).resetTestOnly()


def test_small_files_of_a_commit_are_gathered(spark: SparkSession, tmp_path: Path) -> None:
    """By the settings that the sink sets while it writes."""
    sink = prepared(spark, delta_table(columns={"id": "BIGINT"}), tmp_path)
    with configured(spark, FileMaintenance(target_file_bytes=1 << 20).settings):
        sink.write(spark.range(100, numPartitions=8))

    assert sum("add" in action for action in commits(tmp_path / "orders")) == 1
