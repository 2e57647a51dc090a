"""Where the options and columns of a definition stand, for errors about one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import exp

from penstock.connector.older_options import translated
from penstock.sql.definitions import option_keys

if TYPE_CHECKING:
    from penstock.catalog.errors import Span
    from penstock.sql.script import StatementText

__all__ = ["column_spans", "option_spans", "spans_of_keys"]


def option_spans(tree: exp.Create, text: StatementText) -> dict[str, Span]:
    """Give the places of options by their keys; one that is read as another is found by that, too."""
    return spans_of_keys(option_keys(tree), text)


def spans_of_keys(keys: list[exp.Literal], text: StatementText) -> dict[str, Span]:
    """Give the places of options whose keys are given as nodes, as `option_spans`."""
    spans = {key.name: text.locate(key) for key in keys}
    older = translated({key.name: key.parent.args["value"].name for key in keys})  # type: ignore[union-attr]
    return spans | {new: spans[old] for new, old in older.sources.items()}


def column_spans(tree: exp.Expr, text: StatementText) -> dict[str, Span]:
    """Give the places of the names of the columns that a CREATE or ALTER defines; fields of rows are none."""
    defined = [
        node for node in tree.find_all(exp.ColumnDef) if node.find_ancestor(exp.DataType) is None
    ]
    return {node.name: text.locate(node.this) for node in defined}
