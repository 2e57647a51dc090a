"""Columns that are declared and not there yet."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from penstock.catalog.errors import StateMismatchError
from penstock.connector.delta.options import DeltaTarget
from penstock.connector.delta.table import missing_columns, stored_schema
from tests.connector.delta.tables import delta_table, rows
from tests.connector.delta.test_connector import prepared

FOUND = stored_schema(delta_table(columns={"ID": "BIGINT", "day": "DATE"}))


def missing(
    columns: dict[str, str], clustering: tuple[str, ...] = (), key: tuple[str, ...] = ()
) -> StructType:
    table = delta_table(columns={"id": "BIGINT", **columns}, key=key)
    return missing_columns(DeltaTarget(table=table, location="/t", clustering=clustering), FOUND)


def test_what_is_there_in_any_case_is_not_missing() -> None:
    """Delta does not look at case."""
    assert missing({"DAY": "DATE"}).names == []
    assert missing({"note": "STRING", "n": "ROW<a INT>"}).names == ["note", "n"]


def test_a_column_that_rows_need_cannot_come_later() -> None:
    """Neither NOT NULL, nor of the key, nor what the table is laid out by."""
    with pytest.raises(StateMismatchError, match="note, which is NOT NULL"):
        missing({"note": "STRING NOT NULL"})
    with pytest.raises(StateMismatchError, match="note, which is NOT NULL"):
        missing({"note": "STRING"}, key=("note",))
    with pytest.raises(StateMismatchError, match="r, which is NOT NULL"):
        missing({"r": "ROW<a ROW<b INT NOT NULL>>"})
    with pytest.raises(StateMismatchError, match="note, which the table is laid out by"):
        missing({"note": "STRING"}, clustering=("note",))


def test_columns_are_added_and_types_are_not_changed(spark: SparkSession, tmp_path: Path) -> None:
    """The rows that are there have NULL for them; the second time nothing is left to do."""
    prepared(spark, delta_table(columns={"id": "BIGINT"}), tmp_path).write(spark.range(1))
    wider = {"id": "BIGINT", "note": "STRING", "r": "ROW<a INT, b ARRAY<STRING NOT NULL>>"}
    adding = {"sink.schema-evolution": "add-columns"}
    for _ in range(2):
        sink = prepared(spark, delta_table(columns=wider, options=adding), tmp_path)
    sink.write(
        spark.sql("SELECT 1L AS id, 'x' AS note, named_struct('a', 1, 'b', array('y')) AS r")
    )
    with pytest.raises(StateMismatchError, match="column note has type string"):
        prepared(spark, delta_table(columns=wider | {"note": "INT"}, options=adding), tmp_path)

    assert rows(spark, tmp_path / "orders") == [(0, None, None), (1, "x", (1, ["y"]))]
