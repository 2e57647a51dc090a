"""The tables of `information_schema` for plain Spark SQL: asked of the catalog anew by each query, in a task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.catalog.table import Table
from penstock.connector.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["InformationReader"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InformationReader:
    """Reads one of the tables from the store at `catalog`; what lives in a session alone is not seen by it."""

    table: Table
    catalog: str
    project: Path

    def frame(self, spark: SparkSession) -> DataFrame:
        """Give the table as a frame; nothing is asked before it runs."""
        schema = spark_schema(self.table.schema.physical)
        return spark.range(0, 1, 1, 1).mapInArrow(self._read, schema)

    def _read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from penstock.catalog.store import SqlCatalog
        from penstock.sql.information_schema.rows import information_rows
        from penstock.sql.run.catalogs import open_names

        for _ in batches:
            continue  # the range only makes the task
        names = open_names(SqlCatalog(self.catalog), self.project, offline=True)
        yield from information_rows(self.table, names, self.project).to_batches()
