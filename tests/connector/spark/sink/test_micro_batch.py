"""Micro-batches that a function writes: the same name for the same batch, and errors that keep their kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from penstock.catalog.errors import SinkError
from penstock.connector.contract import AvailableNow, MicroBatch, SinkSettings
from penstock.connector.spark.sink.micro_batch import batch_digest, micro_batch_query
from penstock.sql.errors.spark import translate


def run(
    spark: SparkSession,
    folder: Path,
    write: Callable[[DataFrame, MicroBatch], None],
    after: Callable[[MicroBatch], None] | None = None,
    plan: str = "SELECT",
) -> None:
    """Run what the folder `in` holds through a query whose checkpoint is in `folder`."""
    frame = spark.readStream.schema("id INT").json(str(folder / "in"))
    settings = SinkSettings(
        checkpoint=str(folder / "checkpoint"),
        query_name="q",
        trigger=AvailableNow(),
        plan=plan,
        after_batch=after,
    )
    micro_batch_query(frame, settings, write).awaitTermination()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one file to read."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n')
    return tmp_path


def test_a_batch_that_is_written_again_has_the_same_name(spark: SparkSession, folder: Path) -> None:
    """Query, number and digest, although the process that ran it failed; another plan has another digest."""
    seen: list[tuple[str, int, str]] = []

    def write(_rows: DataFrame, batch: MicroBatch) -> None:
        seen.append((batch.application_id, batch.batch_id, batch_digest(batch)))
        if len(seen) == 1:
            raise SinkError("refused")

    with pytest.raises(Exception, match="refused"):
        run(spark, folder, write)
    run(spark, folder, write)
    (folder / "checkpoint" / "commits" / "0").unlink()
    (folder / "checkpoint" / "commits" / ".0.crc").unlink()
    run(spark, folder, write, plan="SELECT 1")
    first, second, other = seen

    assert first == second
    assert first[:2] == other[:2] == (other[0], 0)
    assert first[2] != other[2]


def test_what_comes_after_a_batch_sees_it_written(spark: SparkSession, folder: Path) -> None:
    """And a failure of it fails the batch, with its own kind of error."""
    order: list[str] = []

    def after(batch: MicroBatch) -> None:
        order.append(f"after {batch.batch_id}")
        raise SinkError("no letters")

    with pytest.raises(Exception, match="no letters") as caught:
        run(spark, folder, lambda _rows, _batch: order.append("write"), after)

    assert order == ["write", "after 0"]
    assert isinstance(translate(caught.value), SinkError)
