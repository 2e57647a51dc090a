"""The columns of UNNEST for sqlglot's qualifier and annotator, which know Flink's of arrays of plain values alone."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.optimizer.annotate_types import TypeAnnotator
from sqlglot.optimizer.scope import Scope

from penstock.sql.dialect.write_unnest import unnested_columns

__all__ = ["UnnestAnnotator", "hide_ordinality"]

ORDINALITY = "penstock.ordinality"


def hide_ordinality(tree: exp.Expr) -> None:
    """Take WITH ORDINALITY off a tree: the qualifier takes it for one more column behind those that AS names."""
    for node in tree.find_all(exp.Unnest):
        node.meta[ORDINALITY] = node.args.get("offset")
        node.set("offset", None)


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
