"""The dead letters of one backend, and the Delta table of their replays.

A replay is planned first: its records are written to that table in one commit. Then they are written to Kafka
under the replay's id (`kafka/sink/replay.py`), then the table gets a row for the end of the replay. A plan
without that row is resumed, whatever dead letters were added since, and Kafka tells whether its records are
there already.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.catalog.errors import StateMismatchError, UnknownObjectError
from penstock.catalog.model.table import Table
from penstock.connector.dead_letters.backends import DeadLetterBackend, read_stored
from penstock.connector.dead_letters.table import (
    ERROR_KIND,
    RECORD_POSITION,
    DeadLetterCount,
    ReplayState,
    define_replay_table,
)
from penstock.connector.registry import connector_of
from penstock.connector.source.records import RawRecord
from penstock.connector.spark.types import spark_schema

CLUSTER = "cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Records to replay, under a stable id. `target` is a topic, None for each record's own.

    `marked` is a topic that it writes to, always the same one. `planned_at_ms` is epoch ms.
    """

    replay_id: str
    table: str
    target: str | None
    marked: str
    planned_at_ms: int
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterStore:
    """The dead letters at `backend`. `pipelines` restricts them to these pipelines.

    `others` are more places, which may hold the same records: a record has a dead letter for each query that left it
    out, and is replayed once. `clusters` names the brokers of tables, which distinguish topics of one name.
    """

    spark: SparkSession
    backend: DeadLetterBackend
    project: Path
    pipelines: tuple[str, ...] | None = None
    others: tuple[DeadLetterBackend, ...] = ()
    clusters: Mapping[str, str] = field(default_factory=dict)

    @property
    def path(self) -> str:
        """The place, as messages name it."""
        return self.backend.name

    def exists(self) -> bool:
        """Return whether there is such a place. Raises BrokerUnavailableError."""
        return self.backend.exists(self.spark)

    def letters(self, target: str | None = None) -> DataFrame:
        """Return the dead letters, with a column `replayed`. Raises UnknownObjectError.

        `target` is the topic of the replay: records that another place replayed to it are not replayed again either.
        """
        letters = self._stored()
        if self.pipelines is not None:
            of_pipelines = F.lit(False)
            for name in self.pipelines:
                of_query = F.col("pipeline").startswith(f"{name}/")
                of_pipelines = of_pipelines | of_query | (F.col("pipeline") == name)
            letters = letters.filter(of_pipelines)
        letters = letters.withColumn(CLUSTER, self._cluster(F.col("table")))
        joined = letters.join(self._replayed(target), [*RECORD_POSITION, CLUSTER], "left").drop(
            CLUSTER
        )
        return joined.withColumn("replayed", F.coalesce("replayed", F.lit(False)))

    def _stored(self) -> DataFrame:
        """Return the dead letters of all pipelines. Raises UnknownObjectError."""
        if not self.exists():
            raise no_dead_letters(self.path)
        return self.backend.read(self.spark)

    def _replayed(self, target: str | None) -> DataFrame:
        """Return the positions of records that were replayed: from here, or from elsewhere to the same topic."""
        replays = self._replays(self.backend).filter(F.col("state") == ReplayState.PLANNED.value)
        for other in self.others:
            planned = F.col("state") == ReplayState.PLANNED.value
            went = F.coalesce("target", "topic")
            back = (went == F.col("topic")) if target is None else (went == F.lit(target))
            replays = replays.unionByName(self._replays(other).filter(planned & back))
        positions = replays.withColumn(CLUSTER, self._cluster(F.col("table"))).select(
            *RECORD_POSITION, CLUSTER
        )
        return positions.distinct().withColumn("replayed", F.lit(True))

    def _cluster(self, table: Column) -> Column:
        """Return the brokers of a table, of one that is not known its name."""
        known = [F.lit(text) for pair in self.clusters.items() for text in pair]
        return F.coalesce(F.create_map(*known)[table], table) if known else table

    def counts(self) -> Sequence[DeadLetterCount]:
        """Count the dead letters by table, pipeline, stage and kind of error, the most frequent first."""
        kind = F.regexp_extract("error", ERROR_KIND, 1)
        grouped = self.letters().groupBy("table", "pipeline", "stage", kind.alias("kind"))
        counted = grouped.agg(
            F.count(F.lit(1)).alias("letters"), F.count_if("replayed").alias("given")
        )
        ordered = counted.orderBy(F.desc("letters"), "table", "pipeline", "stage", "kind")
        return [
            DeadLetterCount(
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
        """Return the last dead letters, newest first."""
        order = (F.desc("batch_id"), F.desc("offset"), F.desc("position"))
        ordered = self.letters().orderBy(F.desc("left_out_at"), *order)
        return [row.asDict(recursive=True) for row in ordered.limit(limit).collect()]

    def waiting(
        self, target: str | None = None, besides: Sequence[DeadLetterStore] = ()
    ) -> DataFrame:
        """Return the records of Kafka that were not replayed, each once, however many dead letters it has.

        Of several tables it is that of the first by its name. `besides` are places whose records are replayed before,
        `target` is the topic of the replay, None each to its own.
        """
        waits = (~F.col("replayed")) & F.col("topic").isNotNull()
        letters = (
            self.letters(target).filter(waits).withColumn(CLUSTER, self._cluster(F.col("table")))
        )
        for other in besides:
            before = other.waiting(target).withColumn(CLUSTER, self._cluster(F.col("table")))
            letters = letters.join(
                before.select(*RECORD_POSITION, CLUSTER), [*RECORD_POSITION, CLUSTER], "left_anti"
            )
        first = letters.groupBy(*RECORD_POSITION, CLUSTER).agg(F.min("table").alias("table"))
        once = letters.dropDuplicates([*RECORD_POSITION, "table"])
        return once.join(first, [*RECORD_POSITION, CLUSTER, "table"], "left_semi").drop(CLUSTER)

    def unfinished(self) -> Sequence[Replay]:
        """Return the replays that were planned and whose outcome is unknown."""
        replays = self._replays(self.backend)
        done = replays.filter(F.col("state") == ReplayState.DONE.value).select("replay_id")
        open_ones = replays.join(done, "replay_id", "left_anti")
        grouped = open_ones.groupBy("replay_id", "table", "target").agg(
            F.unix_millis(F.min("at")).alias("at_ms"),
            F.min("topic").alias("first_topic"),
            F.count(F.lit(1)).alias("records"),
        )
        return [_replay(row.asDict()) for row in grouped.orderBy("at_ms").collect()]

    def plan(self, table: str, target: str | None) -> Replay | None:
        """Plan the replay of the waiting records of `table`; None where there are none."""
        replay_id = uuid4().hex
        planned = (
            self.waiting(target).filter(F.col("table") == table).select(*RECORD_POSITION, "table")
        )
        if planned.isEmpty():
            return None
        self._note(planned, replay_id, target, ReplayState.PLANNED)
        return next((r for r in self.unfinished() if r.replay_id == replay_id), None)

    def records(self, replay: Replay) -> Generator[RawRecord, None, None]:
        """Return the records of a replay as they were, partition by partition in their order.

        Of all pipelines: the replay may be one of others that was interrupted. Raises StateMismatchError behind the
        last record where some are not there any more: none of a replay counts as sent then.
        """
        planned = self._replays(self.backend).filter(F.col("replay_id") == replay.replay_id)
        letters = self._stored().dropDuplicates([*RECORD_POSITION, "table"])
        found = letters.join(
            planned.select(*RECORD_POSITION, "table"), [*RECORD_POSITION, "table"], "left_semi"
        )
        count = 0
        for row in found.orderBy(*RECORD_POSITION).toLocalIterator():
            yield _record(row.asDict(recursive=True))
            count += 1
        if count != replay.records:
            raise StateMismatchError(
                f"replay {replay.replay_id} of {replay.records} records of {replay.table} is not sent: of its dead "
                f"letters {count} are left in {self.path}",
                hint="restore them; or forget the replay: delete the rows of this replay_id from the Delta table "
                f"{self.backend.notes}, so that the next one takes those that are left",
            )

    def finish(self, replay: Replay) -> None:
        """Record that a replay is done."""
        kinds = {"topic": "string", "partition": "int", "offset": "bigint"}
        nowhere = [F.lit(None).cast(kind).alias(name) for name, kind in kinds.items()]
        row = self.spark.range(1).select(*nowhere, F.lit(replay.table).alias("table"))
        self._note(row, replay.replay_id, replay.target, ReplayState.DONE)

    def _replays(self, backend: DeadLetterBackend) -> DataFrame:
        found = read_stored(define_replay_table(backend.notes), self.spark)
        if found is not None:
            return found
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
        return define_replay_table(self.backend.notes)


def no_dead_letters(backend: str) -> UnknownObjectError:
    """Make the error for a named place without dead letters."""
    return UnknownObjectError(
        f"there are no dead letters at {backend}",
        hint="`penstock dlq ls` says where there are some",
    )


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
