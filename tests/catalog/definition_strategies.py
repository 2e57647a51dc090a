"""Hypothesis strategies for definitions that SQL can say: any that a CREATE statement makes, of every kind."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from hypothesis import strategies as st

from penstock.catalog.model.function import Function, Language
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import CatalogDescriptor, DatabaseDescriptor
from penstock.catalog.model.table import (
    Column,
    ComputedColumn,
    Materialization,
    MetadataColumn,
    PhysicalColumn,
    PrimaryKey,
    RefreshMode,
    Schema,
    Table,
    TableDistribution,
    View,
    Watermark,
)
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.model.types import LogicalType
from penstock.sql.dialect import to_text
from penstock.sql.expressions.expression import infer_type, parse_expression
from penstock.sql.statements.definitions import CreateMaterializedTable
from penstock.sql.statements.statement import CreateView
from tests.sql.sql_objects import new_namespace, run

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

texts = st.text(
    st.characters(exclude_categories=("Cs", "Cc"), include_characters="\n\t'`\\"), max_size=12
)
names = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=8)


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


def distributions(columns: list[str]) -> st.SearchStrategy[TableDistribution]:
    """Buckets by number, by columns, or both."""
    buckets = st.integers(1, 99)
    by_number = st.builds(TableDistribution, buckets=buckets)
    if not columns:
        return by_number
    return by_number | st.builds(
        TableDistribution,
        kind=st.sampled_from((None, "HASH", "RANGE")),
        columns=st.lists(st.sampled_from(columns), min_size=1, unique=True).map(tuple),
        buckets=st.none() | buckets,
    )


def computed(name: str, expression: str, comment: str | None) -> ComputedColumn:
    """A computed column as a CREATE TABLE would make it: one spelling, the type where it is told."""
    text = to_text(parse_expression(expression))
    kind = infer_type(text, Schema(columns=()))
    return ComputedColumn(name=name, expression=text, type=kind, comment=comment)


QUERIES = (
    "SELECT * FROM base",
    "SELECT id, UPPER(name) AS `up per` FROM base WHERE name <> 'it''s'",
    "SELECT name, COUNT(*) AS n, MAX(id) AS top FROM base GROUP BY name",
)
BASE = (
    "CREATE TABLE base (id BIGINT NOT NULL, name STRING, day DATE) WITH ('connector' = 'datagen')"
)


@cache
def filled_by(query: str) -> Table:
    """The materialized table that a query makes, with nothing else declared."""
    (statement,) = run(f"CREATE MATERIALIZED TABLE m AS {query}", new_namespace(BASE))
    assert isinstance(statement, CreateMaterializedTable)
    return statement.table


@st.composite
def materialized_tables(draw: st.DrawFn) -> Table:
    """Any materialized table over `BASE`: its columns are its query's."""
    made = filled_by(draw(st.sampled_from(QUERIES)))
    columns = st.lists(st.sampled_from(made.schema.names), max_size=2, unique=True)
    key = draw(columns.filter(lambda names: "id" in made.schema.names or not names))
    required = [c.name for c in made.schema.columns if c.type is not None and not c.type.nullable]
    key = [name for name in key if name in required]
    query = made.materialization.query if made.materialization is not None else ""
    return replace(
        made,
        identifier=replace(made.identifier, name=draw(names)),
        schema=replace(made.schema, primary_key=PrimaryKey(columns=tuple(key)) if key else None),
        options=tuple(draw(st.dictionaries(names, texts, max_size=2)).items()),
        partition_keys=tuple(draw(columns)),
        comment=draw(st.none() | texts),
        materialization=Materialization(
            query=query,
            freshness_ms=draw(st.none() | st.integers(1, 10**12)),
            mode=draw(st.none() | st.sampled_from(RefreshMode)),
        ),
    )


VIEWED = (
    "SELECT 1, 'x' || 'y'",
    "SELECT `a b`.`c`, 'it''s' FROM (VALUES (1, 2)) AS `a b` (`c`, d)",
    "SELECT name, COUNT(*) FROM base GROUP BY name HAVING COUNT(*) > 1",
)


@cache
def view_of(query: str) -> View:
    """The view that a query makes: its text is the writer's."""
    (statement,) = run(f"CREATE VIEW v AS {query}", new_namespace(BASE))
    assert isinstance(statement, CreateView)
    return statement.view


@st.composite
def views(draw: st.DrawFn) -> View:
    """Any view, often with names and comments for its two columns."""
    made = view_of(draw(st.sampled_from(VIEWED)))
    columns = tuple(
        draw(st.lists(names, min_size=2, max_size=2, unique_by=str.lower) | st.just([]))
    )
    told = tuple(draw(st.none() | texts) for _ in columns)
    return replace(
        made,
        identifier=replace(made.identifier, name=draw(names)),
        columns=columns,
        column_comments=told if any(text is not None for text in told) else (),
        comment=draw(st.none() | texts),
        temporary=draw(st.booleans()),
    )


functions: st.SearchStrategy[Function] = st.builds(
    Function,
    identifier=st.builds(
        Identifier,
        catalog=st.just("default_catalog"),
        database=st.just("default_database"),
        name=names.map(str.lower).filter(bool),
    ),
    code=st.sampled_from(("shop.discount", "org.example.Discount")),
    language=st.sampled_from(Language),
    jars=st.lists(texts, max_size=2).map(tuple),
)
catalogs: st.SearchStrategy[CatalogDescriptor] = st.builds(
    CatalogDescriptor,
    name=names,
    options=names.map(lambda name: (("type", "penstock"), ("default-database", name))),
    comment=st.none() | texts,
)
databases: st.SearchStrategy[DatabaseDescriptor] = st.builds(
    DatabaseDescriptor,
    catalog=st.just("default_catalog"),
    name=names,
    options=st.dictionaries(names, texts, max_size=3).map(lambda pairs: tuple(pairs.items())),
    comment=st.none() | texts,
)
