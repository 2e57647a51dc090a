"""Spark's check of what it can stream, made on conditions as they run and not as they were read.

Spark reads `ts + INTERVAL '1' HOUR` of a TIMESTAMP_NTZ as a cast to TIMESTAMP_NTZ of what is one already. The optimizer
takes that cast away before the query runs; the check comes earlier and does not look through it: StreamingJoinHelper
then finds no bound for an outer interval join, which Spark runs rightly all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.connector.contract import OutputMode

__all__ = ["streaming_conf"]

CHECK = "spark.sql.streaming.unsupportedOperationCheck"
"""Whether Spark makes its check when a query starts (SQLConf.UNSUPPORTED_OPERATION_CHECK_ENABLED)."""


RULES = ("ReplaceExpressions", "RewriteWithExpression", "SimplifyCasts")
"""Rules of the optimizer: BETWEEN as two comparisons, which is what the helper knows, then no cast to the same type."""


def streaming_conf(frame: DataFrame, output: OutputMode) -> dict[str, str]:
    """Check a frame, and give the Spark settings that its streaming query has to be started with: mostly none.

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
