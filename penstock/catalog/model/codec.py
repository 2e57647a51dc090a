"""Definitions as versioned JSON: what the store keeps and what travels to other processes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from penstock.catalog.errors import CatalogError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import CatalogDescriptor, DatabaseDescriptor
from penstock.catalog.model.table import (
    Column,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    PrimaryKey,
    Schema,
    Table,
    TableDistribution,
    View,
    Watermark,
    materialization_from_json,
    materialization_to_json,
)
from penstock.catalog.model.type_parser import parse_type

VERSION = 1


def table_to_json(value: Table | View) -> dict[str, Any]:
    """Write a table or view as JSON values; `table_from_json` is the inverse."""
    base = {
        "v": VERSION,
        "name": [value.identifier.catalog, value.identifier.database, value.identifier.name],
        "comment": value.comment,
        "temporary": value.temporary,
    }
    match value:
        case Table():
            return base | {
                "kind": "table",
                "schema": _schema_to_json(value.schema),
                "options": [list(pair) for pair in value.options],
                "partition_keys": list(value.partition_keys),
                "distribution": _distribution_to_json(value.distribution),
                "materialization": materialization_to_json(value.materialization),
            }
        case View():
            return base | {
                "kind": "view",
                "query": value.query,
                "columns": list(value.columns),
                "column_comments": list(value.column_comments),
            }
    assert_never(value)


def table_from_json(value: Mapping[str, Any]) -> Table | View:
    """Read a definition. Raises CatalogError for a version that is not known here."""
    _check_version(value)
    catalog, database, name = value["name"]
    identifier = Identifier(catalog=catalog, database=database, name=name)
    if value["kind"] == "view":
        return View(
            identifier=identifier,
            query=value["query"],
            columns=tuple(value["columns"]),
            comment=value["comment"],
            temporary=value["temporary"],
            column_comments=tuple(value.get("column_comments", ())),  # older ones have none
        )
    return Table(
        identifier=identifier,
        schema=_schema_from_json(value["schema"]),
        options=tuple((key, text) for key, text in value["options"]),
        partition_keys=tuple(value["partition_keys"]),
        comment=value["comment"],
        temporary=value["temporary"],
        distribution=_distribution_from_json(value.get("distribution")),  # older ones have none
        materialization=materialization_from_json(value.get("materialization")),
    )


def catalog_to_json(value: CatalogDescriptor) -> dict[str, Any]:
    """Write a catalog's options and comment as JSON values."""
    return _described(value)


def catalog_from_json(name: str, value: Mapping[str, Any]) -> CatalogDescriptor:
    """Read a catalog. Raises CatalogError for a version that is not known here."""
    _check_version(value)
    options = tuple((key, text) for key, text in value["options"])
    return CatalogDescriptor(name=name, options=options, comment=value["comment"])


def database_to_json(value: DatabaseDescriptor) -> dict[str, Any]:
    """Write a database's options and comment as JSON values."""
    return _described(value)


def database_from_json(catalog: str, name: str, value: Mapping[str, Any]) -> DatabaseDescriptor:
    """Read a database. Raises CatalogError for a version that is not known here."""
    _check_version(value)
    options = tuple((key, text) for key, text in value["options"])
    return DatabaseDescriptor(catalog=catalog, name=name, options=options, comment=value["comment"])


def _described(value: CatalogDescriptor | DatabaseDescriptor) -> dict[str, Any]:
    options = [list(pair) for pair in value.options]
    return {"v": VERSION, "options": options, "comment": value.comment}


def _check_version(value: Mapping[str, Any]) -> None:
    if value.get("v") != VERSION:
        raise CatalogError(
            f"a definition was written by another version of Penstock (format {value.get('v')!r})",
            hint="use that version or a newer one",
        )


def _distribution_to_json(value: TableDistribution | None) -> dict[str, Any] | None:
    if value is None:
        return None
    return {"kind": value.kind, "columns": list(value.columns), "buckets": value.buckets}


def _distribution_from_json(value: Mapping[str, Any] | None) -> TableDistribution | None:
    if value is None:
        return None
    return TableDistribution(
        kind=value["kind"], columns=tuple(value["columns"]), buckets=value["buckets"]
    )


def _schema_to_json(schema: Schema) -> dict[str, Any]:
    watermark, key = schema.watermark, schema.primary_key
    return {
        "columns": [_column_to_json(column) for column in schema.columns],
        "watermark": None if watermark is None else [watermark.column, watermark.expression],
        "primary_key": None if key is None else {"name": key.name, "columns": list(key.columns)},
    }


def _schema_from_json(value: Mapping[str, Any]) -> Schema:
    watermark, key = value["watermark"], value["primary_key"]
    return Schema(
        columns=tuple(_column_from_json(column) for column in value["columns"]),
        watermark=None
        if watermark is None
        else Watermark(column=watermark[0], expression=watermark[1]),
        primary_key=None
        if key is None
        else PrimaryKey(columns=tuple(key["columns"]), name=key["name"]),
    )


def _column_to_json(column: Column) -> dict[str, Any]:
    base = {
        "name": column.name,
        "type": None if column.type is None else str(column.type),
        "comment": column.comment,
    }
    match column:
        case PhysicalColumn():
            return base | {"kind": "physical"}
        case MetadataColumn():
            return base | {"kind": "metadata", "key": column.key, "virtual": column.virtual}
        case ComputedColumn():
            return base | {"kind": "computed", "expression": column.expression}
    assert_never(column)


def _column_from_json(value: Mapping[str, Any]) -> Column:
    name, comment = value["name"], value["comment"]
    if value["kind"] == "computed":
        kind = None if value["type"] is None else parse_type(value["type"])
        return ComputedColumn(name=name, expression=value["expression"], type=kind, comment=comment)
    if value["kind"] == "metadata":
        return MetadataColumn(
            name=name,
            type=parse_type(value["type"]),
            key=value["key"],
            virtual=value["virtual"],
            comment=comment,
        )
    return PhysicalColumn(name=name, type=parse_type(value["type"]), comment=comment)
