"""Files of tasks in real Delta tables: readable by all, skipped rightly, committed once, whatever others do meanwhile."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.catalog.errors import SinkError, StateMismatchError
from penstock.catalog.model.table import Table
from penstock.connector.contract import Sink
from penstock.connector.delta.connector import DeltaConnector, DeltaSink
from penstock.connector.delta.log import live_rows
from penstock.connector.file_output import FileOutput, WrittenByEngine
from penstock.connector.spark.session import configured
from penstock.connector.spark.types import spark_schema
from penstock.connector.storage import open_folder
from tests.connector.delta.tables import delta_table, rows
from tests.connector.spark.micro_batches import micro_batch
from tests.connector.spark.task_files import files_of, filled_columns, output_of, write_by_tasks

WAIT_S = 120
IDS = {"id": "BIGINT", "name": "STRING"}


class Written:
    """A Delta table that tasks write, and a query with a checkpoint that does."""

    def __init__(self, spark: SparkSession, folder: Path, table: Table) -> None:
        self.spark = spark
        self.folder = folder
        self.table = table
        self.path = folder / table.option_map["path"]
        self.sink = DeltaConnector(project=folder).sink(table)
        self.sink.prepare(spark, spark_schema(table.schema.physical))

    def write(self, number: int, frame: DataFrame, *, sink: Sink | None = None) -> None:
        """Write a micro-batch by tasks."""
        batch = micro_batch(self.spark, self.folder / "checkpoint", number)
        write_by_tasks(sink or self.sink, self.table, frame, batch)

    def output(self) -> FileOutput:
        """What the table asks of tasks now."""
        return output_of(self.sink, self.table, self.spark, self.table.schema.names)

    def write_by(self, output: FileOutput, number: int, frame: DataFrame) -> None:
        """Write a micro-batch by tasks that were told earlier."""
        batch = micro_batch(self.spark, self.folder / "checkpoint", number)
        assert self.sink.task_writer is not None
        self.sink.task_writer.write_batch(files_of(frame, output), batch, output)

    def write_and(
        self,
        meanwhile: Callable[[], None],
        number: int,
        frame: DataFrame,
    ) -> None:
        """Write a micro-batch by tasks; `meanwhile` happens when their files are there, before the commit."""
        batch = micro_batch(self.spark, self.folder / "checkpoint", number)
        output = self.output()
        assert isinstance(self.sink, DeltaSink)
        self.sink.writer.write_files(
            files_of(frame, output), replace(batch, lost_lease=meanwhile), output
        )

    def ids(self) -> list[int]:
        """The ids that readers see."""
        frame = self.spark.read.format("delta").load(str(self.path))
        return sorted(row["id"] for row in frame.select("id").collect())

    def sql(self, text: str) -> None:
        """Change the table by SQL of Spark, in which it is {t}."""
        self.spark.sql(text.format(t=f"delta.`{self.path}`"))

    def data_files(self) -> set[str]:
        """The names of the files beside the log."""
        return {
            path.name for path in self.path.rglob("*.parquet") if "_delta_log" not in path.parts
        }

    def commits(self) -> list[dict[str, Any]]:
        """The actions of all commits, in order."""
        logs = sorted((self.path / "_delta_log").glob("*.json"))
        return [json.loads(line) for log in logs for line in log.read_text().splitlines()]

    def named(self) -> set[str]:
        """The files that commits added."""
        return {action["add"]["path"] for action in self.commits() if "add" in action}


@pytest.fixture
def written(spark: SparkSession, tmp_path: Path) -> Written:
    """A table of two columns, whose files stay as they are."""
    options = {"auto-compaction": "false"}
    return Written(spark, tmp_path, delta_table(columns=IDS, options=options))


def numbers(spark: SparkSession, first: int, last: int, tasks: int = 2) -> DataFrame:
    return spark.range(first, last, numPartitions=tasks).selectExpr("id", "concat('n', id) AS name")


def jobs_of(spark: SparkSession, group: str) -> list[str]:
    """The names of a group's jobs."""
    tracker = spark.sparkContext.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(job.stageIds[-1]) for job in jobs if job is not None]
    return [stage.name for stage in stages if stage is not None]


def test_an_append_is_one_job_and_one_commit(written: Written) -> None:
    """With what Spark's own stream notes of it, the batch's digest, and statistics."""
    spark = written.spark
    written.write(0, numbers(spark, 0, 4))
    written.write(1, numbers(spark, 4, 4))
    spark.sparkContext.setJobGroup("an append", "")
    try:
        written.write(2, numbers(spark, 4, 10))
        jobs = jobs_of(spark, "an append")
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    (info,) = [action["commitInfo"] for action in written.commits() if "commitInfo" in action][-1:]
    adds = [action["add"] for action in written.commits() if "add" in action]

    assert len(jobs) == 1, jobs
    assert jobs[0].startswith("collect at ")
    assert written.ids() == list(range(10))
    read = live_rows(open_folder(str(written.path)))
    assert read is not None
    ids = [one for _, batch in read.batches(["name", "id"]) for one in batch["id"].to_pylist()]
    assert sorted(ids) == list(range(10))
    assert (info["operation"], info["isBlindAppend"]) == ("STREAMING UPDATE", True)
    assert info["operationMetrics"]["numAddedFiles"] == "2"
    assert info["operationMetrics"]["numOutputRows"] == "6"
    assert json.loads(info["userMetadata"])["penstock"]["batch"] == 2
    assert [a["txn"]["version"] for a in written.commits() if "txn" in a] == [0, 1, 2]
    assert {add["path"] for add in adds} == written.data_files()
    assert json.loads(adds[-1]["stats"]) == {
        "numRecords": 3,
        "minValues": {"id": 7, "name": "n7"},
        "maxValues": {"id": 9, "name": "n9"},
        "nullCount": {"id": 0, "name": 0},
    }


EVERY = {
    "id": "BIGINT",
    "a": "BOOLEAN",
    "b": "TINYINT",
    "c": "SMALLINT",
    "d": "INT",
    "f": "FLOAT",
    "g": "DOUBLE",
    "h": "DECIMAL(38, 18)",
    "i": "DECIMAL(9, 2)",
    "j": "DECIMAL(18, 4)",
    "k": "STRING",
    "m": "BYTES",
    "n": "DATE",
    "o": "TIMESTAMP(6)",
    "p": "TIMESTAMP_LTZ(6)",
    "q": "ARRAY<INT>",
    "r": "MAP<STRING, ROW<x INT>>",
    "t": "ROW<x INT, y ARRAY<ROW<z TIMESTAMP(3)>>, u ROW<v STRING>>",
}
VALUES = (
    "1L, true, -128Y, 32767S, -2147483648, CAST(0.1 AS FLOAT), CAST('NaN' AS DOUBLE), "
    "CAST('12345678901234567890.123456789012345678' AS DECIMAL(38, 18)), "
    "CAST(-1.25 AS DECIMAL(9, 2)), CAST(99999999999999.9999 AS DECIMAL(18, 4)), "
    "'🙂', X'00ff', DATE'1500-03-01', TIMESTAMP_NTZ'0001-01-01 00:00:00.000001', "
    "TIMESTAMP'1582-10-04 00:00:00Z', array(1, NULL), map('k', named_struct('x', 1), 'l', NULL), "
    "named_struct('x', 1, 'y', array(named_struct('z', TIMESTAMP_NTZ'2026-03-29 02:30:00'), NULL), "
    "'u', named_struct('v', NULL))",
    "2L, false, 127Y, -32768S, 2147483647, CAST('-Infinity' AS FLOAT), CAST(-0.0 AS DOUBLE), "
    "CAST(0 AS DECIMAL(38, 18)), CAST(0 AS DECIMAL(9, 2)), CAST(-1 AS DECIMAL(18, 4)), '', X'', "
    "DATE'9999-12-31', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', "
    "TIMESTAMP'2026-11-23 10:00:00.123456+02:00', array(), map(), "
    "named_struct('x', NULL, 'y', array(), 'u', NULL)",
    f"3L{', NULL' * (len(EVERY) - 1)}",
)


def test_every_type_is_read_as_if_spark_had_written_it(spark: SparkSession, tmp_path: Path) -> None:
    """By Spark and by delta-rs; dates of before 1582 and NaN among them."""
    tables = [delta_table(name, name=name, columns=EVERY) for name in ("by_tasks", "by_spark")]
    here, there = (Written(spark, tmp_path, table) for table in tables)
    kinds = spark_schema(here.table.schema.physical)
    casts = ", ".join(
        f"CAST(col{n + 1} AS {f.dataType.simpleString()}) AS {f.name}" for n, f in enumerate(kinds)
    )
    frame = spark.sql(f"SELECT {casts} FROM VALUES {', '.join(f'({row})' for row in VALUES)}")
    here.write(0, frame)
    there.sink.write_batch(frame, micro_batch(spark, tmp_path / "spark", 0))

    def by_spark(one: Written) -> list[str]:
        found = spark.read.format("delta").load(str(one.path)).orderBy("id")
        shown = found.select(*(F.col(name).cast("string") for name in found.columns))
        return [repr(row) for row in shown.collect()]

    assert by_spark(here) == by_spark(there)
    assert len(by_spark(here)) == 3
    # times that Spark writes as INT96 are too far for delta-rs
    found = deltalake.DeltaTable(str(here.path)).to_pyarrow_table().sort_by("id").to_pylist()
    given = frame.orderBy("id").toArrow().to_pylist()
    assert repr(found) == repr(given)


SEED = 20261123
NAN, INFINITY = math.nan, math.inf
SKIPPED: dict[str, tuple[str, Sequence[Any]]] = {
    "f": ("DOUBLE", (NAN, 1.5, -0.0, 0.0, INFINITY, -INFINITY, None, -2.5)),
    "g": ("FLOAT", (-0.0, NAN, 0.5, None, INFINITY, 0.25, 3.0, -1.0)),
    "s": (
        "STRING",
        ("a" * 40, "a" * 32 + "b", "🙂" * 33, "", None, "\U0010ffff" * 33, "z" * 5_000, "é"),
    ),
    "t": (
        "TIMESTAMP_LTZ(6)",
        (
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            datetime(2026, 1, 1, 0, 0, 0, 999, tzinfo=UTC),
            datetime(2026, 1, 1, 0, 0, 0, 1_001, tzinfo=UTC),
            None,
            datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
            datetime(1500, 1, 1, tzinfo=UTC),
            datetime(2026, 1, 1, tzinfo=UTC),
        ),
    ),
    "d": (
        "DECIMAL(20, 3)",
        tuple(None if n == 5 else Decimal(n - 4) / 8 for n in range(8)),
    ),
    "y": ("DATE", tuple(None if n == 3 else date(1 + 1_400 * n, 1, 1) for n in range(8))),
}


def statistics(one: Written) -> list[dict[str, Any]]:
    """Those of the files of the first batch, in the order of their smallest ids."""
    adds = [a["add"] for a in one.commits() if "add" in a]
    found = [json.loads(add["stats"]) for add in adds]
    return sorted(found, key=lambda each: int(each["minValues"]["id"]))


def value_of(text: Any, kind: str) -> Any:
    """A bound as a value that can be compared; NaN is above all numbers."""
    if kind in ("DOUBLE", "FLOAT"):
        number = float(text)
        return (math.isnan(number), 0.0 if math.isnan(number) else number)
    if kind.startswith("TIMESTAMP"):
        return datetime.fromisoformat(text)
    return Decimal(str(text)) if kind.startswith("DECIMAL") else text


def test_statistics_never_say_more_than_sparks_own(spark: SparkSession, tmp_path: Path) -> None:
    """Of the same rows in the same files, forty of them at random: bounds and counts are the same."""
    draw = random.Random(SEED)
    columns = {"id": "BIGINT", **{name: kind for name, (kind, _) in SKIPPED.items()}}
    tables = [
        delta_table(
            name,
            name=name,
            columns=columns,
            options={"auto-compaction": "false"},
        )
        for name in ("by_tasks", "by_spark")
    ]
    here, there = (Written(spark, tmp_path, table) for table in tables)
    values = [
        (10 * file + at, *(draw.choice(all_of) for _, all_of in SKIPPED.values()))
        for file in range(40)
        for at in range(draw.randint(1, 4))
    ]
    frame = spark.createDataFrame(values, spark_schema(here.table.schema.physical))
    parts = frame.repartitionByRange(40, (F.col("id") / 10).cast("int")).localCheckpoint()
    here.write(0, parts)
    there.sink.write_batch(parts, micro_batch(spark, tmp_path / "spark", 0))
    pairs = list(zip(statistics(here), statistics(there), strict=True))

    assert len(pairs) > 20
    for ours, sparks in pairs:
        assert ours["numRecords"] == sparks["numRecords"]
        assert ours["nullCount"] == sparks["nullCount"]
        for name, (kind, _) in SKIPPED.items():
            for bound, sign in (("minValues", -1), ("maxValues", 1)):
                one, other = ours[bound].get(name), sparks[bound].get(name)
                if one is None:
                    continue
                if kind != "STRING":
                    assert other is not None, (name, bound, ours, sparks)
                    assert value_of(one, kind) == value_of(other, kind), (name, one, other)
                    continue
                # Spark cuts a text elsewhere: where a character takes two of Java's
                at = list(columns).index(name)
                there_are = range(ours["minValues"]["id"], ours["maxValues"]["id"] + 1)
                texts = [row[at] for row in values if row[0] in there_are and row[at] is not None]
                assert all(one <= text if sign < 0 else text <= one for text in texts), (one, texts)


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("f > 1e300", {0, 4}),
        ("f = 0", {2, 3}),
        ("f = double('NaN')", {0}),
        ("g IS NULL", {3}),
        ("s >= repeat('\U0010ffff', 33)", {5}),
        ("s = concat(repeat('a', 32), 'b')", {1}),
        ("t > TIMESTAMP'2026-01-01 00:00:00.000999Z'", {1, 3}),
        ("t < TIMESTAMP'1600-01-01 00:00:00Z'", {0, 6}),
        ("d = -0.125 OR y = DATE'0001-01-01'", {0, 3}),
    ],
)
def test_rows_at_the_edges_of_statistics_are_found(
    edges: Written, condition: str, found: set[int]
) -> None:
    """Each in a file of its own."""
    frame = edges.spark.read.format("delta").load(str(edges.path))
    assert {row["id"] for row in frame.where(condition).select("id").collect()} == found


@pytest.fixture(scope="module")
def edges(spark_session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The values of `SKIPPED`, a file for each."""
    columns = {"id": "BIGINT", **{name: kind for name, (kind, _) in SKIPPED.items()}}
    table = delta_table(columns=columns, options={"auto-compaction": "false"})
    written = Written(spark_session, tmp_path_factory.mktemp("edges"), table)
    values = [(n, *(all_of[n] for _, all_of in SKIPPED.values())) for n in range(8)]
    schema = spark_schema(written.table.schema.physical)
    frame = spark_session.createDataFrame(values, schema)
    written.write(0, frame.repartitionByRange(8, "id"))
    return written


def test_files_are_skipped_by_their_statistics(written: Written) -> None:
    """A file that cannot hold the rows asked for is not even opened: it is not there."""
    spark = written.spark
    written.write(0, numbers(spark, 0, 10, tasks=1))
    (low,) = written.data_files()
    written.write(1, numbers(spark, 10, 20, tasks=1))
    (high,) = written.data_files() - {low}
    (written.path / high).unlink()
    found = spark.read.format("delta").load(str(written.path))

    assert found.where("id < 10").count() == 10
    assert found.where("name = 'n5'").count() == 1
    assert found.where("id IS NULL").count() == 0


def test_a_batch_that_is_there_is_passed_over_and_leaves_no_file(written: Written) -> None:
    """One that Spark's stream wrote has no digest; one with a digest is not even written."""
    spark = written.spark
    batch = micro_batch(spark, written.folder / "checkpoint", 0)
    writer = numbers(spark, 0, 4).write.format("delta").mode("append")
    writer.option("txnAppId", batch.application_id).option("txnVersion", 0).save(str(written.path))
    before = written.data_files()
    for _ in range(2):
        written.write(0, numbers(spark, 0, 4))
    assert written.data_files() == before

    written.write(1, numbers(spark, 4, 6))
    before = written.data_files()
    another = DeltaConnector(project=written.folder).sink(written.table)
    for sink in (written.sink, another):
        written.write(1, numbers(spark, 4, 6), sink=sink)

    assert written.data_files() == before
    assert written.ids() == list(range(6))


def test_a_log_with_a_checkpoint_says_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """Its metadata and protocol are there, in whatever form, and commits before it may be gone."""
    options = {"delta.checkpointInterval": "2", "delta.appendOnly": "true"}
    written = Written(spark, tmp_path, delta_table(columns=IDS, options=options))
    before = written.output()
    for number in range(3):
        written.write(number, numbers(spark, number, number + 1, tasks=1))
    assert isinstance(written.sink, DeltaSink)
    assert written.sink.writer.behind.wait(WAIT_S)
    log = written.path / "_delta_log"
    (checkpoint,) = log.glob("*2.checkpoint*.parquet")
    for number in range(2):
        (log / f"{number:020}.json").unlink()

    assert checkpoint.is_file()
    assert written.output() == before


def test_a_batch_with_other_content_is_refused(written: Written) -> None:
    """As rows are."""
    spark = written.spark
    written.write(0, numbers(spark, 0, 2))
    batch = micro_batch(spark, written.folder / "checkpoint", 0, offsets="elsewhere")
    sink = DeltaConnector(project=written.folder).sink(written.table)
    with pytest.raises(StateMismatchError, match="with other rows"):
        write_by_tasks(sink, written.table, numbers(spark, 0, 3), batch)

    assert written.ids() == [0, 1]


def test_a_null_in_a_required_column_is_refused_as_by_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The same words, and nothing of the batch is there."""
    columns = {"id": "BIGINT NOT NULL", "name": "STRING"}
    written = Written(spark, tmp_path, delta_table(columns=columns))
    frame = numbers(spark, 0, 4).selectExpr("nullif(id, 3) AS id", "name")
    errors = []
    with pytest.raises(Exception, match="NOT NULL constraint violated") as caught:
        written.write(0, frame)
    errors.append(str(caught.value))
    with pytest.raises(SinkError) as by_spark:
        written.sink.write_batch(frame, micro_batch(spark, tmp_path / "other", 0))

    assert by_spark.value.message in errors[0]
    assert written.ids() == []


def test_a_table_that_was_changed_meanwhile_gets_its_rows_by_spark(written: Written) -> None:
    """A new column is NULL, a new constraint is checked; what the tasks wrote is removed."""
    spark = written.spark
    output = written.output()
    written.write_by(output, 0, numbers(spark, 0, 2))
    written.sql("ALTER TABLE {t} ADD COLUMNS (more INT)")
    written.write_by(output, 1, numbers(spark, 2, 4))
    written.sql("ALTER TABLE {t} ADD CONSTRAINT small CHECK (id < 6)")
    written.write_by(output, 2, numbers(spark, 4, 6))
    with pytest.raises(Exception, match="small"):
        written.write_by(output, 3, numbers(spark, 6, 8))
    written.sql("ALTER TABLE {t} DROP CONSTRAINT small")
    written.write(3, numbers(spark, 6, 8))

    assert rows(spark, written.path) == [(each, f"n{each}", None) for each in range(8)]
    added = [a["add"]["path"] for a in written.commits() if "add" in a]
    assert len(added) == len(set(added)) == 8
    written.sql("ALTER TABLE {t} ADD CONSTRAINT small CHECK (id < 60)")
    assert written.sink.task_writer is not None
    found = written.sink.task_writer.output(filled_columns(written.table, ("id", "name")), spark)
    assert found == WrittenByEngine(reason="the table has the CHECK constraint small")


def test_a_file_that_vanishes_before_its_commit_fails_the_batch(written: Written) -> None:
    """A table never names a file that is not there, nor one that is cut off; the batch is written again."""
    spark = written.spark
    written.write(0, numbers(spark, 0, 2))
    named, there = written.named(), set[str]()

    def vacuum() -> None:
        with configured(spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
            written.sql("VACUUM {t} RETAIN 0 HOURS")

    def cut_off() -> None:
        (one, *_) = sorted(written.data_files() - there)
        (written.path / one).write_bytes(b"PAR1")

    for meanwhile, how in ((vacuum, "removed"), (cut_off, "changed")):
        there = written.data_files()
        with pytest.raises(SinkError, match=f"was {how} before it was committed"):
            written.write_and(meanwhile, 1, numbers(spark, 2, 4))
        assert written.named() == named
    written.write(1, numbers(spark, 2, 4))

    assert written.ids() == list(range(4))
    assert written.named() <= written.data_files()


def test_a_table_that_is_changed_before_the_commit_of_files_gets_their_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By Spark, which reads them from the files, whatever the folder is called."""
    options = {"auto-compaction": "false"}
    written = Written(
        spark, tmp_path, delta_table("a [b] {c,d} %20 'e'", columns=IDS, options=options)
    )

    def change(text: str) -> None:
        spark.sql(f"ALTER TABLE delta.`{written.path}` {text}")

    written.write_and(partial(change, "ADD COLUMNS (more INT)"), 0, numbers(spark, 0, 2))
    constraint = partial(change, "ADD CONSTRAINT small CHECK (id < 3)")
    with pytest.raises(Exception, match="small"):
        written.write_and(constraint, 1, numbers(spark, 2, 4))
    change("DROP CONSTRAINT small")
    written.write(1, numbers(spark, 2, 4))

    assert rows(spark, written.path) == [(each, f"n{each}", None) for each in range(4)]


def test_a_table_that_is_made_again_before_the_commit_ends_the_pipeline(written: Written) -> None:
    """The rows of earlier batches are gone: going on would hide it."""
    spark = written.spark
    written.write(0, numbers(spark, 0, 2))
    written.sink.check_resumes(spark, str(written.folder / "checkpoint"), "")

    def make_again() -> None:
        shutil.rmtree(written.path)
        written.sink.prepare(spark, spark_schema(written.table.schema.physical))

    with pytest.raises(StateMismatchError, match="removed and created again"):
        written.write_and(make_again, 1, numbers(spark, 2, 4))
    assert written.ids() == []

    # one that does not know which table it was
    written.sink = DeltaConnector(project=written.folder).sink(written.table)
    with pytest.raises(SinkError, match="was removed before it was committed"):
        written.write_and(make_again, 1, numbers(spark, 2, 4))
    assert written.ids() == []


def test_optimize_and_vacuum_meanwhile_cost_nothing(written: Written) -> None:
    """OPTIMIZE replaces files of earlier batches; VACUUM removes those that no commit names, and no young one."""
    spark = written.spark
    written.write(0, numbers(spark, 0, 4))
    orphans = files_of(numbers(spark, 90, 94), written.output()).collect()
    written.sql("OPTIMIZE {t}")
    written.sql("VACUUM {t}")
    written.write(1, numbers(spark, 4, 8))

    assert written.ids() == list(range(8))
    assert {row[0] for row in orphans} <= written.data_files()
    with_old = spark.conf.get("spark.databricks.delta.retentionDurationCheck.enabled", None)
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        written.sql("VACUUM {t} RETAIN 0 HOURS")
    finally:
        if with_old is None:
            spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert not {row[0] for row in orphans} & written.data_files()
    assert written.ids() == list(range(8))


def test_small_files_are_put_together_behind_a_commit(spark: SparkSession, tmp_path: Path) -> None:
    """A deletion by vectors goes on from there."""
    options = {"delta.enableDeletionVectors": "true"}
    written = Written(spark, tmp_path, delta_table(columns=IDS, options=options))
    with configured(spark, {"spark.databricks.delta.autoCompact.minNumFiles": "5"}):
        written.write(0, numbers(spark, 0, 8, tasks=4))
        written.write(1, numbers(spark, 8, 12))
    assert isinstance(written.sink, DeltaSink)
    assert written.sink.writer.behind.wait(120)
    written.sql("DELETE FROM {t} WHERE id = 9")
    operations = [a["commitInfo"]["operation"] for a in written.commits() if "commitInfo" in a]

    assert operations == [
        "CREATE TABLE",
        "STREAMING UPDATE",
        "STREAMING UPDATE",
        "OPTIMIZE",
        "DELETE",
    ]
    assert written.ids() == [each for each in range(12) if each != 9]


def test_settings_of_the_session_are_followed(written: Written) -> None:
    """The compression that Spark writes with; one that Arrow has not leaves it to Spark."""
    spark = written.spark
    found = []
    for codec in ("zstd", "uncompressed", "lzo"):
        spark.conf.set("spark.sql.parquet.compression.codec", codec)
        try:
            assert written.sink.task_writer is not None
            found.append(written.sink.task_writer.output((), spark))
            if codec == "zstd":
                written.write(0, numbers(spark, 0, 2))
        finally:
            spark.conf.unset("spark.sql.parquet.compression.codec")

    assert [getattr(one, "compression", one) for one in found] == [
        "zstd",
        "none",
        WrittenByEngine(reason="spark.sql.parquet.compression.codec = lzo"),
    ]
    assert all(name.endswith("-c000.zstd.parquet") for name in written.data_files())
    assert written.ids() == [0, 1]


# --- partitions ---


PARTITIONED_BY = {
    "pa": "BOOLEAN",
    "pb": "TINYINT",
    "pc": "BIGINT",
    "pd": "DECIMAL(38, 18)",
    "pe": "DECIMAL(9, 2)",
    "p:f": "STRING",
    "pg": "DATE",
    "ph": "TIMESTAMP(6)",
    "Pi": "TIMESTAMP_LTZ(6)",
}
PARTITIONS = (
    "true, -128Y, 9223372036854775807L, CAST('12345678901234567890.1' AS DECIMAL(38, 18)), "
    "CAST(1.5 AS DECIMAL(9, 2)), 'a/b:c%d=e?f#g', DATE'0001-01-01', "
    "TIMESTAMP_NTZ'2026-03-29 02:30:00', TIMESTAMP'2026-11-23 10:00:00.123456+02:00'",
    "false, 127Y, -1L, CAST('0.000000000000000001' AS DECIMAL(38, 18)), "
    "CAST(-0.00 AS DECIMAL(9, 2)), 'ä🙂 {}[]^~`<>|+&;,@$!()', DATE'9999-12-31', "
    "TIMESTAMP_NTZ'0001-01-01 00:00:00.12', TIMESTAMP'1582-10-04 00:00:00Z'",
    r"NULL, 0Y, 0L, CAST(0 AS DECIMAL(38, 18)), CAST(10 AS DECIMAL(9, 2)), '\n\t\'\"\\*\u0001\u007f\u0080\u00a0', "
    "DATE'1500-03-01', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999', "
    "TIMESTAMP'9999-12-31 23:59:59.999999Z'",
    "NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL",
    "true, 1Y, 1L, CAST(1 AS DECIMAL(38, 18)), CAST(1 AS DECIMAL(9, 2)), ' ', DATE'1970-01-01', "
    "TIMESTAMP_NTZ'1970-01-01 00:00:00', TIMESTAMP'0001-01-01 00:00:00Z'",
    "true, 1Y, 1L, CAST(1 AS DECIMAL(38, 18)), CAST(1 AS DECIMAL(9, 2)), '..', DATE'1970-01-01', "
    "TIMESTAMP_NTZ'1970-01-01 00:00:00', TIMESTAMP'1969-12-31 23:59:59.999999Z'",
)


def partitioned_rows(spark: SparkSession, table: Table) -> DataFrame:
    """Each of `PARTITIONS` twice, with numbers."""
    values = [f"({at}L, {row})" for at, row in enumerate((*PARTITIONS, *PARTITIONS))]
    casts = (
        f"CAST(col{n + 1} AS {f.dataType.simpleString()}) AS `{f.name}`"
        for n, f in enumerate(spark_schema(table.schema.physical))
    )
    return spark.sql(f"SELECT {', '.join(casts)} FROM VALUES {', '.join(values)}")


def partitioned_table(name: str, partitions: Sequence[str] = tuple(PARTITIONED_BY)) -> Table:
    return delta_table(
        name,
        name=name,
        columns={"id": "BIGINT", **PARTITIONED_BY},
        partition_keys=tuple(partitions),
        options={"auto-compaction": "false"},
    )


def adds(one: Written) -> list[tuple[Any, ...]]:
    """Folder, partition and statistics of the files that commits added."""
    found = [a["add"] for a in one.commits() if "add" in a]
    return sorted(
        (
            add["path"].rpartition("/")[0],
            sorted(add["partitionValues"].items()),
            add["stats"].replace(" ", ""),
        )
        for add in found
    )


def test_partitions_are_as_if_spark_had_written_them(spark: SparkSession, tmp_path: Path) -> None:
    """In the log, in names of folders, and for Spark, delta-rs and DuckDB, which read the same rows."""
    here, there = (
        Written(spark, tmp_path, partitioned_table(name)) for name in ("by_tasks", "by_spark")
    )
    frame = partitioned_rows(spark, here.table).coalesce(1).localCheckpoint()
    here.write(0, frame)
    there.sink.write_batch(frame, micro_batch(spark, tmp_path / "spark", 0))

    assert len(adds(here)) == len(PARTITIONS)
    assert adds(here) == adds(there)
    assert rows_as_text(here) == rows_as_text(there)
    assert len(rows_as_text(here)) == 2 * len(PARTITIONS)
    found = [deltalake.DeltaTable(str(one.path)).to_pyarrow_dataset() for one in (here, there)]
    by_delta_rs = [one.to_table().sort_by("id").to_pylist() for one in found]
    assert by_delta_rs[0] == by_delta_rs[1]
    dataset = found[0]  # noqa: F841  found by DuckDB by its name
    with duckdb.connect() as connection:
        query = 'SELECT id, "p:f", pg, pd FROM dataset ORDER BY id'
        assert connection.execute(query).fetchall() == [
            (row["id"], row["p:f"], row["pg"], row["pd"]) for row in by_delta_rs[0]
        ]


def test_partitions_of_negative_decimals_are_as_if_spark_had_written_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """delta-rs, left out here, reads neither: it writes their value -1.50 to itself as '-1.-50' (1.6)."""
    table = [
        delta_table(
            name,
            name=name,
            columns={"id": "BIGINT", "part": "DECIMAL(38, 18)"},
            partition_keys=("part",),
            options={"auto-compaction": "false"},
        )
        for name in ("by_tasks", "by_spark")
    ]
    here, there = (Written(spark, tmp_path, one) for one in table)
    texts_of_parts = ("-1.50", "-0.5", "-0.000000000000000001", "-99999999999999999999")
    values = ", ".join(
        f"({at}L, CAST('{text}' AS DECIMAL(38, 18)))" for at, text in enumerate(texts_of_parts)
    )
    frame = spark.sql(f"SELECT * FROM VALUES {values} AS t(id, part)").coalesce(1).localCheckpoint()
    here.write(0, frame)
    there.sink.write_batch(frame, micro_batch(spark, tmp_path / "spark", 0))

    assert len(adds(here)) == len(texts_of_parts)
    assert adds(here) == adds(there)
    assert rows_as_text(here) == rows_as_text(there)


def rows_as_text(one: Written) -> list[str]:
    """All rows by Spark, in order."""
    return texts(one.spark.read.format("delta").load(str(one.path)).orderBy("id"))


def texts(frame: DataFrame) -> list[str]:
    """Rows as Spark writes their values: Python has not all of them."""
    shown = frame.select(*(F.col(f"`{name}`").cast("string") for name in frame.columns))
    return [repr(row) for row in shown.collect()]


def test_what_others_do_to_partitions_meanwhile_costs_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    """OPTIMIZE and VACUUM know the files by their names in the log; a partition that is asked for is found."""
    written = Written(spark, tmp_path, partitioned_table("orders", ("p:f",)))
    frame = partitioned_rows(spark, written.table).coalesce(1).localCheckpoint()
    written.write(0, frame)
    before = rows_as_text(written)
    written.sql("OPTIMIZE {t} WHERE `p:f` = ' '")
    written.write(1, frame.where("id < 6"))
    with configured(spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        written.sql("VACUUM {t} RETAIN 0 HOURS")
    table = spark.read.format("delta").load(str(written.path))

    assert len(rows_as_text(written)) == len(before) + 6 == 18
    assert table.where("`p:f` = 'a/b:c%d=e?f#g'").count() == 3
    assert table.where("`p:f` IS NULL").count() == 3


def test_a_partitioned_table_that_is_changed_before_the_commit_gets_its_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By Spark, with the values of the partitions; a text that is the name of NULL's folder stays one in files of tasks."""
    written = Written(spark, tmp_path, partitioned_table("orders"))
    frame = partitioned_rows(spark, written.table)
    written.write_and(partial(written.sql, "ALTER TABLE {t} ADD COLUMNS (more INT)"), 0, frame)
    plain = Written(spark, tmp_path, partitioned_table("plain"))
    plain.write(0, frame)
    named = frame.withColumn("p:f", F.lit("__HIVE_DEFAULT_PARTITION__"))
    plain.write(1, named.where("id < 2"))
    found = spark.read.format("delta").load(str(written.path))

    assert found.where("more IS NOT NULL").count() == 0
    shown = found.drop("more").orderBy("id")
    expected = spark.read.format("delta").load(str(plain.path))
    kept = expected.where("`p:f` IS NULL OR `p:f` <> '__HIVE_DEFAULT_PARTITION__'").orderBy("id")
    assert texts(shown) == texts(kept)
    assert expected.count() - kept.count() == 2


def test_the_empty_text_is_no_partition(spark: SparkSession, tmp_path: Path) -> None:
    """It is NULL, which a NOT NULL column refuses whoever writes."""
    table = delta_table(
        columns={"id": "BIGINT", "p": "STRING NOT NULL"},
        partition_keys=("p",),
        options={"auto-compaction": "false"},
    )
    written = Written(spark, tmp_path, table)
    frame = spark.sql("SELECT 1L AS id, '' AS p")
    with pytest.raises(Exception, match="NOT NULL constraint violated for column: p"):
        written.write(0, frame)
    with pytest.raises(Exception, match="NOT NULL constraint violated for column: p"):
        written.sink.write_batch(frame, micro_batch(spark, tmp_path / "checkpoint", 0))
    written.write(0, spark.sql("SELECT 1L AS id, 'x' AS p"))

    assert written.ids() == [1]
