"""The result of each statement of a file, under its kind and object: what the closing summary and JSON show."""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.catalog.errors import PenstockError
from penstock.catalog.model.identifier import quote, short_name
from penstock.catalog.model.namespaces import DEFAULT_CATALOG
from penstock.sql.errors.render import position_text
from penstock.sql.jobs.progress import JobProgress
from penstock.sql.observation.batch_metrics import LateSplit, TimelessSplit
from penstock.sql.observation.pipeline import JobStatus
from penstock.sql.statements.definitions import (
    AlterCatalog,
    AlterDatabase,
    AlterFunction,
    AlterSecret,
    AlterTable,
    AlterView,
    CallProcedure,
    ChangeMaterializedTable,
    CreateCatalog,
    CreateDatabase,
    CreateFunction,
    CreateMaterializedTable,
    CreateSecret,
    DropCatalog,
    DropDatabase,
    DropFunction,
    DropMaterializedTable,
    DropSecret,
    ShowCreateCatalog,
)
from penstock.sql.statements.dml import DeleteRows, InsertInto, TruncateTable, UpdateRows
from penstock.sql.statements.show import AddJar, DescribeJob, ShowList, StopJob
from penstock.sql.statements.statement import (
    CreateTable,
    CreateTableAs,
    CreateView,
    Describe,
    DropTable,
    DropView,
    Explain,
    ReplaceTableAs,
    ResetOption,
    SetOption,
    ShowCreate,
    Statement,
    StatementSet,
    Use,
)

if TYPE_CHECKING:
    from penstock.sql.jobs.job import Job
    from penstock.sql.jobs.startable_query import StartableQuery


def kind_of(statement: Statement) -> str:
    """Name a statement's kind; by default, the words of its class."""
    match statement:
        case InsertInto(overwrite=False):
            return "INSERT"
        case InsertInto(overwrite=True):
            return "INSERT OVERWRITE"
        case SetOption():
            return "SET"
        case ResetOption():
            return "RESET"
        case ShowList():
            return "SHOW"
        case ChangeMaterializedTable():
            return "ALTER MATERIALIZED TABLE"
        case UpdateRows():
            return "UPDATE"
        case DeleteRows():
            return "DELETE"
        case CallProcedure():
            return "CALL"
    return re.sub(r"(?<!^)(?=[A-Z])", " ", type(statement).__name__).upper()


def subject_of(statement: Statement) -> str | None:
    """Name the table, view or key that a statement is about."""
    match statement:
        case CreateTable():
            return short_name(statement.table.identifier)
        case CreateView():
            return short_name(statement.view.identifier)
        case InsertInto():
            return short_name(statement.target)
        case StatementSet():
            return ", ".join(short_name(insert.target) for insert in statement.inserts)
        case Explain():
            return (
                f"{kind_of(statement.statement)} {subject_of(statement.statement) or ''}".rstrip()
            )
        case DropTable() | DropView() | ShowCreate() | Describe():
            return short_name(statement.identifier)
        case SetOption() | ResetOption():
            return statement.key
    return _other_subject(statement)


def _other_subject(statement: Statement) -> str | None:
    match statement:
        case CreateFunction(function=function) | AlterFunction(function=function):
            return function.name
        case DropFunction():
            return statement.identifier.name
        case CreateSecret(name=name) | AlterSecret(name=name) | DropSecret(name=name):
            return name
        case CreateMaterializedTable(table=table) | ChangeMaterializedTable(table=table):
            return short_name(table.identifier)
        case DropMaterializedTable():
            return short_name(statement.identifier)
        case UpdateRows(table=table) | DeleteRows(table=table) | TruncateTable(table=table):
            return short_name(table)
        case CallProcedure():
            return statement.name
        case ShowList():
            return statement.what.value
        case AddJar():
            return statement.path
        case StopJob() | DescribeJob():
            return statement.job
    return _defined_subject(statement)


def _defined_subject(statement: Statement) -> str | None:
    match statement:
        case CreateTableAs(create=create) | ReplaceTableAs(create=create):
            return short_name(create.table.identifier)
        case AlterTable(identifier=identifier):
            return short_name(identifier)
        case AlterView(before=view):
            return short_name(view.identifier)
        case CreateDatabase(database=database) | AlterDatabase(before=database):
            return _database(database.catalog, database.name)
        case DropDatabase(catalog=catalog, name=name):
            return _database(catalog, name)
        case CreateCatalog(catalog=described) | AlterCatalog(before=described):
            return described.name
        case DropCatalog(name=name) | ShowCreateCatalog(name=name):
            return name
        case Use(parts=parts):
            return ".".join(quote(part) for part in parts)
    return None


def _database(catalog: str, name: str) -> str:
    return quote(name) if catalog == DEFAULT_CATALOG else f"{quote(catalog)}.{quote(name)}"


S = TypeVar("S")


class StatementStatus(StrEnum):
    """How a statement ended. `skipped`: the file was stopped, or failed, before its turn."""

    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRows:
    """The rows of a SELECT, SHOW or DESCRIBE. `truncated`: there were more rows than are kept."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    truncated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkResult:
    """The counts of one sink of a statement set; `batches` is None where all sinks share the query."""

    sink: str
    rows_out: int
    batches: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementResult:
    """The result of one statement; counts are None where the statement has none.

    `subject` names what the statement is about. `error` is one line of text; beside it are `code`, its kind
    (docs/errors.md), `position` in the file (file:line:column) where it has one, and `hint`, the remedy. `seconds` is
    wall-clock time, `watermark_ms` is event time in epoch ms, `timeless` and `late_splits` are those of the progress.
    `sinks` are those of a statement set. `failure` is the error itself, for other renderings.
    """

    kind: str
    subject: str | None = None
    sink: str | None = None
    rows_in: int | None = None
    rows_out: int | None = None
    rows_dropped: int | None = None
    bad_records: int | None = None
    records_lost: int | None = None
    watermark_ms: int | None = None
    timeless: tuple[TimelessSplit, ...] = ()
    late_splits: tuple[LateSplit, ...] = ()
    batches: int | None = None
    seconds: float = 0.0
    status: StatementStatus = StatementStatus.FINISHED
    error: str | None = None
    code: str | None = None
    position: str | None = None
    hint: str | None = None
    rows: ResultRows | None = None
    sinks: tuple[SinkResult, ...] = ()
    failure: PenstockError | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain values; a query's rows are added under `rows`, the sinks of a
        set under `sinks`.
        """
        value: dict[str, Any] = {
            "kind": self.kind,
            "sink": self.sink,
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "rows_dropped": self.rows_dropped,
            "bad_records": self.bad_records,
            "records_lost": self.records_lost,
            "watermark": None if self.watermark_ms is None else _event_time(self.watermark_ms),
            "batches": self.batches,
            "seconds": round(self.seconds, 3),
            "status": self.status.value,
            "error": self.error,
            "code": self.code,
            "place": self.position,
            "hint": self.hint,
        }
        if self.sinks:
            value["sinks"] = [{"sink": s.sink, "rows_out": s.rows_out} for s in self.sinks]
        if self.rows is not None:
            names = self.rows.columns
            value["rows"] = [
                dict(zip(names, map(plain, row), strict=True)) for row in self.rows.rows
            ]
        return value


def document(results: tuple[StatementResult, ...]) -> dict[str, Any]:
    """Return the JSON document of a run."""
    return {"statements": [result.to_json() for result in results]}


def with_error(
    result: StatementResult, error: PenstockError, *, prefix: str = ""
) -> StatementResult:
    """Add the texts of an error, its message behind `prefix`."""
    return replace(
        result,
        error=prefix + error.message,
        code=error.code,
        position=position_text(error.span) if error.span else None,
        hint=error.hint,
        failure=error,
    )


def with_jobs(
    result: StatementResult, queries: Sequence[StartableQuery], jobs: Sequence[Job]
) -> StatementResult:
    """Add the results of the statement's ended jobs: sums, and the first failure by the name of its sink."""
    progress = [job.progress for job in jobs]
    watermarks = [each.watermark_ms for each in progress]
    known = [watermark for watermark in watermarks if watermark is not None]
    failed = next((job for job in jobs if job.exception is not None), None)
    error = None if failed is None else failed.exception
    prefix = f"sink {failed.progress.sink}: " if failed is not None and len(jobs) > 1 else ""
    noted = result if error is None else with_error(result, error, prefix=prefix)
    return replace(
        noted,
        rows_in=sum(each.rows_in for each in progress),
        rows_out=sum(each.rows_out for each in progress),
        rows_dropped=sum(each.rows_dropped for each in progress),
        bad_records=sum(each.bad_records for each in progress),
        records_lost=sum(each.records_lost for each in progress),
        watermark_ms=min(known) if known and len(known) == len(watermarks) else None,
        timeless=_distinct(split for each in progress for split in each.timeless),
        late_splits=_distinct(split for each in progress for split in each.late_splits),
        batches=sum(each.batches for each in progress),
        seconds=max(each.seconds for each in progress),
        status=_status([each.status for each in progress]),
        sinks=tuple(_sinks(queries, progress)),
    )


def _distinct(splits: Iterable[S]) -> tuple[S, ...]:
    """Remove duplicates of one split from several queries."""
    return tuple(dict.fromkeys(splits))


def with_refreshes(result: StatementResult, job: Job, *, stopped: bool) -> StatementResult:
    """Add the results of a table's ended refreshes; `stopped`: at the user's request."""
    progress, error = job.progress, job.exception
    ended = StatementStatus.STOPPED if stopped else StatementStatus.FINISHED
    status = ended if error is None else StatementStatus.FAILED
    noted = result if error is None else with_error(result, error)
    return replace(noted, batches=progress.batches, seconds=progress.seconds, status=status)


def _status(ended: Sequence[JobStatus]) -> StatementStatus:
    if JobStatus.FAILED in ended:
        return StatementStatus.FAILED
    return StatementStatus.STOPPED if JobStatus.STOPPED in ended else StatementStatus.FINISHED


def _sinks(
    queries: Sequence[StartableQuery], progress: Sequence[JobProgress]
) -> Iterator[SinkResult]:
    """Return the labels of the sinks of a statement set; none for a plain INSERT."""
    for query, each in zip(queries, progress, strict=True):
        if query.rows_by_sink is not None:
            for sink, rows in query.rows_by_sink.items():
                yield SinkResult(sink=sink, rows_out=rows)
        elif len(queries) > 1:
            yield SinkResult(sink=each.sink, rows_out=each.rows_out, batches=each.batches)


def plain(value: Any) -> Any:
    """Convert a value of a Spark row to JSON: exact numbers and times as text, bytes as base64."""
    match value:
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            fields = getattr(value, "__fields__", None)  # a pyspark Row is a tuple with names
            if fields is not None:
                return {name: plain(item) for name, item in zip(fields, value, strict=True)}
            return [plain(item) for item in value]
    return _plain_scalar(value)


def time_text(value: datetime) -> str:
    """Write a timestamp for people, as Flink does: a blank before the time of day, milliseconds where there are any."""
    exact = value.microsecond % 1000 == 0 and value.microsecond > 0
    return value.isoformat(" ", "milliseconds" if exact else "auto")


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
