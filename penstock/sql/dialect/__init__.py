"""Flink SQL as a dialect of sqlglot, named `flink`: tokens, types, queries, statements, Spark SQL.

Each module adds one part: tokens.py -> types.py -> query.py -> ddl.py (the parser, built up by
inheritance), generator.py (Flink text), functions.py (the table of functions), write.py (Spark text),
for_spark.py (Spark text without a planner), windows.py and access.py (what a planner asks of a tree).
"""

from __future__ import annotations

from penstock.sql.dialect.access import parse_query, table_options, to_text
from penstock.sql.dialect.flink import Flink
from penstock.sql.dialect.for_spark import teach_spark
from penstock.sql.dialect.windows import WindowKind, WindowTable, window_tables
from penstock.sql.dialect.write import to_spark_query

__all__ = [
    "Flink",
    "WindowKind",
    "WindowTable",
    "parse_query",
    "table_options",
    "to_spark_query",
    "to_text",
    "window_tables",
]

teach_spark()
