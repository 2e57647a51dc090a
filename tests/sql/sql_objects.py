"""What the tests of SQL share: a catalog in memory, and a namespace with a few tables."""

from __future__ import annotations

from penstock.catalog.names import Namespace
from penstock.catalog.store import SqlCatalog
from penstock.catalog.table import Table, View
from penstock.sql.lower import apply, parse_statement
from penstock.sql.script import split
from penstock.sql.statements import CreateTable, CreateView, Statement

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
CREATE VIEW halves (a, h) AS SELECT auction, price / 2 FROM bids
"""


def new_namespace(sql: str = "") -> Namespace:
    """A namespace of its own, with what `sql` defines."""
    namespace = Namespace(SqlCatalog("sqlite://"))
    run(sql, namespace)
    return namespace


def run(sql: str, namespace: Namespace) -> list[Statement]:
    """The statements of a text, each taken over before the next is read."""
    statements = []
    for text in split(sql, "test.sql"):
        statement = parse_statement(text, namespace)
        apply(statement, namespace)
        statements.append(statement)
    return statements


def define(sql: str) -> Table | View:
    """The table or view that one statement defines."""
    (text,) = split(sql, "test.sql")
    statement = parse_statement(text, EMPTY)
    assert isinstance(statement, CreateTable | CreateView)
    return statement.table if isinstance(statement, CreateTable) else statement.view


EMPTY = new_namespace()
