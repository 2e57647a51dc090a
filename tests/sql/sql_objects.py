"""What the tests of SQL share: a catalog in memory, and a namespace with a few tables."""

from __future__ import annotations

from functools import cache

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import InputError, InputErrors
from penstock.catalog.model.table import Table, View
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.convert.statement import parse_statement
from penstock.sql.ddl.apply_ddl import apply_ddl, is_definition
from penstock.sql.script.splitter import split, split_all
from penstock.sql.statements.statement import CreateTable, CreateView, Statement
from penstock.sql.syntax.positions import LineMap, Source

TABLES = """
CREATE TABLE bids (
  auction BIGINT, bidder BIGINT, price BIGINT, ts TIMESTAMP(3), l TIMESTAMP_LTZ(3), extra STRING,
  d DOUBLE, ok BOOLEAN, m MAP<INT, STRING>, r ROW<a INT, b ROW<c STRING>>, arr ARRAY<ROW<x INT, y STRING>>,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka');
CREATE TABLE auctions (id BIGINT, seller BIGINT, ts TIMESTAMP(3)) WITH ('connector' = 'kafka');
CREATE TABLE sink (
  id BIGINT, name STRING, k STRING METADATA FROM 'key', o BIGINT METADATA FROM 'offset' VIRTUAL, c AS id + 1)
WITH ('connector' = 'delta');
CREATE VIEW halves (a, h) AS SELECT auction, price / 2 FROM bids;
CREATE FUNCTION my_function AS 'module.my_function' LANGUAGE PYTHON
"""


def new_namespace(sql: str = "") -> Namespace:
    """A namespace of its own, with what `sql` defines. It keeps its definitions as objects, as a check does."""
    return _defined(sql).overlay()


@cache
def _defined(sql: str) -> Namespace:
    """What a text defines, which stays as it is: many tests begin with the same."""
    namespace = Namespace(_no_definitions()).overlay()
    run(sql, namespace)
    return namespace


@cache
def _no_definitions() -> SqlCatalog:
    """The store below every namespace, which stays empty: a store of each test's own is made by Alembic's steps."""
    catalog = SqlCatalog("sqlite://")
    catalog.upgrade()
    return catalog


def run(sql: str, namespace: Namespace) -> list[Statement]:
    """The statements of a text, each taken over before the next is read."""
    statements = []
    for text in split(sql, "test.sql"):
        statement = parse_statement(text, namespace)
        if is_definition(statement):
            apply_ddl(statement, namespace)
        statements.append(statement)
    return statements


def parse_script(
    text: str, file: str, namespace: Namespace, line_map: LineMap | None = None
) -> list[Statement]:
    """The statements of a file, each checked against what those before it define; `namespace` stays as it is.

    Raises InputErrors with all that is wrong.
    """
    texts, broken_end = split_all(Source(file=file, text=text, line_map=line_map))
    overlay = namespace.overlay()
    statements: list[Statement] = []
    errors: list[InputError] = []
    for one in texts:
        try:
            statement = parse_statement(one, overlay)
            if is_definition(statement):
                apply_ddl(statement, overlay)
            statements.append(statement)
        except InputErrors as found:
            errors += found.errors
        except InputError as error:
            errors.append(error)
    if broken_end is not None:
        errors.append(broken_end)
    if errors:
        raise InputErrors(errors)
    return statements


def define(sql: str) -> Table | View:
    """The table or view that one statement defines."""
    (text,) = split(sql, "test.sql")
    statement = parse_statement(text, EMPTY)
    assert isinstance(statement, CreateTable | CreateView)
    return statement.table if isinstance(statement, CreateTable) else statement.view


EMPTY = new_namespace()
