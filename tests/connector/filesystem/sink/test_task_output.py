"""Which Parquet tables tasks write, and why Spark writes the others; the folder is the same whoever does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.catalog.errors import SinkError
from penstock.catalog.model.table import Table
from penstock.connector.contract import Sink
from penstock.connector.failpoints import reach
from penstock.connector.file_output import FileOutput, WrittenByEngine
from penstock.connector.filesystem.connector import FilesystemConnector
from penstock.connector.filesystem.sink import sink as sink_module
from penstock.connector.filesystem.sink.sink import FilesystemSink
from penstock.connector.spark.session import configured
from tests.connector.filesystem.tables import file_table
from tests.connector.spark.micro_batches import micro_batch
from tests.connector.spark.task_files import filled_columns, write_by_tasks

PARQUET = {"format": "parquet"}
PLAIN = {"id": "BIGINT NOT NULL", "name": "VARCHAR(20)", "at": "TIMESTAMP(3)"}


def table_of(
    path: Path | str = "/out",
    options: Mapping[str, str] | None = None,
    columns: Mapping[str, str] | None = None,
    partitions: tuple[str, ...] = (),
) -> Table:
    """A table of Parquet files."""
    options = {**PARQUET, **(options or {})}
    return file_table(path, options, columns=columns or PLAIN, partitions=partitions)


def sink_of(table: Table) -> Sink:
    return FilesystemConnector(project=Path("/")).sink(table)


def decided(table: Table, spark: SparkSession | None = None) -> FileOutput | WrittenByEngine:
    """What is decided for an INSERT that fills all columns with values of their types."""
    sink = sink_of(table)
    assert sink.task_writer is not None
    found = sink.task_writer.output(filled_columns(table, table.schema.names), spark)
    assert isinstance(found, FileOutput | WrittenByEngine)
    return found


def test_a_plain_table_is_written_by_tasks() -> None:
    """Types as files have them; a folder of this machine, as a path or a URL."""
    options = {"sink.max-rows-per-file": "7", "parquet.compression": "UNCOMPRESSED"}
    found = decided(table_of("file:/some/out", options, partitions=("at",)))

    assert isinstance(found, FileOutput)
    assert (found.folder, found.partitions) == ("/some/out", ("at",))
    assert (found.compression, found.max_rows_per_file) == ("none", 7)
    assert [(c.name, str(c.type), c.required) for c in found.columns] == [
        ("id", "BIGINT", True),
        ("name", "STRING", False),
        ("at", "TIMESTAMP(6)", False),
    ]


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (table_of(options={"sink.writer": "spark"}), "'sink.writer' = 'spark'"),
        (table_of("s3://bucket/out"), "tasks write into folders of this machine alone"),
        (table_of(options={"sink.parallelism": "2"}), "'sink.parallelism' distributes the rows"),
        (
            table_of(options={"sink.shuffle-by-partition.enable": "true"}, partitions=("name",)),
            "'sink.shuffle-by-partition.enable' distributes the rows",
        ),
        (table_of(options={"parquet.compression": "LZ4"}), "parquet.compression = lz4"),
        (
            table_of(columns={"id": "INT", "r": "ROW<x INT NOT NULL>"}),
            "column r: a part of it is NOT NULL",
        ),
        (
            table_of(columns={"id": "INT", "part": "DOUBLE"}, partitions=("part",)),
            "the table is partitioned by column part of type DOUBLE",
        ),
        (
            table_of(columns={"id": "INT", "part": "STRING NOT NULL"}, partitions=("part",)),
            "the table is partitioned by column part, a text that is NOT NULL",
        ),
    ],
)
def test_spark_writes_what_tasks_would_not_write_alike(table: Table, why: str) -> None:
    """The reason completes "as"."""
    assert decided(table) == WrittenByEngine(reason=why)


def test_a_value_of_another_type_is_left_to_spark() -> None:
    """What fills a column is of its type, or Spark casts it."""
    table = table_of()
    other = filled_columns(table_of(columns={"id": "INT"}), ["id"])
    writer = sink_of(table).task_writer
    assert writer is not None

    assert writer.output(other) == WrittenByEngine(reason="column id is cast from INT to BIGINT")


@pytest.mark.parametrize("name", ["json", "csv", "orc", "raw"])
def test_spark_alone_writes_other_formats(name: str) -> None:
    """EXPLAIN has nothing to say of them."""
    columns = {"line": "STRING"}

    assert sink_of(file_table("/out", {"format": name}, columns=columns)).task_writer is None


def test_settings_of_the_session_are_followed_or_left_to_spark(spark: SparkSession) -> None:
    """The table's own compression and limit come first."""
    instants = table_of(columns={"id": "INT", "at": "TIMESTAMP_LTZ(3)"})
    own = table_of(options={"sink.max-rows-per-file": "7", "parquet.compression": "GZIP"})
    codec, most = "spark.sql.parquet.compression.codec", "spark.sql.files.maxRecordsPerFile"
    stamps, legacy = (
        "spark.sql.parquet.outputTimestampType",
        "spark.sql.parquet.writeLegacyFormat",
    )
    with configured(spark, {codec: "zstd", most: "9", stamps: "TIMESTAMP_MILLIS"}):
        found, kept = decided(table_of(), spark), decided(own, spark)
        assert isinstance(found, FileOutput)
        assert isinstance(kept, FileOutput)
        assert (found.compression, found.max_rows_per_file) == ("zstd", 9)
        assert (kept.compression, kept.max_rows_per_file) == ("gzip", 7)
        assert decided(instants, spark) == WrittenByEngine(reason=f"{stamps} = TIMESTAMP_MILLIS")
    with configured(spark, {legacy: "true"}):
        assert decided(own, spark) == WrittenByEngine(reason=f"{legacy} = true")
    assert isinstance(decided(instants, spark), FileOutput)


COLUMNS = {
    "id": "BIGINT",
    "instant": "TIMESTAMP_LTZ(6)",
    "amount": "DECIMAL(10, 2)",
    "inner": "ROW<x INT, tags ARRAY<STRING>>",
    "counts": "MAP<STRING, DOUBLE>",
    "later": "DATE",
    "text": "STRING",
    "day": "DATE",
    "at": "TIMESTAMP(3)",
    "flag": "BOOLEAN",
}
ROWS = """
SELECT id, TIMESTAMP'2026-01-31 10:00:00.123456+02:00' AS instant, CAST(id / 3 AS DECIMAL(10, 2)) AS amount,
  named_struct('x', CAST(id AS INT), 'tags', array('a', NULL)) AS inner, map('k', double(id)) AS counts,
  element_at(array('', 'a/b=c%d', 'ü 🙂', NULL), CAST(1 + id % 4 AS INT)) AS text,
  IF(id % 4 = 0, NULL, DATE'0001-01-01') AS day,
  IF(id % 2 = 0, TIMESTAMP_NTZ'1969-12-31 23:59:59.9', TIMESTAMP_NTZ'2026-01-01') AS at, id % 3 = 0 AS flag
FROM range(0, 40, 1, 2)
"""


def files_in(folder: Path) -> list[str]:
    """What is in a table's folder: folders of partitions, names of files without what differs between runs."""
    found = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    names = (str(path) for path in found if path.parts[0] != "_penstock")
    return sorted(name for name in names if not name.endswith(".crc"))


def test_the_folder_is_the_same_whoever_writes(spark: SparkSession, tmp_path: Path) -> None:
    """Folders of partitions, success files, names and sizes of files, and each value, NULL and empty texts included."""
    options = {
        "sink.partition-commit.policy.kind": "success-file",
        "partition.default-name": "nothing",
        "sink.max-rows-per-file": "1",
    }
    keys = ("text", "day", "at", "flag")
    frame = spark.sql(ROWS)
    found = []
    for name in ("tasks", "spark"):
        table = table_of(tmp_path / name, options, COLUMNS, keys)
        sink, batch = sink_of(table), micro_batch(spark, tmp_path / f"checkpoint-{name}", 0)
        sink.prepare(spark, frame.schema)
        if name == "tasks":
            write_by_tasks(sink, table, frame, batch)
        else:
            sink.write_batch(frame, batch)
        relation = FilesystemConnector(project=Path("/")).publishable(table)
        assert relation is not None
        made = relation.relation(spark)
        assert made is not None
        rows = spark.sql(f"SELECT * FROM {made.text}").collect()
        found.append((files_in(tmp_path / name), sorted(map(repr, rows))))
    by_tasks, by_spark = found
    path = next((tmp_path / "tasks").glob("text=nothing/day=nothing/at=1969*/flag=true/part-*"))

    assert by_tasks[1] == by_spark[1]
    assert by_tasks[0] == by_spark[0]
    assert len(by_tasks[1]) == 40
    assert "arrow" in pq.ParquetFile(path).metadata.created_by
    assert any(name.endswith("flag=true/_SUCCESS") for name in by_tasks[0])


def numbers(spark: SparkSession, first: int, last: int) -> DataFrame:
    return spark.range(first, last, numPartitions=2)


def ids(folder: Path) -> list[int]:
    """The ids in the files that readers see."""
    found = [pq.read_table(path)["id"].to_pylist() for path in folder.glob("part-*.parquet")]
    return sorted(each for ids in found for each in ids)


def dying(name: str) -> Callable[[str], None]:
    """A failpoint at which this process's driver dies."""

    def die(point: str) -> None:
        reach(point)
        if point == name:
            raise SystemExit(point)

    return die


def staged(folder: Path) -> list[Path]:
    """What the attempts of batches have left."""
    return [path for path in (folder / "_penstock").rglob("*.parquet") if path.is_file()]


def test_a_driver_that_dies_between_files_and_manifest_or_between_files_loses_none(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files without a manifest are nobody's, and go with the batch; those of a manifest come, whoever runs next."""
    table = table_of(tmp_path / "out", columns={"id": "BIGINT NOT NULL"})
    batches = [micro_batch(spark, tmp_path / "checkpoint", number) for number in range(3)]
    write_by_tasks(sink_of(table), table, numbers(spark, 0, 10), batches[0])
    with monkeypatch.context() as patch:
        patch.setattr(sink_module, "reach", dying("files-written"))
        with pytest.raises(SystemExit):
            write_by_tasks(sink_of(table), table, numbers(spark, 10, 20), batches[1])
    seen, left = ids(tmp_path / "out"), len(staged(tmp_path / "out"))
    with monkeypatch.context() as patch:
        patch.setattr("penstock.connector.filesystem.sink.publish.reach", dying("moving"))
        with pytest.raises(SystemExit):
            write_by_tasks(sink_of(table), table, numbers(spark, 10, 20), batches[1])
    # what is decided stays, whatever a replay would write
    write_by_tasks(sink_of(table), table, numbers(spark, 10, 20), batches[1])
    write_by_tasks(sink_of(table), table, numbers(spark, 10, 20), batches[1])
    sink_of(table).write_batch(numbers(spark, 20, 30), batches[2])

    assert (seen, left) == (list(range(10)), 2)
    assert ids(tmp_path / "out") == list(range(30))
    assert staged(tmp_path / "out") == []


def test_null_where_the_table_takes_none_ends_the_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    """With the table's name; nothing stays behind."""
    table = table_of(tmp_path / "out", columns={"id": "BIGINT NOT NULL"})
    sink = sink_of(table)
    assert isinstance(sink, FilesystemSink)
    batch = micro_batch(spark, tmp_path / "checkpoint", 0)
    frame = spark.sql("SELECT CAST(NULL AS BIGINT) AS id")
    with pytest.raises(Exception, match="orders does not take a row: NOT NULL") as error:
        write_by_tasks(sink, table, frame, batch)

    assert not isinstance(error.value, SinkError), "the task's"
    assert staged(tmp_path / "out") == []
    assert ids(tmp_path / "out") == []
