"""Tests for a folder of Delta tables as a catalog, and for the log that the definitions are read from. No Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.catalog.definitions.federated import NotReachedError
from penstock.catalog.errors import (
    ConfigError,
    DefinitionError,
    StateMismatchError,
    UnsupportedError,
)
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import CatalogDescriptor
from penstock.catalog.model.table import Table
from penstock.connector.delta.catalog import DeltaCatalog
from penstock.connector.delta.connector import DeltaConnector


def field(name: str, kind: Any, *, nullable: bool = True, **metadata: str) -> dict[str, Any]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": metadata}


def metadata(*fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    schema = json.dumps({"type": "struct", "fields": list(fields)})
    return {"schemaString": schema, "partitionColumns": [], "configuration": {}, **more}


def commit(table: Path, version: int, *actions: dict[str, Any]) -> None:
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    lines = "\n".join(json.dumps(action) for action in actions)
    (log / f"{version:020d}.json").write_text(lines, encoding="utf-8")


def make(table: Path, *fields: dict[str, Any], **more: Any) -> None:
    """A Delta table with one commit."""
    commit(table, 0, {"protocol": {}}, {"metaData": metadata(*fields, **more)})


def lake(folder: Path, *, offline: bool = False, **options: str) -> DeltaCatalog:
    given = {"type": "delta-path", "path": str(folder), **options}
    descriptor = CatalogDescriptor(name="lake", options=tuple(given.items()))
    return DeltaCatalog(descriptor=descriptor, project=folder.parent, offline=offline)


def named(database: str, name: str) -> Identifier:
    return Identifier(catalog="lake", database=database, name=name)


def columns(table: Table | None) -> dict[str, str]:
    assert table is not None
    return {column.name: str(column.type) for column in table.schema.columns}


def test_subfolders_are_databases_and_what_has_a_log_is_a_table(tmp_path: Path) -> None:
    """Tables right in the folder are in `default`; hidden folders and those without a log are none."""
    make(tmp_path / "top", field("id", "long"))
    make(tmp_path / "sales" / "orders", field("id", "long"))
    (tmp_path / "sales" / "notes").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "empty" / "_delta_log").mkdir(parents=True)

    found = lake(tmp_path)

    assert found.databases() == ["default", "empty", "sales"]
    assert found.tables("default") == ["top"]
    assert found.tables("sales") == ["orders"]
    assert found.tables("nope") == []
    assert found.find(named("sales", "notes")) is None
    assert found.find(named("sales", "../top")) is None


def test_a_definition_has_all_that_the_log_says(tmp_path: Path) -> None:
    """Types, NOT NULL, comments, partitioning and column mapping; the connector takes it as it is."""
    array = {"type": "array", "elementType": "integer", "containsNull": False}
    row = {"type": "struct", "fields": [field("a b", "double", comment="half")]}
    table = {"type": "map", "keyType": "string", "valueType": row, "valueContainsNull": True}
    make(
        tmp_path / "t",
        field("id", "long", nullable=False, comment="its number"),
        field("price", "decimal(10,2)"),
        field("at", "timestamp"),
        field("local", "timestamp_ntz"),
        field("tags", array),
        field("more", table),
        field("raw", "binary"),
        field("day", "date"),
        partitionColumns=["day"],
        description="all of them",
        configuration={"delta.columnMapping.mode": "name", "delta.minReaderVersion": "2"},
    )

    found = lake(tmp_path).find(named("default", "t"))

    assert columns(found) == {
        "id": "BIGINT NOT NULL",
        "price": "DECIMAL(10, 2)",
        "at": "TIMESTAMP_LTZ(6)",
        "local": "TIMESTAMP(6)",
        "tags": "ARRAY<INT NOT NULL>",
        "more": "MAP<STRING NOT NULL, ROW<`a b` DOUBLE 'half'>>",
        "raw": "BYTES",
        "day": "DATE",
    }
    assert found is not None
    assert found.partition_keys == ("day",)
    assert found.comment == "all of them"
    assert found.schema.column("id").comment == "its number"
    assert found.option_map == {
        "connector": "delta",
        "path": f"{tmp_path}/t",
        "delta.columnMapping.mode": "name",
    }
    DeltaConnector(project=tmp_path).check(found)


def test_the_newest_metadata_counts_and_a_checkpoint_has_what_is_before_it(tmp_path: Path) -> None:
    """Commits behind a checkpoint may be gone."""
    table = tmp_path / "t"
    commit(table, 11, {"add": {"path": "x"}})
    metas = [None, metadata(field("old", "long"))]
    pairs = pa.map_(pa.string(), pa.string())
    kind = pa.struct(
        [
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", pairs),
        ]
    )
    rows = pa.table({"metaData": pa.array(metas, kind), "add": pa.array(["a", None])})
    parquet.write_table(rows, table / "_delta_log" / f"{10:020d}.checkpoint.parquet")
    catalog = lake(tmp_path)

    assert columns(catalog.find(named("default", "t"))) == {"old": "BIGINT"}
    commit(table, 12, {"metaData": metadata(field("old", "long"), field("new", "string"))})
    assert columns(catalog.find(named("default", "t"))) == {"old": "BIGINT", "new": "STRING"}


def test_a_log_that_cannot_be_read_says_which(tmp_path: Path) -> None:
    """It is an error of that table, not of its catalog."""
    make(tmp_path / "cut", field("id", "long"))
    (tmp_path / "cut" / "_delta_log" / f"{0:020d}.json").write_text('{"metaData": ')
    make(tmp_path / "odd", field("v", "variant"))
    catalog = lake(tmp_path)

    assert catalog.tables("default") == ["cut", "odd"]
    with pytest.raises(StateMismatchError, match="cut cannot be read"):
        catalog.find(named("default", "cut"))
    with pytest.raises(UnsupportedError, match="column 'v': there is no type for Spark's variant"):
        catalog.find(named("default", "odd"))


def test_a_folder_that_is_not_there_or_is_a_table_is_refused(tmp_path: Path) -> None:
    """CREATE CATALOG looks."""
    make(tmp_path / "t", field("id", "long"))

    with pytest.raises(ConfigError, match="there is no folder"):
        lake(tmp_path / "nope").check()
    with pytest.raises(DefinitionError, match="is a Delta table"):
        lake(tmp_path / "t").check()
    lake(tmp_path).check()


def test_an_object_store_is_not_asked_by_a_check_of_texts(tmp_path: Path) -> None:
    """A folder of this machine is."""
    make(tmp_path / "t", field("id", "long"))

    with pytest.raises(NotReachedError):
        lake(tmp_path, offline=True, path="s3a://bucket/lake").databases()
    assert lake(tmp_path, offline=True, path=f"file://{tmp_path}").tables("default") == ["t"]
