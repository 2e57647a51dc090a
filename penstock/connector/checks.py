"""Checks that any connector can use: types of columns, metadata columns, and whether a source can be reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.catalog.errors import DefinitionError, UnsupportedError, did_you_mean
from penstock.catalog.model import types as t
from penstock.catalog.model.table import MetadataColumn, Table
from penstock.connector.capabilities import TableAccess
from penstock.connector.contract import ReadRequest, Source, SourceKind, SplitSource

if TYPE_CHECKING:
    from penstock.connector.source.split import SplitOffsets


def check_record_type(logical: t.LogicalType) -> None:
    """Refuse a type that no record carries, and one that is made of such: intervals. Raises UnsupportedError."""
    match logical:
        case t.ArrayType(element=element) | t.MultisetType(element=element):
            check_record_type(element)
        case t.MapType(key=key, value=value):
            check_record_type(key)
            check_record_type(value)
        case t.RowType(fields=fields):
            for field in fields:
                check_record_type(field.type)
        case t.IntervalYearMonthType() | t.IntervalDaySecondType():
            raise UnsupportedError(
                f"a column of type {logical} cannot be read from records",
                hint="keep it as a STRING or a BIGINT column and convert it in a computed column",
            )


_INTEGERS = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)

_DIGITS = {t.IntType: 10, t.BigIntType: 19}


def check_metadata_column(
    column: MetadataColumn, metadata: Mapping[str, t.LogicalType], *, owner: str, connector: str
) -> None:
    """Check that the connector has this metadata and can give it as the declared type. Raises DefinitionError."""
    key = column.metadata_key
    if key not in metadata:
        raise DefinitionError(
            f"{owner}: column '{column.name}' asks for metadata '{key}', which '{connector}' does not have",
            hint=did_you_mean(key, metadata) or f"it has: {', '.join(metadata)}",
        ).about(column.name)
    offered = metadata[key]
    if castable(offered, column.type):
        return
    raise DefinitionError(
        f"{owner}: metadata column '{column.name}' has type {column.type}, "
        f"but metadata '{key}' is {offered} and is not cast to it",
        hint=f"declare {column.name} {offered}, and convert it in a computed column",
    ).about(column.name)


def castable(offered: t.LogicalType, declared: t.LogicalType) -> bool:
    """Return whether metadata of the type `offered` can be given as `declared`, with Flink's values."""
    match offered, declared:
        case (t.TimestampLtzType(), t.TimestampLtzType() | t.TimestampType() | t.DateType()):
            return True
        case (t.TimestampLtzType(), t.VarCharType() | t.CharType()):
            return True
        case (t.IntType() | t.BigIntType(), t.DecimalType()):
            # Flink makes NULL of what does not fit
            return declared.precision - declared.scale >= _DIGITS[type(offered)]
        case (t.IntType() | t.BigIntType(), t.FloatType() | t.DoubleType() | t.BooleanType()):
            return True
        case (t.IntType() | t.BigIntType(), t.VarCharType() | t.CharType()):
            return True
        case (t.VarCharType(), t.CharType()):
            return True
    if isinstance(offered, t.IntType | t.BigIntType) and isinstance(declared, _INTEGERS):
        return True
    return _holds(offered, declared)


def _holds(offered: t.LogicalType, declared: t.LogicalType) -> bool:
    """Return whether a value inside a map, an array or a row can be given as `declared`."""
    match offered, declared:
        case (t.IntType(), t.IntType() | t.BigIntType() | t.VarCharType()):
            return True
        case (t.BigIntType(), t.BigIntType() | t.VarCharType()):
            return True
        case (t.VarBinaryType(), t.VarCharType()):
            return True
        case (t.MapType(), t.MapType()):
            return _holds(offered.key, declared.key) and _holds(offered.value, declared.value)
        case (t.ArrayType(), t.ArrayType()):
            return _holds(offered.element, declared.element)
        case (t.RowType(), t.RowType()):
            pairs = zip(offered.fields, declared.fields, strict=False)
            same_size = len(offered.fields) == len(declared.fields)
            return same_size and all(_holds(o.type, d.type) for o, d in pairs)
    return type(offered) is type(declared)


def check_written_metadata(table: Table, connector: str) -> None:
    """Refuse metadata columns of a table whose connector has no metadata at all. Raises DefinitionError."""
    for column in table.schema.metadata:
        raise DefinitionError(
            f"table {table.identifier}: column '{column.name}' asks for metadata '{column.metadata_key}', but "
            f"'{connector}' has none",
            hint="make it a physical column, or leave it out",
        ).about(column.name)


def check_nothing(access: TableAccess) -> str:
    """Check a table that has no external system."""
    del access
    return "nothing to look at"


def check_source(source: Source) -> str:
    """Check a source by its splits; one that Spark reads is not asked."""
    if source.kind is not SourceKind.SPLITS:
        return "only Spark reaches it: not checked"
    owners, extents = list_splits(source)
    records = sum(max(extent.end - extent.first, 0) for extent in extents.values())
    names = sorted(set(owners.values()))
    topics = ", ".join(names) if len(names) <= 3 else f"{len(names)} topics"
    return f"{topics}: {counted(len(extents), 'partition')}, {records:,} offsets held"


def list_splits(source: SplitSource) -> tuple[dict[str, str], dict[str, SplitOffsets]]:
    """Return the owner of each split, and the offsets that each holds now."""
    planner = source.open_planner(ReadRequest(columns=()))
    try:
        found = planner.list_splits()
        return dict(found.owners), dict(planner.extents(tuple(found.owners)))
    finally:
        planner.close()


def counted(count: int, noun: str) -> str:
    """Write a number with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
