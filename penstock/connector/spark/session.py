"""Settings and copies of a Spark session, and its check of streaming plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.connector.contract import OutputMode

__all__ = ["configured", "copy_session", "drop_temporary_views", "streaming_conf"]


@contextmanager
def configured(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Set what `conf` says; afterwards, whatever happens, everything is as it was.

    A streaming query keeps the settings that it started with.
    """
    before = {key: spark.conf.get(key, None) for key in conf}
    try:
        for key, value in conf.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, was in before.items():
            if was is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, was)


def copy_session(spark: SparkSession) -> SparkSession:
    """Copy a session with its settings, functions, temporary views and data sources, as each streaming query does.

    It shares Spark's context, jars and catalogs. Spark keeps it as long as the context: make few.
    """
    copied = spark._jsparkSession.cloneSession()  # noqa: SLF001  private[sql] in Scala, public to the JVM
    return SparkSession(spark.sparkContext, copied)


def drop_temporary_views(copied: SparkSession) -> None:
    """Drop every temporary view of a copy; the session that it was copied from keeps its own."""
    copied._jsparkSession.sessionState().catalog().clearTempTables()  # noqa: SLF001  as above


CHECK = "spark.sql.streaming.unsupportedOperationCheck"
"""Whether Spark makes its check when a query starts (SQLConf.UNSUPPORTED_OPERATION_CHECK_ENABLED)."""


RULES = ("ReplaceExpressions", "RewriteWithExpression", "SimplifyCasts")
"""Rules of the optimizer: BETWEEN as two comparisons, which is what the helper knows, then no cast to the same type."""


def streaming_conf(frame: DataFrame, output: OutputMode) -> dict[str, str]:
    """Check a frame, and return the Spark settings that its streaming query has to be started with: mostly none.

    Raises AnalysisException for what Spark cannot stream.
    """
    jvm, java_frame = frame.sparkSession._jvm, frame._jdf  # noqa: SLF001  PySpark has no public way to either
    assert jvm is not None, "Spark runs"
    catalyst = jvm.org.apache.spark.sql.catalyst
    plan = java_frame.queryExecution().analyzed()
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, output.value.capitalize())()
    check = catalyst.analysis.UnsupportedOperationChecker.checkForStreaming
    try:
        check(plan, mode)
    except AnalysisException:
        for rule in RULES:
            plan = getattr(catalyst.optimizer, rule).apply(plan)
        check(plan, mode)
        return {CHECK: "false"}
    return {}
