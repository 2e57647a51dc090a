"""What a task needs to write the files or the records of a table, as a value that travels with the scan; or why Spark
writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, assert_never

from penstock.catalog.model import types as t
from penstock.catalog.model.codec import table_from_json, table_to_json
from penstock.catalog.model.identifier import quote
from penstock.catalog.model.table import Table
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.expression import (
    Expression,
    expression_from_json,
    expression_to_json,
)

if TYPE_CHECKING:
    import pyarrow as pa

_MICROS = 6
PARTITIONED_BY = (
    t.BooleanType,
    t.TinyIntType,
    t.SmallIntType,
    t.IntType,
    t.BigIntType,
    t.DecimalType,
    t.VarCharType,
    t.DateType,
    t.TimestampType,
    t.TimestampLtzType,
)
"""Types of partition columns, as stored, whose values have one text each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledColumn:
    """A column of the target, and what fills it, over the columns of the table read."""

    name: str
    source: Expression

    @property
    def type(self) -> t.LogicalType:
        """The type of what fills it."""
        return self.source.type


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumn:
    """A column of the files. `source` fills it, over the columns that are read; None: all its values are NULL.

    `required`: a NULL fails the task. `statistics`: its smallest and largest value and its NULLs are told.
    """

    name: str
    type: t.LogicalType
    source: Expression | None
    required: bool = False
    statistics: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOutput:
    """The files of a table: a folder of this machine, the columns in the table's order, Parquet's compression.

    `partitions` names the columns whose values have a folder each, and are in no file. `shown` names the table in
    messages. A file of `max_rows_per_file` rows is complete; None: there is no limit.
    """

    folder: str
    shown: str
    columns: tuple[FileColumn, ...]
    partitions: tuple[str, ...] = ()
    compression: str = "snappy"
    max_rows_per_file: int | None = None

    @property
    def filled(self) -> tuple[FilledColumn, ...]:
        """The columns that the query fills."""
        return _filled(self.columns)

    @property
    def in_files(self) -> tuple[FileColumn, ...]:
        """The columns that files have."""
        return tuple(column for column in self.columns if column.name not in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOutput:
    """The records of `table`, which its sink makes of rows and sends in tasks (`TaskWriter.open`).

    With `tasks` so many tasks read, each of them whole splits; None: as the source is read without an output.
    """

    table: Table = field(repr=False)
    columns: tuple[FileColumn, ...]
    tasks: int | None = None

    @property
    def filled(self) -> tuple[FilledColumn, ...]:
        """The columns that the query fills."""
        return _filled(self.columns)


TaskOutput: TypeAlias = FileOutput | RecordOutput
"""What tasks write in place of rows for Spark."""


def _filled(columns: tuple[FileColumn, ...]) -> tuple[FilledColumn, ...]:
    return tuple(
        FilledColumn(name=column.name, source=column.source)
        for column in columns
        if column.source is not None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenByEngine:
    """Spark writes the table; `reason` completes "as"."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A whole file that no commit names yet. `statistics` are JSON, in the form of `file_statistics.py`.

    `partition`: the value of each of the output's partition columns, as a text of Delta's protocol; None is NULL.
    """

    path: str
    size_bytes: int
    rows: int
    statistics: str
    partition: tuple[str | None, ...] = ()


class TaskRecords(Protocol):
    """What a reading task writes into a target itself: opened by `TaskWriter.open`, used by one thread."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows, of columns as they are read. Raises SinkError."""

    def finish(self) -> str:
        """Complete what was written, so that it lasts, and return the name that the driver knows it by."""

    def close(self) -> None:
        """Drop what is not complete."""


def stored_type(logical: t.LogicalType) -> t.LogicalType:
    """Return the type that files have for one: without lengths, in microseconds, NULL allowed everywhere."""
    match logical:
        case t.CharType() | t.VarCharType():
            return t.VarCharType(length=t.MAX_LENGTH)
        case t.BinaryType() | t.VarBinaryType():
            return t.VarBinaryType(length=t.MAX_LENGTH)
        case t.TimestampType():
            return t.TimestampType(precision=_MICROS)
        case t.TimestampLtzType():
            return t.TimestampLtzType(precision=_MICROS)
        case t.DecimalType():
            return t.DecimalType(precision=logical.precision, scale=logical.scale)
        case t.ArrayType():
            return t.ArrayType(element=stored_type(logical.element))
        case t.MapType():
            return t.MapType(key=stored_type(logical.key), value=stored_type(logical.value))
        case t.MultisetType():
            return t.MapType(key=stored_type(logical.element), value=t.IntType())
        case t.RowType():
            fields = (t.RowField(name=f.name, type=stored_type(f.type)) for f in logical.fields)
            return t.RowType(fields=tuple(fields))
        case t.TimeType():
            return t.TimeType(precision=logical.precision)
        case (
            t.BooleanType()
            | t.TinyIntType()
            | t.SmallIntType()
            | t.IntType()
            | t.BigIntType()
            | t.FloatType()
            | t.DoubleType()
            | t.DateType()
            | t.IntervalYearMonthType()
            | t.IntervalDaySecondType()
        ):
            return type(logical)()
        case _:
            assert_never(logical)


def cast_reason(name: str, given: t.LogicalType, wanted: t.LogicalType) -> str | None:
    """Say that what is `given` to a column has to be cast to its type, which tasks do not do; None where it has not."""
    if stored_type(given) == stored_type(wanted):
        return None
    return f"column {quote(name)} is cast from {given} to {wanted}"


def strict_inside(kind: t.LogicalType) -> str | None:
    """Tell that something inside of a type is NOT NULL, beside the keys of maps."""
    parts: tuple[t.LogicalType, ...]
    match kind:
        case t.ArrayType(element=element):
            parts = (element,)
        case t.MapType(key=key, value=value):
            return strict_inside(key) or strict_inside(value) or strict_part((value,))
        case t.RowType(fields=fields):
            parts = tuple(field.type for field in fields)
        case _:
            return None
    return strict_part(parts) or next(filter(None, map(strict_inside, parts)), None)


def strict_part(parts: Sequence[t.LogicalType]) -> str | None:
    """Tell that one of the parts of a type is NOT NULL."""
    return None if all(part.nullable for part in parts) else "a part of it is NOT NULL"


def output_to_json(output: TaskOutput) -> dict[str, Any]:
    """Write an output as JSON values; `output_from_json` is the inverse."""
    columns = [
        {
            "name": column.name,
            "type": str(column.type),
            "source": None if column.source is None else expression_to_json(column.source),
            "required": column.required,
            "statistics": column.statistics,
        }
        for column in output.columns
    ]
    match output:
        case FileOutput():
            return {
                "folder": output.folder,
                "shown": output.shown,
                "partitions": list(output.partitions),
                "compression": output.compression,
                "max_rows_per_file": output.max_rows_per_file,
                "columns": columns,
            }
        case RecordOutput():
            return {
                "table": table_to_json(output.table),
                "tasks": output.tasks,
                "columns": columns,
            }
        case _:
            assert_never(output)


def output_from_json(value: Mapping[str, Any]) -> TaskOutput:
    """Read what `output_to_json` wrote."""
    if "table" in value:
        table = table_from_json(value["table"])
        assert isinstance(table, Table), "no view is written"
        columns = tuple(map(_column_from_json, value["columns"]))
        return RecordOutput(table=table, columns=columns, tasks=value["tasks"])
    return FileOutput(
        folder=value["folder"],
        shown=value["shown"],
        partitions=tuple(value["partitions"]),
        compression=value["compression"],
        max_rows_per_file=value["max_rows_per_file"],
        columns=tuple(map(_column_from_json, value["columns"])),
    )


def _column_from_json(value: Mapping[str, Any]) -> FileColumn:
    source = value["source"]
    return FileColumn(
        name=value["name"],
        type=parse_type(value["type"]),
        source=None if source is None else expression_from_json(source),
        required=value["required"],
        statistics=value["statistics"],
    )
