"""Columns, keys and watermarks, and the rules between them."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import DefinitionError, UnknownObjectError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import (
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    PrimaryKey,
    Schema,
    Table,
    Watermark,
)
from penstock.catalog.model.types import IntType, TimestampLtzType, TimestampType, VarCharType

ID = PhysicalColumn(name="id", type=IntType())
TS = PhysicalColumn(name="ts", type=TimestampType(precision=3))
OFFSET = MetadataColumn(name="at", type=IntType(), key="offset", virtual=True)
NEXT = ComputedColumn(name="next", expression="id + 1")


def schema(*columns: PhysicalColumn | MetadataColumn | ComputedColumn, **rest) -> Schema:
    return Schema(columns=columns, **rest)


def test_columns_are_found_by_kind_and_by_name() -> None:
    """Each keeps its place among all."""
    whole = schema(ID, NEXT, OFFSET, TS)

    assert whole.names == ("id", "next", "at", "ts")
    assert whole.physical == (ID, TS)
    assert whole.metadata == (OFFSET,)
    assert whole.computed == (NEXT,)
    assert whole.column("ts") is TS
    assert OFFSET.metadata_key == "offset"
    assert MetadataColumn(name="offset", type=IntType()).metadata_key == "offset"


def test_an_unknown_column_is_an_error_with_the_nearest() -> None:
    """Names are compared exactly."""
    with pytest.raises(UnknownObjectError) as caught:
        schema(ID, PhysicalColumn(name="price", type=IntType())).column("prise")

    assert caught.value.hint == "did you mean 'price'?"


@pytest.mark.parametrize("other", ["id", "ID"])
def test_column_names_are_unique(other: str) -> None:
    """For Spark too, which does not look at case."""
    with pytest.raises(DefinitionError, match="column"):
        schema(ID, ComputedColumn(name=other, expression="1"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ((), "names no column"),
        (("id", "id"), "twice"),
        (("nope",), "not declared"),
        (("next",), "not a physical column"),
        (("at",), "not a physical column"),
    ],
)
def test_a_key_names_physical_columns(columns: tuple[str, ...], message: str) -> None:
    """Computed and metadata columns are not stored."""
    with pytest.raises(DefinitionError, match=message):
        schema(ID, NEXT, OFFSET, primary_key=PrimaryKey(columns=columns))


@pytest.mark.parametrize(
    "column",
    [
        TS,
        PhysicalColumn(name="ts", type=TimestampLtzType(precision=0)),
        MetadataColumn(name="ts", type=TimestampLtzType(precision=3), key="timestamp"),
        ComputedColumn(name="ts", expression="TO_TIMESTAMP(t)"),
        ComputedColumn(name="ts", expression="x", type=TimestampType(precision=3)),
    ],
)
def test_event_time_is_a_timestamp_of_milliseconds(
    column: PhysicalColumn | MetadataColumn | ComputedColumn,
) -> None:
    """Of either kind; a computed column whose type is not known yet is believed."""
    watermark = Watermark(column="ts", expression="ts - INTERVAL '5' SECOND")

    assert schema(ID, column, watermark=watermark).watermark == watermark


@pytest.mark.parametrize("kind", [IntType(), VarCharType(length=9), TimestampType(precision=6)])
def test_other_types_are_no_event_time(kind: IntType | VarCharType | TimestampType) -> None:
    """Flink's rule: TIMESTAMP(3) or TIMESTAMP_LTZ(3), with the way to get there."""
    with pytest.raises(DefinitionError) as caught:
        schema(PhysicalColumn(name="t", type=kind), watermark=Watermark(column="t", expression="t"))

    assert str(kind) in caught.value.message
    assert "CAST" in (caught.value.hint or "")


def test_a_watermark_names_a_declared_column() -> None:
    """With the nearest one."""
    with pytest.raises(DefinitionError, match="not declared") as caught:
        schema(ID, TS, watermark=Watermark(column="tss", expression="tss"))

    assert caught.value.hint == "did you mean 'ts'?"


@pytest.mark.parametrize("keys", [("nope",), ("id", "id")])
def test_partitioning_names_declared_columns_once(keys: tuple[str, ...]) -> None:
    """In any order."""
    with pytest.raises(DefinitionError, match="PARTITIONED BY"):
        Table(
            identifier=Identifier(catalog="c", database="d", name="t"),
            schema=schema(ID, TS),
            partition_keys=keys,
        )


def test_a_table_hides_its_secrets_when_shown() -> None:
    """Tables end up in tracebacks and logs."""
    table = Table(
        identifier=Identifier(catalog="c", database="d", name="t"),
        schema=schema(ID),
        options=(("connector", "kafka"), ("properties.sasl.password", "hunter2")),
    )

    assert "hunter2" not in repr(table)
    assert "kafka" in repr(table)
    assert table.connector == "kafka"
