"""Filter the answers to metadata calls: rows about the schema of global temporary views are removed.

Spark adds them for every pattern of schemas that fits, whatever the client asks for. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.sql.serve.thrift_codec import ThriftType, Value

GLOBAL_VIEWS = "global_temp"
"""The schema of Spark's global temporary views: Penstock's own are among them."""

SCHEMA_COLUMNS: Mapping[str, int] = {"GetSchemas": 0, "GetTables": 1, "GetColumns": 1}
"""Calls whose rows are of schemas, and the column that names the schema."""

# field numbers of TRowSet, TRow, of the values in a column (whatever their type) and in a cell
ROWS, COLUMNS = 2, 3
CELLS = 1
VALUES, NULLS = 1, 2
CELL_TEXT = 1


def without_views(row_set: Value, schema: int) -> Value:
    """Leave out the rows that have the global views' schema in the column `schema`."""
    fields = dict(row_set.value)
    if COLUMNS in fields:
        columns = fields[COLUMNS].value
        keep = [number for number, name in enumerate(_texts(columns, schema)) if _is_public(name)]
        trimmed = tuple(_column(column, keep) for column in columns)
        fields[COLUMNS] = replace(fields[COLUMNS], value=trimmed)
    if ROWS in fields:  # protocols before columns
        rows = tuple(row for row in fields[ROWS].value if _is_public(_cell(row, schema)))
        fields[ROWS] = replace(fields[ROWS], value=rows)
    return replace(row_set, value=fields)


def _texts(columns: Sequence[Value], schema: int) -> Sequence[bytes]:
    if schema >= len(columns):
        return ()
    (column,) = columns[schema].value.values()
    return [each.value for each in column.value[VALUES].value]


def _cell(row: Value, schema: int) -> bytes:
    cells = row.value[CELLS].value
    if schema >= len(cells):
        return b""
    (cell,) = cells[schema].value.values()
    text = cell.value.get(CELL_TEXT)
    return text.value if text is not None else b""


def _is_public(schema: bytes) -> bool:
    return schema.lower() != GLOBAL_VIEWS.encode()


def _column(column: Value, keep: Sequence[int]) -> Value:
    """Select the rows `keep` of a column: a union of lists with a bit for each value that is NULL."""
    ((kind, typed),) = column.value.items()
    fields = dict(typed.value)
    values, nulls = fields[VALUES].value, fields[NULLS].value
    fields[VALUES] = replace(fields[VALUES], value=tuple(values[number] for number in keep))
    bits = bytearray((len(keep) + 7) // 8)
    for index, number in enumerate(keep):
        if number // 8 < len(nulls) and nulls[number // 8] >> number % 8 & 1:
            bits[index // 8] |= 1 << index % 8
    fields[NULLS] = Value(kind=ThriftType.STRING, value=bytes(bits))
    return replace(column, value={kind: replace(typed, value=fields)})
