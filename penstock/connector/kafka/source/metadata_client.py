"""The metadata client of a Kafka table: partitions, positions, offsets of the log, peeked watermarks, group
offsets.

Runs on the driver. Progress is committed to the consumer group beside the query (Flink's KafkaCommitter).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.connector.commits import OffsetCommits
from penstock.connector.contract import Accept
from penstock.connector.kafka.client.admin import PATIENCE_S, KafkaAdmin, existing_bounds
from penstock.connector.kafka.client.connection import (
    KafkaSplit,
    LogBounds,
    Start,
    TopicInfo,
    TopicPartition,
    admin_connection,
    peek_connection,
)
from penstock.connector.kafka.client.consumer import KafkaConsumer
from penstock.connector.kafka.client.cut_logs import find_cuts
from penstock.connector.kafka.client.errors import (
    deleted_records,
    missing_topics,
    stalled_read,
    topic_changed,
    truncated_log,
)
from penstock.connector.kafka.source.decode import KafkaRecordDecoder
from penstock.connector.kafka.source.peek import Peeker
from penstock.connector.kafka.table.settings import KafkaSettings, TopicList, TopicPattern
from penstock.connector.kafka.table.startup import Earliest, resolve_start, resolve_stop
from penstock.connector.source.split import Discovery, SplitOffsets

logger = logging.getLogger(__name__)


COMMIT_AGAIN_AFTER_S = 30.0
"""How long after a commit that failed its offsets are sent again, where no later ones are."""


class GroupCommitter:
    """Commits one set of offsets at a time; failures are logged, counted, and otherwise without effect.

    The newest offsets that were not committed yet, as they were skipped or failed, are kept for `commit_owed`.
    """

    def __init__(self, admin: KafkaAdmin, group: str) -> None:
        self._admin = admin
        self._group = group
        self._pending: Future[Any] | None = None
        self._sent: Mapping[TopicPartition, int] = {}
        self._owed: Mapping[TopicPartition, int] | None = None
        self._again_at_s = 0.0
        # one thread adds to each, and not two at a time: a commit is sent once the one before has ended
        self._ok = self._failed = self._skipped = 0

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Send offsets (of the next records to read) and return; kept while others are under way."""
        self._settle()
        self._owed = offsets
        if self._pending is not None:
            logger.warning(
                "group '%s': offsets not committed, the last commit is not done", self._group
            )
            self._skipped += 1
            return
        self._send(offsets)

    def commit_owed(self) -> None:
        """Send the newest offsets where they were skipped, or failed some time ago, and return."""
        self._settle()
        if self._owed is None or self._pending is not None:
            return
        if self._owed is not self._sent or time.monotonic() >= self._again_at_s:
            self._send(self._owed)

    @property
    def offset_commits(self) -> OffsetCommits:
        """How its commits ended so far."""
        return OffsetCommits(ok=self._ok, failed=self._failed, skipped=self._skipped)

    def finish(self, timeout_s: float) -> None:
        """Wait for the commit under way, then send what is owed and wait for that."""
        ends_at_s = time.monotonic() + timeout_s
        self._wait_until(ends_at_s)
        self._again_at_s = 0.0
        self.commit_owed()
        self._wait_until(ends_at_s)

    def _wait_until(self, ends_at_s: float) -> None:
        if self._pending is not None:
            wait([self._pending], max(0.0, ends_at_s - time.monotonic()))
        self._settle()

    def _settle(self) -> None:
        """Take a commit that has ended for what it was."""
        if self._pending is None or not self._pending.done():
            return
        if _error_of(self._pending) is None:
            if self._owed is self._sent:
                self._owed = None
        else:
            self._again_at_s = time.monotonic() + COMMIT_AGAIN_AFTER_S
        self._pending = None

    def _send(self, offsets: Mapping[TopicPartition, int]) -> None:
        self._sent = offsets
        try:
            self._pending = self._admin.commit(self._group, offsets)
        except Exception as error:  # noqa: BLE001  progress for others to see must not end a query
            self._again_at_s = time.monotonic() + COMMIT_AGAIN_AFTER_S
            self._warn(error)
            return
        self._pending.add_done_callback(self._report)

    def _report(self, done: Future[Any]) -> None:
        error = _error_of(done)
        if error is None:
            self._ok += 1
        else:
            self._warn(error)

    def _warn(self, error: object) -> None:
        self._failed += 1
        logger.warning("group '%s': offsets could not be committed: %s", self._group, error)


def _error_of(done: Future[Any]) -> object | None:
    """Return why a commit failed, as a whole or for a partition; None where it did not."""
    error = done.exception()
    if error is not None:
        return error
    return next((p.error for p in done.result().topic_partitions if p.error is not None), None)


COMMIT_ON_CLOSE_S = 5.0
"""How long `close` waits for offsets under way and owed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _BrokerOffsets:
    """The lookups that startup and bounded modes need."""

    admin: KafkaAdmin
    group: str | None
    committed_only: bool
    topic_ids: Mapping[str, str]

    def earliest(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {p: b.first for p, b in self._bounds(partitions, self.committed_only).items()}

    def latest(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {p: b.end for p, b in self._bounds(partitions, self.committed_only).items()}

    def high_watermarks(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        return {p: b.end for p, b in self._bounds(partitions, False).items()}

    def committed(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        assert self.group, "a table without a group is refused before it is planned"
        return self.admin.group_offsets(self.group, partitions)

    def at_time(
        self, partitions: Collection[TopicPartition], at_ms: int
    ) -> Mapping[TopicPartition, int]:
        return self.admin.at_time(partitions, at_ms, committed=self.committed_only)

    def _bounds(
        self, partitions: Collection[TopicPartition], committed: bool
    ) -> Mapping[TopicPartition, LogBounds]:
        return existing_bounds(
            self.admin, partitions, committed=committed, topic_ids=self.topic_ids
        )


class KafkaMetadataClient:
    """A SplitMetadataClient over Kafka. Driver only, one thread; every method may block up to half a minute."""

    def __init__(self, settings: KafkaSettings, decoder: KafkaRecordDecoder) -> None:
        """Make a connection, without a request yet. `decoder` makes the columns that peeks return."""
        self._settings = settings
        self._decoder = decoder
        self._admin = KafkaAdmin(admin_connection(settings.client))
        self._peeker: Peeker | None = None
        self._committer = (
            GroupCommitter(self._admin, settings.group)
            if settings.commits and settings.group
            else None
        )
        self._topic_ids: dict[str, str] = {}
        self._leader_epochs: dict[str, int | None] = {}

    def list_splits(self) -> Discovery:
        """List partitions and topic ids. Raises UnknownObjectError for a named topic that never was there."""
        found = self._topics()
        self._topic_ids = {name: topic.topic_id for name, topic in found.items()}
        return Discovery(
            owners={
                TopicPartition(name, partition).split_id: name
                for name, topic in sorted(found.items())
                for partition in topic.partitions
            },
            source_ids=dict(sorted(self._topic_ids.items())),
        )

    def _topics(self) -> dict[str, TopicInfo]:
        match self._settings.subscription:
            case TopicPattern() as pattern:
                # one that was there before is asked for by its name: a list may come from a broker that is behind
                names = {*pattern.select(self._admin.topic_names()), *self._topic_ids}
                return self._admin.topics(sorted(names), patience_s=PATIENCE_S)
            case TopicList(topics=names):
                found = self._admin.topics(names, patience_s=PATIENCE_S)
                # one that was there before is left out: the coordinator knows what its end means
                missing = [n for n in names if n not in found and n not in self._topic_ids]
                if missing:
                    address = self._settings.bootstrap_servers
                    raise missing_topics(missing, self._admin.topic_names(), address)
                return found

    def start_positions(
        self, split_ids: Sequence[str], *, first_listing: bool
    ) -> Mapping[str, int]:
        """Resolve starts: by the startup mode, or the earliest offset for what is found later (FLINK-32019)."""
        mode = self._settings.startup if first_listing else Earliest()
        starts = resolve_start(mode, [TopicPartition.of(i) for i in split_ids], self._offsets)
        return {partition.split_id: offset for partition, offset in starts.items()}

    def stop_positions(self, split_ids: Sequence[str]) -> Mapping[str, int]:
        """Resolve stops of a bounded scan."""
        if self._settings.bounded is None:
            return {}
        partitions = [TopicPartition.of(split_id) for split_id in split_ids]
        stops = resolve_stop(self._settings.bounded, partitions, self._offsets)
        return {partition.split_id: offset for partition, offset in stops.items()}

    def extents(self, split_ids: Sequence[str]) -> Mapping[str, SplitOffsets]:
        """Look up log starts and ends. Raises TopicChangedError as soon as a topic is another than at listing."""
        partitions = {TopicPartition.of(split_id): split_id for split_id in split_ids}
        bounds = existing_bounds(
            self._admin,
            list(partitions),
            committed=self._settings.reads_committed,
            topic_ids=self._topic_ids,
        )
        self._check_topics({partition.topic for partition in partitions})
        self._leader_epochs |= {partitions[p]: found.leader_epoch for p, found in bounds.items()}
        return {
            partitions[p]: SplitOffsets(first=b.first, end=b.end, epoch=b.leader_epoch)
            for p, b in bounds.items()
        }

    def log_ends(self, split_ids: Sequence[str]) -> Mapping[str, int]:
        """Look up high watermarks: past the last stable offset there may only be an open transaction."""
        partitions = {TopicPartition.of(split_id): split_id for split_id in split_ids}
        bounds = existing_bounds(
            self._admin, list(partitions), committed=False, topic_ids=self._topic_ids
        )
        return {partitions[partition]: found.end for partition, found in bounds.items()}

    def cuts(self, positions: Mapping[str, tuple[int, int]]) -> Mapping[str, int]:
        """Look up where logs were cut below a position that was read under a leader epoch."""
        starts = [
            Start(partition=TopicPartition.of(i), offset=position, leader_epoch=epoch)
            for i, (position, epoch) in sorted(positions.items())
        ]
        found = find_cuts(peek_connection(self._settings.client), starts)
        return {partition.split_id: cut for partition, cut in found.items()}

    def peek(
        self, ranges: Mapping[str, tuple[int, int]], accept: Accept | None = None
    ) -> Mapping[str, pa.RecordBatch]:
        """Read the last decodable record of each range; see SplitMetadataClient."""
        if self._peeker is None:
            consumer = KafkaConsumer(peek_connection(self._settings.client))
            self._peeker = Peeker(consumer, self._decoder)
        partitions = {TopicPartition.of(i): offsets for i, offsets in ranges.items()}
        return self._peeker.peek(partitions, accept)

    def split(self, split_id: str, start: int, stop: int | None) -> KafkaSplit:
        """Make a task's split, with the leader epoch seen at planning if there was one."""
        partition = TopicPartition.of(split_id)
        return KafkaSplit(
            split_id=split_id,
            start=start,
            stop=stop,
            topic=partition.topic,
            partition=partition.partition,
            leader_epoch=self._leader_epochs.get(split_id),
        )

    def lost(self, split_id: str, position: int, extent: SplitOffsets) -> Exception:
        """Make the error for deleted records, or for a log that ends before what was read."""
        partition = TopicPartition.of(split_id)
        if position > extent.end:
            return truncated_log(partition, position, extent)
        return deleted_records(partition, position, extent)

    def unreadable(
        self, split_id: str, position: int, stop: int, extent: SplitOffsets
    ) -> Exception:
        """Make the error for a stop behind an open transaction."""
        return stalled_read(TopicPartition.of(split_id), position, stop, extent, None)

    def changed(self, owner: str, known: str, found: str | None) -> Exception:
        """Make the error for a topic that was deleted, or deleted and made again."""
        return topic_changed(owner, known, found)

    def commit(self, positions: Mapping[str, int]) -> None:
        """Commit group offsets, without waiting; nothing where the table has no group or says not to."""
        if self._committer is not None and positions:
            self._committer.commit(
                {TopicPartition.of(i): offset for i, offset in positions.items()}
            )

    def commit_owed(self) -> None:
        """Commit again what the group did not take, without waiting."""
        if self._committer is not None:
            self._committer.commit_owed()

    @property
    def offset_commits(self) -> OffsetCommits | None:
        """How its commits ended so far; None where it commits none."""
        return None if self._committer is None else self._committer.offset_commits

    def close(self) -> None:
        """Commit what the group did not take yet, wait for that, and drop the connections."""
        if self._committer is not None:
            self._committer.finish(COMMIT_ON_CLOSE_S)
        if self._peeker is not None:
            self._peeker.close()
            self._peeker = None

    @property
    def _offsets(self) -> _BrokerOffsets:
        return _BrokerOffsets(
            admin=self._admin,
            group=self._settings.group,
            committed_only=self._settings.reads_committed,
            topic_ids=self._topic_ids,
        )

    def _check_topics(self, topics: set[str]) -> None:
        """Compare topic ids with those of the last listing: offsets of a recreated topic name other records."""
        known = {
            topic: self._topic_ids[topic] for topic in sorted(topics) if topic in self._topic_ids
        }
        found = self._admin.topics(list(known), patience_s=PATIENCE_S)
        for topic, topic_id in known.items():
            now = found.get(topic)
            if now is None or now.topic_id != topic_id:
                raise topic_changed(topic, topic_id, None if now is None else now.topic_id)
