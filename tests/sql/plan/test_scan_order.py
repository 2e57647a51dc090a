"""The order of the tables of an incremental query, which its checkpoint knows them by."""

from __future__ import annotations

from sqlglot import exp

from penstock.sql.dialect import parse_query, to_text
from penstock.sql.plan.analysis import ScanOrder
from penstock.sql.syntax.nodes import ScanTable


def query(*numbers: int) -> exp.Expr:
    """The union of queries over tables of these numbers."""
    tree = parse_query(" UNION ALL ".join("SELECT * FROM t" for _ in numbers))
    for number, table in zip(numbers, list(tree.find_all(exp.Table, bfs=False)), strict=True):
        ScanTable.put(table, number)
    return tree


def test_tables_are_numbered_as_spark_finds_them() -> None:
    """A table that is read twice has one number, and one that is not read has none."""
    tree = query(2, 0, 2)

    order = ScanOrder.of(tree)

    assert order.numbers == (2, 0)
    assert order.leaves(["a", "b", "c"]) == ("c", "a")
    assert [node.scan for node in order.query(tree).find_all(ScanTable, bfs=False)] == [0, 1, 0]


def test_the_query_itself_stays_as_it_is() -> None:
    """Its numbers are those of the plan."""
    tree = query(1, 0)

    written = ScanOrder.of(tree).query(tree)

    assert [node.scan for node in tree.find_all(ScanTable, bfs=False)] == [1, 0]
    assert to_text(written) == to_text(tree)
