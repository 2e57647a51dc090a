"""SHOW CREATE writes what CREATE reads, for every table there can be."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.catalog.distribution import Distribution
from penstock.catalog.identifier import Identifier
from penstock.catalog.schema import (
    Column,
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    PrimaryKey,
    Schema,
    Watermark,
)
from penstock.catalog.table import Table, View
from penstock.catalog.types import LogicalType, parse_type
from penstock.sql.dialect import to_text
from penstock.sql.expressions import infer_type, parse_expression
from penstock.sql.show import show_create
from tests.sql.sql_objects import define

SIMPLE_TYPES = [
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "STRING",
    "BYTES",
    "DATE",
    "DECIMAL(10,2)",
    "DECIMAL(38,0)",
    "CHAR(3)",
    "VARCHAR(7)",
    "BINARY(2)",
    "VARBINARY(9)",
    "TIME(0)",
    "TIME(3)",
    "TIMESTAMP(3)",
    "TIMESTAMP(6)",
    "TIMESTAMP_LTZ(3)",
    "TIMESTAMP_LTZ(9)",
]
EXPRESSIONS = (
    "1 + 1",
    "UPPER('x') || 'it''s'",
    "CAST(NULL AS TIMESTAMP(3))",
    "TO_TIMESTAMP('2026-01-01 00:00:00')",
    "CASE WHEN 1 > 2 THEN 'a' ELSE 'b' END",
    "CAST(ROW(1, 'x') AS ROW<`a` INT, `b c` STRING>)",
    "MAP['k', ARRAY[1, 2]]['k'][1]",
)

texts = st.text(st.characters(blacklist_categories=("Cs", "Cc")), max_size=12)
names = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=1, max_size=8)


def named(kind: str, nullable: bool) -> LogicalType:
    """A type by its spelling."""
    return parse_type(kind if nullable else f"{kind} NOT NULL")


def nested(inner: st.SearchStrategy[LogicalType]) -> st.SearchStrategy[LogicalType]:
    """Types around a type, as text and back: fields have odd names and comments."""
    rows = st.lists(
        st.tuples(names, inner, texts), min_size=1, max_size=3, unique_by=lambda f: f[0]
    )
    return st.one_of(
        inner.map(lambda t: parse_type(f"ARRAY<{t}>")),
        inner.map(lambda t: parse_type(f"MULTISET<{t}> NOT NULL")),
        st.tuples(inner, inner).map(lambda p: parse_type(f"MAP<{p[0]}, {p[1]}>")),
        rows.map(row_type),
    )


def row_type(fields: list[tuple[str, LogicalType, str]]) -> LogicalType:
    """ROW<...> with names that need quotes."""
    inside = ", ".join(
        f"`{name.replace('`', '``')}` {kind}"
        + (f" '{comment.replace(chr(39), chr(39) * 2)}'" if comment else "")
        for name, kind, comment in fields
    )
    return parse_type(f"ROW<{inside}>")


types = st.recursive(
    st.builds(named, st.sampled_from(SIMPLE_TYPES), st.booleans()), nested, max_leaves=4
)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Any table: odd names, every kind of column, key, watermark, partitions, options."""
    columns: list[Column] = []
    for name in draw(st.lists(names, min_size=2, max_size=5, unique=True)):
        comment = draw(st.none() | texts)
        match draw(st.sampled_from(["physical", "physical", "metadata", "computed"])):
            case "physical":
                columns.append(PhysicalColumn(name=name, type=draw(types), comment=comment))
            case "metadata":
                key, virtual = draw(st.none() | texts), draw(st.booleans())
                kind = draw(types)
                columns.append(
                    MetadataColumn(name=name, type=kind, key=key, virtual=virtual, comment=comment)
                )
            case _:
                columns.append(computed(name, draw(st.sampled_from(EXPRESSIONS)), comment))
    physical = [column.name for column in columns if isinstance(column, PhysicalColumn)]
    key = (
        draw(st.none() | st.lists(st.sampled_from(physical), min_size=1, unique=True))
        if physical
        else None
    )
    watermark = None
    if draw(st.booleans()):
        time = next(
            name
            for name in ("ts", "ts2", "ts3", "ts4", "ts5", "ts6")
            if name not in {c.name for c in columns}
        )
        columns.append(PhysicalColumn(name=time, type=parse_type("TIMESTAMP(3)")))
        watermark = Watermark(column=time, expression=f"{time} - INTERVAL '5' SECOND")
    key_name = draw(st.none() | names)
    return Table(
        identifier=Identifier(
            catalog="default_catalog", database="default_database", name=draw(names)
        ),
        schema=Schema(
            columns=tuple(columns),
            watermark=watermark,
            primary_key=PrimaryKey(columns=tuple(key), name=key_name) if key else None,
        ),
        options=tuple(draw(st.dictionaries(names, texts, max_size=3)).items()),
        partition_keys=tuple(draw(st.lists(st.sampled_from(physical), unique=True)))
        if physical
        else (),
        comment=draw(st.none() | texts),
        temporary=draw(st.booleans()),
        distribution=draw(st.none() | distributions(physical)),
    )


def distributions(columns: list[str]) -> st.SearchStrategy[Distribution]:
    """Buckets by number, by columns, or both."""
    buckets = st.integers(1, 99)
    by_number = st.builds(Distribution, buckets=buckets)
    if not columns:
        return by_number
    return by_number | st.builds(
        Distribution,
        kind=st.sampled_from((None, "HASH", "RANGE")),
        columns=st.lists(st.sampled_from(columns), min_size=1, unique=True).map(tuple),
        buckets=st.none() | buckets,
    )


def computed(name: str, expression: str, comment: str | None) -> ComputedColumn:
    """A computed column as a CREATE TABLE would make it: one spelling, the type where it is told."""
    text = to_text(parse_expression(expression))
    kind = infer_type(text, Schema(columns=()))
    return ComputedColumn(name=name, expression=text, type=kind, comment=comment)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tables())
def test_what_show_writes_is_read_back_as_the_same_table(table: Table) -> None:
    """Names, types, comments, keys and options of any shape."""
    assert define(show_create(table, redacted=False)) == table


def test_secrets_are_hidden_unless_asked_for() -> None:
    """What is shown by default goes to screens and logs."""
    sql = "CREATE TABLE t (a INT) WITH ('sasl.password' = 'hunter2', 'topic' = 'x')"
    table = define(sql)

    assert "hunter2" not in show_create(table)
    assert "'topic' = 'x'" in show_create(table)
    assert "hunter2" in show_create(table, redacted=False)


def test_a_view_reads_back_as_the_same_view() -> None:
    """With its columns and comment."""
    view = define("CREATE TEMPORARY VIEW `v w` (`a b`, c) COMMENT 'it''s' AS SELECT 1, 'x' || 'y'")

    assert isinstance(view, View)
    assert view.columns == ("a b", "c")
    assert define(show_create(view)) == view
