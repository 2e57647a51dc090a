"""Partition columns: their values stand in the names of folders, as in `day=2026-01-31/hour=7` (PartitionPathUtils)."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.catalog.errors import BadRecordError, DefinitionError
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import quote
from penstock.catalog.model.table import PhysicalColumn, Table
from penstock.connector.arrow.types import arrow_type

__all__ = ["Partitioning", "partitioning_of"]

_TYPES = (
    t.CharType,
    t.VarCharType,
    t.BooleanType,
    t.TinyIntType,
    t.SmallIntType,
    t.IntType,
    t.BigIntType,
    t.FloatType,
    t.DoubleType,
    t.DateType,
    t.TimestampType,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """The columns whose values are in the path, and what stands there for NULL. No columns: not partitioned."""

    columns: tuple[PhysicalColumn, ...]
    default_name: str

    def holds(self, name: str) -> bool:
        """Return whether a file, by its name inside the table's folder, is in a partition.

        Files above the partitions' folders are in none, and are not read, as in Flink. Raises BadRecordError for
        a folder that names no partition.
        """
        folders = name.split("/")[:-1]
        if len(folders) < len(self.columns):
            return False
        self.texts(name)
        return True

    def texts(self, name: str) -> dict[str, str]:
        """Return the values in a file's name as text, by column. Raises BadRecordError."""
        folders = name.split("/")[:-1][: len(self.columns)]
        pairs = [folder.partition("=") for folder in folders]
        found = {_unescaped(key): _unescaped(value) for key, _, value in pairs}
        if set(found) != {column.name for column in self.columns} or "" in found.values():
            expected = "/".join(f"{column.name}=..." for column in self.columns)
            raise BadRecordError(
                f"file {name} is not in a partition: the table's files are in {expected}/",
                hint="correct the folder's name, or leave the file out with 'source.path.regex-pattern'",
            )
        return found

    def value(self, column: PhysicalColumn, name: str) -> pa.Scalar:
        """Return the value of a partition column for the rows of a file. Raises BadRecordError."""
        text = self.texts(name)[column.name]
        target = arrow_type(column.type)
        if text == self.default_name:
            if not column.type.nullable:
                raise BadRecordError(
                    f"file {name}: partition column {quote(column.name)} is {column.type}, and the folder says NULL",
                    hint="declare the column without NOT NULL",
                )
            return pa.scalar(None, target)
        try:
            return pa.scalar(text, pa.string()).cast(target)
        except pa.ArrowInvalid:
            raise BadRecordError(
                f"file {name}: '{text}' is no value of partition column {quote(column.name)} {column.type}",
                hint="correct the folder's name, or declare the column as STRING",
            ) from None


def partitioning_of(table: Table, default_name: str) -> Partitioning:
    """Find a table's partition columns. Raises DefinitionError for one that a path cannot fill."""
    owner = f"table {table.identifier}"
    physical = {column.name: column for column in table.schema.physical}
    for name in table.partition_keys:
        column = physical.get(name)
        if column is None:
            raise DefinitionError(
                f"{owner} is PARTITIONED BY {quote(name)}, which is not a physical column"
            )
        if not isinstance(column.type, _TYPES):
            raise DefinitionError(
                f"{owner} is PARTITIONED BY {quote(name)}, which has type {column.type}",
                hint="names of folders give texts, whole and floating numbers, BOOLEAN, DATE and TIMESTAMP",
            )
    columns = tuple(physical[name] for name in table.partition_keys)
    return Partitioning(columns=columns, default_name=default_name)


def _unescaped(text: str) -> str:
    """Read %XX as one character, as Flink writes it: of ASCII only, the rest is never escaped."""
    head, *parts = text.split("%")
    return head + "".join(_character(part) for part in parts)


def _character(part: str) -> str:
    digits = part[:2]
    if len(digits) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in digits):
        return chr(int(digits, 16)) + part[2:]
    return f"%{part}"
