"""What came of each statement of a file: the values behind the closing summary and the JSON document."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from enum import StrEnum
from typing import Any

from penstock.catalog.errors import PenstockError
from penstock.sql.run.progress import JobProgress, JobStatus

__all__ = ["ResultRows", "StatementResult", "StatementStatus", "document", "plain", "with_job"]


class StatementStatus(StrEnum):
    """How a statement ended. `skipped`: the file was stopped, or failed, before its turn."""

    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRows:
    """What a SELECT, SHOW or DESCRIBE gave. `truncated`: there were more rows than are kept."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementResult:
    """What came of one statement; counts are None where the statement has none.

    `subject` names what the statement is about, `error` is one line of text. `seconds` is wall-clock time,
    `watermark_ms` is event time in epoch ms.
    """

    kind: str
    subject: str | None = None
    sink: str | None = None
    rows_in: int | None = None
    rows_out: int | None = None
    rows_dropped: int | None = None
    bad_records: int | None = None
    watermark_ms: int | None = None
    batches: int | None = None
    seconds: float = 0.0
    status: StatementStatus = StatementStatus.FINISHED
    error: str | None = None
    hint: str | None = None
    rows: ResultRows | None = None

    def to_json(self) -> dict[str, Any]:
        """Give the result as plain values; a query's rows are added under `rows`."""
        value: dict[str, Any] = {
            "kind": self.kind,
            "sink": self.sink,
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "rows_dropped": self.rows_dropped,
            "bad_records": self.bad_records,
            "watermark": None if self.watermark_ms is None else _event_time(self.watermark_ms),
            "batches": self.batches,
            "seconds": round(self.seconds, 3),
            "status": self.status.value,
            "error": self.error,
        }
        if self.rows is not None:
            names = self.rows.columns
            value["rows"] = [
                dict(zip(names, map(plain, row), strict=True)) for row in self.rows.rows
            ]
        return value


def document(results: tuple[StatementResult, ...]) -> dict[str, Any]:
    """Give the JSON document of a run."""
    return {"statements": [result.to_json() for result in results]}


def with_job(
    result: StatementResult, progress: JobProgress, error: PenstockError | None
) -> StatementResult:
    """Add what came of the statement's job, which has ended."""
    ended = {
        JobStatus.FINISHED: StatementStatus.FINISHED,
        JobStatus.STOPPED: StatementStatus.STOPPED,
        JobStatus.FAILED: StatementStatus.FAILED,
    }
    return replace(
        result,
        rows_in=progress.rows_in,
        rows_out=progress.rows_out,
        rows_dropped=progress.rows_dropped,
        bad_records=progress.bad_records,
        watermark_ms=progress.watermark_ms,
        batches=progress.batches,
        seconds=progress.seconds,
        status=ended[progress.status],
        error=error.message if error else None,
        hint=error.hint if error else None,
    )


def plain(value: Any) -> Any:
    """Turn a value of a Spark row into what JSON can hold: exact numbers and times as text, bytes as base64."""
    match value:
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            fields = getattr(value, "__fields__", None)  # a pyspark Row is a tuple with names
            if fields is not None:
                return {name: plain(item) for name, item in zip(fields, value, strict=True)}
            return [plain(item) for item in value]
    return _plain_scalar(value)


def _plain_scalar(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)  # JSON has no NaN
        case datetime() | date() | time():
            return value.isoformat()
        case bytes() | bytearray():
            return base64.b64encode(value).decode("ascii")
    return str(value)  # Decimal, intervals


def _event_time(epoch_ms: int) -> str:
    """Event time in ISO 8601; written as UTC, whether the column has a time zone or not."""
    moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{epoch_ms % 1000:03d}Z"
