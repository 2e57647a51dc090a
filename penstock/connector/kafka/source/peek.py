"""Finds the last record of a range that can be decoded: what the table's watermark is computed from at planning.

All ranges are searched at once, a round of small fetches at a time. Offsets without a record (control, aborted,
compacted ones) are searched backwards in growing windows, long stretches of records forwards by halves; a range
whose search takes too many rounds or meets too many bad records stays without an answer, which only delays the
watermark.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from penstock.catalog.errors import BadRecordError
from penstock.connector.contract import Accept
from penstock.connector.kafka.client.client import Message
from penstock.connector.kafka.client.connection import (
    Denied,
    EndOfPartition,
    Event,
    OffsetUnavailable,
    Start,
    TopicPartition,
    TopicUnknown,
)
from penstock.connector.kafka.client.consumer import KafkaConsumer
from penstock.connector.kafka.source.decode import KafkaRecordDecoder
from penstock.connector.kafka.source.records import Records

FIRST_WINDOW = 4
"""Offsets: the record before a transaction's marker is in it, and a fetch returns so many in any case."""

WINDOW_GROWTH = 8
RECORDS_A_ROUND = 64
"""Read of one range in one round; past that the rest is halved instead of read."""

CANDIDATES = 8
"""Records kept of a range, in case the last ones are bad."""

MOST_ROUNDS = 40
"""Enough for a gap of billions of offsets with a halving search in it."""

MOST_BAD_RECORDS = 64
FIRST_STRIDE = 8
STRIDE_GROWTH = 2
"""Records that are decoded but not accepted may be many: past the candidates the search continues
in growing strides.
"""

POLL_S = 0.005
GIVE_UP_AFTER_S = 20.0
"""Without an answer of the broker to one round."""


@dataclass(slots=True)
class _RangeSearch:
    """One range: offsets from `low` to `high` are not known yet, from `high` on nothing usable is left.

    `best` are the last records seen below `low`, none while nothing was found.
    """

    partition: TopicPartition
    first: int
    high: int
    low: int
    window: int = FIRST_WINDOW
    stride: int = 0
    bad_records: int = 0
    probe: int = 0
    seen: int = 0
    reached: bool = False
    skipped: bool = False
    best: deque[Message] = field(default_factory=lambda: deque(maxlen=CANDIDATES))
    fresh: deque[Message] = field(default_factory=lambda: deque(maxlen=CANDIDATES))

    @property
    def settled(self) -> bool:
        """Whether there is nothing left to look at."""
        return self.low >= self.high

    @property
    def rested(self) -> bool:
        """Whether this round has told what it can."""
        return self.reached or self.seen >= RECORDS_A_ROUND

    def begin_round(self) -> Start:
        """Choose where to look next."""
        if self.best:
            far = self.high - self.low > RECORDS_A_ROUND
            self.probe = (self.low + self.high) // 2 if far else self.low
        else:
            self.probe = max(self.first, self.high - self.window)
            self.window *= WINDOW_GROWTH
        self.seen, self.reached, self.skipped = 0, False, False
        self.fresh.clear()
        return Start(partition=self.partition, offset=self.probe)

    def meet(self, message: Message) -> None:
        """Add a record."""
        offset = message.offset() or 0
        if self.rested or offset < self.probe:
            return
        if offset >= self.high:
            self.reached = True
            return
        self.fresh.append(message)
        self.seen += 1
        self.reached = offset == self.high - 1

    def end_round(self) -> None:
        """Draw the conclusions."""
        if self.skipped:
            return
        if self.fresh:
            self.best = self.fresh.copy()
            self.low = self.high if self.reached else (self.fresh[-1].offset() or 0) + 1
        else:
            self.high = self.probe

    def reject(self, *, decodable: bool) -> None:
        """Drop the last candidate: it is no good record, or one that is not accepted."""
        self.high = self.best.pop().offset() or 0
        self.bad_records += 1
        if decodable and self.bad_records > CANDIDATES:
            self.best.clear()
            # the first record is looked at in any case, so that a short range is searched to its beginning
            self.stride = self.stride * STRIDE_GROWTH or FIRST_STRIDE
            self.high = max(min(self.first + 1, self.high), self.high - self.stride)
        if not self.best:
            self.low, self.window = self.first, FIRST_WINDOW * WINDOW_GROWTH
        else:
            self.low = self.high

    def unavailable(self) -> None:
        """Search nearer to the end: the log begins after the requested offset."""
        self.low = self.first = min(self.probe + 1, self.high)
        self.window = max(1, (self.high - self.first) // (2 * WINDOW_GROWTH))
        self.skipped = self.reached = True

    def give_up(self) -> None:
        """Leave the range without an answer."""
        self.best.clear()
        self.fresh.clear()
        self.low = self.high
        self.skipped = self.reached = True


class Peeker:
    """Peeks into partitions with a consumer of its own. Driver side, one thread."""

    def __init__(self, consumer: KafkaConsumer, decoder: KafkaRecordDecoder) -> None:
        self._consumer = consumer
        self._decoder = decoder

    def peek(
        self, ranges: Mapping[TopicPartition, tuple[int, int]], accept: Accept | None = None
    ) -> dict[str, pa.RecordBatch]:
        """Return one row for each range that has a record; see SplitMetadataClient.peek."""
        found: dict[str, pa.RecordBatch] = {}
        searches = [
            _RangeSearch(partition=partition, first=first, high=end, low=first)
            for partition, (first, end) in ranges.items()
        ]
        for _ in range(MOST_ROUNDS):
            pending = [search for search in searches if not search.settled]
            if pending:
                self._run_round(pending)
            self._decode([search for search in searches if search.settled], found, accept)
            searches = [
                s
                for s in searches
                if s.partition.split_id not in found and (s.best or not s.settled)
            ]
            if not searches:
                break
        self._consumer.unassign()
        return found

    def close(self) -> None:
        """Return the consumer's connection to its pool."""
        self._consumer.close()

    def _run_round(self, pending: Sequence[_RangeSearch]) -> None:
        by_partition = {search.partition: search for search in pending}
        self._consumer.assign([search.begin_round() for search in pending])
        began_s = time.monotonic()
        while not all(search.rested for search in pending):
            fetched = self._consumer.consume(RECORDS_A_ROUND * len(pending), POLL_S)
            for message in fetched.messages:
                by_partition[TopicPartition(message.topic() or "", message.partition() or 0)].meet(
                    message
                )
            for event in fetched.events:
                self._on_event(event, by_partition)
            if not fetched.messages:
                self._look_at_positions(by_partition)
            waited_s = time.monotonic() - began_s
            if waited_s > GIVE_UP_AFTER_S:
                raise self._consumer.unavailable("records to find event times", waited_s)
        for search in pending:
            search.end_round()

    def _look_at_positions(self, by_partition: Mapping[TopicPartition, _RangeSearch]) -> None:
        partitions = [partition for partition, search in by_partition.items() if not search.rested]
        for partition, position in self._consumer.positions(partitions).items():
            by_partition[partition].reached |= position >= by_partition[partition].high

    def _on_event(self, event: Event, by_partition: Mapping[TopicPartition, _RangeSearch]) -> None:
        match event:
            case Denied():
                raise self._consumer.denied(event.reason)
            case EndOfPartition():
                search = by_partition[event.partition]
                search.reached |= event.offset >= search.high
            case OffsetUnavailable():
                by_partition[event.partition].unavailable()
            case TopicUnknown():
                # what that means for the query is found out when its extent is looked up
                by_partition[event.partition].give_up()

    def _decode(
        self,
        settled: Sequence[_RangeSearch],
        found: dict[str, pa.RecordBatch],
        accept: Accept | None,
    ) -> None:
        """Decode the last candidate of each search; a bad one is rejected, and one that is not accepted."""
        asked = [search for search in settled if search.best]
        if not asked:
            return
        rows = self._rows({search.partition: search.best[-1] for search in asked})
        accepted = rows.keys() if accept is None or not rows else accept(rows)
        for search in asked:
            split_id = search.partition.split_id
            if split_id in accepted:
                found[split_id] = rows[split_id]
            elif search.bad_records >= MOST_BAD_RECORDS:
                search.give_up()
            else:
                search.reject(decodable=split_id in rows)

    def _rows(self, candidates: Mapping[TopicPartition, Message]) -> dict[str, pa.RecordBatch]:
        try:
            records = Records.of(
                {partition: [message] for partition, message in candidates.items()}
            )
            decoded = self._decoder.decode(records)
        except BadRecordError:
            if len(candidates) == 1:
                return {}
            # one bad record must not cost the others theirs
            alone = [self._rows({partition: message}) for partition, message in candidates.items()]
            return {split_id: row for rows in alone for split_id, row in rows.items()}
        return {split_id: batch.slice(batch.num_rows - 1) for split_id, batch in decoded.batches}
