"""The fields of rows that a query needs: named ones alone, and all of them where there is any doubt."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from penstock.catalog.model.table import PhysicalColumn, Schema
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.options.option import resolve
from penstock.connector.formats import find_format
from penstock.sql.dialect import parse_query
from penstock.sql.plan.analysed import TableScan
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.rules.prune_columns import field_paths, narrowed, row_paths
from penstock.sql.plan.statement_set import SharedRead, share
from penstock.sql.statements.statement import Select
from tests.sql.sql_objects import new_namespace, parse_script

ITEM = "ROW<sku STRING, price DECIMAL(10, 2), size ROW<w INT, h INT>, tags ARRAY<ROW<k STRING, v STRING>>>"
SCHEMA = Schema(
    columns=(
        PhysicalColumn(name="id", type=parse_type("BIGINT")),
        PhysicalColumn(name="item", type=parse_type(ITEM)),
    )
)
TABLE = f"""
CREATE TABLE t (
  id BIGINT, item {ITEM}, meta ROW<at TIMESTAMP(3), host STRING>, at AS meta.`at`,
  WATERMARK FOR `at` AS `at` - INTERVAL '1' SECOND
) WITH ('connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'nowhere:1',
        'scan.startup.mode' = 'earliest-offset', 'format' = 'json' {{more}});
"""


def leaf_of(query: str, more: str = "") -> TableScan:
    """What `query` reads of the table t."""
    namespace = new_namespace(TABLE.format(more=more))
    (statement,) = parse_script(query, "f.sql", namespace)
    assert isinstance(statement, Select)
    return analyse(statement.query, namespace, Path("/nowhere"), appends=False).leaves[0]


@pytest.mark.parametrize(
    ("query", "kind"),
    [
        ("SELECT item.price FROM t", "ROW<price DECIMAL(10, 2)>"),
        ("SELECT t.item.size.h, x.item.sku FROM t AS x", "ROW<sku STRING, size ROW<h INT>>"),
        (
            "SELECT (item).size.w FROM t WHERE item.price > 1",
            "ROW<price DECIMAL(10, 2), size ROW<w INT>>",
        ),
        ("SELECT item.size, item.size.w FROM t", "ROW<size ROW<w INT, h INT>>"),
        ("SELECT item.tags[1].k FROM t", "ROW<tags ARRAY<ROW<k STRING, v STRING>>>"),
        ("SELECT i.size.w FROM (SELECT item AS i FROM t) AS s", ITEM),
        ("SELECT item.price, item FROM t", ITEM),
        ("SELECT item.nothing FROM t", ITEM),
    ],
)
def test_a_row_is_narrowed_to_the_fields_that_are_named(query: str, kind: str) -> None:
    """In the order of the table; a column that is named by itself, under another name too, is read whole."""
    paths = row_paths(SCHEMA, ("id", "item"), field_paths([parse_query(query)]))

    assert narrowed(SCHEMA, paths).column("item").type == parse_type(kind)


def test_what_the_table_itself_computes_is_read_too() -> None:
    """The watermark stands on a computed column, which reads a field of a row."""
    leaf = leaf_of("SELECT id, item.price FROM t WHERE meta.host = 'a'")

    assert leaf.fields == {
        "item": frozenset({("price",)}),
        "meta": frozenset({("host",), ("at",)}),
    }
    assert leaf.read_table.schema.column("meta").type == leaf.table.schema.column("meta").type


def test_the_format_decodes_the_narrowed_row() -> None:
    """Fields that were not asked for are passed over, one of another type among them; NULL stays NULL."""
    read = leaf_of("SELECT item.size.h, item.price FROM t").read_table.schema
    source = find_format("json")
    resolved = resolve({}, source.options(), owner="t")
    decoder = source.decoder([("item", read.column("item").type)], resolved)
    values = [
        b'{"id": 1, "item": {"sku": {"x": 1}, "price": 1.5, "size": {"w": "wide", "h": 2}, "more": []}}',
        b'{"item": {"size": null}}',
        b'{"item": null}',
    ]
    rows = decoder.decode(values, str).batch.column(0).to_pylist()

    assert rows == [
        {"price": Decimal("1.50"), "size": {"h": 2}},
        {"price": None, "size": None},
        None,
    ]


@pytest.mark.parametrize(
    ("query", "more"),
    [
        ("SELECT item.price FROM t", ", 'json.fail-on-missing-field' = 'true'"),
        ("SELECT *, item.price FROM t", ""),
    ],
)
def test_rows_are_read_whole_where_all_fields_count(query: str, more: str) -> None:
    """A star asks for all; a missing field can only be an error where it is looked for."""
    assert leaf_of(query, more).fields == {}


def test_a_shared_read_has_the_fields_of_all_inserts() -> None:
    """What one INSERT of a set reads whole is read whole."""
    namespace = new_namespace(TABLE.format(more=""))
    texts = ("SELECT item.price FROM t", "SELECT item.size.w FROM t", "SELECT item FROM t")
    statements = [parse_script(text, "f.sql", namespace)[0] for text in texts]
    queries = [
        analyse(one.query, namespace, Path("/nowhere"), appends=True)
        for one in statements
        if isinstance(one, Select)
    ]
    both, whole = share(queries[:2], Path("/nowhere")), share(queries, Path("/nowhere"))

    assert isinstance(both, SharedRead)
    assert isinstance(whole, SharedRead)
    assert both.leaf.fields == {"item": frozenset({("price",), ("size", "w")})}
    assert whole.leaf.fields == {}
