"""The closing summary: one line a statement, on stderr."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.sql.cli.output.text import (
    count_text,
    duration_text,
    late_text,
    timeless_text,
    watermark_text,
)
from penstock.sql.runner.summary import SinkResult, StatementResult, StatementStatus

__all__ = ["summary_lines"]


def summary_lines(results: Sequence[StatementResult]) -> list[str]:
    """Sum up a run; the names in one column, so that the counts can be compared."""
    titles = [f"{result.kind} {result.subject or ''}".strip() for result in results]
    width = max(map(len, titles), default=0)
    lines: list[str] = []
    for result, title in zip(results, titles, strict=True):
        facts = ", ".join(_facts(result))
        lines.append(f"{result.status:<8}  {title:<{width}}  {facts}".rstrip())
        lines += [_sink_line(sink) for sink in result.sinks]
        if result.error is not None:
            lines.append(f"          error: {result.error}")
        if result.hint is not None:
            lines.append(f"          help: {result.hint}")
    return lines


def _sink_line(sink: SinkResult) -> str:
    batches = "" if sink.batches is None else f" in {_counted(sink.batches, 'batch', 'batches')}"
    return f"          {sink.sink}: {_counted(sink.rows_out, 'row', 'rows')}{batches}"


def _facts(result: StatementResult) -> list[str]:
    if result.batches is None:
        return _row_facts(result)
    if result.rows_in is None:  # a table that was written anew from time to time
        refreshes = _counted(result.batches, "refresh", "refreshes")
        return [refreshes, duration_text(round(result.seconds * 1000))]
    facts = [
        f"{count_text(result.rows_in)} rows in",
        f"{count_text(result.rows_out)} out",
        f"{count_text(result.rows_dropped)} dropped as late",
    ]
    if result.bad_records:
        facts.append(f"{count_text(result.bad_records)} bad records left out")
    if result.watermark_ms is not None:
        facts.append(f"watermark {watermark_text(result.watermark_ms)}")
    if result.timeless and result.watermark_ms is None:
        held = timeless_text([split.split_id for split in result.timeless], None, silent=False)
        facts.append(f"no watermark: {held}")
    facts += [late_text(s.split_id, s.rows, s.found_ms) for s in result.late_splits]
    batches = _counted(result.batches, "batch", "batches")
    return [*facts, batches, duration_text(round(result.seconds * 1000))]


def _row_facts(result: StatementResult) -> list[str]:
    if result.status is StatementStatus.SKIPPED:
        return []
    facts: list[str] = []
    if result.rows is not None:
        count = len(result.rows.rows)
        more = "the first " if result.rows.truncated else ""
        facts.append(f"{more}{count_text(count)} row{'' if count == 1 else 's'}")
    if result.seconds >= 0.1:
        facts.append(duration_text(round(result.seconds * 1000)))
    return facts


def _counted(count: int, one: str, many: str) -> str:
    return f"{count_text(count)} {one if count == 1 else many}"
