"""Check the definition of a Delta table: columns, key, partitioning, clustering. No engine, no I/O."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.catalog.errors import DefinitionError, UnsupportedError, did_you_mean
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import quote
from penstock.catalog.model.table import PhysicalColumn, Table

COLUMN_MAPPING = "delta.columnmapping.mode"

# Parquet's rule for names, which Delta keeps unless columns are mapped
_FORBIDDEN = frozenset(" ,;{}()\n\t=")
_NOT_STORED = (t.TimeType, t.IntervalYearMonthType, t.IntervalDaySecondType)
_MOST_CLUSTERING_COLUMNS = 4
_NESTED = (t.ArrayType, t.MapType, t.MultisetType, t.RowType)


def check_definition(table: Table) -> None:
    """Check columns and partitioning. Raises DefinitionError, UnsupportedError."""
    owner = f"table {table.identifier}"
    schema = table.schema
    if not schema.physical:
        raise DefinitionError(
            f"{owner} has no physical column, so a Delta table would hold nothing"
        )
    if schema.metadata:
        raise DefinitionError(
            f"{owner}: a Delta table has no metadata, so column {quote(schema.metadata[0].name)} has no value",
            hint="make it a physical column, or leave it out",
        )
    if schema.watermark is not None:
        raise UnsupportedError(
            f"{owner}: a Delta table has no splits to take a watermark from",
            hint="declare the WATERMARK on the source that the rows come from",
        )
    _check_names(table, owner)
    for column in schema.physical:
        for part in t.parts_of(column.type):
            if isinstance(part, _NOT_STORED):
                raise DefinitionError(
                    f"{owner}: Delta cannot store column {quote(column.name)}: it has no type {part}",
                    hint="store it as a STRING or a BIGINT",
                )
    _check_partitioning(table, owner)
    _check_key(table, owner)


def check_clustering(table: Table, columns: Sequence[str]) -> None:
    """Check the columns that rows are clustered by. Raises DefinitionError."""
    owner = f"table {table.identifier}"
    physical = {column.name: column for column in table.schema.physical}
    if columns and table.partition_keys:
        raise DefinitionError(
            f"{owner} is PARTITIONED BY and has 'clustering.columns', and Delta does one or the other",
            hint="clustering bears many values, and can be changed later",
        )
    if len(columns) > _MOST_CLUSTERING_COLUMNS:
        raise DefinitionError(
            f"{owner} has {len(columns)} clustering columns, and Delta takes {_MOST_CLUSTERING_COLUMNS}"
        )
    for name in columns:
        column = physical.get(name)
        if column is None:
            raise DefinitionError(
                f"{owner}: 'clustering.columns' names {quote(name)}, which is not a physical column",
                hint=did_you_mean(name, physical) or f"physical columns are: {', '.join(physical)}",
            )
        if isinstance(column.type, _NESTED):
            raise DefinitionError(
                f"{owner}: 'clustering.columns' names {quote(name)}, which has type {column.type}",
                hint="files are told apart by plain values",
            )
        if columns.count(name) > 1:
            raise DefinitionError(f"{owner}: 'clustering.columns' names {quote(name)} twice")


def _check_key(table: Table, owner: str) -> None:
    key = table.schema.primary_key
    for name in key.columns if key is not None else ():
        kind = next(column.type for column in table.schema.physical if column.name == name)
        if isinstance(kind, _NESTED):
            raise DefinitionError(
                f"{owner}: PRIMARY KEY column {quote(name)} has type {kind}",
                hint="rows are told apart by plain values",
            )


def _check_names(table: Table, owner: str) -> None:
    if any(key.lower() == COLUMN_MAPPING for key in table.option_map):
        return
    for column in table.schema.physical:
        fields = (part.fields for part in t.parts_of(column.type) if isinstance(part, t.RowType))
        for name in (column.name, *(field.name for row in fields for field in row)):
            if _FORBIDDEN & set(name):
                raise DefinitionError(
                    f"{owner}: Delta cannot name a column {quote(name)}: blanks and the characters ,;{{}}()= are "
                    "not allowed",
                    hint="choose another name, or set 'delta.columnMapping.mode' = 'name'",
                )


def _check_partitioning(table: Table, owner: str) -> None:
    physical = {column.name: column for column in table.schema.physical}
    for name in table.partition_keys:
        column = physical.get(name)
        if not isinstance(column, PhysicalColumn):
            raise DefinitionError(
                f"{owner} is PARTITIONED BY {quote(name)}, which is not a physical column"
            )
        if isinstance(column.type, _NESTED):
            raise DefinitionError(
                f"{owner} is PARTITIONED BY {quote(name)}, which has type {column.type}",
                hint="partitions are named by plain values",
            )
    if len(table.partition_keys) == len(physical):
        raise DefinitionError(
            f"{owner} is PARTITIONED BY all of its columns", hint="leave one to be stored in files"
        )
