"""Infer the rowtime column and its WATERMARK: candidates by type, name and order, and the disorder that was seen.

The proposed delay bears how far out of order the times of a split are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.catalog.model import types as t
from penstock.catalog.model.table import ComputedColumn, MetadataColumn, PhysicalColumn, Watermark
from penstock.connector.inference.inferred_table import InferredColumn, free_name, sql_name
from penstock.connector.inference.sample import Sample

Times = npt.NDArray[np.int64]

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_STEPS = (
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
)
"""Delays that people write, in ms."""

_HEADROOM = 1.5
"""A sample has not seen the worst."""

_STRAY = 10
"""A maximum of more times the 99th percentile is a stray, which no delay should wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disorder:
    """How late the records of a split are, in ms: median, 99th percentile, most."""

    split: str
    records: int
    p50_ms: int
    p99_ms: int
    max_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedDelay:
    """A bounded disorder for WATERMARK. `late` of the sample's records would be later than it."""

    delay_ms: int
    late: int


def lateness_ms(times_ms: Times) -> Times:
    """Return how far each record is behind the highest time of its split up to it; 0 where it is the highest."""
    return np.maximum.accumulate(times_ms) - times_ms if len(times_ms) else times_ms


def disorder_of(split: str, times_ms: Times) -> Disorder:
    """Sum up the lateness of the records of a split, of which there is one at least."""
    late = lateness_ms(times_ms)
    p50, p99 = np.percentile(late, [50, 99], method="higher")
    return Disorder(
        split=split,
        records=len(times_ms),
        p50_ms=int(p50),
        p99_ms=int(p99),
        max_ms=int(late.max()),
    )


def propose_delay(splits: Sequence[Times]) -> ProposedDelay:
    """Choose a delay for splits of which each has a watermark of its own.

    It covers the most that was seen and half as much again, strays left out.
    """
    late = [lateness_ms(times) for times in splits if len(times)]
    everything = np.concatenate(late) if late else np.zeros(1, np.int64)
    most = int(everything.max())
    usual = max((int(np.percentile(each, 99, method="higher")) for each in late), default=0)
    basis = usual if most > max(usual * _STRAY, _MINUTE) else most
    wanted = basis * _HEADROOM
    delay_ms = next((step for step in _STEPS if step >= wanted), -(-int(wanted) // _DAY) * _DAY)
    return ProposedDelay(delay_ms=delay_ms, late=int((everything > delay_ms).sum()))


def interval_text(delay_ms: int) -> str:
    """Write a delay in its largest unit: `INTERVAL '10' SECOND`."""
    for unit_ms, unit in ((_DAY, "DAY"), (_HOUR, "HOUR"), (_MINUTE, "MINUTE")):
        if delay_ms >= unit_ms and delay_ms % unit_ms == 0:
            return f"INTERVAL '{delay_ms // unit_ms}' {unit}"
    return f"INTERVAL '{delay_ms // _SECOND}' SECOND"


_NAMED = re.compile(
    r"(^|_)(ts|time|timestamp|date|datetime|at|rowtime|when)($|_)|(time|timestamp|At|Ts)$|_(ms|us)$"
)

_EVENT = re.compile(
    r"event|occur|order_?time|rowtime|^ts$|^time$|^timestamp$|log_?time|measured", re.IGNORECASE
)

_OTHER = re.compile(
    r"birth|expir|valid|due|deliver|update|modif|delete|deploy|start|end|until|scheduled|last|next",
    re.IGNORECASE,
)

# 2000-01-01 and 2100-01-01: epoch numbers outside are hardly times of events
_FIRST_S, _LAST_S = 946_684_800, 4_102_444_800

_LEAST_THERE = 0.9

_DEEPEST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """A unit of epoch numbers: how many make a second, and the Flink SQL that makes an instant of one."""

    name: str
    per_second: int
    expression: str

    def to_ms(self, numbers: Times) -> Times:
        """Return milliseconds, rounded down; those of the years that are looked for do not overflow."""
        if self.per_second < 1000:
            return numbers * (1000 // self.per_second)
        return numbers // (self.per_second // 1000)


_UNITS = (
    _Unit(name="seconds", per_second=1, expression="TO_TIMESTAMP_LTZ({}, 0)"),
    _Unit(name="milliseconds", per_second=1000, expression="TO_TIMESTAMP_LTZ({}, 3)"),
    _Unit(name="microseconds", per_second=10**6, expression="TO_TIMESTAMP_LTZ({} / 1000, 3)"),
    _Unit(name="nanoseconds", per_second=10**9, expression="TO_TIMESTAMP_LTZ({} / 1000000, 3)"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowtimeCandidate:
    """A column, or a field of a ROW, that may be event time.

    `expression` is Flink SQL that makes the rowtime of it, None where the column itself can be that. `times_ms` are
    those of each split in its order, absent ones left out. `reason` says what speaks for it.
    """

    path: tuple[str, ...]
    expression: str | None
    score: float
    reason: str
    times_ms: tuple[Times, ...] = field(repr=False)

    @property
    def shown(self) -> str:
        """The column or field as SQL names it."""
        return ".".join(map(sql_name, self.path))


def rowtime_candidates(
    fields: Sequence[tuple[str, t.LogicalType]], batches: Sequence[pa.RecordBatch]
) -> list[RowtimeCandidate]:
    """Return what may be event time, the best first. `batches` hold the records of a split each, with these columns."""
    found = [
        candidate
        for path, logical in _paths(fields)
        if (candidate := _candidate(path, logical, [_column(batch, path) for batch in batches]))
    ]
    return sorted(found, key=lambda candidate: -candidate.score)


def _paths(
    fields: Sequence[tuple[str, t.LogicalType]], above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], t.LogicalType]]:
    for name, logical in fields:
        path = (*above, name)
        if isinstance(logical, t.RowType):
            if len(path) < _DEEPEST:
                yield from _paths([(each.name, each.type) for each in logical.fields], path)
        else:
            yield path, logical


def _column(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    column = batch.column(path[0])
    for name in path[1:]:
        # by position: a NULL row has NULL fields, which struct_field of Arrow knows and field() does not
        column = pc.struct_field(column, column.type.get_field_index(name))
    return column


def _candidate(
    path: tuple[str, ...], logical: t.LogicalType, columns: Sequence[pa.Array]
) -> RowtimeCandidate | None:
    total = sum(map(len, columns))
    there = total - sum(column.null_count for column in columns)
    if not there or there < total * _LEAST_THERE:
        return None
    name = path[-1]
    named = _name_score(name)
    match logical:
        case t.TimestampType() | t.TimestampLtzType() if len(path) == 1 or logical.precision <= 3:
            times = tuple(_milliseconds(column) for column in columns)
            of_path = ".".join(map(sql_name, path))
            expression, kind, score = None if len(path) == 1 else of_path, str(logical), 1.0
        case t.BigIntType():
            numbers = [_numbers(column) for column in columns]
            unit = _unit(numbers)
            if unit is None:
                return None
            times = tuple(map(unit.to_ms, numbers))
            expression = unit.expression.format(".".join(map(sql_name, path)))
            kind, score = f"{unit.name} since 1970", 0.5
        case _:
            return None
    order = _order(times)
    if kind.endswith("1970") and named <= 0 and order < 0.95:
        return None
    score += named + 3 * order + there / total - 0.5 * (len(path) - 1)
    if total > 1 and max(int(each.max()) for each in times if len(each)) == min(
        int(each.min()) for each in times if len(each)
    ):
        score -= 5  # the same in all records: no time of events
    return RowtimeCandidate(
        path=path,
        expression=expression,
        score=score,
        reason=f"{kind}, {order:.0%} of the steps within a split go forward",
        times_ms=times,
    )


def _name_score(name: str) -> float:
    score = 1.0 if _NAMED.search(name) else 0.0
    score += 1.0 if _EVENT.search(name) else 0.0
    return score - (1.5 if _OTHER.search(name) else 0.0)


def _milliseconds(column: pa.Array) -> Times:
    return _numbers(column.cast(pa.timestamp("us")).cast(pa.int64())) // 1000


def _numbers(column: pa.Array) -> Times:
    numbers: Times = column.drop_null().to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _unit(columns: Sequence[npt.NDArray[np.int64]]) -> _Unit | None:
    values = np.concatenate(columns)
    for unit in _UNITS:
        low, high = _FIRST_S * unit.per_second, _LAST_S * unit.per_second
        if low <= int(values.min()) and int(values.max()) < high:
            return unit
    return None


def _order(splits: Sequence[Times]) -> float:
    """Return the share of records that are no earlier than the one before them in their split."""
    steps = [np.diff(times) for times in splits]
    count = sum(map(len, steps))
    return sum(int((each >= 0).sum()) for each in steps) / count if count else 1.0


_SHOWN_SPLITS = 12

_LONGEST_WAIT_MS = 86_400_000

METADATA_KEY = "timestamp"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTime:
    """Columns with the rowtime among them, and its WATERMARK; none where nothing can be event time."""

    columns: tuple[InferredColumn, ...]
    watermark: Watermark | None = None
    watermark_remark: str = ""
    remarks: tuple[str, ...] = ()


def propose_event_time(
    columns: tuple[InferredColumn, ...], candidates: Sequence[RowtimeCandidate], sample: Sample
) -> EventTime:
    """Choose the best candidate, else the records' own timestamps where the sample has them."""
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
        InferredColumn(column=column, remark="the time that the record has in its topic"),
    )
    remark = "Event time: no column looks like it, so it is the records' own time."
    return _proposed(made, name, times, sample, remark)


def _with_rowtime(
    columns: tuple[InferredColumn, ...], best: RowtimeCandidate
) -> tuple[tuple[InferredColumn, ...], str]:
    """Return the columns with the rowtime, and its name: a column of the table, or one computed of it."""
    if best.expression is None:
        name = best.path[0]
        return tuple(_as_event_time(each, name) for each in columns), name
    name = free_name("rowtime", [each.column.name for each in columns])
    column = ComputedColumn(name=name, expression=best.expression)
    return (*columns, InferredColumn(column=column, remark=f"{best.shown} as a time")), name


def _as_event_time(each: InferredColumn, name: str) -> InferredColumn:
    """Make the type of the column `name` that of event time, which has three digits at most."""
    column = each.column
    if column.name != name or not isinstance(column, PhysicalColumn):
        return each
    kind = column.type
    assert isinstance(kind, t.TimestampType | t.TimestampLtzType), "it is a candidate"
    if kind.precision <= 3:
        return each
    return InferredColumn(
        column=replace(column, type=replace(kind, precision=3)),
        remark=f"{each.remark}; three digits, as event time has",
    )


def _proposed(
    columns: tuple[InferredColumn, ...],
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
    """Describe how far behind the highest time before them records were, the worst splits first where they are many."""
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
