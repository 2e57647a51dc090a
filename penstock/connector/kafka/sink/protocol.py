"""One slot's part of one batch, written exactly once: data and marker in one transaction of a fresh producer.

(1) `fence` gives growing epochs to a transactional.id; brokers refuse every request of an older epoch. (2) An epoch has
one transaction, so a late commit or abort ends none but its own. (3) `fence` returns when all earlier transactions are
over, so the marker read next, stable, is of exactly the committed ones. (4) Data and marker are committed together. So
who reads "batch b is next" knows: no attempt has committed b, and no older one ever can; it alone may. Hence
- a task retry, a speculative or zombie attempt, a second runner: one wins, the others are fenced or find the marker;
- a driver that dies before the tasks, between their commits, or before its checkpoint knows of them: the batch is
  replayed, slots that have it pass, the others write; Spark ends the batch after all N reports, so none is left out;
- a batch of another content (copied checkpoint, other query) has another digest and is refused, not passed over.
At most once per slot and batch, and at least once: exactly once, if a replay gives a slot the same rows. `sink.py`
stages the rows of a query that may give others (`connector/spark/sink/determinism.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.connector.failpoints import reach
from penstock.connector.kafka.client.connection import Connection
from penstock.connector.kafka.client.split import TopicPartition
from penstock.connector.kafka.client.tuning import admin_connection
from penstock.connector.kafka.sink.client import RecordProducer, SinkAdmin, transactional
from penstock.connector.kafka.sink.marker import BatchCommit, Marker, may_write
from penstock.connector.kafka.sink.sending import Destination

__all__ = ["SlotWriter", "read_marker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotWriter:
    """What a task needs to write its slot. `place` is where markers are kept: partition 0 of a topic of the sink."""

    connection: Connection = field(repr=False)
    timeout_ms: int
    place: TopicPartition
    claim: BatchCommit

    def write(self, chunks: Iterator[pa.RecordBatch], destination: Destination) -> int | None:
        """Write the rows and the marker; returns the rows written, None when they were there already.

        Raises StateMismatchError, SinkError, BrokerUnavailableError; what was sent by then is aborted by the next
        attempt.
        """
        slot = self.claim.slot
        producer = RecordProducer(
            transactional(self.connection, slot, self.timeout_ms), who=f"slot '{slot}'"
        )
        try:
            producer.fence()
            found = read_marker(_admin_of(self.connection), slot, self.place)
            if not may_write(self.claim, found):
                return None
            producer.begin()
            rows = destination.send(producer, chunks)
            producer.flush()
            reach("produced")
            marker = Marker(next_batch=self.claim.batch_id + 1, rows=rows, digest=self.claim.digest)
            producer.commit(slot, self.place, (marker.next_batch, marker.metadata))
            reach("transaction-committed")
            return rows
        finally:
            producer.drop()


def read_marker(admin: SinkAdmin, slot: str, place: TopicPartition) -> Marker | None:
    """Read a slot's marker; None where the broker says that there is none."""
    found = admin.group_commits(slot, [place]).get(place)
    return None if found is None else Marker.parse(*found)


_ADMINS: dict[Connection, SinkAdmin] = {}
"""One a process, kept: connecting costs more than the question. Spark's workers make theirs after their fork."""


def _admin_of(connection: Connection) -> SinkAdmin:
    if connection not in _ADMINS:
        _ADMINS.clear()  # a worker serves one table at a time, mostly
        _ADMINS[connection] = SinkAdmin(admin_connection(dict(connection.settings)))
    return _ADMINS[connection]
