"""Writing files on Spark: read again by our own source, once however often a batch is replayed, whole after a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow.orc
import pyarrow.parquet
import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.catalog.definitions.leases import Owner
from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    PipelineLockedError,
    SinkError,
    StateMismatchError,
)
from penstock.catalog.model.table import Table
from penstock.connector.contract import Sink
from penstock.connector.filesystem.connector import FilesystemConnector
from penstock.connector.filesystem.sink import sink as sink_module
from penstock.connector.spark import hadoop_files
from penstock.connector.spark.sink.micro_batch import batch_digest
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
    [("write_text", 1), ("rename", 1), ("rename", 2), ("write_text", 2), ("delete", 1)],
    ids=["before the manifest", "before a rename", "between renames", "after them", "at the end"],
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
    assert ledger(tmp_path / "out") == [f"{0:020d}.done", f"{0:020d}.json"]


def ledger(folder: Path) -> list[str]:
    """What the query's writer has in its folder of manifests."""
    return sorted(path.name for path in (folder / "_penstock" / QUERY).glob("[!.]*"))


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, function: str, call: int, other: Callable[[], None]
) -> None:
    """Let `other` happen while a writer is paused before its `call`-th use of a function of `hadoop_files`."""
    real, calls = getattr(hadoop_files, function), []

    def paused(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == call:
            other()
        return real(*arguments)

    monkeypatch.setattr(hadoop_files, function, paused)


@pytest.mark.parametrize(
    ("function", "call", "beyond"),
    [
        ("write_text", 1, 1),
        ("write_text", 1, 3),
        ("rename", 1, 1),
        ("rename", 2, 1),
        ("write_text", 2, 2),
        ("delete", 1, 2),
    ],
    ids=[
        "before the manifest",
        "before the manifest of a batch that is long done",
        "before a rename",
        "between renames",
        "after them",
        "at the end",
    ],
)
def test_a_paused_runner_that_wakes_up_behind_its_successor_loses_no_row(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    call: int,
    beyond: int,
) -> None:
    """It may be refused, and removes and adds nothing; the rows come in another order in the successor's attempt."""
    out = tmp_path / "out"

    def successor() -> None:
        for number in range(beyond):
            rows = numbers(spark, number * 10, number * 10 + 10).orderBy("id", ascending=False)
            batch = micro_batch(spark, tmp_path / "c", number)
            sink_of(file_table(out)).write_batch(rows.repartition(3), batch)

    with monkeypatch.context() as patched:
        meanwhile(patched, function, call, successor)
        with suppress(StateMismatchError):
            batch = micro_batch(spark, tmp_path / "c", 0)
            sink_of(file_table(out)).write_batch(numbers(spark, 0, 10), batch)
    assert ids(out) == list(range(beyond * 10))
    rows = numbers(spark, beyond * 10, beyond * 10 + 1)
    sink_of(file_table(out)).write_batch(rows, micro_batch(spark, tmp_path / "c", beyond))

    assert ids(out) == list(range(beyond * 10 + 1))
    assert ledger(out) == [f"{beyond:020d}.done", f"{beyond:020d}.json"]


def test_a_runner_that_has_lost_its_lease_moves_no_file(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It is asked between files: the one that was moved stays, the successor moves the other."""
    lost = PipelineLockedError("lost it", hint="")
    answers = iter([None, None, None, lost])  # before the manifest, the moves, the first file
    batch = micro_batch(spark, tmp_path / "c", 0)
    sink = sink_of(file_table(tmp_path / "out"))
    with pytest.raises(PipelineLockedError):
        sink.write_batch(numbers(spark, 0, 10), replace(batch, lost_lease=lambda: next(answers)))
    before = visible(tmp_path / "out")
    sink.write_batch(numbers(spark, 0, 10), batch)

    assert len(before) == 1
    assert ids(tmp_path / "out") == list(range(10))


def test_two_inserts_at_once_lose_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each prepares, finds the other at work, and leaves its files alone."""
    out = tmp_path / "out"

    def other() -> None:
        sink = sink_of(file_table(out))
        sink.prepare(spark, numbers(spark, 0, 1).schema)
        sink.write(numbers(spark, 10, 20))

    meanwhile(monkeypatch, "rename", 1, other)
    sink_of(file_table(out)).write(numbers(spark, 0, 10))

    assert ids(out) == list(range(20))
    assert list((out / "_penstock").iterdir()) == []


def test_a_file_that_is_neither_staged_nor_in_its_place_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replay stops there, for good; once all was in place, others may take files away."""
    out, batch = tmp_path / "out", micro_batch(spark, tmp_path / "c", 0)
    sink = sink_of(file_table(out))
    with monkeypatch.context() as patched:
        meanwhile(patched, "rename", 2, _crash)
        with pytest.raises(CrashError):
            sink.write_batch(numbers(spark, 0, 10), batch)
    (moved,) = out.glob("part-*")
    kept = moved.rename(tmp_path / "kept")
    with pytest.raises(SinkError, match=f"{moved.name} is gone") as caught:
        sink.write_batch(numbers(spark, 0, 10), batch)
    moved.write_text("cut")
    with pytest.raises(SinkError, match="has 3 bytes, and 45 were written"):
        sink.write_batch(numbers(spark, 0, 10), batch)
    kept.replace(moved)
    sink.write_batch(numbers(spark, 0, 10), batch)
    complete = ids(out)
    moved.unlink()
    sink.write_batch(numbers(spark, 0, 10), batch)

    assert caught.value.permanent
    assert complete == list(range(10))
    assert not moved.exists()


def test_a_file_system_that_says_no_to_a_missing_source_loses_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As HDFS does, where others raise: the file that another runner has moved stays in its place."""
    out, batch = tmp_path / "out", micro_batch(spark, tmp_path / "c", 0)

    def late(spark: SparkSession, path: str, target: str) -> bool:
        Path(path).rename(target)  # by another
        return False

    monkeypatch.setattr(hadoop_files, "rename", late)
    sink_of(file_table(out)).write_batch(numbers(spark, 0, 10), batch)

    assert ids(out) == list(range(10))


def test_an_insert_that_was_cut_off_is_finished_by_the_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its manifest is there, its files are not; a start of a pipeline finishes it, too."""
    out = tmp_path / "out"
    sink = sink_of(file_table(out))

    def cut_off(start: int) -> None:
        with monkeypatch.context() as patched:
            meanwhile(patched, "rename", 1, _crash)
            with pytest.raises(CrashError):
                sink.write(numbers(spark, start, start + 3))

    cut_off(0)
    assert visible(out) == []
    sink.prepare(spark, numbers(spark, 0, 3).schema)
    assert ids(out) == [0, 1, 2]
    cut_off(3)
    sink.write(numbers(spark, 6, 9))

    assert ids(out) == list(range(9))


def test_an_insert_of_another_machine_is_finished_by_the_holder_of_the_tables_lease(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody here can tell whether its process lives, so a pipeline's start leaves it alone."""
    out = tmp_path / "out"
    elsewhere = Owner(host="elsewhere", pid=1, boot_id="b/1", token="t", started=1)
    with monkeypatch.context() as patched:
        patched.setattr(sink_module, "this_process", lambda: elsewhere)
        meanwhile(patched, "rename", 1, _crash)
        with pytest.raises(CrashError):
            sink_of(file_table(out)).write(numbers(spark, 0, 3))
    sink = sink_of(file_table(out))
    sink.prepare(spark, numbers(spark, 0, 3).schema)
    before = visible(out)
    sink.write(numbers(spark, 3, 4))

    assert before == []
    assert ids(out) == [0, 1, 2, 3]


def test_a_manifest_of_an_older_version_is_gone_on_with(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One staging folder for the batch, no sizes, no owner: half of it was moved."""
    out, batch = tmp_path / "out", micro_batch(spark, tmp_path / "c", 0)
    folder = out / "_penstock" / QUERY
    (folder / "0").mkdir(parents=True)
    (out / "part-0.json").write_text('{"id": 1}\n')
    (folder / "0" / "b.json").write_text('{"id": 2}\n')
    files = [["a.json", "part-0.json"], ["b.json", "part-1.json"]]
    manifest = {
        "version": 1,
        "batch": 0,
        "digest": batch_digest(batch),
        "files": files,
        "replaces": [],
    }
    (folder / f"{0:020d}.json").write_text(json.dumps(manifest))
    sink_of(file_table(out)).write_batch(numbers(spark, 0, 10), batch)

    assert ids(out) == [1, 2]
    assert ledger(out) == [f"{0:020d}.done", f"{0:020d}.json"]


def _crash() -> None:
    raise CrashError


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
