"""The watermark of raw records at planning, before any JVM sees them: the table's expression, run by DuckDB.

It does not know Flink SQL: the expression comes as DuckDB SQL, from a closed set that agrees with Spark's.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.connector.duck import query

__all__ = ["Rowtime", "evaluate"]

_MICROSECONDS_IN_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Rowtime:
    """How a record's watermark is computed.

    `column` is the rowtime's name. `expression` is DuckDB SQL over `inputs`, which are columns that the source
    delivers; it gives a TIMESTAMP, or a TIMESTAMPTZ when `instant`.
    """

    column: str
    inputs: tuple[str, ...]
    expression: str
    instant: bool


def evaluate(rowtime: Rowtime, batch: pa.RecordBatch, time_zone: str) -> list[int | None]:
    """Give the watermark of each row in epoch ms, rounded down; None where it is NULL or cannot be computed.

    A TIMESTAMP, which has no time zone, counts as UTC, as in Spark's state operators. `time_zone` is the
    session's, for conversions between the two. May block; called on the driver. Raises UnsupportedError for a
    time zone that is not known.
    """
    kind = "TIMESTAMPTZ" if rowtime.instant else "TIMESTAMP"
    # TRY: one record that fails must not take the others' watermarks; an infinity is no time to Spark
    sql = (
        f"SELECT CASE WHEN isfinite(moment) THEN epoch_us(moment) END AS us "  # noqa: S608  checked by who wrote it
        f"FROM (SELECT TRY(CAST(({rowtime.expression}) AS {kind})) AS moment FROM records)"
    )
    instants = query(sql, pa.Table.from_batches([batch]), time_zone=time_zone).column("us")
    return [None if us is None else us // _MICROSECONDS_IN_MS for us in instants.to_pylist()]
