"""Markers that brokers have expired, set again from the checkpoint. Needs no Spark.

A marker that is there is never touched, and one is set in a transaction of the slot's own id, after the fence: so
running this beside the pipeline has no effect, and is harmless. The checkpoint tells the batch that is next where its
last batch is done; where one was begun and not ended, only the topic shows it, to a person who has checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from penstock.catalog.errors import StateMismatchError, UnknownObjectError
from penstock.connector.kafka.client.connection import Connection
from penstock.connector.kafka.client.split import TopicPartition
from penstock.connector.kafka.sink.client import RecordProducer, SinkAdmin, transactional
from penstock.connector.kafka.sink.marker import Marker, SlotNames
from penstock.connector.kafka.sink.protocol import read_marker
from penstock.connector.kafka.sink.sink_state import BEGAN, FOLDER, SinkState, parse_sink_state
from penstock.connector.storage import open_folder

__all__ = ["KnownSlot", "KnownSlots", "next_batch", "read_slots", "set_marker"]

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
        place = TopicPartition(self.ledger.topic, 0)
        for slot in range(self.ledger.slots):
            yield KnownSlot(name=self.names.slot(slot), place=place)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSlot:
    """A slot: its transactional id, which is also its marker's group, and where the marker is kept."""

    name: str
    place: TopicPartition


def read_slots(checkpoint: str, prefix: str, topics: Collection[str]) -> tuple[KnownSlots, ...]:
    """Find the sinks in a checkpoint (a path or URL) whose ids begin with `prefix`; `topics` leaves others out.

    Raises UnknownObjectError where there is none, StateMismatchError where the checkpoint is damaged.
    """
    root = open_folder(checkpoint)
    planned, committed = (_newest(root.below(log).names()) for log in ("offsets", "commits"))
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
        found = read_marker(admin, slot.name, slot.place)
        if found is None:
            found = Marker(next_batch=following)
            producer.begin()
            producer.commit(slot.name, slot.place, (following, BY_HAND))
        return found
    finally:
        producer.drop()


def _newest(names: Iterable[str]) -> int | None:
    return max((int(name) for name in names if name.isdigit()), default=None)
