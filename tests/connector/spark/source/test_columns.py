"""Batches as Spark takes them: exactly its types, as it looks at the first batch of a task only (SPARK-55583)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from penstock.connector.scan import Scan
from penstock.connector.spark.source.columns import (
    FILTERED,
    LOST,
    SKIPPED,
    WATERMARK,
    WATERMARK_BEFORE,
    RowFramer,
    scan_schema,
)
from penstock.connector.spark.source.offsets import BatchWatermarks
from tests.connector.filesystem.tables import file_table

PLAIN = StructType([StructField("id", LongType()), StructField("name", StringType())])


@pytest.mark.parametrize(
    "second",
    [
        {"id": pa.array([1], pa.int32()), "name": pa.array(["a"], pa.large_string())},
        {"id": pa.array([1], pa.int64()), "name": pa.array(["a"]).dictionary_encode()},
        {"name": pa.array(["a"]), "id": pa.array([1], pa.int64())},
    ],
    ids=["other widths", "dictionary", "other order"],
)
def test_every_batch_has_the_exact_schema(second: dict[str, pa.Array]) -> None:
    """What a format gives in a later batch is cast: Spark would read other buffers than there are."""
    framed = RowFramer(PLAIN, None).rows(pa.RecordBatch.from_pydict(second))

    assert framed.schema.equals(to_arrow_schema(PLAIN, timezone="UTC"), check_metadata=True)
    assert framed.to_pylist() == [{"id": 1, "name": "a"}]


def test_what_cannot_be_cast_is_an_error_here() -> None:
    """Not a crash of the JVM."""
    batch = pa.RecordBatch.from_pydict({"id": pa.array(["x"]), "name": pa.array(["a"])})

    with pytest.raises(pa.ArrowInvalid, match="x"):
        RowFramer(PLAIN, None).rows(batch)


def test_the_watermark_is_in_every_row_and_alone_in_a_heartbeat() -> None:
    """A heartbeat has no watermark before it, by which it is told from rows."""
    schema = StructType(
        [
            StructField("id", LongType()),
            StructField(WATERMARK, TimestampType()),
            StructField(WATERMARK_BEFORE, TimestampType()),
        ]
    )
    framer = RowFramer(schema, BatchWatermarks(now_ms=2000, before_ms=1000))
    rows = framer.rows(pa.RecordBatch.from_pydict({"id": [7, 8]})).to_pylist()
    (beat,) = framer.heartbeat().to_pylist()

    assert {row[WATERMARK].timestamp() for row in rows} == {2.0}
    assert {row[WATERMARK_BEFORE].timestamp() for row in rows} == {1.0}
    assert (beat["id"], beat[WATERMARK_BEFORE]) == (None, None)
    assert beat[WATERMARK].timestamp() == 2.0


def test_a_marker_row_carries_a_count_alone() -> None:
    schema = StructType([StructField("id", LongType()), StructField(SKIPPED, LongType())])

    assert RowFramer(schema, None).left_out(3, 4).to_pylist() == [{"id": None, SKIPPED: 3}]


def test_rows_without_the_condition_are_counted_beside_bad_records() -> None:
    """In one marker row."""
    kinds = {"id": LongType(), SKIPPED: LongType(), FILTERED: LongType()}
    schema = StructType([StructField(name, kind) for name, kind in kinds.items()])

    (row,) = RowFramer(schema, None).left_out(3, 4).to_pylist()
    assert row == {"id": None, SKIPPED: 3, FILTERED: 4}


def test_lost_records_are_counted_in_a_column_of_tables_that_tolerate_them(tmp_path: Path) -> None:
    """No other table's rows have it."""
    table = file_table(tmp_path, {}, columns={"id": "BIGINT"})
    scan = Scan(table=table, columns=("id",), rowtime=None, time_zone="UTC", project=".")
    schema = scan_schema(scan, counts_skipped=False, counts_lost=True)

    assert scan_schema(scan, counts_skipped=False).names == ["id"]
    assert RowFramer(schema, None).left_out(0, 0, lost=7).to_pylist() == [{"id": None, LOST: 7}]
