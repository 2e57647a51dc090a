"""The end of Spark's Java process."""

from __future__ import annotations

from pyspark.sql import SparkSession

from penstock.sql.spark_process.jvm import end_jvm


def test_spark_that_ran_before_a_command_goes_on(spark: SparkSession) -> None:
    """A command ends the process that it launched, and no other."""
    end_jvm()

    assert spark.range(3).count() == 3
