"""Checks calls of users' table functions in FROM: TABLE(f(x)) and LATERAL TABLE(f(x)), against the catalog.

That `f` is registered, and in Python, is known here; what it is, a table function or one that gives a value, and the
columns of its rows only when its module is loaded (`run/functions.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    Span,
    UnknownObjectError,
    UnsupportedError,
    did_you_mean,
)
from penstock.catalog.function import Language
from penstock.catalog.names import Namespace
from penstock.sql.dialect.called_tables import is_always, is_left, table_call
from penstock.sql.misspelling import WINDOWS, nearest_word
from penstock.sql.positions import span_of
from penstock.sql.walking import find_nodes

__all__ = ["name_span", "names_columns", "table_calls", "table_function_errors"]

UNFOLDING = ("EXPLODE", "POSEXPLODE", "INLINE", "STACK", "FLATTEN")
"""Functions of other engines that take arrays apart."""

Called = tuple[exp.Table | exp.Lateral, exp.Anonymous]
"""A relation in FROM, and the call that gives its rows."""


def table_calls(query: exp.Expr) -> list[Called]:
    """The calls of table functions in a query, beside those of windowing functions."""
    relations = find_nodes(query, exp.Table, exp.Lateral)
    return [(node, call) for node in relations if (call := table_call(node)) is not None]  # type: ignore[misc]


def table_function_errors(calls: list[Called], namespace: Namespace) -> Iterator[InputError]:
    """An error for each call that cannot run: of a function that is not there, or in a join of another kind."""
    known = namespace.functions.visible(namespace.current_catalog, namespace.current_database)
    for relation, call in calls:
        function = known.get(call.name.lower())
        if function is None:
            yield _unknown(
                call, [name for name in known if known[name].language is Language.PYTHON]
            )
        elif function.language is Language.JAVA:
            yield UnsupportedError(
                f"the table function {call.name.upper()} is not supported: it is written in Java",
                hint="write it in Python: a class with eval(), decorated with pyspark's @udtf",
                span=name_span(call),
            )
        elif isinstance(relation, exp.Table):
            yield from _without_lateral(call)
        elif isinstance(relation.parent, exp.Join):
            yield from _wrong_join(relation.parent)


def names_columns(relation: exp.Expr) -> bool:
    """Whether the alias of a relation names its columns: AS x (a, b)."""
    alias = relation.args.get("alias")
    return alias is not None and bool(alias.columns)


def name_span(call: exp.Expr) -> Span | None:
    """The place of the name in a call."""
    span = span_of(call)
    return replace(span, length=min(span.length, len(call.name))) if span is not None else None


def _unknown(call: exp.Anonymous, known: list[str]) -> UnknownObjectError:
    name = call.name
    near = nearest_word(name, WINDOWS)
    hint = did_you_mean(name.lower(), known) or (f"did you mean {near}?" if near else None)
    if hint is None and name.upper() in UNFOLDING:
        hint = "CROSS JOIN UNNEST(a) AS x (item) takes an array apart"
    return UnknownObjectError(
        f"there is no table function {name}",
        hint=hint
        or f"CREATE FUNCTION {name} AS 'module.attribute' LANGUAGE PYTHON names a class decorated with pyspark's @udtf",
        span=name_span(call),
    )


def _without_lateral(call: exp.Anonymous) -> Iterator[InputError]:
    """Columns of the tables beside TABLE(f(x)) are seen by LATERAL only."""
    select = call.find_ancestor(exp.Select)
    for column in find_nodes(call, exp.Column):
        if column.find_ancestor(exp.Select) is select:
            yield DefinitionError(
                f"TABLE({call.name}(...)) sees no column of the tables beside it",
                hint=f"write LATERAL TABLE({call.name}(...)) behind the table that has '{column.name}'",
                span=span_of(column),
            )
            return


def _wrong_join(join: exp.Join) -> Iterator[InputError]:
    kind = " ".join(word for word in (join.method, join.side, join.kind) if word).upper()
    if kind not in ("", "INNER", "CROSS", "LEFT", "LEFT OUTER") or join.args.get("using"):
        words = f"{kind} JOIN" if kind not in ("", "INNER") else "JOIN ... USING"
        yield UnsupportedError(
            f"{words} with LATERAL TABLE(...) is not supported",
            hint="what is: CROSS JOIN, JOIN ... ON TRUE and LEFT JOIN ... ON TRUE",
            span=span_of(join),
        )
        return
    on = join.args.get("on")
    if on is not None and not is_always(join):
        left = is_left(join.this)
        yield UnsupportedError(
            "a condition of a join with LATERAL TABLE(...) is not supported",
            hint="write ON TRUE, and leave rows out in the function itself"
            if left
            else "write ON TRUE, and the condition in WHERE",
            span=span_of(on),
        )
