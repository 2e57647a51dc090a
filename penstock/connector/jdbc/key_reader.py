"""Reads the rows of keys from a database, over the connection of one task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import assert_never

import numpy as np
import pyarrow as pa
from sqlalchemy import Connection

from penstock.catalog.model.table import PhysicalColumn
from penstock.connector.arrow.types import arrow_type
from penstock.connector.jdbc.address import Backend
from penstock.connector.jdbc.database import Reads
from penstock.connector.jdbc.lookup_query import (
    DatabaseColumn,
    KeyQuery,
    is_plain,
    key_queries,
    key_texts,
    possible,
    types_text,
)
from penstock.connector.jdbc.scan import read_batches, select_text
from penstock.connector.jdbc.settings import JdbcTable
from penstock.connector.lookup.contract import LookupKey
from penstock.connector.lookup.keyed_rows import NONE, Numbers, key_numbers

__all__ = ["KeyReader"]

_SQLITES_TYPES = "SELECT name, type FROM pragma_table_info(?)"


class KeyReader:
    """Reads `columns` of the rows of `keys`; a batch of Arrow has `rows_at_once` rows at most."""

    def __init__(
        self,
        table: JdbcTable,
        keys: Sequence[LookupKey],
        columns: Sequence[PhysicalColumn],
        rows_at_once: int,
        reads: Reads,
    ) -> None:
        self._table = table
        self._types = [arrow_type(key.type) for key in keys]
        self._names = [column.name for column in columns]
        by_name = {column.name: column for column in table.schema.physical}
        self._keys = [by_name[key.column] for key in keys]
        self._columns = [*columns, *(c for c in self._keys if c.name not in set(self._names))]
        self._rows_at_once = rows_at_once
        self._reads = reads
        self._plain: frozenset[str] | None = None

    def rows_of(self, keys: Sequence[pa.Array]) -> tuple[pa.Table, Numbers]:
        """Read the rows of distinct keys, an array for each part; with the number of each row's key, or -1.

        Raises QueryFailedError, ConfigError; BadRecordError for a value that is not of its type.
        """
        there = np.flatnonzero(possible(keys).to_numpy(zero_copy_only=False))
        asked = [part.take(pa.array(there)) for part in keys]
        batches: list[pa.RecordBatch] = []
        for query in self._queries(asked):
            batches += self._reads.run(partial(self._read, query))
        schema = pa.schema([(column.name, arrow_type(column.type)) for column in self._columns])
        rows = pa.Table.from_batches(batches, schema).combine_chunks()
        numbers = key_numbers(self._keys_of(rows), asked)
        among = numbers != NONE
        numbers[among] = there[numbers[among]]
        return rows.select(self._names), numbers

    def _queries(self, keys: Sequence[pa.Array]) -> list[KeyQuery]:
        table, dialect = self._table, self._reads.engine.dialect
        backend = table.address.backend
        if self._plain is None:
            self._plain = self._reads.run(self._plain_keys)
        select = select_text(
            self._columns, table.name, table.database_schema, None, backend=backend, dialect=dialect
        )
        texts, plain = key_texts(keys), self._plain
        return list(
            key_queries(select, self._keys, texts, plain=plain, backend=backend, dialect=dialect)
        )

    def _read(self, query: KeyQuery, connection: Connection) -> list[pa.RecordBatch]:
        found = read_batches(
            connection,
            query.text,
            self._columns,
            backend=self._table.address.backend,
            rows_at_once=self._rows_at_once,
            shown=self._table.shown,
            values=query.values,
        )
        return list(found)

    def _keys_of(self, rows: pa.Table) -> list[pa.Array]:
        """Return the keys of rows, in the types in which they are compared."""
        found = []
        for column, kind in zip(self._keys, self._types, strict=True):
            chunks = rows.column(column.name).cast(kind).chunks
            found.append(pa.concat_arrays(chunks) if chunks else pa.array([], kind))
        return found

    def _plain_keys(self, connection: Connection) -> frozenset[str]:
        """Find the columns that the database may compare as they are."""
        there = self._columns_there(connection)
        backend = self._table.address.backend
        return frozenset(
            column.name
            for column in self._keys
            if is_plain(column.type, there.get(column.name, DatabaseColumn()), backend)
        )

    def _columns_there(self, connection: Connection) -> dict[str, DatabaseColumn]:
        table = self._table
        match table.address.backend:
            case Backend.POSTGRESQL:
                text = types_text(self._keys, table.name, table.database_schema, connection.dialect)
                cursor = connection.exec_driver_sql(text).cursor
                assert cursor is not None, "a query gives columns"
                return {
                    column.name: DatabaseColumn(oid=found.type_code, scale=found.scale)  # type: ignore[attr-defined]
                    for column, found in zip(self._keys, cursor.description, strict=True)
                }
            case Backend.SQLITE:
                rows = connection.exec_driver_sql(_SQLITES_TYPES, (table.name,))
                return {name: DatabaseColumn(words=words) for name, words in rows}
            case _:
                assert_never(table.address.backend)
