"""Rows on their way to the database: Spark expressions and Arrow batches. Runs in tasks, knows no connection.

PostgreSQL gets the text of COPY, made of whole batches at once; SQLite gets Arrow, which its driver takes as tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from penstock.catalog.errors import SinkError
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import quote, quoted
from penstock.catalog.model.table import PhysicalColumn
from penstock.connector.jdbc.address import Backend
from penstock.connector.spark.errors import readable_by_spark

__all__ = ["WIRE_SCHEMA", "encoder", "tuples", "wire_expression"]

WIRE_SCHEMA = "payload BINARY"
"""The schema of the results of `encoder`: a row for each piece."""

SHOWN = 60
"""Characters of a text in a message."""

_CSV = csv.WriteOptions(include_header=False)  # texts are quoted and NULL is not, as COPY wants it
_SQLITES = (
    t.TinyIntType,
    t.SmallIntType,
    t.IntType,
    t.BigIntType,
    t.FloatType,
    t.DoubleType,
    t.CharType,
    t.VarCharType,
    t.BinaryType,
    t.VarBinaryType,
)
"""What SQLite holds as it is; other values are text, which a column's affinity may turn into a number."""


def wire_expression(column: PhysicalColumn, backend: Backend) -> str:
    """Return the Spark expression of a column as the database takes it."""
    name = quoted(column.name)
    match backend:
        case Backend.POSTGRESQL:
            return f"{_for_postgresql(column.type, name)} AS {name}"
        case Backend.SQLITE:
            return f"{_for_sqlite(column.type, name)} AS {name}"
    assert_never(backend)


def encoder(
    backend: Backend, rows_at_once: int, columns: Sequence[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Make the function of `mapInArrow` that turns batches into pieces of at most so many rows, in order.

    `columns` are their names in the database, for messages.
    """
    encode: Callable[[pa.RecordBatch], bytes]
    match backend:
        case Backend.POSTGRESQL:
            encode = partial(_copy_text, columns=tuple(columns))
        case Backend.SQLITE:
            encode = _ipc
        case _:
            assert_never(backend)

    def pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for start in range(0, batch.num_rows, rows_at_once):
                payload = encode(batch.slice(start, rows_at_once))
                yield pa.record_batch([pa.array([payload], pa.binary())], names=["payload"])

    return pieces


def tuples(payload: bytes) -> list[tuple[object, ...]]:
    """Return the rows of a piece for SQLite."""
    table = pa.ipc.open_stream(payload).read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _for_postgresql(logical: t.LogicalType, name: str) -> str:
    match logical:
        case t.BinaryType() | t.VarBinaryType():
            return f"concat('\\\\x', hex({name}))"  # bytea's hex format
    return name


def _for_sqlite(logical: t.LogicalType, name: str) -> str:
    match logical:
        case t.BooleanType():
            return f"CAST({name} AS INT)"
        case t.TimestampLtzType():
            return f"CAST(convert_timezone('UTC', CAST({name} AS TIMESTAMP_NTZ)) AS STRING)"
    return name if isinstance(logical, _SQLITES) else f"CAST({name} AS STRING)"


def _copy_text(batch: pa.RecordBatch, columns: Sequence[str]) -> bytes:
    out = pa.BufferOutputStream()
    csv.write_csv(batch, out, _CSV)
    encoded: bytes = out.getvalue().to_pybytes()
    if b"\0" in encoded:
        with readable_by_spark():
            raise _not_held(batch, columns)
    return encoded


def _not_held(batch: pa.RecordBatch, columns: Sequence[str]) -> SinkError:
    """Make the error for a text that PostgreSQL has no way to store: it ends texts with this character inside."""
    for name, values in zip(columns, batch.columns, strict=True):
        if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
            continue
        found = pc.index(pc.match_substring(values, "\0"), True).as_py()
        if found >= 0:
            text = values[found].as_py()
            shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
            return SinkError(
                f"a row has the character U+0000 in column {quote(name)}, which PostgreSQL cannot hold: {shown!r}",
                hint=f"take it out in the query, REPLACE({quoted(name)}, CHR(0), '') AS {quoted(name)}, or leave such "
                "rows out, and start again: the pipeline resumes from its checkpoint",
                permanent=True,
            )
    return SinkError("a row has the character U+0000, which PostgreSQL cannot hold", permanent=True)


def _ipc(batch: pa.RecordBatch) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batch.schema) as stream:
        stream.write_batch(batch)
    encoded: bytes = out.getvalue().to_pybytes()
    return encoded
