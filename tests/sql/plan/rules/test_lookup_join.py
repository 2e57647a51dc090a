"""Joins with the rows that a table has now: what is one, what is refused, and what is kept of it: nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.sql.checkpoint.fingerprint import fingerprint_of
from penstock.sql.dialect import to_text
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.analysis import analyse
from penstock.sql.statements.statement import Select
from tests.sql.sql_objects import new_namespace, parse_script

KAFKA = (
    "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'nowhere:1', 'format' = 'json', "
    "'scan.startup.mode' = 'earliest-offset'"
)
TABLES = f"""
CREATE TABLE orders (id BIGINT, customer BIGINT, ts TIMESTAMP(3), pt AS PROCTIME(),
  WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH ({KAFKA});
CREATE TABLE topics (id BIGINT, name STRING) WITH ({KAFKA});
CREATE TABLE customers (id BIGINT, name STRING) WITH ('connector' = 'delta', 'path' = 'c');
CREATE VIEW named AS SELECT * FROM customers;
"""
JOIN = "SELECT o.id, c.name FROM orders AS o {0} ON o.customer = c.id"


def planned(query: str) -> AnalysedQuery:
    """An INSERT of this query into a table that takes rows that stay."""
    namespace = new_namespace(TABLES)
    (statement,) = parse_script(query, "f.sql", namespace)
    assert isinstance(statement, Select)
    return analyse(statement.query, namespace, Path("/nowhere"), appends=True)


@pytest.mark.parametrize(
    "query",
    [
        JOIN.format("JOIN customers FOR SYSTEM_TIME AS OF o.pt AS c"),
        JOIN.format("LEFT JOIN customers FOR SYSTEM_TIME AS OF PROCTIME() AS c"),
        "SELECT o.id, c.name FROM (SELECT *, PROCTIME() AS now FROM orders) AS o LEFT JOIN customers "
        "FOR SYSTEM_TIME AS OF o.now AS c ON o.customer = c.id AND c.name <> 'x'",
    ],
)
def test_a_table_is_looked_up_as_of_a_processing_time(query: str) -> None:
    """It is no source of the stream, and neither row is kept; rows that are written stay."""
    found = planned(query)

    assert [leaf.looked_up for leaf in found.leaves] == [False, True]
    assert found.source_names == ("default_catalog.default_database.orders",)
    assert not found.flow.is_changing
    assert fingerprint_of(found.query, (), "").state == ()
    assert "SYSTEM_TIME" not in to_text(found.query)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            JOIN.format("JOIN customers FOR SYSTEM_TIME AS OF o.ts AS c"),
            "requires a row time attribute",
        ),
        (JOIN.format("JOIN topics FOR SYSTEM_TIME AS OF o.pt AS c"), "followed as a stream"),
        (JOIN.format("FULL JOIN customers FOR SYSTEM_TIME AS OF o.pt AS c"), "not FULL"),
        (JOIN.format("JOIN named FOR SYSTEM_TIME AS OF o.pt AS c"), "c is a view"),
        (
            "SELECT o.id FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.pt AS c ON o.customer > c.id",
            "compares a column of c for equality",
        ),
        ("SELECT * FROM customers FOR SYSTEM_TIME AS OF PROCTIME() AS c", "stands in a join"),
        (
            "SELECT c.name, COUNT(*) FROM orders AS o JOIN customers FOR SYSTEM_TIME AS OF o.pt AS c "
            "ON o.customer = c.id GROUP BY c.name",
            "only takes rows that stay",
        ),
    ],
)
def test_what_is_no_lookup_is_refused(query: str, message: str) -> None:
    """At the place of the words, where it is they that are wrong."""
    with pytest.raises(UnsupportedError, match=message) as caught:
        planned(query)

    assert caught.value.hint or "FULL" in message
