"""The list of Spark's functions is that of the Spark that is installed, and no more is called unknown."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import SparkSession

from penstock.sql.dialect.functions.table import SPARK_FUNCTIONS

pytestmark = pytest.mark.spark


def test_the_list_of_functions_is_sparks(spark: SparkSession) -> None:
    """A new Spark's list is that of SHOW SYSTEM FUNCTIONS without operators."""
    found = {str(row[0]) for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    named = {name for name in found if re.fullmatch(r"[a-z_0-9]+", name)}

    assert sorted(named) == sorted(SPARK_FUNCTIONS)
