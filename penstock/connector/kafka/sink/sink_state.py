"""The state of a sink in the checkpoint: the number of its slots, its first batch, the topic of its markers.

Markers that brokers have expired are set again from it, without Spark.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from penstock.catalog.errors import StateMismatchError, UnknownObjectError
from penstock.connector.kafka.client.connection import Connection, TopicPartition
from penstock.connector.kafka.sink.client import RecordProducer, SinkAdmin, transactional
from penstock.connector.kafka.sink.protocol import Marker, SlotNames, read_marker
from penstock.connector.spark.hadoop_files import list_names, read_text, write_text
from penstock.connector.storage import open_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FOLDER = "kafka-sinks"
"""In the checkpoint, beside Spark's own."""

BEGAN = "began"
"""Name of the ledger's file, in a folder for each sink."""

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkState:
    """What was decided when the sink began. `topic` holds the markers, with its partition 0."""

    prefix: str
    slots: int
    first_batch: int
    topic: str


def ledger_path(checkpoint: str, names: SlotNames) -> str:
    """Return the file of a checkpoint in which the state of a sink is."""
    return f"{checkpoint}/{FOLDER}/{names.scope}/{BEGAN}"


def read_sink_state(spark: SparkSession, path: str) -> SinkState | None:
    """Read it; None where the sink has not begun. Raises StateMismatchError where the file is damaged."""
    text = read_text(spark, path)
    return None if text is None else parse_sink_state(text, path)


def parse_sink_state(text: str, path: str) -> SinkState:
    """Read the text of a ledger; messages name it by `path`. Raises StateMismatchError where it is damaged."""
    try:
        value = json.loads(text)
        if value.pop("version") != VERSION:
            raise ValueError("another version")
        return SinkState(**value)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StateMismatchError(
            f"the file {path} does not say how this Kafka sink began: {error}",
            hint="restore the checkpoint from a backup; or SET another 'pipeline.name' to start over",
        ) from error


def record_sink_state(spark: SparkSession, path: str, ledger: SinkState) -> SinkState:
    """Write it, unless it is there; returns what is there then."""
    write_text(spark, path, json.dumps({"version": VERSION, **asdict(ledger)}))
    found = read_sink_state(spark, path)
    assert found is not None, "just written"
    return found


def check_unchanged(ledger: SinkState, *, prefix: str, slots: int | None, owner: str) -> None:
    """Check that the table still names what the sink began with. Raises StateMismatchError."""
    if prefix != ledger.prefix:
        raise StateMismatchError(
            f"{owner}: 'sink.transactional-id-prefix' was '{ledger.prefix}' when this pipeline began, and is "
            f"'{prefix}' now: its markers would not be found",
            hint="set it back; or SET another 'pipeline.name' to start over",
        )
    if slots is not None and slots != ledger.slots:
        raise StateMismatchError(
            f"{owner}: 'sink.parallelism' was {ledger.slots} when this pipeline began, and is {slots} now: rows would "
            "move to other slots",
            hint=f"set it to {ledger.slots}, or leave it out; or SET another 'pipeline.name' to start over",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchBegun:
    """A batch that is in some slots, and who wrote it there."""

    batch_id: int
    by_tasks: bool


def batch_begun(
    spark: SparkSession, checkpoint: str, ledger: SinkState, names: SlotNames, admin: SinkAdmin
) -> BatchBegun | None:
    """Return the batch of a checkpoint that some slots have and that is not complete; asks the broker."""
    planned, complete = (
        newest(list_names(spark, f"{checkpoint}/{folder}")) for folder in ("offsets", "commits")
    )
    if planned is None or planned == complete:
        return None
    for slot in range(ledger.slots):
        found = read_marker(admin, names.slot(slot), TopicPartition(ledger.topic, 0))
        if found is not None and found.next_batch == planned + 1 and found.digest is not None:
            return BatchBegun(batch_id=planned, by_tasks=found.by_tasks)
    return None


TIMEOUT_MS = 60_000
"""Of the transaction that carries the marker; nothing else is written in it."""

BY_HAND = "penstock kafka transactions repair"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSlots:
    """A sink's slots, as the checkpoint knows them. `planned` is its last batch, `committed` the last that is done."""

    names: SlotNames
    ledger: SinkState
    planned: int | None
    committed: int | None

    def slots(self) -> Iterator[KnownSlot]:
        """Return the slots."""
        partition = TopicPartition(self.ledger.topic, 0)
        for slot in range(self.ledger.slots):
            yield KnownSlot(name=self.names.slot(slot), partition=partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSlot:
    """A slot: its transactional id, which is also its marker's group, and where the marker is kept."""

    name: str
    partition: TopicPartition


def read_slots(checkpoint: str, prefix: str, topics: Collection[str]) -> tuple[KnownSlots, ...]:
    """Find the sinks in a checkpoint (a path or URL) whose ids begin with `prefix`; `topics` leaves others out.

    Raises UnknownObjectError where there is none, StateMismatchError where the checkpoint is damaged.
    """
    root = open_folder(checkpoint)
    planned, committed = (newest(root.below(log).names()) for log in ("offsets", "commits"))
    found = []
    for scope in root.below(FOLDER).folders():
        text = root.below(FOLDER).below(scope).text(BEGAN)
        ledger = (
            None
            if text is None
            else parse_sink_state(text, f"{root.shown}/{FOLDER}/{scope}/{BEGAN}")
        )
        if (
            ledger is not None
            and ledger.prefix == prefix
            and (not topics or ledger.topic in topics)
        ):
            names = SlotNames(prefix=prefix, scope=scope)
            found.append(
                KnownSlots(names=names, ledger=ledger, planned=planned, committed=committed)
            )
    if not found:
        raise UnknownObjectError(
            f"the checkpoint {root.shown} knows no exactly-once sink of this table",
            hint="a checkpoint is <execution.checkpointing.dir>/<pipeline>/<sink>",
        )
    return tuple(found)


def next_batch(known: KnownSlots, *, not_written: bool) -> int | None:
    """Return the batch that a slot without a marker writes next; None where it needs none yet.

    `not_written`: a person has checked that the batch that was begun is not in the topic. Raises StateMismatchError.
    """
    committed = -1 if known.committed is None else known.committed
    following = committed + 1
    if following <= known.ledger.first_batch:
        return None  # the first batch of a sink finds no marker
    begun = known.planned is not None and known.planned > committed
    if begun and not not_written:
        raise StateMismatchError(
            f"batch {known.planned} was begun and not ended: it is unknown whether slots without a marker have it",
            hint=f"look into topic '{known.ledger.topic}': if its rows are not there, add --not-written; if they are, "
            "see docs/exactly-once.md, Repair of lost markers",
        )
    return following


def set_marker(connection: Connection, admin: SinkAdmin, slot: KnownSlot, following: int) -> Marker:
    """Set batch `following` as next in a slot, unless it has a marker. Returns the marker that is then there.

    Raises SinkError, BrokerUnavailableError.
    """
    producer = RecordProducer(
        transactional(connection, slot.name, TIMEOUT_MS), who=f"'{slot.name}'"
    )
    try:
        producer.fence()
        found = read_marker(admin, slot.name, slot.partition)
        if found is None:
            found = Marker(next_batch=following)
            producer.begin()
            producer.add_marker(slot.name, slot.partition, (following, BY_HAND))
            producer.commit()
        return found
    finally:
        producer.drop()


def newest(names: Iterable[str]) -> int | None:
    """Return the newest batch of a log of Spark's checkpoint; None where it has none."""
    return max((int(name) for name in names if name.isdigit()), default=None)
