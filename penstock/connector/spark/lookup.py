"""Lookups in Spark: a function of a key that returns the rows of the key, which a LATERAL join unfolds.

Only keys and rows that were found travel between Spark and Python. The stream's rows stay where they are, and with
them their order and the mark of event time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import ArrayType

from penstock.connector.lookup.contract import Lookup
from penstock.connector.spark.errors import readable_by_spark
from penstock.connector.spark.types import spark_schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register_lookup(spark: SparkSession, name: str, lookup: Lookup) -> None:
    """Register the function `name`, of as many arguments as the key has parts: ARRAY<STRUCT<column, ...>>."""

    def rows(parts: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        with readable_by_spark():
            # of one argument Spark gives the array alone
            tuples = (part if isinstance(part, tuple) else (part,) for part in parts)
            yield from lookup.rows(tuples)

    # NOT NULL of the definition is not the database's, which Spark would believe
    columns = (replace(c, type=replace(c.type, nullable=True)) for c in lookup.columns)
    function = arrow_udf(rows, ArrayType(spark_schema(columns)))  # type: ignore[call-overload]
    spark.udf.register(name, function)
