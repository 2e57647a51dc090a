"""Counts of a batch, from events shaped as Spark's StreamingQueryProgress."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from penstock.connector.source.state import DiscoveredSplit, SourceState, SplitState, encode_state
from penstock.sql.observation.batch_metrics import (
    LateSplit,
    OperatorMetrics,
    TimelessSplit,
    read_batch_metrics,
)

STATE = SourceState(
    splits=(
        SplitState(split_id="t:0", owner="t", start=0, end=6, watermark_ms=60_000),
        SplitState(split_id="t:1", owner="t", start=2, end=4, watermark_ms=50_000),
    ),
    watermark_ms=50_000,
    watermark_before_ms=40_000,
)


def event(state: SourceState = STATE, rows: int = 8, **observed: dict[str, int]) -> dict[str, Any]:
    """A progress event of one batch over one table, its split t:1 three records behind."""
    source = {
        "endOffset": json.dumps(encode_state(state)),
        "latestOffset": json.dumps({"t:0": 6, "t:1": 7}),
        "numInputRows": rows,
    }
    return {
        "batchId": 3,
        "timestamp": "1970-01-01T00:01:40.000Z",
        "batchDuration": 500,
        "numInputRows": rows,
        "sources": [source],
        "observedMetrics": observed,
        "stateOperators": [{"numRowsDroppedByWatermark": 1}],
    }


def test_heartbeats_and_markers_are_no_rows() -> None:
    """Eight came to Spark: one moved the watermark, two told of five bad records."""
    batch = read_batch_metrics(
        event(skipped={"skipped": 5, "markers": 2}, out={"rows": 4}), rows_out_metric="out"
    )
    assert (batch.rows_in, batch.rows_out, batch.bad_records) == (5, 4, 5)


def test_records_that_were_lost_are_those_of_planning_and_of_tasks() -> None:
    """An offset has all that planning lost so far, of which those of the batch before count no more."""
    first, second = STATE.splits
    before = replace(STATE, splits=(replace(first, lost=10), second))
    now = replace(STATE, splits=(replace(first, lost=13), replace(second, lost=2)))
    progress = event(now, rows=4, penstock_skipped_v_0={"lost": 40, "markers": 1})
    progress["sources"][0]["startOffset"] = json.dumps(encode_state(before))
    batch = read_batch_metrics(progress, rows_out_metric=None)
    del progress["sources"][0]["startOffset"]  # the first batch
    started = read_batch_metrics(progress, rows_out_metric=None)

    assert (batch.records_lost, batch.lost_of) == (45, {0: 45})
    assert batch.rows_in == 2
    assert started.records_lost == 55
    assert read_batch_metrics(event(), rows_out_metric=None).lost_of == {}


def test_a_plain_projection_sends_what_it_reads() -> None:
    batch = read_batch_metrics(event(skipped={"skipped": 5, "markers": 2}), rows_out_metric=None)
    assert batch.rows_out == batch.rows_in == 5


def test_files_that_tasks_wrote_count_by_their_rows() -> None:
    """Two came to Spark, and a marker; a batch without any has none."""
    batch = read_batch_metrics(
        event(rows=3, skipped={"skipped": 5, "markers": 1}, files={"written": 700}),
        rows_out_metric=None,
    )
    empty = read_batch_metrics(event(rows=0, files={"written": 0}), rows_out_metric=None)

    assert (batch.rows_in, batch.rows_out, batch.bad_records) == (700, 700, 5)
    assert (empty.rows_in, empty.rows_out) == (0, 0)


def test_rows_that_tasks_left_out_by_a_condition_are_rows_in() -> None:
    """Of three, one is a marker and one moved the watermark; files count by their rows."""
    told = {"skipped": 0, "filtered": 90, "markers": 1}
    counted = read_batch_metrics(event(rows=3, skipped=told), rows_out_metric=None)
    observed = read_batch_metrics(
        event(rows=3, skipped=told, out={"rows": 0}), rows_out_metric="out"
    )
    written = read_batch_metrics(
        event(rows=3, skipped=told, files={"written": 700}), rows_out_metric=None
    )

    assert (counted.rows_in, counted.rows_out) == (91, 1)
    assert (observed.rows_in, observed.rows_out) == (91, 0)
    assert (written.rows_in, written.rows_out) == (790, 700)


def test_late_rows_of_windows_and_of_state_operators_add_up() -> None:
    batch = read_batch_metrics(event(late={"late": 2}), rows_out_metric=None)
    assert batch.rows_dropped == 3


def test_late_rows_and_bad_records_are_those_of_the_source_that_their_metric_names() -> None:
    """A metric of windows over several tables names none: its rows are in the sum alone."""
    two = event(
        penstock_late_w0_of_1={"late": 2},
        penstock_late_w1={"late": 4},
        penstock_skipped_v_0={"skipped": 5, "future": 3, "markers": 1},
    )
    two["sources"] += event()["sources"]
    batch = read_batch_metrics(two, rows_out_metric=None)

    assert [source.rows_late for source in batch.sources] == [0, 2]
    assert [source.bad_records for source in batch.sources] == [5, 0]
    assert [source.future_records for source in batch.sources] == [3, 0]
    assert batch.rows_dropped == 7


def test_watermark_lag_and_commit_time() -> None:
    batch = read_batch_metrics(event(), rows_out_metric=None)
    assert (batch.watermark_ms, batch.lag_records, batch.committed_at_ms) == (50_000, 3, 100_500)


def test_records_beyond_the_end_of_a_bounded_table_are_not_waited_for() -> None:
    first, second = STATE.splits
    bounded = replace(STATE, splits=(replace(first, stop=6), replace(second, stop=5)))
    assert read_batch_metrics(event(bounded), rows_out_metric=None).lag_records == 1


def test_no_watermark_until_every_table_has_one() -> None:
    two = event()
    without = replace(STATE, watermark_ms=None, watermark_before_ms=None)
    two["sources"] += event(without)["sources"]
    assert read_batch_metrics(two, rows_out_metric=None).watermark_ms is None


def test_a_batch_that_did_not_move_the_watermark_has_no_heartbeat() -> None:
    batch = read_batch_metrics(
        event(replace(STATE, watermark_before_ms=50_000)), rows_out_metric=None
    )
    assert batch.rows_in == 8


def test_splits_without_an_event_time_and_with_late_rows_are_named() -> None:
    """Not those that are idle or read to their end, nor any where nobody looks for event times."""
    first, second = STATE.splits
    found = DiscoveredSplit(at_ms=7000, until=4, late=12)
    silent = replace(second, split_id="t:2", watermark_ms=None, quiet_since_ms=9000)
    splits = (
        first,
        replace(second, found=found),
        silent,
        replace(silent, split_id="t:3", idle=True),
        replace(silent, split_id="t:4", stop=4),
    )
    batch = read_batch_metrics(event(replace(STATE, splits=splits)), rows_out_metric=None)
    untimed = replace(STATE, splits=(silent,), watermark_ms=None, watermark_before_ms=None)
    plain = read_batch_metrics(event(untimed), rows_out_metric=None)

    assert batch.timeless == (TimelessSplit(split_id="t:2", silent_since_ms=9000),)
    assert batch.late_splits == (LateSplit(split_id="t:1", rows=12, found_ms=7000),)
    assert plain.timeless == ()


def test_a_source_has_its_rows_splits_and_bad_records() -> None:
    """The scan's metric is named after its view, which ends in the number of the source."""
    skipped = {"skipped": 5, "markers": 2}
    batch = read_batch_metrics(event(penstock_skipped_penstock_ab_0=skipped), rows_out_metric=None)

    (source,) = batch.sources
    assert (source.rows_in, source.bad_records, source.lags) == (5, 5, (0, 3))
    assert source.state == STATE


def test_each_of_two_sources_has_its_own_counts() -> None:
    """Source 1 has a bad record, whose marker is no row of it."""
    told = event(penstock_skipped_penstock_ab_1={"skipped": 1, "markers": 1})
    told["sources"] = [told["sources"][0], told["sources"][0] | {"numInputRows": 4}]

    first, second = read_batch_metrics(told, rows_out_metric=None).sources

    assert (first.rows_in, first.bad_records) == (7, 0)
    assert (second.rows_in, second.bad_records) == (2, 1)


def test_phases_and_operators_are_those_of_the_event() -> None:
    told = event() | {
        "durationMs": {"addBatch": 30},
        "stateOperators": [
            {
                "operatorName": "dedupe",
                "numRowsTotal": 9,
                "memoryUsedBytes": 70,
                "commitTimeMs": 4,
                "numRowsDroppedByWatermark": 0,
            }
        ],
    }

    batch = read_batch_metrics(told, rows_out_metric=None)

    assert batch.phases_ms == {"addBatch": 30}
    assert batch.operators == (OperatorMetrics(name="dedupe", rows=9, size_bytes=70, commit_ms=4),)


def test_rows_of_state_that_no_store_counts_are_not_none_at_all() -> None:
    """RocksDB as Penstock's sessions have it says 0, however many there are."""
    counted = {"operatorName": "dedupe", "numRowsTotal": 0, "numRowsUpdated": 3}
    uncounted = counted | {"customMetrics": {"rocksdbBytesCopied": 7}}
    told = event() | {"stateOperators": [counted, uncounted]}
    first, second = read_batch_metrics(told, rows_out_metric=None).operators

    assert (first.rows, second.rows) == (0, None)
    assert second.updated == 3
