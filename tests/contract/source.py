"""What every split source keeps (`connector/contract.py`), as tests; a source runs them by a class with its context.

Each rule holds for any connector: planning, ranges, replays, projections, pauses, origins, peeks. What is special to
one source is in its own tests.
"""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from penstock.connector.contract import (
    ReadRequest,
    SourceKind,
    SplitMetadataClient,
    SplitReader,
    SplitSource,
)
from penstock.connector.source.reader.reader import SourceReader

DEADLINE_S = 30.0

Ranges = Mapping[str, tuple[int, int]]
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContext:
    """A source over rows that stay as they are.

    `columns` are two of its columns or more. `rows` are all rows of these columns by split, in order; None where they
    are made up. Every split holds at least three rows. `whole_splits`: planning knows one position for all of a split,
    so that positions inside of it are the reader's own (compressed files).
    """

    source: SplitSource
    columns: tuple[str, ...]
    rows: Mapping[str, Sequence[Row]] | None = None
    whole_splits: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What a reader delivered, by split."""

    rows: Mapping[str, Sequence[Row]]
    positions: Mapping[str, Sequence[int]]
    finished: Collection[str]


def planned(source: SplitSource, *, peeked: tuple[str, ...] = ()) -> tuple[Any, Ranges]:
    """A planner, and the ranges of a first planning: to the stops, else to what the splits hold now."""
    planner = source.open_planner(ReadRequest(columns=peeked))
    split_ids = sorted(planner.list_splits().owners)
    starts = planner.start_positions(split_ids, first_listing=True)
    stops = planner.stop_positions(split_ids)
    extents = planner.extents(split_ids)
    return planner, {i: (starts[i], stops.get(i, extents[i].end)) for i in split_ids}


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """The rows of a batch, also of one without columns."""
    if not batch.num_columns:
        return [()] * batch.num_rows
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def drain(reader: SplitReader, wanted: Collection[str], *, fetches: int | None = None) -> Read:
    """Fetch until the splits are finished, or so many times."""
    rows: dict[str, list[Row]] = {}
    positions: dict[str, list[int]] = {}
    finished: set[str] = set()
    deadline = time.monotonic() + DEADLINE_S
    while not finished >= set(wanted) and fetches != 0:
        assert time.monotonic() < deadline, f"only {finished} of {wanted} are finished"
        fetches = None if fetches is None else fetches - 1
        records = reader.fetch()
        finished |= records.finished
        for split_id, at in records.positions.items():
            positions.setdefault(split_id, []).append(at)
        for split_id, batch in records.batches:
            rows.setdefault(split_id, []).extend(rows_of(batch))
    return Read(rows=rows, positions=positions, finished=finished)


def read(
    source: SplitSource, planner: SplitMetadataClient, columns: Sequence[str], ranges: Ranges
) -> Read:
    """Read ranges with one reader, to their ends."""
    reader = source.open_reader(ReadRequest(columns=tuple(columns)))
    try:
        reader.add_splits([planner.split(i, start, stop) for i, (start, stop) in ranges.items()])
        return drain(reader, ranges)
    finally:
        reader.close()


def same(found: Read, expected: Read) -> None:
    """Compare two reads of a range; how many fetches it took is chance, so of positions only the last ones."""
    assert found.rows == expected.rows
    assert found.finished == expected.finished
    assert {i: at[-1] for i, at in found.positions.items()} == {
        i: at[-1] for i, at in expected.positions.items()
    }


class SplitSourceContract:
    """The suite. A subclass has a fixture `context`."""

    @pytest.fixture
    def context(self) -> SourceContext:
        """The source under test."""
        raise NotImplementedError

    def test_a_source_travels_as_a_value(self, context: SourceContext) -> None:
        """Tasks get a copy, which plans and reads the same."""
        copied = pickle.loads(pickle.dumps(context.source))
        planner, ranges = planned(copied)

        assert copied.kind is SourceKind.SPLITS
        assert (copied.bounded, copied.changes) == (context.source.bounded, context.source.changes)
        assert (
            read(copied, planner, context.columns, ranges).rows
            == read(context.source, planner, context.columns, ranges).rows
        )
        planner.close()

    def test_every_split_has_an_owner_and_positions(self, context: SourceContext) -> None:
        """It begins within what it holds; a bounded scan has a stop for each."""
        planner, ranges = planned(context.source)
        found = planner.list_splits()
        extents = planner.extents(sorted(ranges))
        stops = planner.stop_positions(sorted(ranges))

        assert ranges.keys() == found.owners.keys() == extents.keys()
        assert all(found.owners.values())
        assert set(found.source_ids) <= set(found.owners.values())
        assert all(e.first <= ranges[i][0] <= e.end for i, e in extents.items())
        assert stops.keys() == (ranges.keys() if context.source.bounded else set())
        planner.close()

    def test_a_scan_is_read_to_its_end(self, context: SourceContext) -> None:
        """Every row once, in the order of its split; the last position is the stop."""
        planner, ranges = planned(context.source)
        found = read(context.source, planner, context.columns, ranges)

        assert found.finished == set(ranges)
        if not context.whole_splits:
            assert all(at == sorted(at) for at in found.positions.values())
        assert {i: at[-1] for i, at in found.positions.items()} == {
            i: stop for i, (_, stop) in ranges.items()
        }
        if context.rows is not None:
            assert {i: list(rows) for i, rows in context.rows.items()} == found.rows
        planner.close()

    def test_a_range_that_is_read_again_gives_the_same_rows(self, context: SourceContext) -> None:
        """What a failed task or a replayed batch reads again is what was read before."""
        planner, ranges = planned(context.source)
        first, again = (read(context.source, planner, context.columns, ranges) for _ in range(2))

        same(again, first)
        planner.close()

    def test_ranges_of_a_split_give_each_row_once(self, context: SourceContext) -> None:
        """Start inclusive, stop exclusive; tasks cut a split anywhere."""
        planner, ranges = planned(context.source)
        whole = read(context.source, planner, context.columns, ranges).rows
        for split_id, (start, stop) in ranges.items():
            for middle in {start, (start + stop) // 2, stop}:
                parts = [
                    read(context.source, planner, context.columns, {split_id: part})
                    for part in ((start, middle), (middle, stop))
                ]

                assert [row for part in parts for row in part.rows.get(split_id, ())] == list(
                    whole[split_id]
                )
                assert all(part.finished == {split_id} for part in parts)
        planner.close()

    def test_reading_resumes_at_the_position_of_a_fetch(self, context: SourceContext) -> None:
        """As from a reader's checkpoint: nothing twice, nothing left out."""
        planner, ranges = planned(context.source)
        whole = read(context.source, planner, context.columns, ranges).rows
        for split_id, (start, stop) in ranges.items():
            reader = context.source.open_reader(ReadRequest(columns=context.columns))
            reader.add_splits([planner.split(split_id, start, stop)])
            begun = Read(rows={}, positions={}, finished=())
            while not begun.positions:
                begun = drain(reader, {split_id}, fetches=1)
            reader.close()
            at = begun.positions[split_id][-1]
            rest = read(context.source, planner, context.columns, {split_id: (at, stop)})

            assert [*begun.rows.get(split_id, ()), *rest.rows.get(split_id, ())] == list(
                whole[split_id]
            )
        planner.close()

    def test_columns_come_in_the_order_of_the_request(self, context: SourceContext) -> None:
        """And these alone."""
        planner, ranges = planned(context.source)
        forwards = read(context.source, planner, context.columns, ranges).rows
        backwards = read(context.source, planner, context.columns[::-1], ranges).rows

        assert {i: [row[::-1] for row in rows] for i, rows in backwards.items()} == forwards
        planner.close()

    def test_rows_are_counted_without_columns(self, context: SourceContext) -> None:
        """COUNT(*) reads none."""
        planner, ranges = planned(context.source)
        whole = read(context.source, planner, context.columns, ranges).rows
        counted = read(context.source, planner, (), ranges).rows

        assert {i: len(rows) for i, rows in counted.items()} == {
            i: len(rows) for i, rows in whole.items()
        }
        planner.close()

    def test_a_paused_split_is_not_read_until_it_is_resumed(self, context: SourceContext) -> None:
        """FLIP-217; unknown splits are ignored."""
        planner, ranges = planned(context.source)
        reader = context.source.open_reader(ReadRequest(columns=context.columns))
        reader.add_splits([planner.split(i, *at) for i, at in ranges.items()])
        reader.pause_or_resume([*ranges, "unknown"], ["unknown"])
        paused = drain(reader, ranges, fetches=1)
        reader.pause_or_resume([], [*ranges, "unknown"])
        resumed = drain(reader, ranges)
        reader.close()

        assert (paused.rows, paused.finished) == ({}, set())
        same(resumed, read(context.source, planner, context.columns, ranges))
        planner.close()

    def test_a_wake_up_only_shortens_a_fetch(self, context: SourceContext) -> None:
        """Before anything is there to fetch, and twice."""
        planner, ranges = planned(context.source)
        reader = context.source.open_reader(ReadRequest(columns=context.columns))
        reader.wake_up()
        reader.wake_up()
        reader.add_splits([planner.split(i, *at) for i, at in ranges.items()])
        found = drain(reader, ranges)
        reader.close()

        assert found.rows == read(context.source, planner, context.columns, ranges).rows
        planner.close()

    def test_rows_lead_back_to_their_records(self, context: SourceContext) -> None:
        """Where the request asks for it: to records of their split, in order."""
        planner, ranges = planned(context.source)
        for split_id, (start, stop) in ranges.items():
            reader = context.source.open_reader(ReadRequest(columns=context.columns, origins=True))
            reader.add_splits([planner.split(split_id, start, stop)])
            finished, positions = False, []
            while not finished:
                records = reader.fetch()
                finished = split_id in records.finished
                for found, batch in records.batches:
                    raw = records.origins[found].of(range(batch.num_rows))
                    positions += [record.position for record in raw]
                    assert all(record.where for record in raw)
            reader.close()

            assert positions == sorted(positions)
            assert context.whole_splits or all(start <= at < stop for at in positions)
        planner.close()

    def test_a_peek_gives_the_last_row_of_a_range(self, context: SourceContext) -> None:
        """The last that is accepted; a range without a record is absent."""
        planner, ranges = planned(context.source, peeked=context.columns)
        whole = read(context.source, planner, context.columns, ranges).rows
        last = planner.peek(ranges)
        none = planner.peek({i: (start, start) for i, (start, _) in ranges.items()})
        first = {i: rows[0] for i, rows in whole.items()}
        accepted = planner.peek(
            ranges, lambda found: [i for i, b in found.items() if rows_of(b)[0] == first[i]]
        )

        assert {i: rows_of(batch) for i, batch in last.items()} == {
            i: [rows[-1]] for i, rows in whole.items()
        }
        assert none == {} or context.whole_splits
        assert all(rows_of(batch) == [first[i]] for i, batch in accepted.items())
        planner.close()

    def test_the_runtime_reads_a_scan_to_its_end(self, context: SourceContext) -> None:
        """Through the source reader with the source's own model of fetchers, as a task does."""
        planner, ranges = planned(context.source)
        request = ReadRequest(columns=context.columns)
        rows: dict[str, list[Row]] = {}
        with SourceReader(
            lambda: context.source.open_reader(request), model=context.source.fetching
        ) as reader:
            reader.add_splits([planner.split(i, *at) for i, at in ranges.items()])
            reader.notify_no_more_splits()
            for records in reader.read_to_end():
                for split_id, batch in records.batches:
                    rows.setdefault(split_id, []).extend(rows_of(batch))

        assert rows == read(context.source, planner, context.columns, ranges).rows
        planner.close()

    def test_metadata_and_options_are_plain_values(self, context: SourceContext) -> None:
        """What planning and EXPLAIN show of a scan."""
        source = context.source

        assert all(kind.nullable in {True, False} for kind in source.metadata_types.values())
        assert source.parallelism is None or source.parallelism >= 1
        assert source.max_records_per_batch is None or source.max_records_per_batch >= 1
        assert source.lookup_source is None
        json.dumps([source.discovery_interval_ms, source.tolerates_loss, source.skips_bad_records])
