"""Lookups by key: which conditions become keys, what stays a condition, and when the table is read whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.connector.lookup.contract import MissRetry
from penstock.connector.registry import connector_of
from penstock.sql.dialect import to_spark_query
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.lookup_keys import (
    KeyLookup,
    LookupStrategy,
    lookup_strategy,
    lookups_in,
    write_lookup,
)
from penstock.sql.statements.statement import Select
from tests.sql.sql_objects import new_namespace, parse_script

KAFKA = (
    "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'nowhere:1', "
    "'scan.startup.mode' = 'earliest-offset'"
)
JDBC = "'connector' = 'jdbc', 'url' = 'jdbc:postgresql://db/shop', 'table-name'"
TABLES = f"""
CREATE TABLE orders (id BIGINT, customer INT, region STRING, price DOUBLE, pt AS PROCTIME())
  WITH ({KAFKA}, 'format' = 'json');
CREATE TABLE cdc (id BIGINT, customer INT, pt AS PROCTIME(), PRIMARY KEY (id) NOT ENFORCED)
  WITH ({KAFKA}, 'format' = 'debezium-json');
CREATE TABLE customers (id BIGINT, region STRING, name STRING, score DOUBLE, PRIMARY KEY (id) NOT ENFORCED)
  WITH ({JDBC} = 'customers');
CREATE TABLE doubled (id BIGINT, twice AS id * 2) WITH ({JDBC} = 'doubled');
CREATE TABLE lake (id BIGINT, name STRING) WITH ('connector' = 'delta', 'path' = 'c');
"""
AS_OF = "FOR SYSTEM_TIME AS OF o.pt AS c"
JOIN = f"SELECT o.id, c.name FROM orders AS o JOIN customers {AS_OF} ON "
PROJECT = Path("/nowhere")


def planned(query: str) -> AnalysedQuery:
    """An INSERT of this query into a table that takes what it gives."""
    namespace = new_namespace(TABLES)
    (statement,) = parse_script(query, "f.sql", namespace)
    assert isinstance(statement, Select)
    return analyse(statement.query, namespace, PROJECT, appends=False)


def way(query: str) -> LookupStrategy:
    """How its one lookup gets its rows."""
    found = planned(query)
    ((index, join),) = lookups_in(found.query)
    leaf = found.leaves[index]
    return lookup_strategy(join, leaf, connector_of(leaf.table, project=PROJECT).source(leaf.table))


def spark_sql(query: str) -> str:
    """The query with its lookups as calls of functions f0, f1, ..."""
    found = planned(query)
    for number, (index, join) in enumerate(lookups_in(found.query)):
        leaf = found.leaves[index]
        asked = lookup_strategy(
            join, leaf, connector_of(leaf.table, project=PROJECT).source(leaf.table)
        )
        assert isinstance(asked, KeyLookup)
        write_lookup(join, asked, f"f{number}")
    return to_spark_query(found.query).replace("`", "")


def test_a_column_that_is_compared_is_the_key() -> None:
    """The rows of a key are unfolded beside the row of the stream."""
    assert spark_sql(f"{JOIN} o.customer = c.id") == (
        "SELECT o.id, c.name FROM orders AS o CROSS JOIN LATERAL INLINE(F0(o.customer)) AS c"
    )


def test_a_left_join_keeps_rows_without_a_match_and_other_conditions_are_part_of_matching() -> None:
    """Whatever stands in ON; what stands in WHERE is none of it."""
    query = (
        f"SELECT o.id, c.name FROM orders AS o LEFT JOIN customers {AS_OF} "
        "ON c.id = o.customer AND c.region = 'eu' AND (c.score > o.price OR c.name <> 'x') WHERE c.name IS NULL"
    )

    assert spark_sql(query) == (
        "SELECT o.id, c.name FROM orders AS o CROSS JOIN LATERAL INLINE_OUTER(FILTER(F0(o.customer, 'eu'), "
        "penstock_row -> penstock_row.score > o.price OR penstock_row.name <> 'x')) AS c WHERE c.name IS NULL"
    )


def test_a_key_may_have_several_parts_and_a_query_several_lookups() -> None:
    """A later one may take what an earlier one found."""
    query = (
        f"SELECT o.id, d.name FROM orders AS o JOIN customers {AS_OF} ON o.customer = c.id AND o.region = c.region "
        "JOIN customers FOR SYSTEM_TIME AS OF o.pt AS d ON c.id = d.id"
    )
    bounded = query.replace(
        "FROM orders AS o",
        "FROM (SELECT id, id AS customer, name AS region, PROCTIME() AS pt FROM lake) AS o",
    )

    assert spark_sql(bounded).endswith(
        "CROSS JOIN LATERAL INLINE(F0(o.customer, o.region)) AS c CROSS JOIN LATERAL INLINE(F1(c.id)) AS d"
    )


def test_keys_are_compared_in_the_type_of_both_sides() -> None:
    """An INT of the stream with a BIGINT of the database."""
    found = way(f"{JOIN} o.customer = c.id AND o.id = c.id")

    assert isinstance(found, KeyLookup)
    assert [(key.column, str(key.type)) for key in found.keys] == [("id", "BIGINT")]
    assert len(found.rest) == 1  # the same column again


def test_changes_are_looked_up_by_key_as_well() -> None:
    """Without a hint for a table that is not there; the key of the stream stays known."""
    sql = spark_sql(
        f"SELECT o.id, c.name FROM cdc AS o JOIN customers {AS_OF} ON o.customer = c.id"
    )

    assert sql == (
        "SELECT o.id, c.name, __row_kind AS __row_kind FROM cdc AS o "
        "CROSS JOIN LATERAL INLINE(F0(o.customer)) AS c"
    )


RETRY = (
    "/*+ LOOKUP('table' = 'c', 'async' = 'true', 'retry-predicate' = 'lookup_miss', "
    "'retry-strategy' = 'FIXED-DELAY', 'fixed-delay' = '10 s', 'max-attempts' = '3') */"
)


def test_a_hint_asks_again_for_keys_without_rows() -> None:
    """The other options are of Flink's way of asking; a lookup without the hint asks once."""
    query = f"{JOIN} o.customer = c.id"
    hinted = way(query.replace("SELECT", f"SELECT {RETRY}"))
    plain = way(query.replace("SELECT", "SELECT /*+ LOOKUP('table' = 'c', 'capacity' = '10') */"))

    assert isinstance(hinted, KeyLookup)
    assert isinstance(plain, KeyLookup)
    assert (hinted.retry, plain.retry) == (MissRetry(delay_ms=10_000, attempts=3), None)
    assert spark_sql(query.replace("SELECT", f"SELECT {RETRY}")) == spark_sql(query)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            f"SELECT {RETRY} o.id FROM orders AS o JOIN lake {AS_OF} ON o.id = c.id",
            "lake is not asked for keys: each batch reads it whole",
        ),
        (
            f"SELECT {RETRY} o.id FROM orders AS o JOIN customers {AS_OF} ON o.price = c.score",
            "reads it whole, as the database is not asked for score by a DOUBLE",
        ),
        (
            "SELECT /*+ LOOKUP('table' = 'c') */ o.id FROM orders AS o JOIN lake AS c ON o.id = c.id",
            "the hint LOOKUP is of lookup joins, and c is not looked up",
        ),
    ],
)
def test_a_hint_that_would_do_nothing_is_refused(query: str, message: str) -> None:
    """Before anything starts, at the hint."""
    with pytest.raises(UnsupportedError, match=re.escape(message)) as caught:
        planned(query)

    assert caught.value.span is not None
    assert caught.value.span.column == query.index("LOOKUP") + 1


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        (f"{JOIN} o.price = c.score", "the database is not asked for score by a DOUBLE"),
        (f"{JOIN} o.region = c.id", "the database is not asked for id by a STRING"),
        (f"{JOIN} JSON_VALUE(o.region, '$.a') = c.id", "by a"),
        (f"{JOIN} o.customer = c.id AND score > 3", "score stands without its table in ON"),
        (
            f"SELECT o.id, c.name FROM orders AS o JOIN customers {AS_OF} USING (id)",
            "the columns are compared with USING, and not with ON",
        ),
        (
            f"SELECT o.id, c.twice FROM orders AS o JOIN doubled {AS_OF} ON o.id = c.id",
            "twice is a computed column",
        ),
        (f"SELECT o.id, c.name FROM orders AS o JOIN lake {AS_OF} ON o.id = c.id", ""),
    ],
)
def test_a_table_is_read_whole_where_it_cannot_be_asked(query: str, reason: str) -> None:
    """And the reason is told."""
    found = way(query)

    assert not isinstance(found, KeyLookup)
    assert reason in found.reason
