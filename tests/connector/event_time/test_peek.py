"""Watermarks from peeks: records of the future do not count, and cost nothing where there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connector.contract import Accept, SplitMetadataClient
from penstock.connector.event_time.rowtime import WatermarkPeeks
from penstock.connector.scan import Rowtime

ROWTIME = Rowtime(column="ts", inputs=("ts",), expression='"ts"', instant=False)
BOUND_MS = 100


@dataclass
class Records:
    """A planner over lists of watermarks (ms); None is a record that has none. Steps back one by one."""

    times_ms: Mapping[str, list[int | None]]
    peeks: int = 0

    def peek(
        self, ranges: Mapping[str, tuple[int, int]], accept: Accept | None = None
    ) -> Mapping[str, pa.RecordBatch]:
        """Give the last record of each range that is accepted."""
        self.peeks += 1
        found = {}
        for split_id, (start, end) in ranges.items():
            for at_ms in reversed(self.times_ms[split_id][start:end]):
                row = _row(at_ms)
                if accept is None or split_id in accept({split_id: row}):
                    found[split_id] = row
                    break
        return found


def _row(at_ms: int | None) -> pa.RecordBatch:
    at = None if at_ms is None else at_ms * 1000
    return pa.record_batch({"ts": pa.array([at], pa.timestamp("us"))})


def look(records: Records, not_after_ms: int | None = BOUND_MS) -> dict[str, int]:
    """The watermarks of whole splits."""
    peeks = WatermarkPeeks(
        planner=cast("SplitMetadataClient", records), rowtime=ROWTIME, time_zone="UTC"
    )
    return peeks.look({i: (0, len(times)) for i, times in records.times_ms.items()}, not_after_ms)


def test_the_last_record_within_the_bound_counts() -> None:
    """One whose clock is ahead is stepped over, and so is one before it that has no watermark."""
    records = Records({"a": [5, 7, None, 900], "b": [3, 100], "c": [900, 901]})

    assert look(records) == {"a": 7, "b": 100}
    assert records.peeks == 2


def test_where_each_last_record_has_a_watermark_one_peek_is_all() -> None:
    """The usual case costs what it cost before; a split without records is not checked again."""
    records = Records({"a": [5, 7], "b": []})

    assert look(records) == {"a": 7}
    assert records.peeks == 1


def test_a_record_without_an_event_time_is_stepped_over() -> None:
    """With and without a bound; where there is nothing else there is no watermark."""
    times: dict[str, list[int | None]] = {"a": [5, 7, None, None], "b": [None], "c": [8]}

    assert look(Records(times)) == {"a": 7, "c": 8}
    assert look(Records(times), None) == {"a": 7, "c": 8}


def test_where_none_of_many_records_has_an_event_time_the_search_ends() -> None:
    """Its task tells, which looks at all of them; the other splits have their answer."""
    times: dict[str, list[int | None]] = {"a": [5, *[None] * 100], "b": [7, None]}

    assert look(Records(times)) == {"b": 7}


def test_without_a_bound_every_record_counts() -> None:
    """The option is off."""
    assert look(Records({"a": [5, 900]}), None) == {"a": 900}


def test_of_several_rows_of_one_record_the_highest_counts() -> None:
    """A JSON array is one record."""

    class OfTwoRows(Records):
        def peek(
            self, ranges: Mapping[str, tuple[int, int]], accept: Accept | None = None
        ) -> Mapping[str, pa.RecordBatch]:
            times = pa.array([9000, 4000], pa.timestamp("us"))
            return dict.fromkeys(ranges, pa.record_batch({"ts": times}))

    assert look(OfTwoRows({"a": [0], "b": [0]})) == {"a": 9, "b": 9}


@pytest.mark.slow
@settings(deadline=None)  # each step back is a query of DuckDB
@given(st.dictionaries(st.sampled_from("abc"), st.lists(st.none() | st.integers(90, 110))))
def test_what_is_found_is_the_watermark_of_a_record_that_is_delivered(
    times_ms: dict[str, list[int | None]],
) -> None:
    """So it is a lower bound of the highest one, and no split has one that has no such record."""
    found = look(Records(times_ms))
    delivered = {
        i: [ms for ms in times if ms is not None and ms <= BOUND_MS]
        for i, times in times_ms.items()
    }

    assert all(ms in delivered[split_id] for split_id, ms in found.items())
    for split_id, times in times_ms.items():
        last_is_far = bool(times) and (times[-1] or 0) > BOUND_MS
        assert not last_is_far or (split_id in found) == bool(delivered[split_id])
