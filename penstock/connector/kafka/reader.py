"""Reads ranges of partitions in a task: many records a fetch, decoded in columns, until each range is at its end.

Flink's KafkaPartitionSplitReader. One consumer serves all splits of the reader and is kept for the next reader;
`ranges` knows when a range ends, `recovery` what to do when the log is not as planned.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence

from penstock.connector.kafka.client import KafkaConsumer, Message
from penstock.connector.kafka.connection import (
    Connection,
    Denied,
    EndOfPartition,
    Event,
    OffsetUnavailable,
    TopicUnknown,
)
from penstock.connector.kafka.decode import RecordDecoder
from penstock.connector.kafka.pool import CONSUMERS
from penstock.connector.kafka.ranges import RangeProgress, by_partition
from penstock.connector.kafka.records import Records
from penstock.connector.kafka.recovery import LogCheck
from penstock.connector.kafka.split import KafkaSplit, TopicPartition
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.split import Split

__all__ = ["KafkaSplitReader"]

RECORDS_A_FETCH = 20_000
"""Large enough that the cost per call vanishes, small enough to decode while the next ones come."""

POLL_S = 0.02
"""How long a call may wait for a full fetch; it is what a gap at the end of a range costs."""

FETCH_S = 1.0
"""How long `fetch` waits for records before it comes back empty."""

STALLED_AFTER_S = 60.0
"""Without any progress for so long the read fails; a broker that restarts is back in less."""


class KafkaSplitReader:
    """A SplitReader over one Kafka consumer. Lives on one thread; only `wake_up` may come from another."""

    def __init__(
        self,
        connection: Connection,
        decoder: RecordDecoder,
        check: LogCheck,
    ) -> None:
        self._connection = connection
        self._decoder = decoder
        self._check = check
        self._consumer: KafkaConsumer | None = None
        self._ranges: dict[TopicPartition, RangeProgress] = {}
        self._paused: dict[TopicPartition, RangeProgress] = {}
        self._finished: set[str] = set()
        self._woken = threading.Event()
        self._moved_at_s = time.monotonic()

    def add_splits(self, splits: Sequence[Split]) -> None:
        """Take on splits; one whose start is its stop is finished with the next fetch."""
        added = []
        for split in splits:
            assert isinstance(split, KafkaSplit), f"not a split of Kafka: {split}"
            reading = RangeProgress(split)
            assert reading.partition not in self._ranges, f"{split.split_id} is being read already"
            if reading.finished:
                self._finished.add(split.split_id)
                continue
            self._ranges[reading.partition] = reading
            added.append(reading.start)
        self._moved_at_s = time.monotonic()
        if self._consumer is not None:
            self._consumer.add(added)
        elif added:
            self._consumer = CONSUMERS.lend(self._connection)
            self._consumer.assign(added)

    def fetch(self) -> RecordsWithSplitIds:
        """Wait up to a second for records; may be empty.

        Raises BadRecordError, DataLossError, TopicChangedError, BrokerUnavailableError.
        """
        give_up_s = time.monotonic() + FETCH_S
        try:
            while True:
                fetched = self._fetch_once()
                if fetched is not None:
                    return fetched
                if self._woken.is_set() or time.monotonic() > give_up_s:
                    self._woken.clear()
                    return RecordsWithSplitIds()
        except BaseException:
            self._discard()
            raise

    def pause_or_resume(self, pause: Collection[str], resume: Collection[str]) -> None:
        """Stop or go on delivering splits (FLIP-217). Unknown ids are ignored: they may just have finished."""
        resumed = [reading for p, reading in self._paused.items() if p.split_id in resume]
        paused = [reading for p, reading in self._ranges.items() if p.split_id in pause]
        for reading in resumed:
            self._ranges[reading.partition] = self._paused.pop(reading.partition)
        for reading in paused:
            self._paused[reading.partition] = self._ranges.pop(reading.partition)
        if self._consumer is not None:
            self._consumer.add([reading.start for reading in resumed])
            self._consumer.remove([reading.partition for reading in paused])
        self._moved_at_s = time.monotonic()

    def wake_up(self) -> None:
        """End a `fetch` that waits."""
        self._woken.set()

    def close(self) -> None:
        """Give the consumer back for the next reader."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            CONSUMERS.give_back(consumer)

    def _discard(self) -> None:
        """Close a consumer in an unknown state: the next reader gets another."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def _fetch_once(self) -> RecordsWithSplitIds | None:
        """Take what comes within POLL_S; None when that was nothing."""
        if self._consumer is None or not self._ranges or self._finished:
            if not self._finished:
                self._woken.wait(POLL_S)
            return self._hand_over({}) if self._finished else None
        wanted = sum(reading.left(RECORDS_A_FETCH) for reading in self._ranges.values())
        fetched = self._consumer.consume(min(RECORDS_A_FETCH, wanted), POLL_S)
        taken = self._take(fetched.messages) if fetched.messages else {}
        # an event comes after the records before it
        for event in fetched.events:
            self._on_event(event)
        if not taken:
            self._look_at_positions()
        if taken or any(reading.finished for reading in self._ranges.values()):
            return self._hand_over(taken)
        if time.monotonic() - self._moved_at_s > STALLED_AFTER_S:
            for reading in list(self._ranges.values()):
                self._check.stalled(reading, self._consumer.last_error)
            self._moved_at_s = time.monotonic()
            self._reassign()
        return None

    def _take(self, messages: Sequence[Message]) -> dict[TopicPartition, Sequence[Message]]:
        """Give the records that belong to the ranges, and move the ranges past them."""
        gathered = by_partition(messages, list(self._ranges))
        taken = {place: self._ranges[place].take(records) for place, records in gathered.items()}
        return {place: records for place, records in taken.items() if records}

    def _hand_over(self, taken: dict[TopicPartition, Sequence[Message]]) -> RecordsWithSplitIds:
        """Decode records, and take finished ranges off the list."""
        decoded = self._decoder.decode(Records.of(taken)) if taken else None
        done = [place for place, reading in self._ranges.items() if reading.finished]
        finished = frozenset({*self._finished, *(place.split_id for place in done)})
        self._finished.clear()
        for place in done:
            del self._ranges[place]
        if done and self._ranges and self._consumer is not None:
            self._consumer.remove(done)
        self._moved_at_s = time.monotonic()
        if decoded is None:
            return RecordsWithSplitIds(finished=finished)
        return RecordsWithSplitIds(
            batches=decoded.batches, finished=finished, skipped=decoded.skipped
        )

    def _look_at_positions(self) -> None:
        """Pass gaps: control and aborted records are not delivered but move the consumer's position."""
        assert self._consumer is not None, "positions are a consumer's"
        for place, position in self._consumer.positions(list(self._ranges)).items():
            if self._ranges[place].advance(position):
                self._moved_at_s = time.monotonic()

    def _on_event(self, event: Event) -> None:
        assert self._consumer is not None, "events come from a consumer"
        if isinstance(event, Denied):
            raise self._consumer.denied(event.reason)
        reading = self._ranges.get(event.partition)
        if reading is None:
            return
        match event:
            case EndOfPartition():
                # below the stop that is no end, but an open transaction or a broker that went back
                reading.advance(event.offset)
            case OffsetUnavailable():
                before = reading.position
                self._check.go_on(reading)
                if reading.position > before:
                    self._moved_at_s = time.monotonic()
                self._reassign()
            case TopicUnknown():
                self._check.still_there(reading)

    def _reassign(self) -> None:
        """Begin again where each range stands."""
        assert self._consumer is not None, "only a reader with a consumer reads"
        self._consumer.assign([r.start for r in self._ranges.values() if not r.finished])
