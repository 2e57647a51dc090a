"""What Spark says of a query that was generated, in words of the one that was written."""

from __future__ import annotations

from pyspark.errors import AnalysisException

from penstock.catalog.errors import UnsupportedError
from penstock.sql.errors.spark_analysis import as_input_error

OUTER = (
    "[STREAM_FAILED] Stream-stream LeftOuter join between two streaming DataFrame/Datasets is not supported without a "
    "watermark in the join keys, or a watermark on the nullable side and an appropriate range condition;"
)


def test_an_outer_join_without_a_bound_that_spark_sees_is_told_as_such() -> None:
    """With what a bound looks like."""
    error = as_input_error(AnalysisException(OUTER))

    assert isinstance(error, UnsupportedError)
    assert "how long this outer join" in error.message
    assert "AND b.ts BETWEEN a.ts AND" in (error.hint or "")
