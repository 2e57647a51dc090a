"""Which joins of streams Spark can run, by its own check: whether their times have a zone or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812

from penstock.connector.contract import OutputMode
from penstock.connector.spark.session import CHECK, streaming_conf
from penstock.connector.spark.source.watermark import mark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOUR = "b.ts BETWEEN a.ts AND a.ts + INTERVAL '1' HOUR"
AROUND = "b.ts BETWEEN a.ts - INTERVAL '5' MINUTE AND a.ts + INTERVAL '1' HOUR"


def joined(spark: SparkSession, kind: str, side: str, bound: str) -> DataFrame:
    """Two streams with event time, joined by their ids within a bound."""
    rows = spark.readStream.format("rate").load()
    for name in ("a", "b"):
        time = mark(F.col("timestamp").cast(kind), "ts")
        rows.select(F.col("value").alias("id"), time).createOrReplaceTempView(f"checked_{name}")
    on = f"a.id = b.id AND {bound}"
    return spark.sql(f"SELECT a.id FROM checked_a AS a {side} JOIN checked_b AS b ON {on}")


@pytest.mark.parametrize(
    ("kind", "side", "bound", "conf"),
    [
        ("timestamp", "LEFT", HOUR, {}),
        ("timestamp_ntz", "INNER", HOUR, {}),
        ("timestamp_ntz", "LEFT", HOUR, {CHECK: "false"}),
        ("timestamp_ntz", "RIGHT", AROUND, {CHECK: "false"}),
        ("timestamp_ntz", "FULL", AROUND, {CHECK: "false"}),
    ],
)
def test_an_interval_is_a_bound_for_times_without_a_zone_too(
    kind: str, side: str, bound: str, conf: dict[str, str], spark: SparkSession
) -> None:
    """Where Spark's own check would not see it, it is made here and left out there."""
    assert streaming_conf(joined(spark, kind, side, bound), OutputMode.APPEND) == conf


@pytest.mark.parametrize("bound", ["TRUE", "b.ts > a.ts", "b.ts < a.ts + INTERVAL '1' MONTH"])
def test_what_has_no_bound_is_refused(bound: str, spark: SparkSession) -> None:
    """A row of the left side could find its partner at any time."""
    with pytest.raises(AnalysisException, match="LeftOuter join"):
        streaming_conf(joined(spark, "timestamp_ntz", "LEFT", bound), OutputMode.APPEND)
