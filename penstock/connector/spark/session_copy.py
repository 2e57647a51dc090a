"""Copies of a Spark session, for work that goes on beside the session's own: what is set or named there stays there."""

from __future__ import annotations

from pyspark.sql import SparkSession

__all__ = ["copy_of", "forget_views"]


def copy_of(spark: SparkSession) -> SparkSession:
    """Copy a session with its settings, functions, temporary views and data sources, as each streaming query does.

    It shares Spark's context, jars and catalogs. Spark holds on to it as long as the context lives: make few.
    """
    copied = spark._jsparkSession.cloneSession()  # noqa: SLF001  private[sql] in Scala, public to the JVM
    return SparkSession(spark.sparkContext, copied)


def forget_views(copied: SparkSession) -> None:
    """Take every temporary view away from a copy; the session that it was made of keeps its own."""
    copied._jsparkSession.sessionState().catalog().clearTempTables()  # noqa: SLF001  as above
