"""Startup and bounded modes resolved to offsets, against a broker of plain numbers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import pytest

from penstock.catalog.errors import DataLossError, OptionError
from penstock.connector.kafka.client.connection import TopicPartition
from penstock.connector.kafka.table.startup import (
    AtTimestamp,
    Earliest,
    GroupOffsets,
    Latest,
    SpecificOffsets,
    resolve_start,
    resolve_stop,
)

P0, P1, P2 = (TopicPartition("t", number) for number in range(3))
Numbers = dict[TopicPartition, int]


@dataclass
class Lookup:
    """Partitions from 10 to a last stable offset of 100, with open transactions up to 110."""

    commits: Numbers = field(default_factory=dict)
    times: Numbers = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def earliest(self, partitions: Collection[TopicPartition]) -> Numbers:
        """All begin at 10."""
        return self._answer("earliest", partitions, 10)

    def latest(self, partitions: Collection[TopicPartition]) -> Numbers:
        """All end at 100."""
        return self._answer("latest", partitions, 100)

    def high_watermarks(self, partitions: Collection[TopicPartition]) -> Numbers:
        """All end at 110."""
        return self._answer("high", partitions, 110)

    def committed(self, partitions: Collection[TopicPartition]) -> Numbers:
        """What the test says."""
        self.calls.append("committed")
        return {p: self.commits[p] for p in partitions if p in self.commits}

    def at_time(self, partitions: Collection[TopicPartition], at_ms: int) -> Numbers:
        """What the test says."""
        self.calls.append(f"at {at_ms}")
        return {p: self.times[p] for p in partitions if p in self.times}

    def _answer(self, name: str, partitions: Collection[TopicPartition], offset: int) -> Numbers:
        self.calls.append(name)
        return dict.fromkeys(partitions, offset)


def test_earliest_and_latest_are_the_ends_of_the_log() -> None:
    """Resolved at once, so that a restart finds the same start (FLINK-28303)."""
    assert resolve_start(Earliest(), [P0, P1], Lookup()) == {P0: 10, P1: 10}
    assert resolve_start(Latest(), [P0], Lookup()) == {P0: 100}


def test_a_time_after_all_records_is_the_end_seen_before_the_lookup() -> None:
    """Else a record that arrives between the two lookups would be stepped over."""
    lookup = Lookup(times={P0: 42})

    assert resolve_start(AtTimestamp(at_ms=7), [P0, P1], lookup) == {P0: 42, P1: 100}
    assert lookup.calls == ["latest", "at 7"]


def test_group_offsets_take_what_was_committed() -> None:
    """And the reset only where nothing was."""
    lookup = Lookup(commits={P0: 50})

    assert resolve_start(GroupOffsets(group="g", reset=Earliest()), [P0, P1], lookup) == {
        P0: 50,
        P1: 10,
    }
    assert resolve_start(GroupOffsets(group="g", reset=Latest()), [P0, P1], lookup) == {
        P0: 50,
        P1: 100,
    }


def test_group_offsets_without_commit_or_reset_fail_with_the_way_out() -> None:
    """Flink's NoOffsetForPartitionException, with all partitions named."""
    with pytest.raises(OptionError) as caught:
        resolve_start(GroupOffsets(group="g"), [P0, P1, P2], Lookup(commits={P1: 50}))

    assert "group 'g' has no committed offset for: t-0, t-2" in caught.value.message
    assert "'properties.auto.offset.reset' = 'earliest'" in str(caught.value.hint)


def test_a_commit_past_the_log_is_loss_and_one_in_an_open_transaction_is_not() -> None:
    """A truncated or new topic shows so; a reader of uncommitted records may have committed past the LSO."""
    mode = GroupOffsets(group="g")

    assert resolve_start(mode, [P0], Lookup(commits={P0: 105})) == {P0: 105}
    with pytest.raises(DataLossError, match=r"committed offset 111 .* but the log ends at 110"):
        resolve_start(mode, [P0], Lookup(commits={P0: 111}))


def test_partitions_that_specific_offsets_leave_out_start_by_group_or_earliest() -> None:
    """Flink's SpecifiedOffsetsInitializer."""
    offsets = ((0, 42),)

    assert resolve_start(SpecificOffsets(offsets=offsets), [P0, P1], Lookup()) == {P0: 42, P1: 10}
    with_group = SpecificOffsets(offsets=offsets, group="g")
    lookup = Lookup(commits={P0: 1, P1: 60})
    assert resolve_start(with_group, [P0, P1, P2], lookup) == {P0: 42, P1: 60, P2: 10}


def test_a_specific_offset_past_the_log_is_refused() -> None:
    """Reading would wait without a word."""
    with pytest.raises(OptionError, match=r"names offset 111 .* but the log ends at 110"):
        resolve_start(SpecificOffsets(offsets=((0, 111),)), [P0], Lookup())


def test_stops_are_resolved_once() -> None:
    """All bounded modes; a partition that specific offsets leave out reads nothing."""
    assert resolve_stop(Latest(), [P0], Lookup()) == {P0: 100}
    assert resolve_stop(AtTimestamp(at_ms=7), [P0, P1], Lookup(times={P0: 42})) == {P0: 42, P1: 100}
    assert resolve_stop(SpecificOffsets(offsets=((0, 42),)), [P0, P1], Lookup()) == {P0: 42, P1: 0}
    assert resolve_stop(GroupOffsets(group="g"), [P0], Lookup(commits={P0: 50})) == {P0: 50}


def test_a_stop_at_a_missing_commit_names_partition_and_group() -> None:
    """Flink's KafkaPartitionSplitReader fails so too."""
    with pytest.raises(
        OptionError, match=r"'scan.bounded.mode' .* group 'g' has no committed offset for: t-1"
    ):
        resolve_stop(GroupOffsets(group="g"), [P0, P1], Lookup(commits={P0: 50}))


def test_a_stop_past_the_log_is_refused_and_one_in_an_open_transaction_is_not() -> None:
    """A run to it would end before it, as if it were finished."""
    in_transaction = SpecificOffsets(offsets=((0, 110),))

    assert resolve_stop(in_transaction, [P0], Lookup()) == {P0: 110}
    with pytest.raises(
        OptionError,
        match=r"'scan.bounded.specific-offsets' names offset 111 .* but the log ends at 110",
    ):
        resolve_stop(SpecificOffsets(offsets=((0, 111),)), [P0], Lookup())


def test_a_stop_at_a_commit_past_the_log_is_loss() -> None:
    """The records up to it were there once."""
    mode = GroupOffsets(group="g")

    assert resolve_stop(mode, [P0], Lookup(commits={P0: 110})) == {P0: 110}
    with pytest.raises(DataLossError, match=r"committed offset 111 .* but the log ends at 110"):
        resolve_stop(mode, [P0], Lookup(commits={P0: 111}))
