"""Read the clauses of a SELECT whose rows a stage keeps: what has no stage, and names that are missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from penstock.catalog.errors import Span
from penstock.sql.binding.hints import StateTtl
from penstock.sql.dialect import to_text
from penstock.sql.dialect.windows.window_tables import WindowKind
from penstock.sql.expressions.nondeterministic import find_nondeterministic
from penstock.sql.plan.rules.top_n import RowNumberQuery
from penstock.sql.syntax.positions import span_of
from penstock.sql.syntax.refusal import Refusal

__all__ = [
    "read_alias_names",
    "read_numbered_order",
    "read_relation_names",
    "refuse_clauses",
    "refuse_column_counts",
    "refuse_inner_query",
    "refuse_missing_from",
    "refuse_nondeterministic",
    "refuse_query",
    "refuse_set_operation",
    "refuse_star_over_using",
    "refuse_table_function",
    "refuse_unknown_column",
    "refuse_unknown_columns",
    "refuse_unnamed_column",
    "refuse_unused_hint",
    "refuse_window",
]


def refuse_clauses(select: exp.Select) -> Refusal | None:
    """Return why a SELECT cannot be a stage: it has a clause that no stage has."""
    for name in ("order", "limit", "fetch", "offset", "qualify"):
        node = select.args.get(name)
        if node is not None:
            words = {"order": "ORDER BY", "fetch": "FETCH"}.get(name, name.upper())
            return Refusal(
                message=f"{words} of a stream is not supported",
                hint="number the rows: ROW_NUMBER() OVER (ORDER BY ...) AS n in a query in FROM, and WHERE n <= 10 in "
                "the query around it",
                span=span_of(node) or span_of(select),
            )
    return None


def refuse_nondeterministic(select: exp.Select) -> Refusal | None:
    """Return why values of a SELECT cannot be retracted: a function varies. PROCTIME() as an order is no value."""
    own = (
        call
        for call in find_nondeterministic(select)
        if call.find_ancestor(exp.Select) is select
        and not isinstance(call.find_ancestor(exp.Ordered, exp.Window), exp.Ordered)
    )
    varying = next(own, None)
    if varying is None:
        return None
    return Refusal(
        message="a function that gives another value each time is not supported over rows that are kept: what it gave "
        "could not be taken back, or given again",
        hint="call it in the query that reads the table, where it is computed once for each row",
        span=span_of(varying) or span_of(select),
    )


def refuse_inner_query(value: exp.Expr) -> Refusal | None:
    """Return why a value cannot be computed over the rows of a stage: there is a query inside it."""
    inner = value.find(exp.Query)
    if inner is None:
        return None
    return Refusal(
        message="a query inside an expression over rows that are updated or deleted is not supported",
        hint="join it in FROM; or write x IN (SELECT ...) or EXISTS (SELECT ...) as a condition of its own",
        span=span_of(inner) or span_of(value),
    )


def refuse_unknown_column(value: exp.Expr, knows: Callable[[exp.Column], bool]) -> Refusal | None:
    """Return why a value cannot be computed over relations: it names a column that none of them `knows`."""
    for node in value.find_all(exp.Column, bfs=False):
        if not isinstance(node.this, exp.Star) and not knows(node):
            return Refusal(
                message=f"{to_text(node)} is not a column of the tables named in this FROM",
                hint="name a column of the query around it only in x IN (SELECT ...) and EXISTS (SELECT ...)",
                span=span_of(node),
            )
    return None


# --- FROM ---


def refuse_missing_from(select: exp.Select) -> Refusal | None:
    """Return why a SELECT has no rows to follow: it has no FROM."""
    if select.args.get("from_") is not None:
        return None
    return Refusal(message="a query over streams needs a FROM", span=span_of(select))


def read_relation_names(node: exp.Expr, columns: Sequence[str]) -> tuple[str, ...] | Refusal:
    """Name the columns of a relation in FROM, which gives `columns`; a refusal where its alias names others."""
    alias = node.args.get("alias")
    names = tuple(c.name for c in alias.columns) if alias is not None else ()
    if names and len(names) != len(columns):
        return Refusal(
            message=f"{node.alias} names {len(names)} columns, and the query behind it gives {len(columns)}",
            span=span_of(node),
        )
    return names or tuple(columns)


def refuse_query(node: exp.Expr) -> Refusal:
    """Refuse a query that is neither a SELECT nor a set operation."""
    return Refusal(message="this query cannot be kept up to date as rows come", span=span_of(node))


def refuse_table_function(name: str, node: exp.Expr) -> Refusal:
    """Refuse a user's function in FROM, whose rows nothing follows."""
    return Refusal(
        message=f"TABLE({name}(...)) is not supported in a query whose results are kept up to date",
        hint=f"write LATERAL TABLE({name}(...)) behind a table",
        span=span_of(node),
    )


def refuse_unknown_columns(node: exp.Expr) -> Refusal:
    """Refuse a windowing function over rows without known columns."""
    return Refusal(
        message="the columns of this windowing function cannot be told",
        hint="name the columns in the query that it reads",
        span=span_of(node),
    )


def read_alias_names(node: exp.Expr) -> list[str] | Refusal:
    """Name the columns of an UNNEST, or of LATERAL; a refusal where they have no names."""
    alias = node.args.get("alias")
    if alias is None or not alias.columns:
        lateral = isinstance(node, exp.Lateral)
        example = "LATERAL TABLE(f(a.text))" if lateral else "CROSS JOIN UNNEST(a.items)"
        return Refusal(
            message=f"the columns that {'LATERAL' if lateral else 'UNNEST'} gives have no names here",
            hint=f"name them: {example} AS t (item)",
            span=span_of(node),
        )
    return [c.name for c in alias.columns]


def refuse_star_over_using(select: exp.Select) -> Refusal | None:
    """Return why the stars of a SELECT cannot be expanded: USING merges columns of its joins."""
    stars = any(isinstance(i, exp.Star) for i in select.expressions)
    if not stars or not any(join.args.get("using") for join in select.args.get("joins") or []):
        return None
    return Refusal(
        message="* over a join with USING is not supported here",
        hint="name the columns",
        span=span_of(select),
    )


# --- Top-N ---


def refuse_unnamed_column(numbered: RowNumberQuery) -> Refusal:
    """Refuse a query that numbers rows, in which a column has no name of its own."""
    return Refusal(
        message="a column of a query that numbers rows has no name of its own",
        hint="name it with AS",
        span=span_of(numbered.select),
    )


def read_numbered_order(numbered: RowNumberQuery) -> list[exp.Ordered] | Refusal:
    """Return the ORDER BY of a query that numbers rows; a refusal without one."""
    order = numbered.window.args.get("order")
    if order is None or not order.expressions:
        return Refusal(
            message=f"{to_text(numbered.window.this)} without ORDER BY is not supported",
            hint="add ORDER BY to its OVER",
            span=span_of(numbered.item),
        )
    return list(order.expressions)


# --- UNION, INTERSECT, EXCEPT ---


def refuse_set_operation(node: exp.SetOperation) -> Refusal | None:
    """Return why a set operation cannot be a stage: it has a clause that no stage has."""
    for part in ("order", "limit", "offset"):
        if node.args.get(part) is not None:
            return Refusal(
                message=f"{part.upper()} of a stream is not supported",
                span=span_of(node.args[part]),
            )
    return None


def refuse_column_counts(node: exp.SetOperation, one: int, two: int) -> Refusal | None:
    """Return why the sides of a set operation do not match: they give `one` and `two` columns."""
    if one == two:
        return None
    return Refusal(
        message=f"the queries of this {node.key.upper()} give {one} and {two} columns",
        span=span_of(node),
    )


# --- hints ---


def refuse_unused_hint(hint: StateTtl) -> Refusal:
    """Refuse a hint STATE_TTL of a relation of which no operator keeps rows without a bound in time."""
    return Refusal(
        message="the hint STATE_TTL bounds joins without a bound in time and aggregations without a window, and none "
        f"of these keeps rows of '{hint.relation.alias_or_name}' here",
        hint="leave it out: the watermark bounds windows and joins in time, and SET 'table.exec.state.ttl' bounds all "
        "other state, that of Top-N too",
        span=hint.span,
    )


# --- windows over rows of a stage ---


def refuse_window(
    kind: WindowKind,
    time_column: str,
    span: Span | None,
    sources: frozenset[int] | None,
    *,
    inserts: bool,
) -> Refusal | None:
    """Return why a stage's rows cannot be windowed: they are updated, have no rowtime there, or for SESSION.

    `sources` are the scans whose watermarks bound the time column; None: it is no rowtime.
    """
    if not inserts:
        return Refusal(
            message=f"{kind} over rows that are updated or deleted is not supported",
            hint="aggregate without a window into a table with a PRIMARY KEY: GROUP BY FLOOR(ts TO MINUTE), ...",
            span=span,
        )
    if not sources:
        return Refusal(
            message=f"{time_column} is not a rowtime of the rows that {kind} reads",
            hint="a rowtime is the column of a stream's WATERMARK, also in a query that selects it; write the rows "
            "into a table with a WATERMARK, and window that in a second INSERT",
            span=span,
        )
    if kind is WindowKind.SESSION:
        return Refusal(
            message="SESSION over the results of OVER or of a temporal join is not supported",
            hint="write them into a table with a WATERMARK, and window that in a second INSERT",
            span=span,
        )
    return None
