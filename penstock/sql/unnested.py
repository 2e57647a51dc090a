"""The columns of UNNEST: their names as in Calcite, and what sqlglot's qualifier and annotator need to know of them."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.optimizer.annotate_types import TypeAnnotator
from sqlglot.optimizer.scope import Scope

from penstock.sql.dialect.write_unnest import VALUE, unnested_columns

__all__ = [
    "UnnestAnnotator",
    "hide_ordinality",
    "name_after_alias",
    "unfolds_plain_values",
    "unnamed_elements",
]

ORDINALITY = "penstock.ordinality"


def hide_ordinality(tree: exp.Expr) -> None:
    """Take WITH ORDINALITY off a tree: the qualifier takes it for one more column behind those that AS names."""
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
    """Tell whether the elements are known to be plain values: fields of rows and map entries have names."""
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
