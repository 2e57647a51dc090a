"""Dead letters of several places that are of the same records: each record is given back once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.catalog.errors import StateMismatchError, UnknownObjectError
from penstock.connector.dead_letters.backends import DeltaDeadLetters
from penstock.connector.dead_letters.delta_files import DeadLetterFiles
from penstock.connector.dead_letters.store import DeadLetterStore
from penstock.connector.dead_letters.table import define_dead_letter_table
from penstock.connector.options.bad_records import BesideCheckpoint
from penstock.connector.spark.types import spark_schema
from penstock.sql.cli.output.dead_letter_text import letter_document

Make = Callable[..., DeadLetterStore]
SCHEMA = spark_schema(define_dead_letter_table(BesideCheckpoint(), "x").schema.physical)


@pytest.fixture
def shelf(spark: SparkSession, tmp_path: Path) -> Make:
    """Makes a place with a letter for each table and offset of topic `t`, partition 0."""

    def make(name: str, *letters: tuple[str, int], others: tuple[str, ...] = ()) -> DeadLetterStore:
        rows = [_letter(table, offset, f"job/{name}") for table, offset in letters]
        spark.createDataFrame(rows, SCHEMA).write.format("delta").save(str(tmp_path / name))
        return DeadLetterStore(
            spark=spark,
            backend=DeltaDeadLetters(path=str(tmp_path / name)),
            project=tmp_path,
            others=tuple(DeltaDeadLetters(path=str(tmp_path / other)) for other in others),
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


def waiting(
    shelf: DeadLetterStore, *besides: DeadLetterStore, target: str | None = None
) -> list[int]:
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


def test_a_replay_that_was_interrupted_is_completed_whoever_asks(shelf: Make) -> None:
    """The next replay may be of another pipeline, whose letters are at the same place."""
    one = replace(shelf("one", ("orders", 1), ("orders", 2)), pipelines=("job",))
    another = replace(one, pipelines=("another",))
    one.plan("orders", None)
    (replay,) = another.unfinished()

    assert [record.topic for record in another.records(replay)] == ["t", "t"]


def test_a_replay_whose_letters_are_gone_is_not_sent_in_part(shelf: Make) -> None:
    """It would be done, and the records that are missing never be given back."""
    one = shelf("one", ("orders", 1), ("orders", 2), ("orders", 3))
    replay = one.plan("orders", None)
    assert replay is not None
    one.spark.sql(f"DELETE FROM delta.`{one.path}` WHERE offset = 2")

    with pytest.raises(
        StateMismatchError, match=r"of 3 records of orders is not sent: .* 2 are left"
    ):
        list(one.records(replay))


def test_a_replay_whose_place_is_gone_names_it(shelf: Make) -> None:
    one = shelf("one", ("orders", 1))
    replay = one.plan("orders", None)
    assert replay is not None
    shutil.rmtree(one.path)

    with pytest.raises(UnknownObjectError, match="no dead letters"):
        list(one.records(replay))


def files_of(shelf: DeadLetterStore) -> DeadLetterFiles:
    """The same place, looked at without Spark."""
    places = [backend.path for backend in shelf.others if isinstance(backend, DeltaDeadLetters)]
    return DeadLetterFiles(
        path=shelf.path,
        pipelines=shelf.pipelines,
        others=tuple(places),
        clusters=shelf.clusters,
    )


def test_letters_are_the_same_with_spark_and_without(shelf: Make) -> None:
    """Counts, and the newest with all that they hold; also when some were given back, and the log has a checkpoint."""
    one = shelf("one", ("orders", 1), ("orders", 2), ("again", 7), others=("two",))
    two = shelf("two", ("orders", 2), ("orders", 3), others=("one",))
    one.plan("orders", None)
    one.spark.sql(
        f"ALTER TABLE delta.`{one.path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '1')"
    )
    one.backend.read(one.spark).write.format("delta").mode("append").save(one.path)
    other = replace(one, pipelines=("jo",))

    for each in (one, two, other):
        assert list(files_of(each).counts()) == list(each.counts())
    found, expected = files_of(one).newest(9), one.newest(9)
    assert len(found) == 6
    documents = [
        sorted(json.dumps(letter_document(row), sort_keys=True) for row in rows)
        for rows in (found, expected)
    ]
    assert documents[0] == documents[1]
