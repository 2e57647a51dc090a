"""Numbers the rows of a batch in the order in which they came: by the partitions of its frame and the rows within."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

__all__ = ["first_number", "numbered"]

_ROW_BITS = 33
"""Bits of monotonically_increasing_id below the number of the partition."""
_BATCH_BITS = 32
"""Bits of an arrival number below the batch's, which is an INT: a batch has fewer rows than this counts."""


def first_number(batch_id: int) -> int:
    """Give the number of a batch's first row: those of batches before are less."""
    return batch_id << _BATCH_BITS


def numbered(rows: DataFrame, name: str, batch_id: int) -> DataFrame:
    """Add the column `name`: greater than in any batch before. `rows` are computed already; this counts them."""
    with_id = rows.withColumn(name, F.monotonically_increasing_id())
    partition = F.shiftright(name, _ROW_BITS)
    counted = with_id.groupBy(partition.alias("partition")).count().collect()
    counts = {row["partition"]: row["count"] for row in counted}
    first, offsets = 0, []
    for index in range(max(counts, default=-1) + 1):
        offsets.append(first)
        first += counts.get(index, 0)
    if not offsets:
        return with_id
    offset = F.array(*(F.lit(n).cast("bigint") for n in offsets))[partition.cast("int")]
    within = F.col(name).bitwiseAND((1 << _ROW_BITS) - 1)
    return with_id.withColumn(name, F.lit(first_number(batch_id)).cast("bigint") + offset + within)
