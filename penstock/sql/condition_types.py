"""Finds conditions that are no BOOLEAN: in WHERE, HAVING, ON and CASE WHEN, and what AND, OR and NOT take."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from penstock.catalog.errors import DefinitionError, InputError
from penstock.sql.checking import Checking
from penstock.sql.dialect.access import FLINK
from penstock.sql.walking import find_nodes

__all__ = ["condition_errors"]

_TYPED = (exp.Column, exp.Literal, exp.Cast, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
"""Values whose types are told exactly: of calls, not all are."""
_OPEN = (exp.DType.BOOLEAN, exp.DType.NULL, exp.DType.UNKNOWN, exp.DType.USERDEFINED)


def condition_errors(stand_in: exp.Expr, checking: Checking) -> Iterator[InputError]:
    """An error for each condition of a query's copy of another type, at its place in the original."""
    for condition, where in _conditions(stand_in):
        value = condition.unnest()
        kind = value.type
        if not isinstance(value, _TYPED) or kind is None or kind.is_type(*_OPEN):
            continue
        span = checking.span(value)
        if span is not None:
            yield DefinitionError(
                f"{where} takes a BOOLEAN, and this is {kind.sql(FLINK)}",
                hint="compare it with a value: amount > 0, name <> ''",
                span=span,
            )


def _conditions(query: exp.Expr) -> Iterator[tuple[exp.Expr, str]]:
    kinds = (exp.Where, exp.Having, exp.Join, exp.Case, exp.And, exp.Or, exp.Not)
    for node in find_nodes(query, *kinds):
        match node:
            case exp.Where() | exp.Having():
                yield node.this, node.key.upper()
            case exp.Join() if node.args.get("on") is not None:
                yield node.args["on"], "ON"
            case exp.Case() if node.this is None:
                for branch in node.args["ifs"]:
                    yield branch.this, "WHEN"
            case exp.And() | exp.Or():
                yield node.this, node.key.upper()
                yield node.expression, node.key.upper()
            case exp.Not():
                yield node.this, "NOT"
