"""The data source `penstock` as Spark registers it: from its options to readers of a scan."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader
from pyspark.sql.types import StructType

from penstock.catalog.errors import OptionError
from penstock.connector.scan import Scan, read_scan
from penstock.connector.spark.batch import SplitBatchReader
from penstock.connector.spark.columns import scan_schema
from penstock.connector.spark.stream import SplitStreamReader

__all__ = ["SCAN_OPTION", "PenstockDataSource"]

SCAN_OPTION = "scan"


class PenstockDataSource(DataSource):
    """A scan that a Penstock session wrote down; the option `scan` is the path of its file.

    The definition itself is not an option, as options show in plans and event logs and it may hold secrets.
    """

    @classmethod
    def name(cls) -> str:
        """Give the name for `format(...)`."""
        return "penstock"

    def scan(self) -> Scan:
        """Find the scan that the options name."""
        path = self.options.get(SCAN_OPTION)
        if path is None:
            raise OptionError(
                "the data source 'penstock' needs the option 'table'",
                hint="import pyspark_penstock, or register it with penstock.connect(spark)",
            )
        return read_scan(Path(path))

    def schema(self) -> StructType:
        """Give the columns of the scan, hidden ones included."""
        scan = self.scan()
        return scan_schema(scan, counts_skipped=scan.open_source().skips_bad_records)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Read the scan once."""
        scan = self.scan()
        return SplitBatchReader(scan, scan.open_source(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """Read the scan in micro-batches."""
        scan = self.scan()
        return SplitStreamReader(scan, scan.open_source(), schema)
