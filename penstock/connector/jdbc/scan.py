"""Reading a table of a database: the SQL of its partitions, their rows as Arrow batches. Runs in tasks, without Spark.

PostgreSQL returns CSV (COPY), which Arrow reads in pieces; SQLite returns tuples, which are converted to columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from sqlalchemy import Connection, Dialect

from penstock.catalog.errors import BadRecordError
from penstock.catalog.model import types as t
from penstock.catalog.model.table import PhysicalColumn
from penstock.connector.arrow import arrow_type
from penstock.connector.jdbc.address import Backend
from penstock.connector.jdbc.settings import Partition

PIECE_BYTES = 4 << 20
"""How much CSV is read together."""

_WHOLE = (t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType)
_BYTES = (t.BinaryType, t.VarBinaryType)
_POSTGRESQL: dict[type[t.LogicalType], str] = {
    t.BooleanType: "boolean",
    t.TinyIntType: "smallint",
    t.SmallIntType: "smallint",
    t.IntType: "integer",
    t.BigIntType: "bigint",
    t.FloatType: "real",
    t.DoubleType: "double precision",
    t.CharType: "text",
    t.VarCharType: "text",
    t.DateType: "date",
    t.TimeType: "time",
    t.TimestampType: "timestamp",
    t.TimestampLtzType: "timestamptz",
}


def select_text(
    columns: Sequence[PhysicalColumn],
    name: str,
    database_schema: str | None,
    partition: Partition | None,
    *,
    backend: Backend,
    dialect: Dialect,
) -> str:
    """Return the SELECT of a partition (None: of all rows), each column as `read_batches` wants it."""
    quoted = dialect.identifier_preparer
    items = ", ".join(select_item(column, quoted.quote(column.name), backend) for column in columns)
    prefix = f"{quoted.quote(database_schema)}." if database_schema else ""
    text = f"SELECT {items} FROM {prefix}{quoted.quote(name)}"  # noqa: S608  names are quoted
    if partition is None:
        return text
    by = quoted.quote(partition.column)
    return f"{text} WHERE {by} BETWEEN {partition.first:d} AND {partition.last:d}"


def read_batches(
    connection: Connection,
    text: str,
    columns: Sequence[PhysicalColumn],
    *,
    backend: Backend,
    rows_at_once: int,
    shown: str,
    values: Sequence[object] = (),
) -> Iterator[pa.RecordBatch]:
    """Run what `select_text` gave, and give its rows. Raises BadRecordError for a value that is not of its type.

    `values` are bound to its places, where it has some.
    """
    try:
        match backend:
            case Backend.POSTGRESQL:
                yield from _copied(connection, text, columns, rows_at_once, values)
            case Backend.SQLITE:
                yield from _fetched(connection, text, columns, rows_at_once, values)
            case _:
                assert_never(backend)
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise BadRecordError(
            f"{shown} holds a value that is not of the declared type: {error}",
            hint="declare the column as it is in the database, or as STRING",
        ) from error


def select_item(column: PhysicalColumn, name: str, backend: Backend) -> str:
    """Return the expression that reads a column, whose quoted name is `name`, as its declared type."""
    kind = column.type
    match backend:
        case Backend.POSTGRESQL:
            if isinstance(kind, _BYTES):
                return f"encode({name}, 'hex')"
            if isinstance(kind, t.DecimalType):
                return f"CAST({name} AS numeric({kind.precision}, {kind.scale}))"
            return f"CAST({name} AS {_POSTGRESQL[type(kind)]})"
        case Backend.SQLITE:
            plain = (*_WHOLE, *_BYTES, t.BooleanType, t.FloatType, t.DoubleType)
            return name if isinstance(kind, plain) else f"CAST({name} AS TEXT)"
    assert_never(backend)


def _copied(
    connection: Connection,
    text: str,
    columns: Sequence[PhysicalColumn],
    rows_at_once: int,
    values: Sequence[object],
) -> Iterator[pa.RecordBatch]:
    # what is read is one state of the table, and times are of UTC, whatever the server's settings are
    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    connection.exec_driver_sql("SET LOCAL TimeZone = 'UTC'")
    connection.exec_driver_sql("SET LOCAL DateStyle = 'ISO, YMD'")
    driver = connection.connection.driver_connection
    assert driver is not None, "a transaction has a connection"
    names = [str(index) for index in range(len(columns))]
    wire = {
        name: pa.string() if isinstance(column.type, _BYTES) else arrow_type(column.type)
        for name, column in zip(names, columns, strict=True)
    }
    # COPY has no places for values: the driver puts them into the text, quoted. Only then it takes %% for %
    statement = f"COPY ({text if values else text.replace('%%', '%')}) TO STDOUT (FORMAT csv)"
    with driver.cursor() as cursor, cursor.copy(statement, values) as copy:
        for piece in _pieces(copy):
            table = csv.read_csv(
                pa.BufferReader(piece),
                read_options=csv.ReadOptions(column_names=names, block_size=len(piece) + 1),
                parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
                convert_options=csv.ConvertOptions(
                    column_types=wire,
                    null_values=[""],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,  # "" is a text, nothing is NULL
                    true_values=["t"],
                    false_values=["f"],
                ),
            )
            for batch in table.combine_chunks().to_batches(max_chunksize=rows_at_once):
                yield _named(
                    [
                        _from_hex(values) if isinstance(column.type, _BYTES) else values
                        for values, column in zip(batch.columns, columns, strict=True)
                    ],
                    columns,
                )


def _pieces(rows: Iterable[bytes]) -> Iterator[bytes]:
    """Assemble rows into pieces; psycopg returns them one by one."""
    held: list[bytes] = []
    size = 0
    for row in rows:
        held.append(bytes(row))
        size += len(row)
        if size >= PIECE_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def _fetched(
    connection: Connection,
    text: str,
    columns: Sequence[PhysicalColumn],
    rows_at_once: int,
    values: Sequence[object],
) -> Iterator[pa.RecordBatch]:
    driver = connection.connection.driver_connection
    assert driver is not None, "a transaction has a connection"
    rows = iter(driver.execute(text, values))
    while held := list(islice(rows, rows_at_once)):
        columnwise = zip(*held, strict=True)
        yield _named(
            [_from_sqlite(list(v), c) for v, c in zip(columnwise, columns, strict=True)], columns
        )


def _from_sqlite(values: list[Any], column: PhysicalColumn) -> pa.Array:
    kind, wanted = column.type, arrow_type(column.type)
    match kind:
        case t.BooleanType():
            return pa.array(values, pa.int64()).cast(wanted)
        case t.TinyIntType() | t.SmallIntType() | t.IntType() | t.BigIntType():
            return pa.array(values, wanted)
        case t.FloatType() | t.DoubleType() | t.BinaryType() | t.VarBinaryType():
            return pa.array(values, wanted)
        case t.TimestampLtzType():
            # as our sink writes it: UTC, without saying so
            return pa.array(values, pa.string()).cast(pa.timestamp("us")).cast(wanted)
        case t.TimeType():
            # Arrow reads no times of day from text, only those with a date
            dated = pc.binary_join_element_wise("1970-01-01", pa.array(values, pa.string()), " ")
            return dated.cast(pa.timestamp("us")).cast(wanted)
    return pa.array(values, pa.string()).cast(wanted)


def _from_hex(values: pa.Array) -> pa.Array:
    decoded = [None if text is None else bytes.fromhex(text) for text in values.to_pylist()]
    return pa.array(decoded, pa.binary())


def _named(arrays: Sequence[pa.Array], columns: Sequence[PhysicalColumn]) -> pa.RecordBatch:
    schema = pa.schema([(column.name, arrow_type(column.type)) for column in columns])
    return pa.RecordBatch.from_arrays(list(arrays), schema=schema)
