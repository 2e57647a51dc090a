"""Writing files on Spark: read again by our own source, once however often a batch is replayed, whole after a crash."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.orc
import pyarrow.parquet
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.catalog.errors import DefinitionError, InputError, StateMismatchError
from penstock.catalog.table import Table
from penstock.connector.contract import Sink
from penstock.connector.filesystem.connector import FilesystemConnector
from penstock.connector.spark import hadoop_files
from tests.connector.filesystem.tables import file_source, file_table, read
from tests.connector.spark.micro_batches import QUERY, micro_batch


def sink_of(table: Table) -> Sink:
    return FilesystemConnector(project=Path("/")).sink(table)


def visible(folder: Path) -> list[str]:
    """The files that a reader of the folder sees."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(
        str(path) for path in found if not any(part.startswith(("_", ".")) for part in path.parts)
    )


def ids(folder: Path, name: str = "id") -> list[int]:
    """The ids in all visible files of JSON lines, sorted."""
    lines = (line for name in visible(folder) for line in (folder / name).read_text().splitlines())
    return sorted(json.loads(line)[name] for line in lines)


def numbers(spark: SparkSession, start: int, stop: int) -> DataFrame:
    return spark.range(start, stop, numPartitions=2)


TYPES = {
    "id": ("BIGINT", "7L"),
    "text": ("STRING", "'a \"b\" ü'"),
    "nothing": ("STRING", "CAST(NULL AS STRING)"),
    "amount": ("DECIMAL(10, 2)", "CAST(1.5 AS DECIMAL(10, 2))"),
    "at": ("TIMESTAMP(6)", "TIMESTAMP_NTZ'2026-01-31 10:00:00.123456'"),
    "instant": ("TIMESTAMP_LTZ(3)", "TIMESTAMP'2026-01-31 10:00:00+02:00'"),
    "raw": ("BYTES", "X'48ff'"),
    "tags": ("ARRAY<INT>", "array(1, 2)"),
    "inner": (
        "ROW<x INT, `at` TIMESTAMP(3)>",
        "named_struct('x', 1, 'at', TIMESTAMP_NTZ'2026-01-31 10:00:00')",
    ),
    "day": ("DATE", "DATE'2026-01-31'"),
    "hour": ("STRING", "CAST(NULL AS STRING)"),
}


@pytest.mark.parametrize("standard", ["SQL", "ISO-8601-WITH-OFFSET"])
def test_what_was_written_is_read_again(spark: SparkSession, tmp_path: Path, standard: str) -> None:
    """By our own source, value by value, partitions and their NULL included; success files mark folders."""
    folder = tmp_path / "out"
    columns = {name: kind for name, (kind, _) in TYPES.items()}
    options = {
        "json.timestamp-format.standard": standard,
        "sink.partition-commit.policy.kind": "success-file",
        "sink.shuffle-by-partition.enable": "true",
        "sink.parallelism": "1",
    }
    table = file_table(folder, options, columns=columns, partitions=["day", "hour"])
    text = ", ".join(f"{value} AS {name}" for name, (_, value) in TYPES.items())
    frame = spark.sql(f"SELECT {text}")
    sink = sink_of(table)
    sink.prepare(spark, frame.schema)
    sink.write(frame)
    source = file_source(folder, options, columns=columns, partitions=["day", "hour"])
    (rows,) = read(source, list(columns)).rows.values()
    leaf = folder / "day=2026-01-31" / "hour=__DEFAULT_PARTITION__"

    assert rows == frame.toArrow().to_pylist()
    assert (leaf / "_SUCCESS").exists()
    assert len(list(leaf.glob("part-insert-*.json"))) == 1
    assert list((folder / "_penstock").iterdir()) == []


@pytest.mark.parametrize("format_name", ["csv", "parquet", "orc"])
def test_other_formats_are_for_others(
    spark: SparkSession, tmp_path: Path, format_name: str
) -> None:
    """An empty batch adds no file; columns that the INSERT leaves out are NULL."""
    table = file_table(
        tmp_path / "out", {"format": format_name}, columns={"id": "BIGINT", "note": "STRING"}
    )
    sink = sink_of(table)
    sink.write(numbers(spark, 0, 3).coalesce(1))
    sink.write(numbers(spark, 0, 0))
    (name,) = visible(tmp_path / "out")
    path = tmp_path / "out" / name

    match format_name:
        case "csv":
            assert path.read_text() == "0,\n1,\n2,\n"
        case "parquet":
            assert pyarrow.parquet.read_table(path).to_pydict()["id"] == [0, 1, 2]
        case _:
            assert pyarrow.orc.read_table(path).to_pydict()["id"] == [0, 1, 2]


def test_a_batch_that_is_replayed_adds_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever its rows and files would be now; the next batch comes after it."""
    sink = sink_of(file_table(tmp_path / "out"))
    first = micro_batch(spark, tmp_path / "checkpoint", 0)
    sink.write_batch(numbers(spark, 0, 10), first)
    before = visible(tmp_path / "out")
    sink.write_batch(numbers(spark, 0, 10).repartition(5), first)

    assert visible(tmp_path / "out") == before
    assert before == [f"part-{QUERY}-0-0000{n}.json" for n in (0, 1)]
    sink.write_batch(numbers(spark, 10, 12), micro_batch(spark, tmp_path / "checkpoint", 1))
    assert ids(tmp_path / "out") == list(range(12))


class CrashError(Exception):
    """The driver dies here."""


@pytest.mark.parametrize(
    ("function", "call"),
    [("write_text", 1), ("rename", 1), ("rename", 2), ("delete", 2)],
    ids=["before the manifest", "before a rename", "between renames", "after the renames"],
)
def test_a_crash_anywhere_is_mended_by_the_replay(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    call: int,
) -> None:
    """Files of the first attempt and of the second are never mixed: rows come in another order then."""
    sink = sink_of(file_table(tmp_path / "out"))
    batch = micro_batch(spark, tmp_path / "checkpoint", 0)
    real = getattr(hadoop_files, function)
    calls = []

    def dying(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == call:
            raise CrashError
        return real(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(hadoop_files, function, dying)
        with pytest.raises(CrashError):
            sink.write_batch(numbers(spark, 0, 10), batch)
    sink.write_batch(numbers(spark, 0, 10).orderBy("id", ascending=False).repartition(3), batch)

    assert ids(tmp_path / "out") == list(range(10))
    assert [p.name for p in (tmp_path / "out" / "_penstock" / QUERY).glob("[!.]*")] == [
        f"{0:020d}.json"
    ]


def test_an_insert_that_was_cut_off_is_finished_by_the_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its manifest is there, its files are not."""
    sink = sink_of(file_table(tmp_path / "out"))

    def dying(*_: object) -> bool:
        raise CrashError

    with monkeypatch.context() as patched:
        patched.setattr(hadoop_files, "rename", dying)
        with pytest.raises(CrashError):
            sink.write(numbers(spark, 0, 3))
    assert visible(tmp_path / "out") == []
    sink.prepare(spark, numbers(spark, 0, 3).schema)

    assert ids(tmp_path / "out") == [0, 1, 2]


def test_a_folder_that_is_not_the_checkpoints_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Emptied, or with another batch of that number."""
    sink = sink_of(file_table(tmp_path / "out"))
    with pytest.raises(StateMismatchError, match="holds nothing"):
        sink.write_batch(numbers(spark, 0, 1), micro_batch(spark, tmp_path / "c", 4))
    sink.write_batch(numbers(spark, 0, 1), micro_batch(spark, tmp_path / "c", 0))
    with pytest.raises(StateMismatchError, match="other offsets"):
        sink.write_batch(numbers(spark, 0, 1), micro_batch(spark, tmp_path / "c", 0, offsets="x"))

    assert ids(tmp_path / "out") == [0]


def test_a_target_that_cannot_be_is_refused_before_the_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A file in the place of the folder; a NOT NULL column that is not filled."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="is a file"):
        sink_of(file_table(tmp_path / "file")).prepare(spark, spark.range(1).schema)
    strict = file_table(tmp_path / "out", columns={"id": "BIGINT", "b": "INT NOT NULL"})
    with pytest.raises(DefinitionError, match="leaves out column b"):
        sink_of(strict).prepare(spark, spark.range(1).schema)
    with pytest.raises(Exception, match="column b is NOT NULL, and the query gives NULL"):
        sink_of(strict).write(spark.sql("SELECT 1L AS id, CAST(NULL AS INT) AS b"))

    assert visible(tmp_path / "out") == []
