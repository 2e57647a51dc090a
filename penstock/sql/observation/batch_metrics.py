"""Metrics of one micro-batch, read from Spark's progress event: offsets carry the watermark and the
lag of each split.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from penstock.connector.source.state import SourceState, SplitState, decode_state

# what `skipped_metric` and `late_metric` of connector/spark/source begin with; their modules load pyspark
_SKIPPED, _LATE = "penstock_skipped_", "penstock_late_"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelessSplit:
    """A split without an event time so far, which holds back the watermark of its table.

    `silent_since_ms` is since when it has no records (epoch ms), None while it has some.
    """

    split_id: str
    silent_since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LateSplit:
    """A split that was discovered at `found_ms` (epoch ms), after its first records, `rows` of
    which were late by then.
    """

    split_id: str
    rows: int
    found_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMetrics:
    """One source of the query in a batch; sources are in the order in which the checkpoint knows them.

    `state` is None for a source that the split runtime does not read. `ends` are the ends of its splits that were seen
    at planning, by split id. `rows_in` are those that the query got and those that tasks filtered or merged;
    `rows_late` are late rows that are known to be of this source. `future_records` are those among `bad_records` whose
    time is too far in the future. `records_lost` are positions that were deleted before they were read: those of
    planning, from the offset, and those of tasks.
    """

    rows_in: int = 0
    rows_late: int = 0
    bad_records: int = 0
    future_records: int = 0
    records_lost: int = 0
    state: SourceState | None = None
    ends: Mapping[str, int] = field(default_factory=dict)

    def lag_of(self, split: SplitState) -> int:
        """Return the positions between where a split was read to and its end, or its stop."""
        end = self.ends.get(split.split_id, split.end)
        # records beyond a split's stop are none of the table's
        return max(0, (end if split.stop is None else min(end, split.stop)) - split.end)

    @property
    def lags(self) -> tuple[int, ...]:
        """The lag of each split; empty where it is not known."""
        if self.state is None:
            return ()
        return tuple(self.lag_of(split) for split in self.state.splits)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorMetrics:
    """The state of a stateful operator after a batch: of Spark's, or of a stage.

    `rows` is None where it is not known: RocksDB, which Penstock's sessions have, counts none. `updated` and `removed`
    are those that the batch wrote (None: not known) and ended. `waits` tells whether its rows come out once the
    watermark has passed them; None where that is not known, as rows of a join also come out with one of the other side.
    `most_files` is the number of files of a keyed operator's bucket that has most; None of other state.
    """

    name: str
    rows: int | None
    size_bytes: int
    commit_ms: int
    updated: int | None = 0
    removed: int = 0
    waits: bool | None = False
    most_files: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchMetrics:
    """Counts of one batch. `rows_dropped` are late rows; `watermark_ms` is None before there is one.

    `lag_records` are the positions left behind the ends seen at planning; `committed_at_ms` is when the batch's
    results became visible, epoch ms. `timeless` are the splits that hold back the watermark without ever having had
    one; `late_splits` those that were discovered late, with the late rows since the query's checkpoint began.
    `lost_of` are the records lost of each source that lost some, by its number.
    `phases_ms` is how long each phase of the batch took, by Spark's names (`durationMs`).
    """

    batch_id: int
    rows_in: int
    rows_out: int
    rows_dropped: int
    bad_records: int
    watermark_ms: int | None
    lag_records: int
    duration_ms: int
    committed_at_ms: int
    timeless: tuple[TimelessSplit, ...] = ()
    late_splits: tuple[LateSplit, ...] = ()
    lost_of: Mapping[int, int] = field(default_factory=dict)
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    sources: tuple[SourceMetrics, ...] = ()
    operators: tuple[OperatorMetrics, ...] = ()

    @property
    def records_lost(self) -> int:
        """Records of all sources that were deleted before they were read, where the tables' options tolerate that."""
        return sum(self.lost_of.values())


def read_batch_metrics(progress: Mapping[str, Any], *, rows_out_metric: str | None) -> BatchMetrics:
    """Read a progress event, as a dict of its JSON.

    `rows_out_metric` names the observed metric that counts the rows sent; None where each row that tasks deliver is one
    row out, as each is that they write.
    """
    observed: Mapping[str, Mapping[str, Any]] = progress.get("observedMetrics") or {}
    sources = progress.get("sources") or ()
    read = tuple(_source(source, index, observed) for index, source in enumerate(sources))
    states = [source.state for source in read if source.state is not None]
    watermarks = [state.watermark_ms for state in states]
    known = [watermark for watermark in watermarks if watermark is not None]
    extra = sum(_heartbeats(*pair) for pair in zip(sources, read, strict=True))
    extra += _sum(observed, "markers")
    dropped_by_spark = sum(
        o.get("numRowsDroppedByWatermark", 0) for o in progress.get("stateOperators") or ()
    )
    duration = int(progress.get("batchDuration") or 0)
    delivered = max(0, int(progress.get("numInputRows") or 0) - extra)
    of_files = any("written" in row for row in observed.values())
    if of_files:
        delivered = _sum(observed, "written")  # Spark counted the files that tasks wrote
    rows_in = delivered + _sum(observed, "filtered") + _sum(observed, "merged")
    if len(read) == 1:
        read = (replace(read[0], rows_in=rows_in),)
    return BatchMetrics(
        batch_id=int(progress["batchId"]),
        rows_in=rows_in,
        rows_out=delivered
        if rows_out_metric is None or of_files
        else int((observed.get(rows_out_metric) or {}).get("rows", 0)),
        rows_dropped=_sum(observed, "late") + dropped_by_spark,
        bad_records=_sum(observed, "skipped"),
        watermark_ms=min(known) if known and len(known) == len(watermarks) else None,
        lag_records=sum(sum(source.lags) for source in read),
        duration_ms=duration,
        committed_at_ms=int(datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000)
        + duration,
        timeless=tuple(found for state in states for found in _timeless(state)),
        late_splits=tuple(found for state in states for found in _late_splits(state)),
        lost_of={n: source.records_lost for n, source in enumerate(read) if source.records_lost},
        phases_ms={name: int(ms) for name, ms in (progress.get("durationMs") or {}).items()},
        sources=read,
        operators=tuple(map(_operator, progress.get("stateOperators") or ())),
    )


def _source(
    source: Mapping[str, Any], index: int, observed: Mapping[str, Mapping[str, Any]]
) -> SourceMetrics:
    offset, latest = _offset(source.get("endOffset")), _offset(source.get("latestOffset"))
    state = decode_state(offset) if offset is not None and "splits" in offset else None
    # the observed metrics of a scan and of windows over it have names that end in the number of the source
    suffix = f"_{index}"
    own = {name: row for name, row in observed.items() if name.endswith(suffix)}
    late = {name: row for name, row in own.items() if name.startswith(_LATE)}
    own = {name: row for name, row in own.items() if name.startswith(_SKIPPED)}
    found = SourceMetrics(
        rows_late=_sum(late, "late"),
        bad_records=_sum(own, "skipped"),
        future_records=_sum(own, "future"),
        records_lost=_sum(own, "lost") + _lost(state, _offset(source.get("startOffset"))),
        state=state,
        ends={} if latest is None or state is None else _ends(state, latest),
    )
    delivered = int(source.get("numInputRows") or 0) - _heartbeats(source, found)
    delivered = max(0, delivered - _sum(own, "markers"))
    return replace(found, rows_in=delivered + _sum(own, "filtered") + _sum(own, "merged"))


def _lost(state: SourceState | None, before: Mapping[str, Any] | None) -> int:
    """Count the positions that planning of the batch found deleted: an offset has those of all batches so far."""
    if state is None:
        return 0
    splits = () if before is None or "splits" not in before else decode_state(before).splits
    known = {split.split_id: split.lost for split in splits}
    return sum(max(0, split.lost - known.get(split.split_id, 0)) for split in state.splits)


def _ends(state: SourceState, latest: Mapping[str, Any]) -> dict[str, int]:
    known = (split.split_id for split in state.splits)
    return {split_id: int(latest[split_id]) for split_id in known if split_id in latest}


def _operator(found: Mapping[str, Any]) -> OperatorMetrics:
    return OperatorMetrics(
        name=str(found.get("operatorName") or "operator"),
        rows=int(found.get("numRowsTotal") or 0) or (None if _is_uncounted(found) else 0),
        size_bytes=int(found.get("memoryUsedBytes") or 0),
        commit_ms=int(found.get("commitTimeMs") or 0),
        updated=int(found.get("numRowsUpdated") or 0),
        removed=int(found.get("numRowsRemoved") or 0),
        waits=_waits(str(found.get("operatorName"))),
    )


def _waits(operator: str) -> bool | None:
    """Return whether rows of one of Spark's operators wait for the watermark, in append mode."""
    if operator.startswith(("stateStoreSave", "sessionWindowStateStoreSave")):
        return True
    return False if operator.startswith(("dedupe", "globalLimit", "localLimit")) else None


def _is_uncounted(found: Mapping[str, Any]) -> bool:
    """Return whether the operator's store may leave its rows uncounted, which it reports as none."""
    return any(name.startswith("rocksdb") for name in found.get("customMetrics") or ())


def _timeless(state: SourceState) -> Iterator[TimelessSplit]:
    # the clock is there for the sake of event times
    if state.clock_ms is None and all(split.watermark_ms is None for split in state.splits):
        return
    for split in state.splits:
        if split.watermark_ms is None and not split.idle and not split.finished:
            yield TimelessSplit(split_id=split.split_id, silent_since_ms=split.quiet_since_ms)


def _late_splits(state: SourceState) -> Iterator[LateSplit]:
    for split in state.splits:
        if split.found is not None and split.found.late:
            late, at_ms = split.found.late, split.found.at_ms
            yield LateSplit(split_id=split.split_id, rows=late, found_ms=at_ms)


def _sum(observed: Mapping[str, Mapping[str, Any]], column: str) -> int:
    return sum(int(row[column] or 0) for row in observed.values() if column in row)


def _offset(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, str):
        value = json.loads(value)
    return value if isinstance(value, Mapping) else None


def _heartbeats(source: Mapping[str, Any], read: SourceMetrics) -> int:
    """Count the heartbeat rows of a batch, which are not records: one where the watermark moved."""
    if read.state is None or not source.get("numInputRows"):
        return 0
    return int(read.state.watermark_ms != read.state.watermark_before_ms)
