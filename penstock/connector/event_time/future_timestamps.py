"""Filter rows whose watermark is too far ahead of the clock: they are bad records and are not delivered.

One record with a clock years ahead would advance the watermark to it, and all later rows would be late. The
bound is decided at planning and sent with the task, so a replay decides the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import assert_never

import numpy as np
import pyarrow as pa

from penstock.catalog.errors import BadRecordError, RecordFault
from penstock.connector.bad_records.collector import BadRecordCollector
from penstock.connector.bad_records.files import check_directory
from penstock.connector.event_time.reports import EventTimes, RangeReporter
from penstock.connector.event_time.rowtime import count_late, highest_watermark, rows_above
from penstock.connector.options.watermark import OnFuture, WatermarkSettings
from penstock.connector.scan import Rowtime, Scan
from penstock.connector.source.records import RecordsWithSplitIds
from penstock.connector.source.state import instant_text


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredRows:
    """The rows of a batch that are not of the future, with the highest watermark of them (epoch ms).

    `outliers` are the others: the index of each in the batch as it was, and its watermark.
    """

    batch: pa.RecordBatch
    watermark_ms: int | None
    outliers: Mapping[int, int]


def filter_future_rows(
    rowtime: Rowtime, batch: pa.RecordBatch, time_zone: str, not_after_ms: int | None
) -> FilteredRows:
    """Separate the rows whose watermark is above `not_after_ms`; None is no bound.

    The maximum shows whether there are any, rows are checked only then. A row without a watermark stays.
    """
    top_ms = highest_watermark(rowtime, batch, time_zone)
    if top_ms is None or not_after_ms is None or top_ms <= not_after_ms:
        return FilteredRows(batch=batch, watermark_ms=top_ms, outliers={})
    outliers = rows_above(rowtime, batch, time_zone, not_after_ms)
    stays = np.ones(batch.num_rows, np.bool_)
    stays[list(outliers)] = False
    kept = batch.filter(pa.array(stays))
    return FilteredRows(
        batch=kept, watermark_ms=highest_watermark(rowtime, kept, time_zone), outliers=outliers
    )


def filters_future_rows(scan: Scan, settings: WatermarkSettings) -> bool:
    """Return whether a scan leaves out records of the future and counts them."""
    bounded = scan.rowtime is not None and settings.max_future_ms is not None
    return bounded and settings.on_future is not OnFuture.FAIL


def check_dead_letter_path(scan: Scan, settings: WatermarkSettings) -> None:
    """Check at the start of a query that its dead letters have a place. Raises ConfigError or SinkError."""
    if filters_future_rows(scan, settings) and settings.dead_letter_path is not None:
        check_directory(settings.dead_letter_path, Path(scan.project), scan.access)


class FutureTimestampFilter:
    """Stands between a task's reader and the engine. The task's thread.

    `left_out` counts the rows that were not delivered. `not_after_ms` None lets everything pass. `bad` takes the
    records of the future where the table keeps them; `reporter` receives the event times of what is delivered, and of
    the rows behind the watermark in the splits that `late` names.
    """

    def __init__(
        self,
        scan: Scan,
        settings: WatermarkSettings,
        not_after_ms: int | None,
        bad: BadRecordCollector | None = None,
        reporter: RangeReporter | None = None,
        *,
        late: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.left_out = 0
        self._bad = bad
        self._reporter = reporter
        self._late = late
        self._table = scan.table.identifier
        self._rowtime = scan.rowtime if not_after_ms is not None or reporter is not None else None
        if self._rowtime is not None and self._rowtime.of_clock:
            # rows get their batch's time later: this machine's clock, or that of a replay, says nothing of them
            self._rowtime = None
        self._time_zone = scan.time_zone
        self._on_future = settings.on_future
        self._not_after_ms = not_after_ms

    @property
    def needs_origins(self) -> bool:
        """Whether the reader has to return the origins of rows."""
        return self._sifts and self._on_future is not OnFuture.SKIP

    @property
    def _sifts(self) -> bool:
        """Whether there may be records of the future."""
        return self._rowtime is not None and self._not_after_ms is not None

    def columns(self, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """Add to the columns that a query wants those that the watermark is made of."""
        inputs = () if self._rowtime is None else self._rowtime.inputs
        return (*wanted, *(name for name in inputs if name not in wanted))

    def batches(self, records: RecordsWithSplitIds) -> Sequence[tuple[str, pa.RecordBatch]]:
        """Return the rows of a fetch that are to be delivered. Raises BadRecordError where the table says to fail.

        Raises SinkError when a dead letter cannot be written.
        """
        if self._rowtime is None:
            return records.batches
        delivered = [(i, self._sifted(i, batch, records)) for i, batch in records.batches]
        if self._reporter is not None:
            self._reporter.finish(records.finished)
        return [(split_id, batch) for split_id, batch in delivered if batch.num_rows]

    def _sifted(
        self, split_id: str, batch: pa.RecordBatch, records: RecordsWithSplitIds
    ) -> pa.RecordBatch:
        assert self._rowtime is not None, "nothing is sifted without a rowtime"
        sifted = filter_future_rows(self._rowtime, batch, self._time_zone, self._not_after_ms)
        if sifted.outliers:
            self._treat(split_id, sifted.outliers, records)
        if self._reporter is not None:
            late = 0
            if split_id in self._late:
                watermark_ms = self._late[split_id]
                late = count_late(self._rowtime, sifted.batch, self._time_zone, watermark_ms)
            self._reporter.take(split_id, EventTimes(highest_ms=sifted.watermark_ms, late=late))
        return sifted.batch

    def _treat(
        self, split_id: str, outliers: Mapping[int, int], records: RecordsWithSplitIds
    ) -> None:
        assert self._not_after_ms is not None, "without a bound there are no outliers"
        rows, watermarks_ms = list(outliers), list(outliers.values())
        match self._on_future:
            case OnFuture.FAIL:
                (first,) = records.origins[split_id].of(rows[:1])
                where = f"table {self._table}, {first.where}"
                raise _too_far(where, watermarks_ms[0], self._not_after_ms)
            case OnFuture.SKIP:
                pass
            case OnFuture.DEAD_LETTER:
                assert self._bad is not None, "checked with the options"
                raw = records.origins[split_id].of(rows)
                self._bad.add_future(split_id, raw, watermarks_ms, self._not_after_ms)
            case _:
                assert_never(self._on_future)
        self.left_out += len(rows)


def _too_far(where: str, watermark_ms: int, not_after_ms: int) -> BadRecordError:
    return BadRecordError(
        f"{where}: the watermark of this record is {instant_text(watermark_ms)}, which is too far in the future: "
        f"records up to {instant_text(not_after_ms)} are accepted, the clock at planning and "
        "'scan.watermark.max-future'. It would make every row behind it late",
        hint="'scan.watermark.on-future' = 'skip' leaves such records out and counts them, 'dead-letter' also keeps "
        "them where 'bad-records' = 'dead-letter' keeps the others; a longer 'scan.watermark.max-future' accepts them",
        fault=RecordFault.FUTURE,
    )
