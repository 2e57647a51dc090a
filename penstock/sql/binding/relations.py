"""Names of the relations of a query.

Gives every table an alias before the check, and names the columns of UNNEST as Calcite does.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.optimizer.annotate_types import TypeAnnotator
from sqlglot.optimizer.scope import Scope

from penstock.sql.dialect.flink.trees import named_tables
from penstock.sql.dialect.spark.unnest import VALUE, unnested_columns
from penstock.sql.dialect.windows.group_windows import has_group_windows
from penstock.sql.syntax.traversal import copy_tree, find_nodes

__all__ = [
    "UnnestAnnotator",
    "as_written",
    "give_alias",
    "hide_ordinality",
    "name_after_alias",
    "name_relations",
    "unfolds_plain_values",
    "unnamed_elements",
]


def name_relations(query: exp.Expr) -> list[exp.Table]:
    """Alias each table of a query by its name, if it has no alias; columns are qualified by it.
    Returns the tables, in order.
    """
    tables = named_tables(query)
    _drop_qualifiers(query, tables)
    for table in tables:
        if not isinstance(table.parent, exp.Anonymous | exp.Kwarg):  # TABLE name takes no alias
            give_alias(table)
    return tables


def give_alias(table: exp.Table) -> None:
    """Alias a table by its name, if it has no alias."""
    if not table.alias:
        alias = exp.Identifier(this=table.name, quoted=True)
        table.set("alias", exp.TableAlias(this=alias))


def as_written(query: exp.Expr) -> exp.Expr:
    """Return the tree of which the text is kept, before the query is checked: itself, or a copy if that will rewrite
    it.

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


ORDINALITY = "penstock.ordinality"


def hide_ordinality(tree: exp.Expr) -> None:
    """Remove WITH ORDINALITY from a tree: the qualifier takes it for one more column behind those that AS names."""
    for node in tree.find_all(exp.Unnest):
        node.meta[ORDINALITY] = node.args.get("offset")
        node.set("offset", None)


def unnamed_elements(tree: exp.Expr) -> list[exp.Unnest]:
    """Find UNNEST(value) AS t, which names no columns; those WITH ORDINALITY are left as they are."""
    return [
        node
        for node in tree.find_all(exp.Unnest)
        if node.alias and not node.alias_column_names and not node.args.get("offset")
    ]


def unfolds_plain_values(node: exp.Unnest) -> bool:
    """Return whether the elements are known to be plain values: fields of rows and map entries have names."""
    columns = unnested_columns(node, ordinality=False)
    return columns is not None and [name for name, _ in columns] == [VALUE]


def name_after_alias(node: exp.Unnest) -> None:
    """Make AS t to AS t (t), as Calcite's AliasNamespace does for the only column of an UNNEST."""
    alias = node.args["alias"]
    alias.set("columns", [alias.this.copy()])


class UnnestAnnotator(TypeAnnotator):
    """sqlglot's annotator, which asks `unnested_columns` for the types of what AS names behind an UNNEST."""

    def _get_source_scope_selects(self, source: Scope) -> dict[str, exp.DataType | exp.DType]:
        node = source.expression
        if not isinstance(node, exp.Unnest):
            return super()._get_source_scope_selects(source)
        columns = unnested_columns(node, ordinality=bool(node.meta_get(ORDINALITY)))
        names = node.alias_column_names
        if columns is None or len(columns) != len(names):
            return dict.fromkeys(names, exp.DType.UNKNOWN)
        return {
            name: kind or exp.DType.UNKNOWN for name, (_, kind) in zip(names, columns, strict=True)
        }
