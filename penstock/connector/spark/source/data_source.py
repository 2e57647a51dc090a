"""The data sources that Spark registers: from their options to readers of a scan.

Read as a batch source, a table has the rows that it has when the query starts, read once.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import BinaryType, StructField, StructType

from penstock.catalog.errors import OptionError
from penstock.catalog.model.identifier import Identifier, parse_identifier
from penstock.catalog.model.namespaces import DEFAULT_CATALOG, DEFAULT_DATABASE
from penstock.catalog.model.table import Table
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import SplitSource
from penstock.connector.event_time.future_timestamps import filters_future_rows
from penstock.connector.scan import Scan, read_scan
from penstock.connector.source.state import SourceState
from penstock.connector.spark.errors import spark_readable
from penstock.connector.spark.internals import make_active
from penstock.connector.spark.source.columns import scan_schema
from penstock.connector.spark.source.offsets import TaskPartition, plan_partitions
from penstock.connector.spark.source.planning import PlanningExecutor
from penstock.connector.spark.source.stream import SplitStreamReader
from penstock.connector.spark.source.task import read_partition


class SplitBatchReader(DataSourceReader):
    """Reads a scan once: to its stops where it is bounded, else to the ends seen at planning."""

    def __init__(self, scan: Scan, source: SplitSource, schema: StructType) -> None:
        self._scan = scan
        self._source = source
        self._schema = schema

    @spark_readable
    def partitions(self) -> Sequence[InputPartition]:
        """Plan the whole read."""
        tasks = plan_read(self._scan, self._source, tasks=self._source.parallelism)
        # Spark reads an empty list as one partition of nothing in particular
        return tasks or [TaskPartition(splits=(), watermarks=None, heartbeat=False)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one task's ranges, in a worker process."""
        assert isinstance(partition, TaskPartition), "Spark hands back what `partitions` planned"
        return read_partition(partition, self._scan, self._source, self._schema)


def plan_read(scan: Scan, source: SplitSource, *, tasks: int | None) -> Sequence[TaskPartition]:
    """Plan the read of a scan to its stops, else to the present ends; `tasks` None is one a split of some size."""
    executor = PlanningExecutor(scan, source)
    try:
        planned = executor.plan(SourceState(), None)
        for _ in executor.wait_for_stops():
            planned = executor.plan(SourceState(), None)
        return plan_partitions(
            planned or SourceState(),
            executor.planner,
            tasks=tasks,
            tracks_event_time=False,
            size=source.task_size,
        )
    finally:
        executor.close()


_PLANNED = "planned"

_TASKS = StructType([StructField(_PLANNED, BinaryType())])
"""As a value: Spark would parse the text of a schema for each of a catalog's thousands of tables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotReader:
    """Reads a scan; `schema` has hidden columns included."""

    scan: Scan
    schema: StructType

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the scan as a frame; it reads nothing before it runs, and everything again each time."""
        planned = spark.range(0, 1, 1, 1).mapInArrow(self._plan, _TASKS)
        tasks = spark.sparkContext.defaultParallelism
        return planned.repartition(tasks).mapInArrow(self._read, self.schema)

    def _plan(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            continue  # the range only makes the task
        values = [pickle.dumps(task) for task in spark_readable(self._tasks)()]
        yield pa.RecordBatch.from_pydict({_PLANNED: pa.array(values, pa.binary())})

    def _tasks(self) -> list[object]:
        source = self.scan.open_source()
        # changes of a key keep their order within one task alone
        whole = source.changes is not ChangelogMode.INSERT_ONLY
        return list(plan_read(self.scan, source, tasks=None if whole else source.parallelism))

    def _read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        source = self.scan.open_source()
        for batch in batches:
            for value in batch.column(0).to_pylist():
                # written by the stage before, by this class
                task = pickle.loads(value)  # noqa: S301
                yield from read_partition(task, self.scan, source, self.schema)


SCAN_OPTION = "scan"
TABLE_OPTION = "table"
CATALOG_OPTION = "catalog"
ZONE_OPTION = "timeZone"
"""The word of Spark's own sources."""


class ScanDataSource(DataSource):
    """A scan that a Penstock session wrote down; the option `scan` is the path of its file.

    The definition itself is not an option, as options show in plans and event logs and it may hold secrets.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`; only generated frames use it."""
        return "penstock_scan"

    def scan(self) -> Scan:
        """Find the scan that the options name."""
        return read_scan(Path(self.options[SCAN_OPTION]))

    @spark_readable
    def schema(self) -> StructType:
        """Return the columns of the scan, hidden ones included."""
        scan = self.scan()
        source = scan.open_source()
        counts_skipped = source.skips_bad_records or filters_future_rows(scan, source.watermark)
        return scan_schema(scan, counts_skipped=counts_skipped, counts_lost=source.tolerates_loss)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read the scan once."""
        scan = self.scan()
        return SplitBatchReader(scan, scan.open_source(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Read the scan in micro-batches."""
        scan = self.scan()
        return SplitStreamReader(scan, scan.open_source(), schema)


class TableDataSource(ScanDataSource):
    """A table of the catalog: `format("penstock").option("table", "orders")`, as a stream or read once.

    Gives the physical and metadata columns as they are in the records. The exact watermark and computed columns
    come with `Session.sql`, which sees the whole query. The catalog is the session's, or the option `catalog`. A
    record's time that is declared as TIMESTAMP is in the time zone of the option `timeZone`, which is UTC by default.
    """

    catalog_url: str | None = None
    project: str = "."
    secret_key_file: Path | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(...)`."""
        return "penstock"

    def scan(self) -> Scan:
        """Look the table up. Raises OptionError and UnknownObjectError."""
        table = self._table()
        computed = {column.name for column in table.schema.computed}
        return Scan(
            table=table,
            columns=tuple(name for name in table.schema.names if name not in computed),
            rowtime=None,
            time_zone=self.options.get(ZONE_OPTION) or "UTC",
            project=self.project,
        )

    def _table(self) -> Table:
        name, url = (
            self.options.get(TABLE_OPTION),
            self.options.get(CATALOG_OPTION) or self.catalog_url,
        )
        if name is None or url is None:
            raise OptionError(
                "the data source 'penstock' needs the option 'table', and 'catalog' outside of a session",
                hint='.option("table", "orders").option("catalog", "sqlite:///.penstock/catalog.db")',
            )
        # loaded here, as every Python process of a query imports this module and few look tables up
        from penstock.catalog.definitions.encryption import encrypt_references
        from penstock.catalog.store.sql_catalog import SqlCatalog

        parts = parse_identifier(name)
        catalog, database, table = (DEFAULT_CATALOG, DEFAULT_DATABASE)[: 3 - len(parts)] + parts
        store = SqlCatalog(url, secret_key_file=self.secret_key_file)
        found = store.get(Identifier(catalog=catalog, database=database, name=table))
        if not isinstance(found, Table):
            raise OptionError(f"{name} is a view", hint="read it through Session.sql")
        return encrypt_references(found, store.secrets)


def bind_table_source(
    catalog_url: str, project: Path, secret_key_file: Path | None = None
) -> type[TableDataSource]:
    """Make the data source of one session: its catalog and project travel with the class, not as options."""
    bound = {
        "catalog_url": catalog_url,
        "project": str(project),
        "secret_key_file": secret_key_file,
    }
    return type("PenstockTables", (TableDataSource,), bound)


def register_data_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a data source with a session, in place of one of the same name, and make the session the thread's own.

    Spark looks the name up in the thread's active session (`isUserDefinedDataSource` of `DataSource`): where that is
    another one that has it, as in a process of several files, the source of a registration "already exists"
    (`DataSourceRegistration`), and a read takes the other's class.
    """
    make_active(spark)
    spark.dataSource.register(source)
