"""Flink SQL as a dialect of sqlglot, named `flink`.

`parser`, `generator` and `functions` make up the dialect class of `flink`; `windows` and `rewrites` transform
trees, `spark` writes Spark SQL. `flink_to_spark` is for users of sqlglot; everything else for the folders above.
"""

from __future__ import annotations

from penstock.sql.dialect.flink.dialect import Flink
from penstock.sql.dialect.flink.trees import parse_query, table_options, to_text
from penstock.sql.dialect.spark.transpile import flink_to_spark
from penstock.sql.dialect.spark.writer import to_spark_query
from penstock.sql.dialect.windows.window_tables import WindowKind, WindowTable, window_tables

__all__ = [
    "Flink",
    "WindowKind",
    "WindowTable",
    "flink_to_spark",
    "parse_query",
    "table_options",
    "to_spark_query",
    "to_text",
    "window_tables",
]
