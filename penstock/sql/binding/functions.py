"""Check calls: functions that no engine and no user defines, and table functions in FROM against the registered
ones.

That a Python function is registered is known here; its kind and the columns of its rows are known only when its
module is loaded (`sql/execution/functions.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import (
    DefinitionError,
    InputError,
    Span,
    UnknownObjectError,
    UnsupportedError,
    did_you_mean,
)
from penstock.catalog.model.function import Language
from penstock.sql.binding.checked_query import CheckedQuery
from penstock.sql.dialect.functions.table import FUNCTIONS, SPARK_FUNCTIONS
from penstock.sql.dialect.parser.calls import NODES, SYNTAX, built_in_functions
from penstock.sql.dialect.parser.table_functions import (
    calling_relation,
    is_always,
    is_left,
    table_call,
)
from penstock.sql.syntax.misspelling import WINDOWS, nearest_word
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.traversal import find_nodes

PLANNED = ("DESCRIPTOR", "TABLE")
"""What is written like a call and is none."""

OWN = "CREATE FUNCTION {name} AS 'module.function' LANGUAGE PYTHON registers one; SHOW FUNCTIONS lists those there are"


def unknown_functions(stand_in: exp.Expr, checking: CheckedQuery) -> Iterator[InputError]:
    """An error for each function of a query's copy that is not there, at its place in the original."""
    for call in find_nodes(stand_in, exp.Anonymous):
        name = call.name.upper()
        span = checking.span(call)
        if span is None or name in PLANNED or _is_of_an_engine(name) or _is_no_call(call):
            continue
        # of table functions, execution/functions.py says what is not there
        if calling_relation(call) is not None or _is_registered(name, checking):
            continue
        span = replace(span, length=min(span.length, len(name)))  # of the name alone
        yield UnknownObjectError(
            f"there is no function {name}", hint=_hint(name, checking), span=span
        )


def _is_no_call(call: exp.Anonymous) -> bool:
    """Return whether it is a hint, or the end of a name with dots, whose database would have to be looked into."""
    hint = call.find_ancestor(exp.Hint, exp.Select)
    return isinstance(call.parent, exp.Dot) or isinstance(hint, exp.Hint)


def _is_of_an_engine(name: str) -> bool:
    return name in FUNCTIONS or name in NODES or name in SYNTAX or name.lower() in SPARK_FUNCTIONS


def _is_registered(name: str, checking: CheckedQuery) -> bool:
    """Return whether a user has registered a function, in any database, or with Spark; asks the catalog."""
    space = checking.namespace
    if space is None:
        return True  # nothing is known of users' functions
    return name.lower() in _listed(checking) or space.functions.has_engine(name.lower())


def _listed(checking: CheckedQuery) -> set[str]:
    space = checking.namespace
    return set() if space is None else {function.name for function in space.functions.listed()}


def _hint(name: str, checking: CheckedQuery) -> str:
    known = [one.upper() for one in (*built_in_functions(), *_listed(checking))]
    near = nearest_word(name, known)
    return f"did you mean {near}?" if near else OWN.format(name=name.lower())


UNFOLDING = ("EXPLODE", "POSEXPLODE", "INLINE", "STACK", "FLATTEN")
"""Functions of other engines that take arrays apart."""

Called = tuple[exp.Table | exp.Lateral, exp.Anonymous]
"""A relation in FROM, and the call that returns its rows."""


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
    """Return whether the alias of a relation names its columns: AS x (a, b)."""
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
