"""Registers the data source `penstock` wherever this package is installed.

Spark imports every top-level module named `pyspark_*` at its first look-up of a Python data source, so a server
that only runs SQL (spark-sql, Thrift, Connect) finds Penstock's tables without a line of code.
"""

from __future__ import annotations

import os

from penstock.connector.spark.source.data_source import TableDataSource

__all__ = ["DefaultSource"]


class DefaultSource(TableDataSource):
    """The tables of the catalog that PENSTOCK_CATALOG or the option `catalog` names."""

    catalog_url = os.environ.get("PENSTOCK_CATALOG")
