"""Dead letters of several places that are of the same records: each record is given back once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.connector.bad_record_options import BesideCheckpoint
from penstock.connector.dead_letter_table import letter_table
from penstock.connector.spark.letter_places import DeltaLetters
from penstock.connector.spark.letter_shelf import LetterShelf
from penstock.connector.spark.types import spark_schema

Make = Callable[..., LetterShelf]
SCHEMA = spark_schema(letter_table(BesideCheckpoint(), "x").schema.physical)


@pytest.fixture
def shelf(spark: SparkSession, tmp_path: Path) -> Make:
    """Makes a place with a letter for each table and offset of topic `t`, partition 0."""

    def make(name: str, *letters: tuple[str, int], others: tuple[str, ...] = ()) -> LetterShelf:
        rows = [_letter(table, offset, f"job/{name}") for table, offset in letters]
        spark.createDataFrame(rows, SCHEMA).write.format("delta").save(str(tmp_path / name))
        return LetterShelf(
            spark=spark,
            place=DeltaLetters(path=str(tmp_path / name)),
            project=tmp_path,
            others=tuple(DeltaLetters(path=str(tmp_path / other)) for other in others),
            clusters={"orders": "b:1", "again": "b:1", "elsewhere": "c:1"},
        )

    return make


def _letter(table: str, offset: int, pipeline: str) -> dict[str, object]:
    values: dict[str, object] = dict.fromkeys(SCHEMA.names)
    values |= {"table": table, "pipeline": pipeline, "topic": "t", "partition": 0, "offset": offset}
    return values | {
        "error": "bad",
        "stage": "value",
        "left_out_at": datetime(2026, 1, 1, tzinfo=UTC),
    }


def waiting(shelf: LetterShelf, *besides: LetterShelf, target: str | None = None) -> list[int]:
    return sorted(row["offset"] for row in shelf.waiting(target, besides).collect())


def test_a_record_that_two_queries_left_out_is_given_back_once(shelf: Make) -> None:
    """What the one gave back, the other has not to; to another topic it has not been given."""
    one = shelf("one", ("orders", 1), ("orders", 2), others=("two",))
    two = shelf("two", ("orders", 2), ("orders", 3), others=("one",))
    assert waiting(two, one) == [3]

    assert one.plan("orders", None) is not None

    assert (waiting(one), waiting(two), waiting(two, target="mended")) == ([], [3], [2, 3])
    assert sum(count.replayed for count in two.counts()) == 1


def test_a_record_that_two_tables_of_a_topic_left_out_is_given_back_once(shelf: Make) -> None:
    """A topic of the same name in another cluster has records of its own."""
    one = shelf("one", ("orders", 1), ("again", 1), ("elsewhere", 1))

    assert waiting(one) == [1, 1]
    assert {row["table"] for row in one.waiting().collect()} == {"again", "elsewhere"}
