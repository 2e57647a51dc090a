"""Replays of dead letters that were interrupted, taken up by whoever replays next at the same place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.catalog.errors import StateMismatchError
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.connector.dead_letters.backends import DeltaDeadLetters
from penstock.connector.dead_letters.store import DeadLetterStore
from penstock.connector.dead_letters.table import define_dead_letter_table
from penstock.connector.options.bad_records import BesideCheckpoint
from penstock.connector.source.records import RawRecord
from penstock.connector.spark.types import spark_schema
from penstock.sql.runner.dead_letters import DeadLetterReplayer

SCHEMA = spark_schema(define_dead_letter_table(BesideCheckpoint(), "x").schema.physical)


@dataclass
class Collected:
    """Topics that take what is replayed to them, whole or not at all."""

    positions: list[int] = field(default_factory=list)

    def exists(self, topic: str) -> bool:
        """Each does."""
        return bool(topic)

    def check(self, topics: Sequence[str]) -> None:
        """Each exists."""

    def replay(
        self, records: Iterable[RawRecord], *, name: str, target: str | None, marked: str
    ) -> int | None:
        """Keep the positions of all records."""
        assert (bool(name), target, marked) == (True, None, "t")
        found = [record.position for record in records]
        self.positions += found
        return len(found)


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> Collected:
    """The topics beside each table."""
    found = Collected()
    monkeypatch.setattr(DeadLetterReplayer, "_topics", lambda *_: found)
    return found


@pytest.fixture
def interrupted(spark: SparkSession, tmp_path: Path) -> DeadLetterStore:
    """A place with three letters of the pipeline `orders`, whose replay was planned, and one of `payments`."""
    names = ("orders", "orders", "orders", "payments")
    rows = [_letter(name, offset) for offset, name in enumerate(names)]
    path = str(tmp_path / "letters")
    spark.createDataFrame(rows, SCHEMA).write.format("delta").save(path)
    store = DeadLetterStore(
        spark=spark,
        backend=DeltaDeadLetters(path=path),
        project=tmp_path,
        pipelines=("orders",),
        clusters={"orders": "b:1", "payments": "b:1"},
    )
    assert store.plan("orders", None) is not None
    return store


def _letter(pipeline: str, offset: int) -> dict[str, object]:
    values: dict[str, object] = dict.fromkeys(SCHEMA.names)
    values |= {"table": pipeline, "pipeline": f"{pipeline}/s", "topic": "t", "partition": 0}
    return values | {
        "offset": offset,
        "error": "bad",
        "stage": "value",
        "left_out_at": datetime(2026, 1, 1, tzinfo=UTC),
    }


def replayer(project: Path) -> DeadLetterReplayer:
    """One that gives records back to their own topics."""
    return DeadLetterReplayer(catalog=SqlCatalog("sqlite://"), project=project, target=None)


def test_an_interrupted_replay_of_another_pipeline_is_completed_with_its_records(
    interrupted: DeadLetterStore, topics: Collected, tmp_path: Path
) -> None:
    """It says how many it replayed, and these are sent; its own are, too."""
    payments = replace(interrupted, pipelines=("payments",))

    lines = list(replayer(tmp_path).run(payments, really=True))

    assert [line.partition(" of ")[0] for line in lines] == [
        "replayed 3 records",
        "replayed 1 records",
    ]
    assert topics.positions == [0, 1, 2, 3]
    assert interrupted.unfinished() == []
    assert interrupted.waiting(None).count() == 0


def test_a_replay_whose_letters_are_gone_stays_interrupted(
    interrupted: DeadLetterStore, topics: Collected, tmp_path: Path
) -> None:
    """In part it would be noted as done, and what is missing never be given back."""
    interrupted.spark.sql(f"DELETE FROM delta.`{interrupted.path}` WHERE offset = 1")

    with pytest.raises(
        StateMismatchError, match=r"of 3 records of orders is not sent: .* 2 are left"
    ):
        list(replayer(tmp_path).run(interrupted, really=True))

    assert topics.positions == []
    assert len(interrupted.unfinished()) == 1
