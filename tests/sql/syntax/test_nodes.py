"""The tables that a plan reads, as nodes of their own."""

from __future__ import annotations

import pytest
from sqlglot import exp

from penstock.sql.dialect import parse_query, to_spark_query, to_text
from penstock.sql.syntax.nodes import ScanTable
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.traversal import copy_tree

SQL = "SELECT b.x, x.id FROM bids /*+ OPTIONS('k' = 'v') */ AS b (x, y) JOIN db.other AS x ON b.x = x.id"


def numbered(sql: str) -> exp.Expr:
    """A query whose tables have their number."""
    query = parse_query(sql)
    for number, table in enumerate(list(query.find_all(exp.Table, bfs=False))):
        ScanTable.put(table, number)
    return query


def test_a_numbered_table_is_written_as_the_table() -> None:
    """Fingerprints and the texts of batches have it."""
    assert to_text(numbered(SQL)) == to_text(parse_query(SQL))
    assert to_spark_query(numbered(SQL)) == to_spark_query(parse_query(SQL))


@pytest.mark.parametrize("copy", [copy_tree, exp.Expression.copy])
def test_a_copy_is_read_as_the_table_is(copy) -> None:
    """What is set on one place of a table is not set on another."""
    query = numbered(SQL)
    first, second = query.find_all(ScanTable, bfs=False)
    first.set("arrives", True)
    second.set("looked_up", True)

    one, other = copy(query).find_all(ScanTable, bfs=False)

    assert (one.scan, one.arrives, one.counts_late, one.looked_up) == (0, True, False, False)
    assert (other.scan, other.arrives, other.counts_late, other.looked_up) == (
        1,
        False,
        False,
        True,
    )


def test_a_numbered_table_stands_where_the_table_stood() -> None:
    """Messages point at it."""
    before = [span_of(table) for table in parse_query(SQL).find_all(exp.Table)]

    assert [span_of(table) for table in numbered(SQL).find_all(ScanTable)] == before
