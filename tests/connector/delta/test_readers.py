"""What other programs read of the tables written here: delta-rs, and DuckDB over its dataset.

DuckDB's own reader of Delta is an extension that it downloads when it is used; this needs no network.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.connector.contract import MicroBatch
from penstock.connector.delta.files.deletion_vector import VectorFolder
from penstock.connector.delta.files.live_files import LiveFiles
from penstock.connector.delta.log import read_first_rows
from penstock.connector.storage import open_folder
from tests.connector.delta.tables import delta_table
from tests.connector.delta.test_connector import prepared
from tests.delta_tables import read_delta

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
    [
        {},
        {"partition_keys": ("day",)},
        {
            "key": ("id", "day"),
            "partition_keys": ("day",),
            "options": {"delta.enableDeletionVectors": "false"},
        },
    ],
    ids=["append", "partitioned", "merge"],
)
def test_other_programs_read_what_is_written(
    spark: SparkSession, tmp_path: Path, given: dict[str, Any]
) -> None:
    """An append by default makes a table of the plainest protocol; values are the same elsewhere."""
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


def test_other_programs_read_rows_that_were_replaced_by_position(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Delta-rs by its queries; DuckDB by the numbers of rows in files, as the deletion vectors name them."""
    sink = prepared(spark, delta_table(columns=COLUMNS, key=("id",)), tmp_path)
    for number in range(3):
        batch = MicroBatch(spark=spark, checkpoint=str(tmp_path), query_id="q", batch_id=number)
        rows = [row(n, f"{number}") for n in range(0, 8, number + 1)]
        sink.write_batch(frame(spark, rows, [RowKind.INSERT] * len(rows)), batch)
    spark.sql(f"DELETE FROM delta.`{tmp_path / 'orders'}` WHERE id IN (1, 3)")
    names = {0: "2", 2: "1", 4: "1", 5: "0", 6: "2", 7: "0"}
    expected = [row(n, name) for n, name in names.items()]
    table = DeltaTable(str(tmp_path / "orders"))
    found = read_delta(tmp_path / "orders").sort_by("id").to_pylist()

    assert found == expected
    first = read_first_rows(open_folder(str(tmp_path / "orders")), pa.schema({"id": pa.int64()}), 5)
    assert len({*first.column("id").to_pylist()} & names.keys()) == 5
    assert table.protocol().reader_features == ["deletionVectors"]
    files = table.file_uris()
    folder = VectorFolder(folder=tmp_path / "orders")
    gone = [
        (add["path"], int(at))
        for add in live_adds(tmp_path / "orders")
        if "deletionVector" in add
        for at in folder.read(add["deletionVector"])
    ]
    deleted = pa.table(  # noqa: F841  found by DuckDB by its name
        {"name": [path for path, _ in gone], "row_at": [at for _, at in gone]}
    )
    with duckdb.connect() as connection:
        read = connection.execute(
            "SELECT id, owner.name FROM read_parquet(?, file_row_number = true, filename = true) f "
            "ANTI JOIN deleted ON row_at = f.file_row_number AND deleted.name = parse_filename(f.filename) "
            "ORDER BY id",
            [files],
        ).fetchall()
    assert read == list(names.items())


def live_adds(table: Path) -> list[dict[str, Any]]:
    """The files of the newest version, by its commits."""
    live = LiveFiles()
    live.begin(-1, ())
    assert live.follow(open_folder(str(table)), DeltaTable(table).version())
    return [dict(file.add) for file in live]
