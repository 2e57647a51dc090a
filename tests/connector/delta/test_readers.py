"""What other programs read of the tables written here: delta-rs, and DuckDB over its dataset.

DuckDB's own reader of Delta is an extension that it downloads when it is used; this needs no network.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.contract import MicroBatch
from tests.connector.delta.tables import delta_table
from tests.connector.delta.test_connector import prepared

COLUMNS = {
    "id": "BIGINT NOT NULL",
    "day": "DATE",
    "amount": "DECIMAL(10, 2)",
    "at": "TIMESTAMP_LTZ(6)",
    "raw": "BYTES",
    "tags": "ARRAY<STRING>",
    "owner": "ROW<name STRING>",
}
AT = datetime(2026, 1, 2, 3, 4, 5, 678900, tzinfo=UTC)


def row(number: int, name: str) -> dict[str, Any]:
    """A row as Arrow gives it."""
    return {
        "id": number,
        "day": date(2026, 1, 1 + number % 2),
        "amount": Decimal("1.50"),
        "at": AT,
        "raw": b"\xff",
        "tags": ["a", None],
        "owner": {"name": name},
    }


def frame(spark: SparkSession, rows: list[dict[str, Any]], kinds: list[RowKind]) -> DataFrame:
    """The rows as changes of these kinds; insertions alone have none."""
    schema = (
        "id BIGINT, day DATE, amount DECIMAL(10, 2), at TIMESTAMP, raw BINARY, tags ARRAY<STRING>, "
        f"owner STRUCT<name: STRING>, {ROW_KIND} TINYINT"
    )
    values = [(*row.values(), int(kind)) for row, kind in zip(rows, kinds, strict=True)]
    made = spark.createDataFrame(values, schema).coalesce(1)
    return made.drop(ROW_KIND) if set(kinds) == {RowKind.INSERT} else made


@pytest.mark.parametrize(
    "given",
    [{}, {"partition_keys": ("day",)}, {"key": ("id", "day"), "partition_keys": ("day",)}],
    ids=["append", "partitioned", "merge"],
)
def test_other_programs_read_what_is_written(
    spark: SparkSession, tmp_path: Path, given: dict[str, Any]
) -> None:
    """Every kind of write by default makes a table of the plainest protocol; values are the same elsewhere."""
    sink = prepared(spark, delta_table(columns=COLUMNS, **given), tmp_path)
    first, second = [row(n, "old") for n in range(4)], [row(4, "new")]
    kinds = [RowKind.INSERT]
    if "key" in given:
        second += [row(1, "old"), row(1, "new"), row(2, "old")]
        kinds += [RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE]
    batches = [frame(spark, first, [RowKind.INSERT] * 4), frame(spark, second, kinds)]
    for number, rows in enumerate(batches):
        batch = MicroBatch(spark=spark, checkpoint=str(tmp_path), query_id="q", batch_id=number)
        sink.write_batch(rows, batch)
    expected = [row(n, "new" if n == 4 else "old") for n in range(5)]
    if "key" in given:
        expected = [row(0, "old"), row(1, "new"), row(3, "old"), row(4, "new")]
    table = DeltaTable(str(tmp_path / "orders"))
    dataset = table.to_pyarrow_dataset()  # noqa: F841  found by DuckDB by its name
    query = 'SELECT id, day, amount, epoch_us("at"), raw, tags, owner.name FROM dataset ORDER BY id'
    found = table.to_pyarrow_table(columns=list(COLUMNS)).sort_by("id").to_pylist()

    assert found == expected
    with duckdb.connect() as connection:
        read = connection.execute(query).fetchall()

    assert read == [
        (r["id"], r["day"], r["amount"], 1767323045678900, r["raw"], r["tags"], r["owner"]["name"])
        for r in expected
    ]
    assert (table.protocol().min_reader_version, table.protocol().reader_features) == (1, None)
