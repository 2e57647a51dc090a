"""A few rows of Delta tables without an engine: of tables that others wrote, with rows that were deleted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.identifier import parse_identifier
from penstock.catalog.model.table import Table
from penstock.connector.delta.files.live_rows import NotReadableHereError
from penstock.connector.delta.log import read_first_rows
from penstock.connector.registry import connector_of
from penstock.connector.storage import open_folder
from tests.sql.sql_objects import new_namespace

COLUMNS = pa.schema({"id": pa.int64(), "name": pa.string(), "at": pa.timestamp("us", "UTC")})


def written(folder: Path, *ids: int, **options: Any) -> None:
    """Append rows with these ids."""
    rows = pa.table({"id": ids, "name": [f"n{one}" for one in ids]})
    write_deltalake(folder, rows, mode="append", **options)


def ids(folder: Path, limit: int = 10) -> list[int]:
    found: list[int] = rows(folder, limit).column("id").to_pylist()
    return found


def rows(folder: Path, limit: int) -> pa.Table:
    return read_first_rows(open_folder(str(folder)), COLUMNS, limit)


def test_rows_come_from_as_many_files_as_needed(tmp_path: Path) -> None:
    """And no more than were asked for; a column that no file has is NULL."""
    for number in range(4):
        written(tmp_path, number, 10 + number)

    assert len(ids(tmp_path, 3)) == 3
    assert sorted(ids(tmp_path, 100)) == [0, 1, 2, 3, 10, 11, 12, 13]
    assert rows(tmp_path, 1).column("at").to_pylist() == [None]


def test_files_that_were_removed_do_not_count(tmp_path: Path) -> None:
    """Also behind a checkpoint of the log."""
    written(tmp_path, 1, 2)
    DeltaTable(tmp_path).delete("id = 1")
    DeltaTable(tmp_path).create_checkpoint()
    written(tmp_path, 3)

    assert sorted(ids(tmp_path)) == [2, 3]


def test_a_file_that_a_commit_removes_and_adds_is_there(tmp_path: Path) -> None:
    """As one that gets a deletion vector; whatever comes first in the commit."""
    written(tmp_path, 1, 2)
    log = tmp_path / "_delta_log"
    added = next(
        line for line in (log / f"{0:020}.json").read_text().splitlines() if '"add"' in line
    )
    path = json.loads(added)["add"]["path"]
    removed = json.dumps({"remove": {"path": path, "dataChange": True}})
    (log / f"{1:020}.json").write_text(f"{added}\n{removed}\n")

    assert sorted(ids(tmp_path)) == [1, 2]


def test_a_table_without_a_log_has_no_rows(tmp_path: Path) -> None:
    """It is made by the first INSERT."""
    assert ids(tmp_path / "none") == []


@pytest.mark.parametrize("damage", ["partitions", "file", "commit"])
def test_what_only_an_engine_reads_is_said(tmp_path: Path, damage: str) -> None:
    """And what to do."""
    written(tmp_path, 1, **({"partition_by": ["name"]} if damage == "partitions" else {}))
    if damage == "file":
        next(tmp_path.glob("*.parquet")).write_bytes(b"PAR1")
    if damage == "commit":
        (tmp_path / "_delta_log" / f"{0:020}.json").write_text("{")

    with pytest.raises(NotReadableHereError):
        ids(tmp_path)
    catalog = new_namespace(
        f"CREATE TABLE t (id BIGINT) WITH ('connector' = 'delta', 'path' = '{tmp_path}')"
    )
    table = catalog.lookup(catalog.resolve(parse_identifier("t")))
    assert isinstance(table, Table)
    with pytest.raises(UnsupportedError, match="not read without Spark") as refused:
        connector_of(table, project=tmp_path).first_rows(table, 10)
    assert "penstock run" in (refused.value.hint or "")
