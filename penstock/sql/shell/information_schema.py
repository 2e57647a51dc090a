"""Answers queries over `information_schema` alone without Spark, in DuckDB: those that mean the same there.

Anything else, an arithmetic or a function but for a few, is Spark's: then nothing is answered here.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from sqlglot import exp

from penstock.connector.arrow import CalculationError, query_tables
from penstock.sql.information_schema.rows import information_rows
from penstock.sql.information_schema.source import InformationSource
from penstock.sql.plan.analysed import AnalysedQuery
from penstock.sql.syntax.nodes import ScanTable

_SAME = (
    exp.Select,
    exp.From,
    exp.Join,
    exp.Where,
    exp.Group,
    exp.Having,
    exp.Order,
    exp.Ordered,
    exp.Limit,
    exp.Distinct,
    exp.Subquery,
    exp.Union,
    exp.With,
    exp.CTE,
    exp.Table,
    exp.TableAlias,
    exp.Alias,
    exp.Column,
    exp.Identifier,
    exp.Star,
    exp.Literal,
    exp.Null,
    exp.Boolean,
    exp.Paren,
    exp.And,
    exp.Or,
    exp.Not,
    exp.EQ,
    exp.NEQ,
    exp.GT,
    exp.GTE,
    exp.LT,
    exp.LTE,
    exp.Is,
    exp.In,
    exp.Between,
    exp.Like,
    exp.Coalesce,
    exp.Count,
    exp.Min,
    exp.Max,
)
"""Over texts, whole numbers and times, without a type that differs."""


def look(query: AnalysedQuery, *, limit: int) -> pa.Table | None:
    """Return the first `limit` rows of a query; None where it is not one to be answered here."""
    sources = [leaf.source for leaf in query.leaves]
    if not sources or not all(isinstance(source, InformationSource) for source in sources):
        return None
    tree = query.query
    if query.maintained is not None or not isinstance(tree, exp.Query):
        return None
    if not all(map(_means_the_same, tree.walk())) or not all(map(_is_named, tree.selects)):
        return None
    tables: dict[str, pa.Table] = {}
    for index, source in enumerate(sources):
        assert isinstance(source, InformationSource), "they are all"
        tables[f"t{index}"] = information_rows(source.table, source.namespace, source.project)
    return _answer(tree, tables, limit)


def _means_the_same(node: exp.Expr) -> bool:
    if isinstance(node, exp.Like) and "\\" in node.expression.name:
        return False  # which escapes in Spark
    if isinstance(node, exp.Literal):
        return node.is_string or node.is_int
    return isinstance(node, _SAME)


def _is_named(item: exp.Expr) -> bool:
    """Return whether a column of the result has its name from the query: engines differ in what they call others."""
    return isinstance(item, exp.Alias | exp.Column | exp.Star)


def _answer(query: exp.Expr, tables: Mapping[str, pa.Table], limit: int) -> pa.Table | None:
    tree = query.copy()
    for node in list(tree.find_all(ScanTable)):
        alias = exp.TableAlias(this=exp.to_identifier(node.alias or node.name, quoted=True))
        node.replace(exp.Table(this=exp.to_identifier(f"t{node.scan}"), alias=alias))
    for ordered in tree.find_all(exp.Ordered):
        if ordered.args.get("nulls_first") is None:
            ordered.set("nulls_first", not ordered.args.get("desc"))  # NULL is lowest
    try:
        return query_tables(tree.sql(dialect="duckdb"), tables).slice(0, limit)
    except CalculationError:
        return None  # Spark says what is wrong
