"""A table of a database as a source: the wanted columns alone, of all its rows, read once by as many tasks as it
has partitions; and the check that it exists with the declared columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
from sqlalchemy import Connection, inspect

from penstock.catalog.errors import UnknownObjectError, UnsupportedError
from penstock.catalog.model.table import PhysicalColumn
from penstock.catalog.model.types import LogicalType
from penstock.connector.capabilities import TableAccess
from penstock.connector.contract import SnapshotSource
from penstock.connector.jdbc.database import JdbcDatabase
from penstock.connector.jdbc.lookup import JdbcLookup, compared_type
from penstock.connector.jdbc.scan import read_batches, select_text
from penstock.connector.jdbc.settings import JdbcTable, LookupSettings, ScanSettings
from penstock.connector.lookup.contract import LookupKey, LookupSource, MissRetry
from penstock.connector.spark.errors import readable_by_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check_table(table: JdbcTable, access: TableAccess) -> str:
    """Ask the database for the table (a ConnectivityCheck). Raises UnknownObjectError, SinkError."""
    del access

    def work(connection: Connection) -> str:
        looked = inspect(connection)
        if not looked.has_table(table.name, table.database_schema):
            raise UnknownObjectError(f"there is no {table.shown}", hint="create it there first")
        there = [column["name"] for column in looked.get_columns(table.name, table.database_schema)]
        lost = [c.name for c in table.schema.physical if c.name not in there]
        if lost:
            raise UnknownObjectError(
                f"{table.shown} has no column {', '.join(lost)}",
                hint=f"its columns are: {', '.join(there)}",
            )
        return f"{table.shown}: columns {', '.join(there)}"

    return JdbcDatabase.of(table).run(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcSource(SnapshotSource, LookupSource):
    """The rows that a table holds when it is read (`EngineSource`). `columns` None are all."""

    table: JdbcTable
    settings: ScanSettings
    lookups: LookupSettings
    columns: tuple[str, ...] | None = None

    def reading(self, columns: Sequence[str]) -> JdbcSource:
        """Restrict the query to these columns."""
        return replace(self, columns=tuple(columns))

    @property
    def lookup_source(self) -> LookupSource:
        """It answers lookups itself."""
        return self

    def key_type(self, column: str, given: LogicalType) -> LogicalType | None:
        """Return the type in which a column is compared."""
        declared = next(c.type for c in self.table.schema.physical if c.name == column)
        return compared_type(declared, given, self.table.address.backend)

    def lookup(
        self, keys: Sequence[LookupKey], columns: Sequence[str], retry: MissRetry | None = None
    ) -> JdbcLookup:
        """Describe asking for rows by keys."""
        return JdbcLookup(
            name=uuid4().hex,
            table=self.table,
            settings=self.lookups,
            keys=tuple(keys),
            columns=_wanted(self.table, columns),
            rows_at_once=self.settings.rows_at_once,
            retry=retry,
        )

    @property
    def lookup_cache(self) -> str:
        """What is remembered of the answers."""
        return self.lookups.shown

    def frame(self, spark: SparkSession, *, streaming: bool) -> DataFrame:
        """Return the columns; the database is asked when the frame is run. Raises UnsupportedError for a stream."""
        if streaming:
            raise UnsupportedError(
                f"{self.table.owner}: a table of a database is read once, not followed as a stream",
                hint="join it as it is then: each batch reads it again",
            )
        from penstock.connector.spark.types import spark_schema

        tasks = max(1, len(self.settings.partitions))
        wanted = _wanted(self.table, self.columns)
        schema = spark_schema(_nullable(column) for column in wanted)
        return spark.range(0, tasks, 1, tasks).mapInArrow(self._reader(), schema)

    def _reader(self) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return what a task does with the numbers of its partitions. It travels to the task as a value."""
        table, settings = self.table, self.settings
        columns = _wanted(table, self.columns)

        def read(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            with readable_by_spark():
                for batch in numbers:
                    for number in batch.column(0).to_pylist():
                        yield from _partition(table, settings, columns, number)

        return read


def _wanted(table: JdbcTable, names: Sequence[str] | None) -> tuple[PhysicalColumn, ...]:
    physical = table.schema.physical
    if names is None:
        return physical
    # rows are counted by a column, too
    return tuple(c for c in physical if c.name in names) or physical[:1]


def _partition(
    table: JdbcTable, settings: ScanSettings, columns: Sequence[PhysicalColumn], number: int
) -> Iterator[pa.RecordBatch]:
    backend = table.address.backend
    part = settings.partitions[number] if settings.partitions else None
    database = JdbcDatabase.of(table)
    with database.reading() as connection:
        text = select_text(
            columns,
            table.name,
            table.database_schema,
            part,
            backend=backend,
            dialect=connection.dialect,
        )
        yield from read_batches(
            connection,
            text,
            columns,
            backend=backend,
            rows_at_once=settings.rows_at_once,
            shown=table.shown,
        )


def _nullable(column: PhysicalColumn) -> PhysicalColumn:
    """Believe no NOT NULL: the database has its own, and Spark would take a NULL for some value."""
    return replace(column, type=replace(column.type, nullable=True))
