"""Whether an exactly-once sink is the one that a checkpoint began with: told from the checkpoint alone, by no broker."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.catalog.errors import StateMismatchError
from penstock.connector.contract import Sink
from penstock.connector.kafka.sink.protocol import SlotNames
from tests.connector.kafka.sink.writing import ONCE, made_sink

PREFIX, PARALLELISM = "sink.transactional-id-prefix", "sink.parallelism"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The checkpoint of a query that writes two slots under the prefix `tests`."""
    names = SlotNames.of("tests", "q1", f"/{made_sink(ONCE).name}")
    began = tmp_path / "kafka-sinks" / names.scope / "began"
    began.parent.mkdir(parents=True)
    ledger = {"version": 1, "prefix": "tests", "slots": 2, "first_batch": 0, "topic": "orders"}
    began.write_text(json.dumps(ledger))
    (tmp_path / "metadata").write_text('{"id":"q1"}')
    return tmp_path


def check(spark: SparkSession, checkpoint: Path, options: dict[str, str]) -> None:
    """Check a sink with options; as it is checked without Spark, too."""
    check_here(checkpoint, options)
    made_resumable(options).check_resumes(spark, str(checkpoint), "", notes=False)


def check_here(checkpoint: Path, options: dict[str, str]) -> None:
    """Check a sink with options, without Spark."""
    file = checkpoint / "metadata"
    query = json.loads(file.read_text())["id"] if file.exists() else None
    made_resumable(options).check_resumes_here(checkpoint, query, "")


def made_resumable(options: dict[str, str]) -> Sink:
    made = made_sink({**ONCE, **options})
    assert made.capabilities.resumable
    return made


def test_what_the_checkpoint_began_with_goes_on(spark: SparkSession, checkpoint: Path) -> None:
    """The number of slots may be left out; a checkpoint that never ran takes any."""
    check(spark, checkpoint, {})
    check(spark, checkpoint, {PARALLELISM: "2"})
    check(spark, checkpoint / "another", {PREFIX: "others"})
    (checkpoint / "metadata").write_text('{"id":"q2"}')
    check(spark, checkpoint, {PREFIX: "others"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({PREFIX: "others"}, "'sink.transactional-id-prefix' was 'tests'"),
        ({PARALLELISM: "3"}, "'sink.parallelism' was 2"),
    ],
)
def test_another_prefix_or_number_of_slots_is_refused_before_the_first_batch(
    spark: SparkSession, checkpoint: Path, options: dict[str, str], words: str
) -> None:
    """Markers would not be found, or rows would move to other slots."""
    with pytest.raises(StateMismatchError, match=words):
        made_resumable(options).check_resumes(spark, str(checkpoint), "", notes=False)
    with pytest.raises(StateMismatchError, match=words):
        check_here(checkpoint, options)
