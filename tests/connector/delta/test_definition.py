"""What a Delta table can be declared as."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.errors import DefinitionError, UnsupportedError
from penstock.catalog.model.table import ComputedColumn, MetadataColumn, Schema, Table, Watermark
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.changelog import ChangelogMode
from penstock.connector.delta.connector import DeltaConnector
from penstock.connector.delta.table import stored_schema
from penstock.connector.registry import connector_of
from tests.catalog.examples import columns
from tests.connector.delta.tables import delta_table

CONNECTOR = DeltaConnector(project=Path("/project"))
EVERY_TYPE = {
    "a": "BOOLEAN",
    "b": "TINYINT",
    "c": "SMALLINT",
    "d": "INT NOT NULL",
    "e": "BIGINT",
    "f": "FLOAT",
    "g": "DOUBLE",
    "h": "DECIMAL(38, 18)",
    "i": "CHAR(3)",
    "j": "VARCHAR(20)",
    "k": "STRING",
    "l": "BINARY(4)",
    "m": "BYTES",
    "n": "DATE",
    "o": "TIMESTAMP(3) NOT NULL",
    "p": "TIMESTAMP_LTZ(6)",
    "q": "ARRAY<INT NOT NULL>",
    "r": "MAP<STRING, ROW<x INT NOT NULL>>",
    "s": "MULTISET<STRING>",
    "t": "ROW<x INT NOT NULL, y ARRAY<ROW<z TIMESTAMP(3) NOT NULL>>> NOT NULL",
}


def test_the_registry_knows_it() -> None:
    """By the option `connector`."""
    assert connector_of(delta_table(), project=Path("/p")).name == "delta"


def test_every_type_that_delta_has_is_taken() -> None:
    """Nested ones too, with computed columns beside them."""
    schema = Schema(
        columns=(*columns(**EVERY_TYPE), ComputedColumn(name="twice", expression="d * 2"))
    )

    CONNECTOR.check(delta_table(schema=schema, partition_keys=("n",)))


@pytest.mark.parametrize("kind", ["TIME(0)", "INTERVAL DAY TO SECOND", "INTERVAL YEAR TO MONTH"])
@pytest.mark.parametrize("around", ["{}", "ARRAY<{}>", "MAP<STRING, {}>", "ROW<a ROW<b {}>>"])
def test_a_type_that_delta_lacks_is_refused(kind: str, around: str) -> None:
    """Wherever it is, with the column and a way out."""
    with pytest.raises(DefinitionError) as caught:
        CONNECTOR.check(delta_table(columns={"id": "INT", "odd": around.format(kind)}))

    assert "cannot store column odd" in caught.value.message
    assert str(parse_type(kind)) in caught.value.message
    assert "BIGINT" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (delta_table(columns={"id": "INT"}, partition_keys=("id",)), "all of its columns"),
        (
            delta_table(columns={"id": "INT", "a": "ARRAY<INT>"}, partition_keys=("a",)),
            "ARRAY<INT>",
        ),
        (delta_table(columns={"my id": "INT"}), "cannot name a column `my id`"),
        (delta_table(columns={"r": "ROW<`a;b` INT>"}), "cannot name a column `a;b`"),
        (
            delta_table(schema=Schema(columns=(ComputedColumn(name="c", expression="1"),))),
            "no physical column",
        ),
        (
            delta_table(
                schema=Schema(
                    columns=(*columns(id="INT"), ComputedColumn(name="c", expression="id + 1"))
                ),
                partition_keys=("c",),
            ),
            "not a physical column",
        ),
        (
            delta_table(
                schema=Schema(
                    columns=(
                        *columns(id="INT"),
                        MetadataColumn(name="offset", type=parse_type("BIGINT")),
                    )
                )
            ),
            "no metadata, so column offset",
        ),
    ],
)
def test_what_delta_cannot_hold_is_refused(table: Table, message: str) -> None:
    """Each with the column that is in the way."""
    with pytest.raises(DefinitionError) as caught:
        CONNECTOR.check(table)

    assert message in caught.value.message


def test_any_name_goes_where_columns_are_mapped() -> None:
    """Delta's own way out."""
    CONNECTOR.check(
        delta_table(columns={"my id": "INT"}, options={"delta.columnMapping.mode": "name"})
    )


def test_a_watermark_belongs_to_a_source_with_splits() -> None:
    """A promise that nothing keeps would lose rows."""
    schema = Schema(
        columns=columns(ts="TIMESTAMP(3)"), watermark=Watermark(column="ts", expression="ts")
    )
    with pytest.raises(UnsupportedError):
        CONNECTOR.check(delta_table(schema=schema))


def test_a_primary_key_makes_it_take_every_change() -> None:
    """Without one, rows that stay."""
    keyed = CONNECTOR.sink(delta_table(columns={"id": "BIGINT"}, key=("id",)))
    plain = CONNECTOR.sink(delta_table(columns={"id": "BIGINT"}))

    assert keyed.capabilities.accepts is ChangelogMode.ALL
    assert plain.capabilities.accepts is ChangelogMode.INSERT_ONLY


def test_columns_of_the_key_are_not_null() -> None:
    """Said or not, as in Flink."""
    table = delta_table(columns={"a": "INT", "b": "STRING", "c": "INT"}, key=("b", "a"))

    assert [column.nullable for column in stored_schema(table)] == [False, False, True]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            delta_table(columns={"a": "ARRAY<INT>", "b": "INT"}, key=("a",)),
            "PRIMARY KEY column a has type ARRAY<INT>",
        ),
        (
            delta_table(partition_keys=("day",), options={"clustering.columns": "id"}),
            "is PARTITIONED BY and has 'clustering.columns'",
        ),
        (delta_table(options={"clustering.columns": "di"}), "names di, which is not a physical"),
        (delta_table(options={"clustering.columns": "id;id"}), "names id twice"),
        (
            delta_table(columns={"r": "ROW<a INT>"}, options={"clustering.columns": "r"}),
            "names r, which has type ROW",
        ),
        (
            delta_table(
                columns=dict.fromkeys("abcde", "INT"), options={"clustering.columns": "a;b;c;d;e"}
            ),
            "5 clustering columns",
        ),
    ],
)
def test_keys_and_clustering_columns_are_plain(table: Table, message: str) -> None:
    """Refused before anything starts, with the column."""
    with pytest.raises(DefinitionError) as caught:
        CONNECTOR.check(table)

    assert message in caught.value.message
