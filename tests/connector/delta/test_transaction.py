"""What commits say of the batches in them, and which batches a table takes, by each way to write."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from penstock.catalog.errors import QueryFailedError, StateMismatchError
from penstock.connector.contract import MicroBatch, Sink
from penstock.connector.delta import transaction as module
from penstock.connector.delta.merge import Merge
from penstock.connector.delta.options import DeltaTarget
from penstock.connector.delta.transaction import (
    NONE_WRITTEN,
    Transaction,
    note_of,
    noted_batches,
)
from penstock.connector.spark.session import configured
from tests.connector.delta.tables import delta_table, forget, rows
from tests.connector.delta.test_connector import prepared, sink_of
from tests.connector.spark.micro_batches import micro_batch
from tests.connector.spark.task_files import write_by_tasks


def batch(number: int, query: str = "q", sink: str = "") -> MicroBatch:
    spark = cast("SparkSession", None)  # not asked for anything
    return MicroBatch(spark=spark, checkpoint="c", query_id=query, batch_id=number, sink=sink)


def test_notes_are_read_as_they_were_written() -> None:
    """Those of the query and its sink; the others are somebody else's."""
    notes = [
        note_of(batch(7), "d7"),
        note_of(batch(8), "d8"),
        note_of(batch(9, query="other"), "x"),
        note_of(batch(7, sink="second"), "s7"),
    ]

    assert noted_batches(notes, "q") == {7: "d7", 8: "d8"}
    assert noted_batches(notes, "q/second") == {7: "s7"}


def test_other_notes_are_passed_over() -> None:
    """Anybody may write anything into a commit."""
    notes = [None, "", "by hand", "[]", "7", "{}", json.dumps({"penstock": 3})]
    notes.append(json.dumps({"penstock": {"application": "q", "batch": "x", "digest": 1}}))

    assert noted_batches(notes, "q") == {}


# --- which batches a table has ---


@pytest.mark.parametrize("listed", [True, False])
def test_a_batch_that_the_table_has_is_passed_over(
    spark: SparkSession, tmp_path: Path, listed: bool
) -> None:
    """By the checksum of the last commit; by Delta's own count where that lists no batches."""
    table = delta_table(columns={"id": "BIGINT"})
    most = {} if listed else {"spark.databricks.delta.setTransactionsInCrc.maxAllowed": "0"}
    with configured(spark, most):
        sink = prepared(spark, table, tmp_path)
        for number in (0, 1, 1):
            # another process, which has to look
            again = sink_of(table, tmp_path)
            again.write_batch(spark.range(number, number + 1), micro_batch(spark, tmp_path, number))
        sums = sorted((tmp_path / "orders" / "_delta_log").glob("*.crc"))
        newest = json.loads(sums[-1].read_text())

    assert sink is not again
    assert ("setTransactions" in newest) is listed
    assert rows(spark, tmp_path / "orders") == [(0,), (1,)]


def test_a_batch_that_another_runner_commits_meanwhile_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """As Delta does it for a transaction that asked for the batches of the same query."""
    table = delta_table(columns={"id": "BIGINT"})
    prepared(spark, table, tmp_path)
    target = DeltaTarget(table=table, location=str(tmp_path / "orders"))
    one = micro_batch(spark, tmp_path, 0)
    slow = Transaction.begin(target, one)
    assert slow.last_batch() == NONE_WRITTEN
    files = slow.write(spark.range(5))
    sink_of(table, tmp_path).write_batch(spark.range(5), one)

    with pytest.raises(PySparkException, match="DELTA_CONCURRENT_TRANSACTION"):
        slow.commit(files, {"numAddedFiles": 1})
    assert rows(spark, tmp_path / "orders") == [(number,) for number in range(5)]


def test_rows_that_are_not_the_tables_are_left_to_deltas_own_writer(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A column that the table lost, one of another type: what is not checked there would be in its files."""
    table = delta_table(columns={"id": "BIGINT", "name": "STRING"})
    prepared(spark, table, tmp_path)
    target = DeltaTarget(table=table, location=str(tmp_path / "orders"))
    transaction = Transaction.begin(target, micro_batch(spark, tmp_path, 0))

    assert transaction.takes(spark.range(1).selectExpr("'a' AS name", "id"))
    assert transaction.takes(spark.range(1))
    assert not transaction.takes(spark.range(1).selectExpr("CAST(id AS INT) AS id"))
    assert not transaction.takes(spark.range(1).selectExpr("id", "id AS other"))


# --- a batch of another content, another table ---


WAYS = ("spark", "delta", "tasks", "position", "merge")
"""Who writes a batch: Spark, Delta's own writer as names have another case, tasks; upserts by position, by MERGE."""


class Runs:
    """Runs of one query into one table, of which each has a checkpoint, or a copy of one."""

    def __init__(self, spark: SparkSession, folder: Path, way: str) -> None:
        options = {"auto-compaction": "false"}
        if way == "merge":
            options["sink.writer"] = "spark"
        key = ("id",) if way in ("position", "merge") else ()
        self.spark, self.folder, self.way = spark, folder, way
        self.path = folder / "orders"
        self.table = delta_table(columns={"id": "BIGINT", "v": "STRING"}, key=key, options=options)
        self.make()

    def make(self) -> None:
        """Make the table."""
        prepared(self.spark, self.table, self.folder)

    def start(self, checkpoint: str) -> Sink:
        """Start a run: its sink."""
        sink = sink_of(self.table, self.folder)
        sink.check_resumes(self.spark, str(self.folder / checkpoint), "")
        return sink

    def batch(self, checkpoint: str, number: int, offsets: str = "") -> MicroBatch:
        return micro_batch(self.spark, self.folder / checkpoint, number, offsets=offsets)

    def write(self, sink: Sink, batch: MicroBatch, keys: Sequence[int]) -> None:
        """Write a batch of some keys."""
        name = "ID" if self.way == "delta" else "id"
        frame = self.spark.createDataFrame(
            [(key, "v") for key in keys], f"{name} BIGINT, v STRING"
        ).coalesce(1)
        if self.way == "tasks":
            write_by_tasks(sink, self.table, frame, batch)
        else:
            sink.write_batch(frame, batch)

    def keys(self) -> list[int]:
        """The keys that readers see."""
        return [row[0] for row in rows(self.spark, self.path)]

    def data_files(self) -> int:
        return len(list(self.path.glob("*.parquet")))


@pytest.mark.parametrize("way", WAYS)
def test_a_run_goes_into_no_table_that_a_copy_of_its_checkpoint_is_ahead_in(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    """The batches of the copy have its numbers and other rows: its own would be passed over without a word."""
    runs = Runs(spark, tmp_path, way)
    run, copy = runs.start("checkpoint"), runs.start("copy")
    for number in (0, 1):
        runs.write(run, runs.batch("checkpoint", number), [number])
    for number in (2, 3):
        runs.write(copy, runs.batch("copy", number, f"of the copy: {number}"), [10 + number])
    files = runs.data_files()
    with pytest.raises(StateMismatchError, match="has batch 2 of this query, with other rows"):
        runs.write(run, runs.batch("checkpoint", 2), [2])

    assert runs.keys() == [0, 1, 12, 13]
    assert runs.data_files() == files


@pytest.mark.parametrize("way", WAYS)
def test_a_run_passes_over_what_another_wrote_of_the_same_offsets(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    """As one that was paused while its successor went on."""
    runs = Runs(spark, tmp_path, way)
    run, successor = runs.start("checkpoint"), runs.start("checkpoint")
    runs.write(run, runs.batch("checkpoint", 0), [0])
    for number in (1, 2):
        runs.write(successor, runs.batch("checkpoint", number), [number])
    for number in (1, 2, 3):
        runs.write(run, runs.batch("checkpoint", number), [number])

    assert runs.keys() == [0, 1, 2, 3]


def test_a_batch_that_lies_too_far_back_is_not_taken_for_the_same(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table has a later one, so that this one was planned by a copy."""
    monkeypatch.setattr(module, "LOOK_BACK", 2)
    runs = Runs(spark, tmp_path, "spark")
    run, copy = runs.start("checkpoint"), runs.start("copy")
    for number in range(3):
        runs.write(copy, runs.batch("copy", number, f"of the copy: {number}"), [10 + number])
    with pytest.raises(StateMismatchError, match="has batch 2 of this query, and its checkpoint"):
        runs.write(run, runs.batch("checkpoint", 0), [0])

    assert runs.keys() == [10, 11, 12]


def test_a_runner_that_lost_its_lease_gets_that_error(spark: SparkSession, tmp_path: Path) -> None:
    """Its batches are its successor's by now, whatever is in them."""
    runs = Runs(spark, tmp_path, "spark")
    run, successor = runs.start("checkpoint"), runs.start("copy")
    runs.write(successor, runs.batch("copy", 0, "of the successor"), [10])
    lost = QueryFailedError("another runs", hint="none")
    with pytest.raises(QueryFailedError, match="another runs"):
        runs.write(run, replace(runs.batch("checkpoint", 0), lost_lease=lambda: lost), [0])

    assert runs.keys() == [10]


@pytest.mark.parametrize("offsets", ["of the copy", ""])
def test_a_merge_that_comes_too_late_is_compared(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, offsets: str
) -> None:
    """Delta passes over it, and says so by a result without a row."""
    runs = Runs(spark, tmp_path, "merge")
    run, copy = runs.start("checkpoint"), runs.start("copy")
    plain = Merge._merge
    done: list[bool] = []

    def late(self: Merge, *given: object) -> bool:
        monkeypatch.setattr(Merge, "_merge", plain)
        runs.write(copy, runs.batch("copy", 0, offsets), [0])
        done.append(plain(self, *given))  # type: ignore[arg-type]
        return done[0]

    monkeypatch.setattr(Merge, "_merge", late)
    if offsets:
        with pytest.raises(StateMismatchError, match="with other rows"):
            runs.write(run, runs.batch("checkpoint", 0), [7])
    else:
        runs.write(run, runs.batch("checkpoint", 0), [0])

    assert done == [False]
    assert runs.keys() == [0]


@pytest.mark.parametrize("way", WAYS)
def test_a_table_that_is_made_again_under_a_run_takes_none_of_its_batches(
    spark: SparkSession, tmp_path: Path, way: str
) -> None:
    """It lacks the rows before: the next start would find that, days later."""
    runs = Runs(spark, tmp_path, way)
    run = runs.start("checkpoint")
    runs.write(run, runs.batch("checkpoint", 0), [0])
    shutil.rmtree(runs.path)
    forget(spark, runs.path)
    runs.make()
    with pytest.raises(StateMismatchError, match="was removed and created again"):
        runs.write(run, runs.batch("checkpoint", 1), [1])

    assert runs.keys() == []
    assert runs.data_files() == 0
