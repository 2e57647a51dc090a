"""Write into a database exactly once: a transaction for each micro-batch, with a row of the ledger inside it.

The row holds the number and the digest of the writer's last batch. It is read, locked and compared (`last_batch.py`)
before the rows are sent, and committed together with them. So
- a driver that dies, or a connection that is lost, before the commit leaves nothing, and the batch is written again;
- after the commit, whether its answer came or not, the batch that is run again finds itself in the ledger, and passes;
- a runner that was paused finds its batch and passes, or a later one and is refused; of two that begin a pipeline,
one fails at its row.
A replay may compute other rows: either those of the first attempt are there, all of them, or none is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, count
from typing import TYPE_CHECKING, assert_never
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from sqlalchemy import Connection, Inspector, inspect

from penstock.catalog.errors import DefinitionError, PenstockError, SinkError, StateMismatchError
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import quote, quoted
from penstock.catalog.model.table import PhysicalColumn
from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.connector.contract import Guarantee, MicroBatch, Sink, SinkCapabilities, SinkSettings
from penstock.connector.jdbc import statements as sql
from penstock.connector.jdbc.address import Backend
from penstock.connector.jdbc.database import JdbcDatabase
from penstock.connector.jdbc.settings import JdbcTable
from penstock.connector.spark.errors import readable_by_spark
from penstock.connector.spark.sink.last_batch import LastBatch, is_written
from penstock.connector.spark.sink.micro_batch import batch_digest, discard_batch, micro_batch_query
from penstock.connector.spark.sink.target_rows import check_complete, target_expressions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType
    from sqlalchemy.sql import TableClause


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


log = logging.getLogger(__name__)

INSERT = "insert-"
"""Writers of INSERT .. VALUES, which have no checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcSink(Sink):
    """Appends to a table; or, where it has a PRIMARY KEY, puts and deletes rows by it: a key's last change wins."""

    table: JdbcTable

    @property
    def capabilities(self) -> SinkCapabilities:
        """A batch that is run again changes nothing; all changes where there is a key to find rows by."""
        return SinkCapabilities(
            guarantee=Guarantee.EXACTLY_ONCE,
            accepts=ChangelogMode.ALL if self.table.key else ChangelogMode.INSERT_ONLY,
        )

    def prepare(self, spark: SparkSession, schema: StructType) -> None:  # noqa: ARG002  of the contract
        """Check the table in the database, and make the ledger. Raises InputError, SinkError."""
        check_complete(self.table.schema, schema.names, owner=self.table.owner)
        left_out = [name for name in self.table.key if name not in schema.names]
        if left_out:
            raise DefinitionError(
                f"the INSERT leaves out {', '.join(left_out)} of the PRIMARY KEY of {self.table.owner}"
            )
        self._database.run(self._check)

    def start(self, frame: DataFrame, settings: SinkSettings) -> StreamingQuery:
        """Start the streaming query."""
        return micro_batch_query(frame, settings, self.write_batch)

    def write_batch(self, frame: DataFrame, batch: MicroBatch) -> None:
        """Write a micro-batch in one transaction. Raises StateMismatchError where ledger and checkpoint do not fit."""
        digest = batch_digest(batch)
        ledger = sql.ledger_table(self.table.database_schema)

        def work(connection: Connection) -> None:
            row = connection.execute(sql.read_ledger(ledger, batch.application_id)).first()
            last = None if row is None else LastBatch(batch_id=row.batch_id, digest=row.digest)
            if is_written(last, batch, digest, target=f"the ledger beside {self.table.shown}"):
                discard_batch(frame)
                return
            entry = LastBatch(batch_id=batch.batch_id, digest=digest)
            # before the rows: two runners of a new pipeline meet here, and one of them fails
            connection.execute(
                sql.write_ledger(ledger, batch.application_id, entry, first=last is None)
            )
            self._put(connection, frame)

        self._database.run(work)

    def write(self, frame: DataFrame) -> None:
        """Write the rows of a batch frame in one transaction, once, also where the answer to a commit is lost.

        The transaction has a row of the ledger, of an id that no other has: an attempt that finds it there comes after
        one that was committed.
        """
        ledger = sql.ledger_table(self.table.database_schema)
        writer = f"{INSERT}{uuid4().hex}"

        def work(connection: Connection) -> None:
            ledger.create(connection, checkfirst=True)
            # waits for an attempt before this one whose commit is still on its way
            entered = connection.execute(sql.enter(ledger, writer, self.table.address.backend))
            if entered.first() is not None:
                self._put(connection, frame)

        self._database.run(work)
        try:
            self._database.run(lambda connection: connection.execute(sql.leave(ledger, writer)))
        except PenstockError as error:
            log.debug("the row %s stays in the ledger: %s", writer, error.message)

    @property
    def _database(self) -> JdbcDatabase:
        table = self.table
        return JdbcDatabase.of(table, retries=table.retries)

    def _check(self, connection: Connection) -> None:
        looked = inspect(connection)
        name, schema = self.table.name, self.table.database_schema
        if not looked.has_table(name, schema):
            raise StateMismatchError(
                f"there is no {self.table.shown}",
                hint="create it in the database first, with the columns that are declared here",
            )
        there = {column["name"] for column in looked.get_columns(name, schema)}
        for column in self.table.schema.physical:
            if column.name not in there:
                raise StateMismatchError(
                    f"{self.table.shown} has no column {quote(column.name)}; its columns are: "
                    f"{', '.join(sorted(there))}",
                    hint="names are compared exactly; declare the column as it is there",
                )
        if self.table.key:
            self._check_key(looked)
        sql.ledger_table(schema).create(connection, checkfirst=True)

    def _check_key(self, looked: Inspector) -> None:
        """Check that the declared key is unique in the database, as ON CONFLICT requires."""
        name, schema = self.table.name, self.table.database_schema
        keys = [set(looked.get_pk_constraint(name, schema)["constrained_columns"])]
        keys += [set(each["column_names"]) for each in looked.get_unique_constraints(name, schema)]
        # a partial index (PostgreSQL) holds for some rows only
        keys += [
            {column for column in index["column_names"] if column is not None}
            for index in looked.get_indexes(name, schema)
            if index["unique"] and not index.get("dialect_options", {}).get("postgresql_where")
        ]
        if set(self.table.key) not in keys:
            raise StateMismatchError(
                f"{self.table.shown} has no primary key or unique index of ({', '.join(self.table.key)})",
                hint="the PRIMARY KEY that is declared here has to be one there, or rows could not be replaced",
            )

    def _put(self, connection: Connection, frame: DataFrame) -> None:
        given = [
            column for column in self.table.schema.physical if column.name in set(frame.columns)
        ]
        names = [column.name for column in given]
        rows = frame.selectExpr(*target_expressions(given, frame.columns))
        wire = [wire_expression(column, self.table.address.backend) for column in given]
        target = sql.target_table(self.table.name, self.table.database_schema, names)
        if not self.table.key:
            self._send(connection, rows.selectExpr(*wire), target, names)
            return
        kind = ROW_KIND if ROW_KIND in frame.columns else f"{RowKind.INSERT.value} AS {ROW_KIND}"
        batch = sql.batch_table(names)
        dialect = connection.dialect
        connection.exec_driver_sql(sql.create_batch(target, dialect))
        if self.table.address.backend is Backend.POSTGRESQL:
            connection.exec_driver_sql(sql.number_rows(dialect))
        self._send(connection, rows.selectExpr(*wire, kind), batch, [*names, ROW_KIND])
        connection.execute(sql.delete_rows(target, batch, self.table.key))
        connection.execute(
            sql.upsert_rows(target, batch, self.table.key, self.table.address.backend)
        )

    def _send(
        self, connection: Connection, rows: DataFrame, into: TableClause, columns: Sequence[str]
    ) -> None:
        """Send rows in their order; the pieces of one partition at a time are on the driver."""
        backend = self.table.address.backend
        encode = encoder(backend, self.table.rows_at_once, columns)
        # mapInArrow looks its columns up by names that it does not quote
        plain = rows.toDF(*(f"c{number}" for number in range(len(columns))))
        pieces = plain.mapInArrow(encode, WIRE_SCHEMA)
        payloads = (bytes(row[0]) for row in pieces.toLocalIterator(prefetchPartitions=True))
        driver = connection.connection.driver_connection
        assert driver is not None, "a transaction has a connection"
        match backend:
            case Backend.POSTGRESQL:
                text = sql.copy_in(into, columns, connection.dialect)
                with driver.cursor() as cursor, cursor.copy(text) as copy:
                    for payload in payloads:
                        copy.write(payload)
            case Backend.SQLITE:
                numbered = into.name == sql.BATCH
                names = [*columns, sql.ORDER] if numbered else columns
                text = sql.insert_values(into, names, connection.dialect)
                found = chain.from_iterable(tuples(payload) for payload in payloads)
                driver.executemany(text, _numbered(found) if numbered else found)
            case _:
                assert_never(backend)


def _numbered(rows: Iterator[tuple[object, ...]]) -> Iterator[tuple[object, ...]]:
    numbers = count()
    return ((*row, next(numbers)) for row in rows)
