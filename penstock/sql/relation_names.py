"""The names that the columns of a query know its tables by: every table gets an alias before the query is checked."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from penstock.sql.dialect.access import named_tables
from penstock.sql.dialect.copying import copy_tree
from penstock.sql.dialect.group_windows import has_group_windows
from penstock.sql.walking import find_nodes

__all__ = ["as_written", "give_alias", "name_relations"]


def name_relations(query: exp.Expr) -> list[exp.Table]:
    """Give each table of a query its name as alias, if it has none; columns are of that. Gives the tables, in order."""
    tables = named_tables(query)
    _drop_qualifiers(query, tables)
    for table in tables:
        if not isinstance(table.parent, exp.Anonymous | exp.Kwarg):  # TABLE name takes no alias
            give_alias(table)
    return tables


def give_alias(table: exp.Table) -> None:
    """Give a table its name as alias, if it has none."""
    if not table.alias:
        alias = exp.Identifier(this=table.name, quoted=True)
        table.set("alias", exp.TableAlias(this=alias))


def as_written(query: exp.Expr) -> exp.Expr:
    """Give the tree of which the text is kept, before the query is checked: itself, or a copy if that will rewrite it.

    Its tables have aliases, so that they can be given their full names.
    """
    if not has_group_windows(query):
        return query
    written = copy_tree(query)
    name_relations(written)
    return written


def _drop_qualifiers(query: exp.Expr, tables: Sequence[exp.Table]) -> None:
    """Write database.table.column as table.column: each table has its name as alias."""
    names = {(table.catalog, table.db, table.name) for table in tables if table.db}
    for column in find_nodes(query, exp.Column) if names else ():
        if column.db and (column.catalog, column.db, column.table) in names:
            column.set("db", None)
            column.set("catalog", None)
