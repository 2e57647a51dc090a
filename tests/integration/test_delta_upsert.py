"""Streams that upsert into Delta tables: exactly once through replays, and without a trace in each other."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.catalog.errors import StateMismatchError
from penstock.connector.changelog import ROW_KIND
from penstock.connector.contract import Sink
from penstock.connector.delta.merge import APPLICATION, USER_METADATA, VERSION, Merge
from tests.connector.delta.tables import delta_table, rows, run_to_end
from tests.connector.delta.test_connector import commits, prepared
from tests.connector.kafka.sink.writing import batch_of

COLUMNS = {"id": "BIGINT", "v": "STRING NOT NULL"}


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Callable[..., None]:
    """Appends changes, as (key, value, kind), to a Delta table that queries read as a stream."""

    def append(*changes: tuple[int, str | None, int]) -> None:
        frame = spark.createDataFrame(list(changes), f"id BIGINT, v STRING, {ROW_KIND} TINYINT")
        frame.coalesce(1).write.format("delta").mode("append").save(str(tmp_path / "feed"))

    return append


def started(
    spark: SparkSession,
    sink: Sink,
    tmp_path: Path,
    checkpoint: str = "c",
    where: str = "true",
    columns: str = "*",
) -> StreamingQuery:
    """A query from the feed into a sink, that ends when all is read."""
    feed = spark.readStream.format("delta").load(str(tmp_path / "feed"))
    settings = run_to_end(tmp_path / checkpoint, name=checkpoint)
    return sink.start(feed.where(where).selectExpr(columns), settings)


def transactions(path: Path) -> list[tuple[str, int]]:
    """Application id and version of each commit that has them."""
    found: list[Any] = [action["txn"] for action in commits(path) if "txn" in action]
    return [(txn["appId"], txn["version"]) for txn in found]


def notes(path: Path) -> list[tuple[str, int]]:
    """What each commit says of its batch, where it does."""
    infos: list[Any] = [action["commitInfo"] for action in commits(path) if "commitInfo" in action]
    told = [
        json.loads(info["userMetadata"])["penstock"] for info in infos if "userMetadata" in info
    ]
    return [(note["application"], note["batch"]) for note in told if len(note["digest"]) == 16]


def test_a_batch_that_is_replayed_is_upserted_once(
    spark: SparkSession, tmp_path: Path, feed: Callable[..., None]
) -> None:
    """A driver that dies after Delta's commit and before Spark's replays the batch, and changes nothing.

    Even where what the table has now is newer than the batch: a delete by hand stays.
    """
    sink = prepared(spark, delta_table(columns=COLUMNS, key=("id",)), tmp_path)
    feed((1, "a", 0), (2, "b", 0))
    first = started(spark, sink, tmp_path)
    first.awaitTermination()
    feed((1, "c", 2), (2, "b", 3), (3, "d", 0))
    started(spark, sink, tmp_path).awaitTermination()
    spark.sql(f"DELETE FROM delta.`{tmp_path / 'orders'}` WHERE id = 3")
    for name in ("1", ".1.crc"):
        (tmp_path / "c" / "commits" / name).unlink()
    another_process = prepared(spark, delta_table(columns=COLUMNS, key=("id",)), tmp_path)
    started(spark, another_process, tmp_path).awaitTermination()

    assert transactions(tmp_path / "orders") == [(str(first.id), 0), (str(first.id), 1)]
    assert notes(tmp_path / "orders") == [(str(first.id), 0), (str(first.id), 1)]
    assert rows(spark, tmp_path / "orders") == [(1, "c")]


def test_a_checkpoint_that_lost_its_newest_files_is_refused(
    spark: SparkSession, tmp_path: Path, feed: Callable[..., None]
) -> None:
    """It would plan other rows under a number that the table has, and Delta pass over them without a word."""
    declared = delta_table(columns={"id": "BIGINT"}, options={"sink.optimize.interval": "1 h"})
    feed((1, "a", 0))
    started(spark, prepared(spark, declared, tmp_path), tmp_path, columns="id").awaitTermination()
    for folder in ("commits", "offsets"):
        for name in ("0", ".0.crc"):
            (tmp_path / "c" / folder / name).unlink()
    feed((2, "b", 0))

    with pytest.raises(StateMismatchError, match="has batch 0 of this query, and its checkpoint"):
        started(spark, prepared(spark, declared, tmp_path), tmp_path, columns="id")
    assert rows(spark, tmp_path / "orders") == [(1,)]


def test_another_batch_under_a_number_that_is_taken_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Two drivers on copies of a checkpoint plan their next batch, each with rows of its own; one is first."""
    declared = delta_table(columns={"id": "BIGINT"}, options={"sink.optimize.interval": "1 h"})
    sink = prepared(spark, declared, tmp_path)
    sink.write_batch(spark.range(1, 2), batch_of(spark, tmp_path / "c", 0))
    other = batch_of(spark, tmp_path / "c", 0, offsets="further than the first went")

    with pytest.raises(StateMismatchError, match="has batch 0 of this query, with other rows"):
        sink.write_batch(spark.range(2, 3), other)
    assert rows(spark, tmp_path / "orders") == [(1,)]


def test_two_upserts_at_once_leave_no_trace_in_each_other(
    spark: SparkSession, tmp_path: Path, feed: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """MERGE takes its transaction from its session's settings. One fails in the middle of its own, and goes on later."""
    merged: dict[str, Any] = {
        "columns": COLUMNS,
        "key": ("id",),
        "options": {"delta.enableDeletionVectors": "false"},
    }
    good = prepared(spark, delta_table("good", **merged), tmp_path)
    bad = prepared(spark, delta_table("bad", **merged), tmp_path)
    feed((1, "a", 0), (2, None, 0))
    both, merge = threading.Barrier(2, timeout=90), Merge._merge
    sessions: list[SparkSession] = []

    def meeting(self: Merge, session: SparkSession, *rest: Any) -> bool:
        sessions.append(session)
        both.wait()
        return merge(self, session, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(Merge, "_merge", meeting)
        one = started(spark, good, tmp_path, "good-c", "v IS NOT NULL")
        other = started(spark, bad, tmp_path, "bad-c")
        one.awaitTermination()
        with pytest.raises(StreamingQueryException, match=r"does not take a row.*column: v"):
            other.awaitTermination()
    again = started(spark, bad, tmp_path, "bad-c", "v IS NOT NULL")
    again.awaitTermination()

    assert len(sessions) == 2
    for session in (spark, *sessions):
        for setting in (APPLICATION, VERSION, USER_METADATA):
            assert session.conf.get(setting, None) is None
    assert transactions(tmp_path / "good") == [(str(one.id), 0)]
    assert transactions(tmp_path / "bad") == [(str(other.id), 0)]
    assert rows(spark, tmp_path / "good") == rows(spark, tmp_path / "bad") == [(1, "a")]
