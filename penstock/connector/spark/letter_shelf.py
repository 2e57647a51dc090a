"""The dead letters of one place, and the Delta table that says which of them were given back.

A replay is planned first: that table gets its records, in one commit. Then they are written to Kafka under the
replay's id (`kafka/replay.py`), then the same table gets a row that says so. Who finds a plan without that row goes
on with it, whatever letters have come since, and Kafka says whether its records are there already.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.catalog.errors import UnknownObjectError
from penstock.catalog.table import Table
from penstock.connector.dead_letter_table import ReplayState, replayed_table
from penstock.connector.registry import connector_of
from penstock.connector.source.records import RawRecord
from penstock.connector.spark.letter_places import LetterPlace
from penstock.connector.spark.types import spark_schema

__all__ = ["LetterCount", "LetterShelf", "Replay"]

PLACE = ("topic", "partition", "offset")
# "field 'id': not a BIGINT: ..." and "it is not valid JSON: ...": what comes behind is different for each record
_KIND = r"^((?:field '[^']*': )?[^:]*)"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterCount:
    """Dead letters of one table, stage and kind of error. `replayed` of them were given back."""

    table: str
    pipeline: str
    stage: str
    error: str
    letters: int
    replayed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Records that are to be given back, under an id that stays. `target` is a topic, None for each record's own.

    `marked` is a topic that it writes to, always the same one. `planned_at_ms` is epoch ms.
    """

    replay_id: str
    table: str
    target: str | None
    marked: str
    planned_at_ms: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LetterShelf:
    """The dead letters at `place`. `pipeline` leaves those of others out."""

    spark: SparkSession
    place: LetterPlace
    project: Path
    pipeline: str | None = None

    @property
    def path(self) -> str:
        """The place, as people are told."""
        return self.place.name

    def exists(self) -> bool:
        """Tell whether there is such a place. Raises BrokerUnavailableError."""
        return self.place.exists(self.spark)

    def letters(self) -> DataFrame:
        """Give the dead letters, with a column `replayed`. Raises UnknownObjectError."""
        if not self.exists():
            raise UnknownObjectError(
                f"there are no dead letters at {self.path}",
                hint="`penstock dlq ls` says where there are some",
            )
        letters = self.place.read(self.spark)
        if self.pipeline is not None:
            of_pipeline = F.col("pipeline").startswith(f"{self.pipeline}/")
            letters = letters.filter(of_pipeline | (F.col("pipeline") == self.pipeline))
        given = self._replays().filter(F.col("state") == ReplayState.PLANNED.value)
        given = given.select(*PLACE, "table").distinct().withColumn("replayed", F.lit(True))
        joined = letters.join(given, [*PLACE, "table"], "left")
        return joined.withColumn("replayed", F.coalesce("replayed", F.lit(False)))

    def counts(self) -> Sequence[LetterCount]:
        """Count the dead letters by table, pipeline, stage and kind of error, the most frequent first."""
        kind = F.regexp_extract("error", _KIND, 1)
        grouped = self.letters().groupBy("table", "pipeline", "stage", kind.alias("kind"))
        counted = grouped.agg(
            F.count(F.lit(1)).alias("letters"), F.count_if("replayed").alias("given")
        )
        ordered = counted.orderBy(F.desc("letters"), "table", "pipeline", "stage", "kind")
        return [
            LetterCount(
                table=row["table"],
                pipeline=row["pipeline"],
                stage=row["stage"],
                error=row["kind"],
                letters=row["letters"],
                replayed=row["given"],
            )
            for row in ordered.collect()
        ]

    def newest(self, limit: int) -> Sequence[dict[str, Any]]:
        """Give the last letters, newest first."""
        order = (F.desc("batch_id"), F.desc("offset"), F.desc("position"))
        ordered = self.letters().orderBy(F.desc("left_out_at"), *order)
        return [row.asDict(recursive=True) for row in ordered.limit(limit).collect()]

    def waiting(self) -> DataFrame:
        """Give the records of Kafka that were not given back, each once, however many letters it has."""
        waits = (~F.col("replayed")) & F.col("topic").isNotNull()
        return self.letters().filter(waits).dropDuplicates([*PLACE, "table"])

    def unfinished(self) -> Sequence[Replay]:
        """Give the replays that were planned and of which nobody knows whether they are done."""
        replays = self._replays()
        done = replays.filter(F.col("state") == ReplayState.DONE.value).select("replay_id")
        open_ones = replays.join(done, "replay_id", "left_anti")
        grouped = open_ones.groupBy("replay_id", "table", "target").agg(
            F.unix_millis(F.min("at")).alias("at_ms"),
            F.min("topic").alias("first_topic"),
            F.count(F.lit(1)).alias("records"),
        )
        return [_replay(row.asDict()) for row in grouped.orderBy("at_ms").collect()]

    def plan(self, table: str, target: str | None) -> Replay | None:
        """Write down that the waiting records of `table` are to be given back; None where there are none."""
        replay_id = uuid4().hex
        planned = self.waiting().filter(F.col("table") == table).select(*PLACE, "table")
        if planned.isEmpty():
            return None
        self._note(planned, replay_id, target, ReplayState.PLANNED)
        return next((r for r in self.unfinished() if r.replay_id == replay_id), None)

    def records(self, replay: Replay) -> Generator[RawRecord, None, None]:
        """Give the records of a replay as they were, partition by partition in their order."""
        planned = self._replays().filter(F.col("replay_id") == replay.replay_id)
        letters = self.letters().dropDuplicates([*PLACE, "table"])
        found = letters.join(planned.select(*PLACE, "table"), [*PLACE, "table"], "left_semi")
        for row in found.orderBy(*PLACE).toLocalIterator():
            yield _record(row.asDict(recursive=True))

    def finish(self, replay: Replay) -> None:
        """Write down that the records of a replay were given back."""
        kinds = {"topic": "string", "partition": "int", "offset": "bigint"}
        nowhere = [F.lit(None).cast(kind).alias(name) for name, kind in kinds.items()]
        row = self.spark.range(1).select(*nowhere, F.lit(replay.table).alias("table"))
        self._note(row, replay.replay_id, replay.target, ReplayState.DONE)

    def _replays(self) -> DataFrame:
        path = self.place.notes
        if DeltaTable.isDeltaTable(self.spark, path):
            return self.spark.read.format("delta").load(path)
        return self.spark.createDataFrame([], spark_schema(self._notes.schema.physical))

    def _note(
        self, rows: DataFrame, replay_id: str, target: str | None, state: ReplayState
    ) -> None:
        columns = spark_schema(self._notes.schema.physical)
        noted = rows.withColumns(
            {
                "replay_id": F.lit(replay_id),
                "state": F.lit(state.value),
                "target": F.lit(target).cast("string"),
                "at": F.current_timestamp(),
            }
        ).select(*(F.col(f"`{name}`") for name in columns.names))
        sink = connector_of(self._notes, project=self.project).sink(self._notes)
        sink.prepare(self.spark, noted.schema)
        sink.write(noted)

    @property
    def _notes(self) -> Table:
        return replayed_table(self.place.notes)


def _record(row: dict[str, Any]) -> RawRecord:
    time = row["timestamp"]
    return RawRecord(
        position=row["offset"],
        key=_bytes(row["key"]),
        value=_bytes(row["value"]),
        where=f"topic {row['topic']}, partition {row['partition']}, offset {row['offset']}",
        topic=row["topic"],
        partition=row["partition"],
        timestamp_ms=None if time is None else round(time.timestamp() * 1000),
        headers=tuple((h["key"], _bytes(h["value"])) for h in row["headers"] or ()),
    )


def _bytes(value: bytes | bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def _replay(row: dict[str, Any]) -> Replay:
    return Replay(
        replay_id=row["replay_id"],
        table=row["table"],
        target=row["target"],
        marked=row["target"] or row["first_topic"],
        planned_at_ms=row["at_ms"],
        records=row["records"],
    )
