"""Small files that are put together behind the batches of a query, and checkpoints of the log."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession

from penstock.catalog.errors import QueryFailedError
from penstock.catalog.model.table import Table
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.contract import LostLease
from penstock.connector.delta import compaction
from penstock.connector.delta.connector import DeltaSink
from penstock.connector.delta.files.rewriting import Rewriting
from penstock.connector.delta.files.small_files import SmallFile
from penstock.connector.file_output import FileColumn, FileOutput
from penstock.connector.spark.files.parquet_file import fitted
from penstock.connector.spark.internals import java_session
from penstock.connector.spark.session import configured
from tests.connector.delta.tables import delta_table, forget, rows
from tests.connector.delta.test_connector import prepared
from tests.connector.delta.test_merge import actions
from tests.connector.delta.test_writer import operations
from tests.connector.spark.micro_batches import micro_batch

IDS = {"id": "BIGINT", "name": "STRING"}
THREE = {"spark.databricks.delta.autoCompact.minNumFiles": "3"}
WAIT_S = 120


class Stream:
    """A Delta table, and batches that go into it: by a query that goes on, or by one that ends."""

    def __init__(self, spark: SparkSession, folder: Path, table: Table) -> None:
        self.spark = spark
        self.folder = folder
        self.path = folder / "orders"
        sink = prepared(spark, table, folder)
        assert isinstance(sink, DeltaSink)
        self.writer = sink.writer
        self.number = 0

    def write(
        self, frame: DataFrame, *, ends: bool = False, meanwhile: LostLease | None = None
    ) -> None:
        """Write a batch, and wait for what comes behind; `meanwhile` happens before a compaction is committed."""
        batch = micro_batch(self.spark, self.folder / "checkpoint", self.number)
        self.number += 1
        with configured(self.spark, THREE):
            self.writer.write_batch(frame, replace(batch, ends=ends, lost_lease=meanwhile))
            assert self.writer.behind.wait(WAIT_S)

    def write_ids(self, *ids: int, **how: Any) -> None:
        """Write a file for each id."""
        for each in ids:
            frame = self.spark.range(each, each + 1, 1, 1)
            self.write(frame.selectExpr("id", "concat('n', id) AS name"), **how)

    def ids(self) -> list[int]:
        """What readers see."""
        return [row[0] for row in rows(self.spark, self.path)]

    def sql(self, text: str) -> None:
        """Change the table by SQL of Spark, in which it is {t}."""
        self.spark.sql(text.format(t=f"delta.`{self.path}`"))

    def data_files(self) -> int:
        """Count the files beside the log."""
        return len(list(self.path.glob("*.parquet")))

    def live_files(self) -> int:
        """Count the files of the newest version."""
        return len(self.spark.read.format("delta").load(str(self.path)).inputFiles())


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """A plain table."""
    return Stream(spark, tmp_path, delta_table(columns=IDS))


@pytest.mark.parametrize("ends", [False, True])
def test_small_files_become_one_without_a_job(stream: Stream, ends: bool) -> None:
    """In a commit of its own that changes no row; by a thread, or before a query that ends is over."""
    stream.write_ids(0, 1, ends=ends)
    jobs = java_session(stream.spark).sparkContext().dagScheduler()
    before = jobs.numTotalJobs()
    stream.write_ids(2, ends=ends)
    last = stream.spark.sql(f"DESCRIBE HISTORY delta.`{stream.path}` LIMIT 1").collect()[0]

    # the job is the batch
    assert jobs.numTotalJobs() - before <= 1 + 1, "and that of the history"
    assert last["operation"] == "OPTIMIZE"
    assert last["operationParameters"]["auto"] == "true"
    assert last["operationMetrics"]["numRemovedFiles"] == "3"
    assert (stream.live_files(), stream.ids()) == (1, [0, 1, 2])
    assert stream.writer.behind.failures == 0


def test_rows_that_are_deleted_meanwhile_stay_deleted(stream: Stream) -> None:
    """Those of a file with a vector, and those of one that is gone; the new file has a vector then."""
    stream.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    for first in (0, 10):
        frame = stream.spark.range(first, first + 10, 1, 1)
        stream.write(frame.selectExpr("id", "concat('n', id) AS name"))
    stream.sql("DELETE FROM {t} WHERE id IN (3, 12)")

    def delete() -> None:
        if 20 in stream.ids():
            stream.sql("DELETE FROM {t} WHERE id IN (0, 9, 13, 20)")

    stream.write_ids(20, meanwhile=delete)
    kept = [number for number in range(20) if number not in (0, 3, 9, 12, 13)]
    (added,) = actions(stream.path, 7, "add")

    assert operations(stream.path).count("OPTIMIZE") == 1
    assert added["deletionVector"]["cardinality"] == 4
    assert (stream.live_files(), stream.ids()) == (1, kept)
    assert (stream.writer.behind.lost_races, stream.writer.behind.failures) == (0, 0)
    stream.sql("DELETE FROM {t} WHERE id = 19")
    stream.write_ids(30, 31, 32)
    assert stream.ids() == [*kept[:-1], 30, 31, 32]
    assert stream.live_files() == 1


def test_without_vectors_a_compaction_loses_to_a_delete(
    stream: Stream, caplog: pytest.LogCaptureFixture
) -> None:
    """That is no failure: its file is VACUUM's, and it is done behind a later batch."""
    two = stream.spark.range(0, 2, 1, 1).selectExpr("id", "concat('n', id) AS name")
    stream.write(two)
    stream.write_ids(2)

    def delete() -> None:
        if 1 in stream.ids():
            stream.sql("DELETE FROM {t} WHERE id = 1")

    with caplog.at_level(logging.DEBUG, logger=compaction.__name__):
        stream.write_ids(3, meanwhile=delete)
    lost = operations(stream.path).count("OPTIMIZE")
    stream.write_ids(4, 5, 6)
    behind = stream.writer.behind

    assert lost == 0
    assert (behind.lost_races, behind.failures) == (1, 0)
    assert [record.levelno for record in caplog.records] == [logging.DEBUG]
    assert "another writer was first (1 so far)" in caplog.text
    assert operations(stream.path).count("OPTIMIZE") == 1
    assert stream.ids() == [0, 2, 3, 4, 5, 6]


def test_rows_that_are_restored_meanwhile_are_not_lost(stream: Stream) -> None:
    """They were left out of the new file."""
    stream.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    frame = stream.spark.range(0, 10, 1, 1).selectExpr("id", "concat('n', id) AS name")
    stream.write(frame)
    stream.sql("DELETE FROM {t} WHERE id = 3")
    stream.write_ids(20)

    def restore() -> None:
        if 3 not in stream.ids():
            stream.sql("RESTORE {t} TO VERSION AS OF 2")
            stream.sql("INSERT INTO {t} VALUES (20, 'n20'), (21, 'n21')")

    stream.write_ids(21, meanwhile=restore)

    assert operations(stream.path).count("OPTIMIZE") == 0
    assert stream.ids() == [*range(10), 20, 21]
    assert (stream.writer.behind.lost_races, stream.writer.behind.failures) == (1, 0)


def test_rows_of_deletion_vectors_are_not_put_together(stream: Stream) -> None:
    """Files with vectors become one without, and the vectors are removed with them."""
    stream.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    for first in (0, 10):
        frame = stream.spark.range(first, first + 10, 1, 1)
        stream.write(frame.selectExpr("id", "concat('n', id) AS name"))
    stream.sql("DELETE FROM {t} WHERE id IN (0, 3, 19)")
    stream.write_ids(20)

    assert operations(stream.path).count("OPTIMIZE") == 1
    assert stream.live_files() == 1
    assert stream.ids() == [number for number in range(21) if number not in (0, 3, 19)]
    removed = actions(stream.path, 6, "remove")
    vectors = {r.get("deletionVector", {}).get("cardinality") for r in removed}
    assert vectors == {1, 2, None}
    assert stream.writer.behind.failures == 0


def test_others_that_optimize_and_vacuum_without_retention_cost_nothing(stream: Stream) -> None:
    """The new file is gone before its commit, and so are the old ones: a lost race, too."""

    def vacuum() -> None:
        stream.sql("OPTIMIZE {t}")
        with configured(
            stream.spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
        ):
            stream.sql("VACUUM {t} RETAIN 0 HOURS")

    stream.write_ids(0, 1)
    stream.write_ids(2, meanwhile=vacuum)
    behind = stream.writer.behind
    after = (behind.lost_races, behind.failures, stream.data_files(), stream.ids())
    stream.write_ids(3, 4, 5)

    assert after == (1, 0, 1, [0, 1, 2])
    assert stream.ids() == list(range(6))
    assert operations(stream.path).count("OPTIMIZE") == 2
    assert behind.failures == 0


def test_without_spark_the_new_file_is_removed(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has ended while files were put together: nobody can commit, and VACUUM may never come."""
    stream.write_ids(0, 1)
    with monkeypatch.context() as patched:
        patched.setattr(compaction, "_stopped", lambda: True)
        stream.write_ids(2)

    assert operations(stream.path).count("OPTIMIZE") == 0
    assert stream.data_files() == 3
    assert stream.writer.behind.failures == 0


def test_the_end_of_a_process_waits_shortly_for_what_was_begun(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And says it where that takes longer."""
    begun, go_on = Event(), Event()
    at_end: list[Callable[[], None]] = []
    behind = stream.writer.behind
    monkeypatch.setattr(atexit, "register", at_end.append)
    monkeypatch.setattr(compaction, "END_WAIT_S", 0.01)

    def hold() -> None:
        begun.set()
        assert go_on.wait(WAIT_S)

    def end() -> None:
        assert begun.wait(WAIT_S)
        (registered,) = at_end
        registered()
        go_on.set()

    stream.write_ids(0, 1)
    ending = Thread(target=end)
    ending.start()
    stream.write_ids(2, meanwhile=hold)
    ending.join()
    told = caplog.text
    caplog.clear()
    behind._end()

    assert "the process ends while files of the Delta table at" in told
    assert caplog.text == ""
    assert stream.live_files() == 1


def test_batches_that_come_meanwhile_do_not_disturb(stream: Stream) -> None:
    """An append by another writer between the files of a compaction and its commit: both are there."""
    stream.write_ids(0, 1)
    other = "INSERT INTO {t} VALUES (10, 'other')"
    stream.write_ids(2, meanwhile=lambda: stream.sql(other))

    assert operations(stream.path).count("OPTIMIZE") == 1
    assert stream.ids() == [0, 1, 2, 10]


@pytest.mark.parametrize("error", [QueryFailedError("no more", hint="none"), TypeError("no more")])
def test_a_compaction_that_fails_is_told_and_costs_nothing(
    stream: Stream,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    """Its file is no part of the table; the next one is behind a later batch, whatever the error is."""

    def fail(point: str) -> None:
        if point == "put-together":
            raise error

    stream.write_ids(0, 1)
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(compaction, "reach", fail)
        stream.write_ids(2)
    told = [record.getMessage() for record in caplog.records if "compaction" in record.getMessage()]
    after = (stream.data_files(), stream.live_files(), stream.ids())
    stream.write_ids(3, 4, 5)

    assert len(told) == 1
    assert "failed (1 so far), and is tried again later: no more" in told[0]
    assert after == (4, 3, [0, 1, 2])
    assert (stream.live_files(), stream.ids()) == (1, list(range(6)))


@pytest.mark.parametrize("part", ["decide_upkeep", "clone_session"])
def test_errors_around_a_commit_cost_no_batch(
    stream: Stream, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str
) -> None:
    """They are told; where nothing can be decided, Delta compacts in the batch."""

    def fail(*_: object) -> None:
        raise QueryFailedError("no more", hint="none")

    monkeypatch.setattr(compaction, part, fail)
    with caplog.at_level(logging.WARNING):
        stream.write_ids(0, 1, 2)

    assert stream.ids() == [0, 1, 2]
    assert "upkeep of the Delta table" in caplog.text
    assert ("OPTIMIZE" in operations(stream.path)) == (part == "decide_upkeep")


def test_a_runner_that_lost_its_lease_commits_no_compaction(stream: Stream) -> None:
    """And removes the file that it wrote."""
    stream.write_ids(0, 1)
    stream.write_ids(2, meanwhile=lambda: QueryFailedError("another runs", hint="none"))

    assert operations(stream.path).count("OPTIMIZE") == 0
    assert stream.data_files() == 3


def test_files_of_partitions_and_of_all_types_stay_what_they_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Written by Spark, with instants in INT96, by partitions whose folders have escaped names."""
    columns = {
        "p": "STRING",
        "at": "TIMESTAMP_LTZ(6)",
        "local": "TIMESTAMP(6)",
        "amount": "DECIMAL(20, 3)",
        "tags": "ARRAY<STRING>",
        "counts": "MAP<STRING, INT>",
        "place": "ROW<x DOUBLE, y ROW<z FLOAT>>",
        "day": "DATE",
        "bytes": "BYTES",
        "small": "TINYINT",
    }
    table = delta_table(columns=columns, partition_keys=("p",))
    stream = Stream(spark, tmp_path, table)
    frames = [
        spark.sql(
            f"SELECT IF({n} % 2 = 0, 'a b:c%', NULL) AS p, TIMESTAMP_MICROS({n} - 3000000000000000) AS at, "
            f"TIMESTAMP_NTZ '1500-02-0{n + 1} 00:00:00.123456' AS local, CAST({n}.125 AS DECIMAL(20, 3)) AS amount, "
            f"IF({n} = 1, NULL, ARRAY('t{n}', NULL)) AS tags, MAP('k{n}', {n}) AS counts, "
            f"NAMED_STRUCT('x', IF({n} = 2, DOUBLE('NaN'), {n}.5D), 'y', NAMED_STRUCT('z', {n}.25F)) AS place, "
            f"DATE '000{n + 1}-01-01' AS day, CAST('b{n}' AS BINARY) AS bytes, CAST({n} AS TINYINT) AS small"
        )
        for n in range(6)
    ]
    # Spark's types of literals are those of the table but for NULL in them
    for frame in frames[:-1]:
        stream.write(frame)
    text = "CAST(struct(*) AS STRING) AS row"
    stream.write(frames[-1])
    found = spark.read.format("delta").load(str(stream.path))
    wanted = frames[0]
    for frame in frames[1:]:
        wanted = wanted.unionByName(frame)

    assert operations(stream.path).count("OPTIMIZE") == 2
    assert stream.live_files() == 2
    assert sorted(found.selectExpr(text).collect()) == sorted(wanted.selectExpr(text).collect())
    assert found.where("p = 'a b:c%' AND small = 4").count() == 1
    assert found.where("p IS NULL AND small = 3").count() == 1


def test_a_column_that_was_added_is_null_in_older_rows(stream: Stream) -> None:
    """Their files lack it."""
    stream.write_ids(0, 1)
    stream.sql("ALTER TABLE {t} ADD COLUMN more INT")
    stream.write_ids(2)

    assert stream.live_files() == 1
    assert [row[2] for row in rows(stream.spark, stream.path)] == [None] * 3


def test_tables_that_have_more_keep_deltas_own_compaction(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Here columns under other names in the files."""
    stream = Stream(
        spark, tmp_path, delta_table(columns=IDS, options={"delta.columnMapping.mode": "name"})
    )
    stream.write_ids(0, 1, 2, 3)

    assert "OPTIMIZE" in operations(stream.path)
    assert stream.ids() == [0, 1, 2, 3]


def test_checkpoints_of_the_log_are_written_behind_batches(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As often as the table says, and no more of them in the batch; they have what the table has."""
    options = {"auto-compaction": "false", "delta.checkpointInterval": "3"}
    stream = Stream(spark, tmp_path, delta_table(columns=IDS, options=options))
    stream.write_ids(*range(6))
    logs = stream.path / "_delta_log"
    written = sorted(int(file.name[:20]) for file in logs.glob("*.checkpoint.parquet"))
    for commit in logs.glob("0*.json"):
        if int(commit.stem) < 6:
            commit.unlink()
    forget(spark, stream.path)

    assert written == [3, 6]
    assert stream.ids() == list(range(6))


def test_a_file_that_cannot_be_read_stops_no_other_compaction(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Told once: it is not tried again, and files of its partition and of others are put together."""
    stream = Stream(spark, tmp_path, delta_table(columns=IDS, partition_keys=("name",)))
    stream.write(spark.sql("SELECT 0L AS id, 'a' AS name"))
    (broken,) = (stream.path / "name=a").glob("*.parquet")
    broken.write_bytes(b"x" * broken.stat().st_size)
    for name in "aabbbaaa":
        stream.write(spark.sql(f"SELECT 1L AS id, '{name}' AS name"))
    left = spark.read.format("delta").load(str(stream.path)).inputFiles()

    assert stream.writer.behind.failures == 1
    assert operations(stream.path).count("OPTIMIZE") == 2
    assert len(left) == 1 + 1 + 1
    assert sum(broken.name in each for each in left) == 1


def test_a_file_of_another_form_is_left_as_it_is() -> None:
    """A type that is not the table's, or a column that the table has not."""
    schema = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    naive = pa.table({"id": [1], "at": pa.array([7], pa.timestamp("us"))})

    assert fitted(naive, schema) == pa.table(
        {"id": [1], "at": pa.array([7], pa.timestamp("us", "UTC"))}
    )
    assert fitted(pa.table({"id": pa.array([1], pa.int32())}), schema) is None
    assert fitted(pa.table({"id": [1], "more": [2]}), schema) is None


def rewriting(folder: Path, column: str, kind: str) -> Rewriting:
    """What puts files of one column together."""
    columns = (FileColumn(name=column, type=parse_type(kind), source=None),)
    return Rewriting(output=FileOutput(folder=str(folder), shown="the table", columns=columns))


def small_file(folder: Path, name: str, table: pa.Table, **footer: str) -> SmallFile:
    """Write a file of a table."""
    with parquet.ParquetWriter(folder / name, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({f"org.apache.spark.{k}": v for k, v in footer.items()})
    size = (folder / name).stat().st_size
    return SmallFile(path=name, size_bytes=size, partition={})


@pytest.mark.parametrize(
    ("footer", "taken"),
    [
        ({}, True),
        ({"version": "4.0.0"}, True),
        ({"version": "3.1.0"}, True),
        ({"version": "3.5.0", "legacyDateTime": ""}, False),
        ({"version": "2.4.8"}, False),
    ],
)
def test_files_with_times_of_the_julian_calendar_stay(
    tmp_path: Path, footer: dict[str, str], taken: bool
) -> None:
    """As the version of Spark says, or a mark: in a new file they would be other days."""
    days = pa.table({"day": pa.array([-200_000], pa.date32())})
    files = [small_file(tmp_path, name, days, version="4.0.0") for name in ("a", "b")]
    last = small_file(tmp_path, "c", days, **footer)
    how = rewriting(tmp_path, "day", "DATE")
    how.run([*files, last])

    assert [source.file for source in how.used] == ([*files, last] if taken else files)
    assert how.left_out == ([] if taken else [last])


def test_a_file_that_is_gone_is_left_out(tmp_path: Path) -> None:
    """It is of no newer version of the table: the others become one, and the commit tells whether they still are."""
    files = [small_file(tmp_path, name, pa.table({"id": [1]})) for name in ("a", "b", "c")]
    (tmp_path / "b").unlink()
    how = rewriting(tmp_path, "id", "BIGINT")
    written = how.run(files)

    assert written is not None
    assert written.rows == 2
    assert [file.path for file in how.left_out] == ["b"]


def test_a_file_is_read_piece_by_piece(tmp_path: Path) -> None:
    """Its rows may be a hundred times as large in memory."""
    texts = pa.array([f"{'long' * 250}{number % 7}" for number in range(70_000)])
    files = [small_file(tmp_path, name, pa.table({"text": texts})) for name in ("a", "b")]
    how = rewriting(tmp_path, "text", "STRING")
    before = pa.total_allocated_bytes()
    largest = 0
    pieces = 0
    for piece in how._read(files, pa.schema([("text", pa.string())])):
        pieces += piece.num_rows
        largest = max(largest, pa.total_allocated_bytes() - before)
    written = how.run(files)

    assert pieces == 140_000
    assert largest < texts.nbytes
    assert written is not None
    assert written.rows == 140_000
    assert parquet.read_table(tmp_path / written.path)["text"].combine_chunks()[:70_000] == texts
