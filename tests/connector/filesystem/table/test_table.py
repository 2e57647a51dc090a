"""Partition columns are read from the names of folders."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.catalog.errors import BadRecordError
from penstock.connector.filesystem.table.table import Partitioning, partitioning_of
from tests.connector.filesystem.tables import file_source as source
from tests.connector.filesystem.tables import file_table, planned, planning, read, write


def partitioning(**columns: str) -> Partitioning:
    """A table's partitions, by column and type."""
    table = file_table("/data", columns={"id": "BIGINT", **columns}, partitions=list(columns))
    return partitioning_of(table, "__DEFAULT_PARTITION__")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("STRING", "a%2Fb%", "a/b%"),
        ("STRING", "ü%3D%zz", "ü=%zz"),
        ("INT", "-7", -7),
        ("DOUBLE", "1.5", 1.5),
        ("BOOLEAN", "true", True),
        ("DATE", "2026-01-31", date(2026, 1, 31)),
        ("TIMESTAMP(3)", "2026-01-31T07:00:00", datetime(2026, 1, 31, 7)),
        ("INT", "__DEFAULT_PARTITION__", None),
    ],
)
def test_a_folder_gives_a_value_of_the_columns_type(kind: str, text: str, value: Any) -> None:
    """Escapes are those that Flink writes; the default name is NULL."""
    found = partitioning(p=kind)

    assert found.value(found.columns[0], f"p={text}/a.json").as_py() == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("INT", "seven"),
        ("TINYINT", "300"),
        ("DATE", "2026-02-30"),
        ("INT NOT NULL", "__DEFAULT_PARTITION__"),
    ],
)
def test_a_value_that_does_not_fit_fails_and_names_the_file(kind: str, text: str) -> None:
    """As in Flink, whatever the format does with bad records."""
    found = partitioning(p=kind)

    with pytest.raises(BadRecordError, match=r"a[.]json"):
        found.value(found.columns[0], f"p={text}/a.json")


def test_a_file_above_the_partitions_is_not_read(tmp_path: Path) -> None:
    """Flink looks for files as deep as there are keys, and further below."""
    for name in ("readme", "day=1/readme", "day=1/hour=2/a", "day=1/hour=2/more/b"):
        write(tmp_path / name, "{}\n")
    columns = {"id": "BIGINT", "day": "INT", "hour": "INT"}
    table = source(tmp_path, columns=columns, partitions=["day", "hour"])

    assert list(planned(planning(table))) == ["day=1/hour=2/a", "day=1/hour=2/more/b"]


@pytest.mark.parametrize("folder", ["2026", "dya=1", "day="])
def test_a_folder_that_names_no_partition_is_an_error(tmp_path: Path, folder: str) -> None:
    """Its rows would silently be missing."""
    write(tmp_path / folder / "a", "{}\n")
    table = source(tmp_path, columns={"id": "BIGINT", "day": "INT"}, partitions=["day"])

    with pytest.raises(BadRecordError, match=r"day=[.][.][.]/"):
        planning(table).list_splits()


def test_partition_columns_stand_where_the_table_has_them(tmp_path: Path) -> None:
    """Beside what the lines hold, in the order asked for; a line's own value of that name is not checked."""
    write(tmp_path / "day=2026-01-31/a.json", '{"id": 1, "day": "1999-01-01"}\n{"id": 2}\n')
    table = source(tmp_path, columns={"day": "DATE", "id": "BIGINT"}, partitions=["day"])
    rows = read(table, ["day", "id"]).rows["day=2026-01-31/a.json"]

    assert [list(row.items()) for row in rows] == [
        [("day", date(2026, 1, 31)), ("id", 1)],
        [("day", date(2026, 1, 31)), ("id", 2)],
    ]
