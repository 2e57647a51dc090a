"""The proposed rowtime of a draft: the column, its WATERMARK, and the disorder that was seen in each split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from penstock.catalog import types as t
from penstock.catalog.schema import ComputedColumn, MetadataColumn, PhysicalColumn, Watermark
from penstock.connector.inferring.disorder import (
    Disorder,
    Times,
    disorder_of,
    interval_text,
    propose_delay,
)
from penstock.connector.inferring.draft import DraftColumn, free_name, sql_name
from penstock.connector.inferring.rowtime import RowtimeCandidate
from penstock.connector.inferring.sample import Sample

__all__ = ["EventTime", "propose_event_time"]

_SHOWN_SPLITS = 12
_LONGEST_WAIT_MS = 86_400_000
METADATA_KEY = "timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """Columns with the rowtime among them, and its WATERMARK; none where nothing can be event time."""

    columns: tuple[DraftColumn, ...]
    watermark: Watermark | None = None
    watermark_remark: str = ""
    remarks: tuple[str, ...] = ()


def propose_event_time(
    columns: tuple[DraftColumn, ...], candidates: Sequence[RowtimeCandidate], sample: Sample
) -> EventTime:
    """Take the best candidate, else the records' own timestamps where the sample has them."""
    if candidates:
        best = candidates[0]
        others = [each.shown for each in candidates[1:4]]
        made, name = _with_rowtime(columns, best)
        also = f" Also possible: {', '.join(others)}." if others else ""
        remark = f"Event time: {best.shown} ({best.reason}).{also}"
        return _proposed(made, name, best.times_ms, sample, remark)
    times = [
        np.array([ms for ms in split.times_ms if ms is not None], np.int64)
        for split in sample.splits
    ]
    if not any(map(len, times)):
        remark = "Event time: no column looks like it. Windows need one, and a WATERMARK."
        return EventTime(columns=columns, remarks=(remark,))
    name = free_name("record_time", [each.column.name for each in columns])
    column = MetadataColumn(
        name=name, type=t.TimestampLtzType(precision=3), key=METADATA_KEY, virtual=True
    )
    made = (
        *columns,
        DraftColumn(column=column, remark="the time that the record has in its topic"),
    )
    remark = "Event time: no column looks like it, so it is the records' own time."
    return _proposed(made, name, times, sample, remark)


def _with_rowtime(
    columns: tuple[DraftColumn, ...], best: RowtimeCandidate
) -> tuple[tuple[DraftColumn, ...], str]:
    """Give the columns with the rowtime, and its name: a column of the table, or one computed of it."""
    if best.expression is None:
        name = best.path[0]
        return tuple(_as_event_time(each, name) for each in columns), name
    name = free_name("rowtime", [each.column.name for each in columns])
    column = ComputedColumn(name=name, expression=best.expression)
    return (*columns, DraftColumn(column=column, remark=f"{best.shown} as a time")), name


def _as_event_time(each: DraftColumn, name: str) -> DraftColumn:
    """Make the type of the column `name` that of event time, which has three digits at most."""
    column = each.column
    if column.name != name or not isinstance(column, PhysicalColumn):
        return each
    kind = column.type
    assert isinstance(kind, t.TimestampType | t.TimestampLtzType), "it is a candidate"
    if kind.precision <= 3:
        return each
    return DraftColumn(
        column=replace(column, type=replace(kind, precision=3)),
        remark=f"{each.remark}; three digits, as event time has",
    )


def _proposed(
    columns: tuple[DraftColumn, ...],
    name: str,
    times: Sequence[Times],
    sample: Sample,
    remark: str,
) -> EventTime:
    named = [
        disorder_of(split.name, each)
        for split, each in zip(sample.splits, times, strict=True)
        if len(each)
    ]
    delay = propose_delay(times)
    remarks = [remark, *_disorder_lines(named)]
    if delay.delay_ms > _LONGEST_WAIT_MS:
        remarks.append(
            f"No WATERMARK is proposed: it would wait for {interval_text(delay.delay_ms)}, so the records seem to be "
            "in no order of time. Write one if this is the column."
        )
        return EventTime(columns=columns, remarks=tuple(remarks))
    if not any(each.max_ms for each in named):
        chosen = "in order in the sample"
    elif delay.late:
        chosen = f"{delay.late:,} of {sample.size:,} records of the sample would be late"
    else:
        chosen = "no record of the sample would be late"
    expression = f"{sql_name(name)} - {interval_text(delay.delay_ms)}"
    return EventTime(
        columns=columns,
        watermark=Watermark(column=name, expression=expression),
        watermark_remark=chosen,
        remarks=tuple(remarks),
    )


def _disorder_lines(splits: Sequence[Disorder]) -> list[str]:
    """Say how far behind the highest time before them records were, the worst splits first where they are many."""
    worst = sorted(splits, key=lambda each: -each.max_ms)
    shown = splits if len(splits) <= _SHOWN_SPLITS else worst[:_SHOWN_SPLITS]
    lines = [
        f"Disorder in {each.split}: p50 {_span(each.p50_ms)}, p99 {_span(each.p99_ms)}, "
        f"most {_span(each.max_ms)} ({each.records:,} records)."
        for each in shown
    ]
    if len(splits) > len(shown):
        lines.append(f"These are the worst of {len(splits):,} splits.")
    return lines


def _span(ms: int) -> str:
    return f"{ms} ms" if ms < 1000 else f"{ms / 1000:,.1f} s"
