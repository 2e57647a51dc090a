"""Refuses what is Flink SQL and what Penstock does not run, wherever in a statement it stands.

The dialect reads all of Flink's language; here is the list of what stops there, with the reason. What
depends on the query around it (time attributes, updating results) is for the planner to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.sql.dialect.builtin import is_built_in
from penstock.sql.dialect.called_tables import table_call, takes_values
from penstock.sql.dialect.table_functions import WINDOW_FUNCTIONS
from penstock.sql.misspelling import WINDOWS, nearest_word
from penstock.sql.positions import span_of
from penstock.sql.walking import all_nodes

__all__ = ["refuse_unsupported"]

TYPE_HINTS = {
    "RAW": "write BYTES, or the columns that it holds",
    "STRUCTURED": "write ROW<name TYPE, ...>",
    "VARIANT": "write STRING, and take it apart with JSON_VALUE",
    "BITMAP": "write BYTES",
    "GEOGRAPHY": "write STRING or BYTES",
    "DESCRIPTOR": "a descriptor is an argument, not a column",
    "NULL": "write the type that the column is to have",
}
OF_VALUES = ("VARIANT", "NULL")
"""Types that a value may have and a column may not."""
MODELS = ("ML_PREDICT", "ML_EVALUATE", "VECTOR_SEARCH")
CHANGELOGS = ("TO_CHANGELOG", "FROM_CHANGELOG")

INSTEAD = "UNNEST an array, or write a query in its place"
BY_POSITION = "a table function in Python takes values, by their position"

Refusal = tuple[str, str | None]
"""What is not supported, and what to write instead."""


def refuse_unsupported(tree: exp.Expr) -> None:
    """Raise UnsupportedError at the first node of a statement that Penstock cannot run."""
    for node in all_nodes(tree):
        check = CHECKS.get(type(node))
        found = check(node) if check is not None else None
        if found is not None:
            span = span_of(_part(node))
            raise UnsupportedError(f"{found[0]} is not supported", hint=found[1], span=span)


def _part(node: exp.Expr) -> exp.Expr:
    """What a caret is to stand under: of a relation its call, of LATERAL TABLE(f(x)) the inner one."""
    call = node.this if isinstance(node, exp.Table | exp.Lateral) else node
    wraps = isinstance(call, exp.Anonymous) and call.name.upper() == "TABLE"
    return call.expressions[0] if wraps else call


def _type(node: exp.Expr) -> Refusal | None:
    kind = node.this
    if kind == exp.DType.TIMESTAMPTZ:
        return "TIMESTAMP WITH TIME ZONE", "use TIMESTAMP_LTZ, as Flink's own tables do"
    name = node.text("kind") if kind == exp.DType.USERDEFINED else getattr(kind, "value", "")
    if name in OF_VALUES and node.find_ancestor(exp.ColumnDef) is None:
        return None  # CAST(x AS VARIANT)
    return (f"the type {name}", TYPE_HINTS[name]) if name in TYPE_HINTS else None


def _with(node: exp.Expr) -> Refusal | None:
    return ("WITH RECURSIVE", None) if node.args.get("recursive") else None


def _table(node: exp.Expr) -> Refusal | None:
    """A table function that is none of the windowing functions."""
    call = table_call(node)
    if (
        call is None
        and isinstance(node.this, exp.Func)
        and not isinstance(node.this, exp.Anonymous)
    ):
        return f"the table function {node.this.sql_name()}", INSTEAD
    return _table_function(call) if call is not None else None


def _lateral(node: exp.Expr) -> Refusal | None:
    call = table_call(node)
    if call is not None:
        return _table_function(call)
    if isinstance(node.this, exp.Anonymous):
        return f"LATERAL {node.this.name.upper()}", None
    return None


def _table_function(call: exp.Anonymous) -> Refusal | None:
    """One that no user can have registered: whether another is there, the catalog knows (`table_functions.py`)."""
    name = call.name.upper()
    if name in MODELS:
        return name, "Penstock runs no models"
    if name in CHANGELOGS:
        return name, "read the topic with a changelog format, or write into one"
    built_in = is_built_in(name) or name in WINDOW_FUNCTIONS
    if not built_in and takes_values(call):
        return None
    near = nearest_word(name, WINDOWS)
    hint = f"did you mean {near}?" if near else INSTEAD if built_in else BY_POSITION
    return f"the table function {name}", hint


def _match(_: exp.Expr) -> Refusal | None:
    return "MATCH_RECOGNIZE", "interval joins and LAG over a table at rest find pairs of rows"


CHECKS: Mapping[type[exp.Expr], Callable[[exp.Expr], Refusal | None]] = {
    exp.DataType: _type,
    exp.Lateral: _lateral,
    exp.MatchRecognize: _match,
    exp.Table: _table,
    exp.With: _with,
}
