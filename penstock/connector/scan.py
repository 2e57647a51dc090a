"""The scan of one table by one query, with its rowtime expression, as a value that travels to Spark's tasks."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.catalog.errors import DefinitionError
from penstock.catalog.model.codec import table_from_json, table_to_json
from penstock.catalog.model.table import Table
from penstock.catalog.model.types import LogicalType, TinyIntType
from penstock.connector.changelog import ROW_KIND
from penstock.connector.contract import SourceKind, SplitSource
from penstock.connector.expression import (
    BucketedRows,
    Expression,
    PartialAggregate,
    Unnesting,
    aggregate_from_json,
    aggregate_to_json,
    bucketed_from_json,
    bucketed_to_json,
    expression_from_json,
    expression_to_json,
    unnesting_from_json,
    unnesting_to_json,
)
from penstock.connector.file_output import TaskOutput, output_from_json, output_to_json
from penstock.connector.registry import connector_of
from penstock.connector.storage import BY_ITSELF, StorageAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class Delayed:
    """A delivered column of times less `delay_us` microseconds.

    `unit_us` is set where the column counts since the epoch in whole numbers: the microseconds of one of its units.
    """

    column: str
    delay_us: int
    unit_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedValue:
    """A time that reading tasks choose among those of delivered columns and fields, less `delay_us` microseconds."""

    time: Expression
    delay_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rowtime:
    """How a record's watermark is computed.

    `column` is the rowtime's name. `expression` is DuckDB SQL over `inputs`, which are columns that the source
    delivers; it gives a TIMESTAMP, or a TIMESTAMPTZ when `instant`. `delayed` says the same where it is as plain as
    that, so that it can be had without a query. `bound_us` is the bounded disorder, how far a watermark is behind its
    row's time, in microseconds; None where the expression does not say. `of_clock`: it asks the clock of the machine
    that computes it, so that planning alone can tell it.
    """

    column: str
    inputs: tuple[str, ...]
    expression: str
    instant: bool
    delayed: Delayed | DelayedValue | None = None
    bound_us: int | None = None
    of_clock: bool = False


ARRIVED = "__arrived"
"""Name of the hidden column, a STRUCT; there where a query asks which of two rows came first."""

ARRIVED_FIELDS = ("batch", "input", "split", "position")
"""Its fields, the first to compare first.

`batch` is the id of the micro-batch, 0 where rows are read once; `input` the place of the table among those of the
query; `split` that of the range in the batch, of one split those that several tasks read have several; `position`
grows with the rows of a range, of which a record may have more than one.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A scan among the scans of one query that share an alignment group.

    `directory` is where they tell each other their potentials, one for each start of the query. `name` is this
    scan's there; `others` are the other scans: (name, table) of each.
    """

    directory: str
    name: str
    others: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The columns that a query needs of a table, and how event time is found in a raw record.

    `columns` are names of physical and metadata columns, in table order, and ROW_KIND where the kinds of changes are
    wanted. `rowtime` is set when the query has
    an operator that waits for the watermark: only then do peeks and the watermark columns happen.
    `default_limit` is the read limit of a batch where the table sets none and the run has no end, in records.
    `member` is set when the query reads other tables of the table's alignment group. `staging` is a folder in the
    checkpoint of a streaming query, a Hadoop URL or a path, where tasks leave what they know of bad records;
    `event_times` is another, where they leave what they know of event times,
    and `seen_files` a third, where planning keeps which files it has seen.
    `outage_file` is a local file of a streaming query, where its planning says what it waits for. `input` is the place
    of the table among those of the query, set where the query asks for the order in which rows came (ARRIVED).
    `output` is set where tasks write the rows into the target, and tell Spark only what they wrote. `condition` is
    set where tasks leave out the rows for which it is not TRUE; Spark may do so again. `aggregate` is set where tasks
    group these rows, and give Spark the groups only. `unnesting` is set where rows of arrays are what they write or
    group. `buckets` is set where tasks give Spark rows for keyed operators, encoded by bucket. `split_by_split`: a task
    gives the rows of its splits one split after the other, as a query counts them in the order in which they come.
    `access` is how planning and tasks open the stores of these folders, and of dead letters.
    """

    table: Table
    columns: tuple[str, ...]
    rowtime: Rowtime | None
    time_zone: str
    project: str
    default_limit: int | None = None
    member: GroupMember | None = None
    staging: str | None = None
    outage_file: str | None = None
    event_times: str | None = None
    seen_files: str | None = None
    input: int | None = None
    output: TaskOutput | None = None
    condition: Expression | None = None
    aggregate: PartialAggregate | None = None
    unnesting: Unnesting | None = None
    buckets: BucketedRows | None = None
    split_by_split: bool = False
    access: StorageAccess = BY_ITSELF

    def open_source(self) -> SplitSource:
        """Make the table's split source. Raises DefinitionError if the engine reads this table by itself."""
        source = connector_of(self.table, project=Path(self.project)).source(self.table)
        if source.kind is not SourceKind.SPLITS:
            raise DefinitionError(
                f"table {self.table.identifier} is read by the engine, not by splits"
            )
        return source

    def typed_columns(self) -> tuple[tuple[str, LogicalType], ...]:
        """Return name and type of each column that the rows have: those delivered, of groups, or of buckets."""
        if self.buckets is not None:
            return tuple(self.buckets.typed_columns())
        if self.aggregate is not None:
            return tuple(self.aggregate.typed_columns())
        typed: list[tuple[str, LogicalType]] = []
        for name in self.columns:
            if name == ROW_KIND:
                typed.append((name, TinyIntType(nullable=False)))
                continue
            column_type = self.table.schema.column(name).type
            assert column_type is not None, f"{name} is a computed column, no source delivers it"
            typed.append((name, column_type))
        return tuple(typed)


def write_scan(scan: Scan, path: Path) -> None:
    """Write a scan for the engine's processes on this machine: readable by this user only, as it may hold secrets."""
    value = {
        "table": table_to_json(scan.table),
        "columns": list(scan.columns),
        "rowtime": None if scan.rowtime is None else _rowtime_to_json(scan.rowtime),
        "time_zone": scan.time_zone,
        "project": scan.project,
        "default_limit": scan.default_limit,
        "member": None if scan.member is None else _member_to_json(scan.member),
        "staging": scan.staging,
        "outage_file": scan.outage_file,
        "event_times": scan.event_times,
        "seen_files": scan.seen_files,
        "input": scan.input,
        "output": None if scan.output is None else output_to_json(scan.output),
        "condition": None if scan.condition is None else expression_to_json(scan.condition),
        "aggregate": None if scan.aggregate is None else aggregate_to_json(scan.aggregate),
        "unnesting": None if scan.unnesting is None else unnesting_to_json(scan.unnesting),
        "buckets": None if scan.buckets is None else bucketed_to_json(scan.buckets),
        "split_by_split": scan.split_by_split,
        "access": scan.access.to_json(),
    }
    path.touch(mode=0o600)
    path.write_text(json.dumps(value), encoding="utf-8")


def read_scan(path: Path) -> Scan:
    """Read what `write_scan` wrote."""
    value = json.loads(path.read_text(encoding="utf-8"))
    table = table_from_json(value["table"])
    assert isinstance(table, Table), "a scan is of a table"
    rowtime, member, condition = value["rowtime"], value["member"], value["condition"]
    aggregate, unnesting, buckets = value["aggregate"], value["unnesting"], value["buckets"]
    return Scan(
        table=table,
        columns=tuple(value["columns"]),
        rowtime=None if rowtime is None else _rowtime_from_json(rowtime),
        time_zone=value["time_zone"],
        project=value["project"],
        default_limit=value["default_limit"],
        member=None if member is None else _member_from_json(member),
        staging=value["staging"],
        outage_file=value["outage_file"],
        event_times=value["event_times"],
        seen_files=value["seen_files"],
        input=value["input"],
        output=None if value["output"] is None else output_from_json(value["output"]),
        condition=None if condition is None else expression_from_json(condition),
        aggregate=None if aggregate is None else aggregate_from_json(aggregate),
        unnesting=None if unnesting is None else unnesting_from_json(unnesting),
        buckets=None if buckets is None else bucketed_from_json(buckets),
        split_by_split=value["split_by_split"],
        access=StorageAccess.from_json(value["access"]),
    )


def _member_to_json(member: GroupMember) -> dict[str, Any]:
    return {
        "directory": member.directory,
        "name": member.name,
        "others": dict(member.others),
    }


def _member_from_json(value: dict[str, Any]) -> GroupMember:
    return GroupMember(
        directory=value["directory"], name=value["name"], others=tuple(value["others"].items())
    )


def _rowtime_to_json(rowtime: Rowtime) -> dict[str, Any]:
    return {
        "column": rowtime.column,
        "inputs": list(rowtime.inputs),
        "expression": rowtime.expression,
        "instant": rowtime.instant,
        "bound_us": rowtime.bound_us,
        "of_clock": rowtime.of_clock,
        "delayed": _delayed_to_json(rowtime.delayed),
    }


def _rowtime_from_json(value: dict[str, Any]) -> Rowtime:
    return Rowtime(
        column=value["column"],
        inputs=tuple(value["inputs"]),
        expression=value["expression"],
        instant=value["instant"],
        bound_us=value["bound_us"],
        of_clock=value["of_clock"],
        delayed=_delayed_from_json(value["delayed"]),
    )


def _delayed_to_json(delayed: Delayed | DelayedValue | None) -> dict[str, Any] | None:
    if isinstance(delayed, DelayedValue):
        return {"time": expression_to_json(delayed.time), "delay_us": delayed.delay_us}
    return None if delayed is None else asdict(delayed)


def _delayed_from_json(value: dict[str, Any] | None) -> Delayed | DelayedValue | None:
    if value is None:
        return None
    if "time" in value:
        time = expression_from_json(value["time"])
        return DelayedValue(time=time, delay_us=value["delay_us"])
    return Delayed(**value)
