"""Settings and temporary views of a Spark session, properties of its jobs, and its check of streaming plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from penstock.connector.spark.internals import analyzed_plan, jvm_of, session_catalog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.connector.contract import OutputMode


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
        set_conf(spark, before)


def set_conf(spark: SparkSession, conf: Mapping[str, str | None]) -> None:
    """Set what `conf` says; None unsets."""
    for key, value in conf.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)


@contextmanager
def job_property(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Set a property of the jobs that this thread starts, which their tasks see."""
    context = spark.sparkContext
    before = context.getLocalProperty(key)
    context.setLocalProperty(key, value)
    try:
        yield
    finally:
        # None removes it
        context.setLocalProperty(key, before)  # type: ignore[arg-type]


def drop_temporary_views(copied: SparkSession) -> None:
    """Drop every temporary view of a copy; the session that it was copied from keeps its own."""
    session_catalog(copied).clearTempTables()


CHECK = "spark.sql.streaming.unsupportedOperationCheck"
"""Whether Spark makes its check when a query starts (SQLConf.UNSUPPORTED_OPERATION_CHECK_ENABLED)."""


FEW_ROWS = {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Settings of a query whose plan has a row or two for each task: Spark writes no Java for the plan of each batch, and
computes them by its expressions.
"""


RULES = ("ReplaceExpressions", "RewriteWithExpression", "SimplifyCasts")
"""Rules of the optimizer: BETWEEN as two comparisons, which is what the helper knows, then no cast to the same type."""


def streaming_conf(frame: DataFrame, output: OutputMode) -> dict[str, str]:
    """Check a frame, and return the Spark settings that its streaming query has to be started with: mostly none.

    Raises AnalysisException for what Spark cannot stream.
    """
    jvm = jvm_of(frame.sparkSession)
    catalyst = jvm.org.apache.spark.sql.catalyst
    plan = analyzed_plan(frame)
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
