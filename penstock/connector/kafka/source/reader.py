"""Reads ranges of partitions in a task: many records a fetch, decoded in columns, until each range is at its end.

Flink's KafkaPartitionSplitReader. One consumer serves all splits of the reader and is kept for the next reader;
`ranges` knows when a range ends, `recovery` what to do when the log is not as planned.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from penstock.connector.kafka.client.client import Message
from penstock.connector.kafka.client.connection import (
    Connection,
    Denied,
    Displaced,
    EndOfPartition,
    Event,
    KafkaSplit,
    OffsetUnavailable,
    Start,
    TopicPartition,
    TopicUnknown,
)
from penstock.connector.kafka.client.consumer import (
    CONSUMERS,
    GARBAGE_COLLECTION,
    KafkaConsumer,
)
from penstock.connector.kafka.client.draining import DrainingConsumer, open_consumer
from penstock.connector.kafka.source.column_records import ColumnRecords
from penstock.connector.kafka.source.decode import KafkaRecordDecoder
from penstock.connector.kafka.source.ranges import LogCheck, RangeProgress, by_partition
from penstock.connector.kafka.source.records import FetchedRecords, Records
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.split import Split

RECORDS_A_FETCH = 20_000
"""Large enough that the cost per call vanishes, small enough to decode while the next ones come."""

FEW_RECORDS = RECORDS_A_FETCH
"""Ranges up to so many are read by a client that fetches little ahead."""

POLL_S = 0.02
"""How long a call may wait for a full fetch; it is what a gap at the end of a range costs."""

FETCH_S = 1.0
"""How long `fetch` waits for records before it comes back empty."""

STALLED_AFTER_S = 60.0
"""Without any progress for so long the read fails; a broker that restarts is back in less."""


class KafkaSplitReader:
    """A SplitReader over one Kafka consumer. Used by one thread; only `wake_up` may come from another."""

    def __init__(
        self,
        connection: Connection,
        decoder: KafkaRecordDecoder,
        check: LogCheck,
        *,
        origins: bool = False,
        few: Connection | None = None,
    ) -> None:
        """Connect to nothing yet. `origins`: fetches lead back to their records.

        `few`: what is used in place of the connection where the first ranges have few records each.
        """
        self._connection = connection
        self._few = few
        self._decoder = decoder
        self._check = check
        self._origins = origins
        self._fields = decoder.reads.with_raw() if origins else decoder.reads
        self._consumer: KafkaConsumer | None = None
        self._ranges: dict[TopicPartition, RangeProgress] = {}
        self._paused: dict[TopicPartition, RangeProgress] = {}
        self._finished: set[str] = set()
        self._woken = threading.Event()
        self._moved_at_s = time.monotonic()

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Add splits; one whose start is its stop finishes with the next fetch."""
        added = []
        for split in splits:
            assert isinstance(split, KafkaSplit), f"not a split of Kafka: {split}"
            reading = RangeProgress(split)
            taken = reading.partition in self._ranges or reading.partition in self._paused
            assert not taken, f"{split.split_id} is being read already"
            if reading.finished:
                self._finished.add(split.split_id)
                continue
            self._ranges[reading.partition] = reading
            added.append(reading.start)
        self._moved_at_s = time.monotonic()
        with self._kept_only_if_well():
            if added and self._consumer is None:
                if self._few is not None and _has_few(self._ranges.values()):
                    self._connection = self._few
                self._consumer = CONSUMERS.lend(self._connection, open_consumer)
                self._consumer.settle([start.partition for start in added])
                self._consumer.assign(added)
            elif added:
                self._add(added)

    def fetch(self) -> RecordsWithSplitIds:
        """Wait up to a second for records; may be empty.

        Raises BadRecordError, DataLossError, TopicChangedError, BrokerUnavailableError.
        """
        give_up_s = time.monotonic() + FETCH_S
        with self._kept_only_if_well():
            while True:
                with GARBAGE_COLLECTION.paused():
                    fetched = self._fetch_once()
                if fetched is not None:
                    return fetched
                if self._woken.is_set() or time.monotonic() > give_up_s:
                    self._woken.clear()
                    return RecordsWithSplitIds()

    def pause_or_resume(self, pause: Collection[str], resume: Collection[str]) -> None:
        """Pause or resume splits (FLIP-217); an id in both is paused, as in Flink.

        Unknown ids are ignored: they may just have finished (FLINK-39728).
        """
        resumed = [
            reading
            for partition, reading in self._paused.items()
            if partition.split_id in resume and partition.split_id not in pause
        ]
        paused = [
            reading for partition, reading in self._ranges.items() if partition.split_id in pause
        ]
        for reading in resumed:
            self._ranges[reading.partition] = self._paused.pop(reading.partition)
        for reading in paused:
            self._paused[reading.partition] = self._ranges.pop(reading.partition)
        with self._kept_only_if_well():
            if resumed:
                self._add([reading.start for reading in resumed])
            if paused and self._consumer is not None:
                self._consumer.remove([reading.partition for reading in paused])
        self._moved_at_s = time.monotonic()

    def wake_up(self) -> None:
        """End a `fetch` that waits."""
        self._woken.set()

    def close(self) -> None:
        """Return the consumer to the pool for the next reader."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            CONSUMERS.give_back(consumer)

    def _add(self, starts: Sequence[Start]) -> None:
        """Read more partitions; the others stay where they are."""
        assert self._consumer is not None, "a consumer is lent when the first split comes"
        self._consumer.add(starts)

    @contextmanager
    def _kept_only_if_well(self) -> Iterator[None]:
        """Close a consumer in an unknown state: the next reader gets another."""
        try:
            yield
        except BaseException:
            consumer, self._consumer = self._consumer, None
            if consumer is not None:
                consumer.close()
            raise

    def _fetch_once(self) -> RecordsWithSplitIds | None:
        """Poll for POLL_S; None when nothing came."""
        if self._consumer is None or not self._ranges or self._finished:
            if not self._finished:
                self._woken.wait(POLL_S)
            return self._hand_over(None) if self._finished else None
        wanted = sum(reading.left(RECORDS_A_FETCH) for reading in self._ranges.values())
        taken, events = self._take_records(self._consumer, min(RECORDS_A_FETCH, wanted))
        # an event comes after the records before it
        for event in events:
            self._on_event(event)
        if taken is None:
            self._look_at_positions()
        if any(reading.position != reading.reported for reading in self._ranges.values()):
            return self._hand_over(taken)
        if time.monotonic() - self._moved_at_s > STALLED_AFTER_S:
            self._look_why_it_stalls()
        return None

    def _look_why_it_stalls(self) -> None:
        """Fail or advance each range that waits in vain, and restart; others stay as they are."""
        assert self._consumer is not None, "only a reader with a consumer reads"
        self._moved_at_s = time.monotonic()
        waiting = [r for r in self._ranges.values() if r.split.stop is not None or not r.caught_up]
        for reading in waiting:
            self._check.stalled(reading, self._consumer.last_error)
        if waiting:
            self._reassign()

    def _take_records(
        self, consumer: KafkaConsumer, limit: int
    ) -> tuple[FetchedRecords | None, Sequence[Event]]:
        """Return records that belong to the ranges, if there are some, and events; moves the ranges past them."""
        if isinstance(consumer, DrainingConsumer):
            return self._drain(consumer, limit)
        fetched = consumer.consume(limit, POLL_S)
        taken = self._take(fetched.messages) if fetched.messages else {}
        return (Records.of(taken) if taken else None), fetched.events

    def _take(self, messages: Sequence[Message]) -> dict[TopicPartition, Sequence[Message]]:
        """Return the records that belong to the ranges, and move the ranges past them."""
        gathered = by_partition(messages, list(self._ranges))
        taken = {
            partition: self._ranges[partition].take(records)
            for partition, records in gathered.items()
        }
        return {partition: records for partition, records in taken.items() if records}

    def _drain(
        self, consumer: DrainingConsumer, limit: int
    ) -> tuple[FetchedRecords | None, Sequence[Event]]:
        """Do the same in columns."""
        ranges = {
            partition: (r.position, r.split.stop) for partition, r in sorted(self._ranges.items())
        }
        drained = consumer.drain(ranges, limit, POLL_S, self._fields)
        for partition, columns in drained.columns.items():
            if columns.last_offset is not None:
                self._ranges[partition].pass_over(columns.last_offset, columns.last_leader_epoch)
        taken = {
            partition: columns
            for partition, columns in drained.columns.items()
            if len(columns.values)
        }
        found = ColumnRecords.of(taken, lines=self._fields.lines) if taken else None
        return found, drained.events

    def _hand_over(self, taken: FetchedRecords | None) -> RecordsWithSplitIds:
        """Take finished ranges off the list, and decode records."""
        done = [partition for partition, reading in self._ranges.items() if reading.finished]
        finished = frozenset({*self._finished, *(partition.split_id for partition in done)})
        reported = {
            partition.split_id: reading.report() for partition, reading in self._ranges.items()
        }
        read = (
            {} if taken is None else {partition.split_id: count for partition, count in taken.runs}
        )
        positions = {
            split_id: position for split_id, position in reported.items() if position is not None
        }
        lost = sum(reading.take_lost() for reading in self._ranges.values())
        self._finished.clear()
        for partition in done:
            del self._ranges[partition]
        if done and self._consumer is not None:
            # before records are decoded: the client would fetch what is behind the ranges meanwhile
            self._consumer.remove(done)
        decoded = None if taken is None else self._decoder.decode(taken)
        self._moved_at_s = time.monotonic()
        if decoded is None:
            return RecordsWithSplitIds(finished=finished, positions=positions, lost=lost)
        return RecordsWithSplitIds(
            batches=decoded.batches,
            finished=finished,
            positions=positions,
            skipped=decoded.skipped,
            lost=lost,
            origins=decoded.origins if self._origins else {},
            read=read,
            bad=decoded.bad,
        )

    def _look_at_positions(self) -> None:
        """Pass gaps: control and aborted records are not delivered but move the consumer's position."""
        assert self._consumer is not None, "positions are a consumer's"
        if isinstance(self._consumer, DrainingConsumer):
            # a control record of an assignment that is over moves them, too; the end of the partition is an event
            return
        for partition, position in self._consumer.positions(list(self._ranges)).items():
            self._ranges[partition].advance(position)

    def _on_event(self, event: Event) -> None:
        assert self._consumer is not None, "events come from a consumer"
        if isinstance(event, Denied):
            raise self._consumer.denied(event.reason)
        if isinstance(event, Displaced):
            # this one's positions are past records that nobody got
            displaced, self._consumer = self._consumer, None
            displaced.close()
            self._consumer = CONSUMERS.lend(self._connection, open_consumer)
            self._consumer.settle(list(self._ranges))
            self._reassign()
            return
        reading = self._ranges.get(event.partition)
        if reading is None:
            return
        match event:
            case EndOfPartition():
                # below the stop that is no end, but an open transaction or a broker that went back
                reading.at_end(event.offset)
            case OffsetUnavailable():
                self._check.go_on(reading)
                self._reassign()
            case TopicUnknown():
                self._check.still_there(reading)

    def _reassign(self) -> None:
        """Begin again where each range stands, also of one that is at its end now: it is taken off with the others."""
        assert self._consumer is not None, "only a reader with a consumer reads"
        self._consumer.assign([reading.start for reading in self._ranges.values()])


def _has_few(ranges: Iterable[RangeProgress]) -> bool:
    return all(
        reading.split.stop is not None and reading.split.stop - reading.position <= FEW_RECORDS
        for reading in ranges
    )
