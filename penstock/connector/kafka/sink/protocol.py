"""One slot's part of one batch, written exactly once: data and marker in one transaction of a fresh producer.

(1) `fence` gives growing epochs to a transactional.id; brokers refuse every request of an older epoch. (2) An epoch has
one transaction, so a late commit or abort ends none but its own. (3) `fence` returns when all earlier transactions are
over, so the marker read next, stable, is of exactly the committed ones. (4) Data and marker are committed together. So
who reads "batch b is next" knows: no attempt has committed b, and no older one ever can; it alone may. Hence
- a task retry, a speculative or zombie attempt, a second runner: one wins, the others are fenced or find the marker;
- a driver that dies before the tasks, between their commits, or before its checkpoint knows of them: the batch is
replayed, slots that have it pass, the others write; Spark ends the batch after all N reports, so none is left out;
- a batch of another content (copied checkpoint, other query, other records) is refused by its digest, not passed over.
At most once per slot and batch, and at least once: exactly once, if a replay gives a slot the same rows. `sink.py`
stages the rows of a query that may give others (`connector/spark/sink/determinism.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.errors import StateMismatchError
from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.failpoints import reach
from penstock.connector.kafka.client.connection import Connection, TopicPartition, admin_connection
from penstock.connector.kafka.sink.client import RecordProducer, SinkAdmin, transactional

_OF_A_RECORD = ("key", "value", "timestamp", "headers")
_ONE_BY_ONE = {"headers", "timestamp"}
"""What the client takes only of a record that is sent alone."""
BY_KEY = -1
"""What the client takes for "choose the partition yourself"."""


@dataclass(slots=True, kw_only=True)
class Destination:
    """Where a task's records go. `topic` is None where a column says it; `fixed` numbers a task that writes to one
    partition of each topic.
    """

    topic: str | None
    fixed: int | None
    _partitions: dict[str, int] = field(default_factory=dict)

    def send(self, producer: RecordProducer, chunks: Iterator[pa.RecordBatch]) -> int:
        """Send the records, those of a topic in their order; returns how many. `producer.flush` has to follow."""
        rows = 0
        for chunk in chunks:
            for topic, part in self._by_topic(chunk):
                self._send(producer, topic, part)
            rows += chunk.num_rows
        return rows

    def _by_topic(self, chunk: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self.topic is not None:
            yield self.topic, chunk
            return
        topics = chunk.column("topic")
        for topic in pc.unique(topics).to_pylist():
            yield topic, chunk.filter(pc.equal(topics, topic))

    def _send(self, producer: RecordProducer, topic: str, part: pa.RecordBatch) -> None:
        if not part.num_rows:
            return
        partition = self._partition(producer, topic)
        names = [name for name in _OF_A_RECORD if name in part.schema.names]
        # no record has a header in most batches of a table that could have some
        if "headers" in names and part.column("headers").null_count == part.num_rows:
            names.remove("headers")
        records = part.select(names).to_pylist()
        if not _ONE_BY_ONE & set(names):
            producer.send(topic, records, part.nbytes, partition)
            return
        for record in records:
            pairs = record.pop("headers", None)
            if pairs:
                record["headers"] = [(pair["key"], pair["value"]) for pair in pairs]
            if record.get("timestamp", 0) is None:
                del record["timestamp"]
        producer.send_one_by_one(topic, records, part.nbytes, partition)

    def _partition(self, producer: RecordProducer, topic: str) -> int:
        if self.fixed is None:
            return BY_KEY
        if topic not in self._partitions:
            self._partitions[topic] = producer.partitions(topic)
        return self.fixed % self._partitions[topic]


def last_changes(chunks: Iterator[pa.RecordBatch], *, only_last: bool) -> Iterator[pa.RecordBatch]:
    """Leave out what an upsert topic does not need of changes that come sorted by key.

    That is every row as it was before an update, unless it is the last change of its key: then the row is gone.
    With `only_last` it is all but the last change of each key.
    """
    held: pa.RecordBatch | None = None
    for chunk in chunks:
        if not chunk.num_rows:
            continue
        rows = chunk if held is None else pa.concat_batches([held, chunk])
        # whether a row is its key's last is known when the next one is seen
        ready, held = rows.slice(0, rows.num_rows - 1), rows.slice(rows.num_rows - 1)
        keys = rows.column("key")
        yield _kept(ready, pc.not_equal(ready.column("key"), keys.slice(1)), only_last=only_last)
    if held is not None:
        yield _kept(held, pa.array([True]), only_last=only_last)


def _kept(rows: pa.RecordBatch, last: pa.BooleanArray, *, only_last: bool) -> pa.RecordBatch:
    if only_last or ROW_KIND not in rows.schema.names:
        return rows.filter(last) if only_last else rows
    stays = pc.not_equal(rows.column(ROW_KIND), RowKind.UPDATE_BEFORE.value)
    return rows.filter(pc.or_(stays, last))


SCOPE_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotNames:
    """The names of a sink's slots. `scope` identifies query and sink, in hex."""

    prefix: str
    scope: str

    @classmethod
    def of(cls, prefix: str, query_id: str, sink: str) -> SlotNames:
        """Name the slots of the query `query_id` that write into `sink`."""
        digest = hashlib.sha256(f"{query_id}\n{sink}".encode()).hexdigest()
        return cls(prefix=prefix, scope=digest[:SCOPE_DIGITS])

    def slot(self, slot: int) -> str:
        """Name a slot: its transactional.id, and the consumer group that holds its marker."""
        return f"{self.prefix}-{self.scope}-{slot}"


VERSION = "v1"

BY_TASKS = "tasks-"
"""Begins the digest of a batch whose slots are those of its splits, as reading tasks write it; else rows have a slot
each. A batch is written in one of the two ways.
"""


def digest_by_tasks(digest: str) -> str:
    """Return the digest of a batch that reading tasks write."""
    return f"{BY_TASKS}{digest}"


_ENCODED = "."
"""Stands before the digest of how rows become records, which ends the digest of a batch that needs it."""


def digest_with_encoding(digest: str, encoding: str) -> str:
    """Return the digest of a batch whose slots follow from its records; `encoding`: of how rows become these."""
    return f"{digest}{_ENCODED}{encoding}"


def _without_encoding(digest: str) -> str:
    return digest.partition(_ENCODED)[0]


def _encoding(digest: str) -> str:
    return digest.partition(_ENCODED)[2]


def _content(digest: str) -> str:
    return _without_encoding(digest).removeprefix(BY_TASKS)


_START_OVER = "to start over, SET another 'pipeline.name'; rows that are in the topic stay there"

_REPAIR = (
    "`penstock kafka transactions repair` sets it again (docs/exactly-once.md says when it may)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """A slot's marker: every batch before `next_batch` is written; `digest` and `rows` are those of the last one.

    `digest` is None for a marker that was set by hand: it names the next batch, and nothing about the last one.
    """

    next_batch: int
    rows: int = 0
    digest: str | None = None

    @property
    def by_tasks(self) -> bool:
        """Whether reading tasks wrote the last batch."""
        return self.digest is not None and self.digest.startswith(BY_TASKS)

    def has(self, claim: BatchCommit) -> bool:
        """Return whether the slot has the batch that is claimed, whatever its records looked like."""
        if self.next_batch != claim.batch_id + 1 or self.digest is None:
            return False
        return _without_encoding(self.digest) == _without_encoding(claim.digest)

    def is_encoded_otherwise(self, claim: BatchCommit) -> bool:
        """Return whether rows became other records in the slot's last batch than they would become now.

        Not of a marker of an earlier version, nor of records that are staged: these say nothing of it.
        """
        was, now = _encoding(self.digest or ""), _encoding(claim.digest)
        return bool(was and now) and was != now

    @classmethod
    def parse(cls, offset: int, metadata: str | None) -> Marker:
        """Read a committed offset and its metadata."""
        parts = (metadata or "").split(";")
        if len(parts) == 4 and parts[0] == VERSION and parts[2].isdigit():
            return cls(next_batch=offset, rows=int(parts[2]), digest=parts[3])
        return cls(next_batch=offset)

    @property
    def metadata(self) -> str:
        """The text beside the offset, far below the broker's limit of 4096 bytes."""
        return f"{VERSION};{self.next_batch - 1};{self.rows};{self.digest or ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCommit:
    """A slot's part of a batch that is to be written. `first_batch` is the first that this sink ever had.

    `sparse`: the sink is not given every batch, and whether a marker that is missing may have been forgotten was
    decided before (`sink.py`).
    """

    slot: str
    batch_id: int
    first_batch: int
    digest: str
    sparse: bool = False


def may_write(claim: BatchCommit, found: Marker | None) -> bool:
    """Return whether the slot's rows have to be written; False: they are written already.

    Raises StateMismatchError where the marker fits no batch that this query could be at.
    """
    what = f"slot '{claim.slot}', batch {claim.batch_id}"
    if found is None:
        if claim.sparse or claim.batch_id == claim.first_batch:
            return True
        raise StateMismatchError(
            f"{what}: the marker of the batch before is lost, so it is unknown whether this batch is in the topic",
            hint="the consumer group of that name was deleted, its topic was made again, or the pipeline was "
            f"stopped for longer than the broker's offsets.retention.minutes; {_REPAIR}; or {_START_OVER}",
        )
    if found.next_batch == claim.batch_id or (claim.sparse and found.next_batch < claim.batch_id):
        return True
    if found.next_batch == claim.batch_id + 1:
        if found.has(claim) and not found.is_encoded_otherwise(claim):
            return False
        raise _of_another_digest(what, claim, found)
    if found.next_batch > claim.batch_id:
        raise StateMismatchError(
            f"{what}: the topic has batch {found.next_batch - 1} of this query already: another runner is ahead, "
            "or the checkpoint is an older copy",
            hint=f"stop the other runner, or continue with its checkpoint; or {_START_OVER}",
        )
    raise StateMismatchError(
        f"{what}: the topic's last batch in this slot is {found.next_batch - 1}, and batch {claim.batch_id - 1} is "
        "missing there: the number of slots or the prefix was changed, or the marker was set back",
        hint=f"{_REPAIR}; or {_START_OVER}",
    )


def _of_another_digest(what: str, claim: BatchCommit, found: Marker) -> StateMismatchError:
    """Say in what the batch at hand differs from the one of its number that the slot has."""
    if found.has(claim):
        return StateMismatchError(
            f"{what}: the topic has a part of this batch, and its rows would become other records now: rows would be "
            "in two slots, or in none. Changed were columns, formats or their options of the table, the columns of "
            "the INSERT, or the time zone",
            hint=f"undo the change until the batch is complete, and make it then; or {_START_OVER}",
        )
    if found.digest is not None and _content(found.digest) == _content(claim.digest):
        other, this = ("reading tasks", "Spark") if found.by_tasks else ("Spark", "reading tasks")
        return StateMismatchError(
            f"{what}: {other} wrote a part of this batch, and {this} would write the rest: rows would be in two "
            "slots, or in none",
            hint="undo what was changed of the table (EXPLAIN says who writes) until the batch is complete; or "
            f"{_START_OVER}",
        )
    return StateMismatchError(
        f"{what}: another batch of this number is in the topic (its digest is {found.digest}, this one's "
        f"{claim.digest}): the checkpoint was copied or restored, or the query was changed before it went on",
        hint=f"continue with the checkpoint and the query that wrote it; or {_START_OVER}",
    )


def lacks_batch(claims: Sequence[BatchCommit], found: Sequence[Marker | None]) -> bool:
    """Return whether a slot lacks a batch, by the markers of all. Raises StateMismatchError as `may_write`.

    One that all slots have is complete, whatever its rows would become now.
    """
    slots = list(zip(claims, found, strict=True))
    if all(marker is not None and marker.has(claim) for claim, marker in slots):
        return False
    # every slot is asked: one that does not fit is an error, whatever the others say
    lacking = [may_write(claim, marker) for claim, marker in slots]
    return any(lacking)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotWriter:
    """What a task needs to write its slot. `partition` holds the markers: partition 0 of a topic of the sink."""

    connection: Connection = field(repr=False)
    timeout_ms: int
    partition: TopicPartition
    claim: BatchCommit

    def write(self, chunks: Iterator[pa.RecordBatch], destination: Destination) -> int | None:
        """Write the rows and the marker; returns the rows written, None when they were there already.

        Raises StateMismatchError, SinkError, BrokerUnavailableError; what was sent by then is aborted, at once where
        that is possible, else by the next attempt.
        """
        attempt = SlotAttempt(self)
        try:
            if not attempt.begin():
                return None
            attempt.send(chunks, destination)
            return attempt.commit()
        finally:
            attempt.abort()
            attempt.drop()


class SlotAttempt:
    """One attempt at a slot's part of a batch: `begin`, then `send` and `commit`, `drop` at last. One thread."""

    def __init__(self, writer: SlotWriter) -> None:
        slot = writer.claim.slot
        self._writer = writer
        self._rows = 0
        self._open = False
        self._producer = RecordProducer(
            transactional(writer.connection, slot, writer.timeout_ms), who=f"slot '{slot}'"
        )

    def begin(self) -> bool:
        """Fence earlier attempts off, and begin the transaction; False where the slot has the batch."""
        writer, producer = self._writer, self._producer
        producer.fence()
        found = read_marker(_admin_of(writer.connection), writer.claim.slot, writer.partition)
        if not may_write(writer.claim, found):
            return False
        producer.begin()
        self._open = True
        return True

    def send(self, chunks: Iterator[pa.RecordBatch], destination: Destination) -> None:
        """Send records."""
        self._rows += destination.send(self._producer, chunks)

    def commit(self) -> int:
        """Commit the records and the marker; returns how many records there are."""
        claim, producer = self._writer.claim, self._producer
        producer.flush()
        reach("produced")
        marker = Marker(next_batch=claim.batch_id + 1, rows=self._rows, digest=claim.digest)
        offset = (marker.next_batch, marker.metadata)
        producer.add_marker(claim.slot, self._writer.partition, offset)
        # from here on nobody knows whether it is committed until the broker says so
        self._open = False
        producer.commit()
        reach("transaction-committed")
        return self._rows

    def abort(self) -> None:
        """End a transaction that was begun and is not to be committed, so that readers do not wait for it."""
        if self._open:
            self._producer.abort()
            self._open = False

    def drop(self) -> None:
        """Drop the producer; a transaction that is open is ended by the next attempt."""
        self._producer.drop()


def read_marker(admin: SinkAdmin, slot: str, partition: TopicPartition) -> Marker | None:
    """Read a slot's marker; None where the broker says that there is none."""
    found = admin.group_commits(slot, [partition]).get(partition)
    return None if found is None else Marker.parse(*found)


_ADMINS: dict[Connection, SinkAdmin] = {}
"""One a process, kept: connecting costs more than the question. Spark's workers make theirs after their fork."""


def _admin_of(connection: Connection) -> SinkAdmin:
    if connection not in _ADMINS:
        _ADMINS.clear()  # a worker serves one table at a time, mostly
        _ADMINS[connection] = SinkAdmin(admin_connection(dict(connection.settings)))
    return _ADMINS[connection]
