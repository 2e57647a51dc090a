"""Runs a stage's SQL over frames: each is a table by the name that the SQL gives it."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from penstock.sql.dialect import to_spark_query
from penstock.sql.dialect.window_text import to_spark_text

__all__ = ["over_tables"]


def over_tables(
    spark: SparkSession, query: exp.Query, tables: Mapping[str, DataFrame]
) -> DataFrame:
    """Give the frame of `query`, in Flink's dialect, over `tables`. Nothing is computed."""
    tag = uuid4().hex[:8]
    views = {name: f"penstock_{tag}_{index}" for index, name in enumerate(tables)}
    tree = query.copy()
    for node in list(tree.find_all(exp.Table)):
        if node.name in views and not node.db:
            alias = exp.to_identifier(node.alias or node.name, quoted=True)
            given = node.args.get("alias")
            columns = given.args.get("columns") if given is not None else None
            node.set("alias", exp.TableAlias(this=alias, columns=columns))
            node.set("this", exp.to_identifier(views[node.name]))
    try:
        for name, view in views.items():
            tables[name].createOrReplaceTempView(view)
        # looks the views up at once, so that they can go
        return spark.sql(to_spark_text(tree, to_spark_query))
    finally:
        for view in views.values():
            spark.catalog.dropTempView(view)
