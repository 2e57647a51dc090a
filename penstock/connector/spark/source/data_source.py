"""The data sources that Spark registers: from their options to readers of a scan."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from penstock.catalog.definitions.contract import DEFAULT_CATALOG, DEFAULT_DATABASE
from penstock.catalog.errors import OptionError
from penstock.catalog.model.identifier import Identifier, parse_identifier
from penstock.catalog.model.table import Table
from penstock.connector.event_time.future_timestamps import filters_future_rows
from penstock.connector.scan import Scan, read_scan
from penstock.connector.spark.errors import spark_readable
from penstock.connector.spark.source.batch import SplitBatchReader
from penstock.connector.spark.source.columns import scan_schema
from penstock.connector.spark.source.stream import SplitStreamReader

__all__ = ["SCAN_OPTION", "TABLE_OPTION", "ScanDataSource", "TableDataSource", "bind_table_source"]

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
        return scan_schema(scan, counts_skipped=counts_skipped)

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
