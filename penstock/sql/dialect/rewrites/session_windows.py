"""SESSION windows: Spark knows them only as a grouping key, so the grouping around the function is rewritten."""

from __future__ import annotations

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.sql.dialect.windows.window_tables import (
    WINDOW_COLUMNS,
    WindowKind,
    WindowTable,
    window_tables,
)

_WINDOW = "__session"


def rewrite_session_windows(query: exp.Expr) -> exp.Expr:
    """Turn SELECT .. FROM TABLE(SESSION(..)) GROUP BY window_start, window_end, .. into Spark's session_window.

    The partition keys of the function have to be among the grouping keys, as Spark makes sessions per group.
    Raises UnsupportedError for any other use of SESSION.
    """
    for window in window_tables(query):
        if window.kind is WindowKind.SESSION:
            _rewrite(window)
    return query


def _rewrite(window: WindowTable) -> None:
    select = window.node.find_ancestor(exp.Select)
    assert select is not None, "a windowing function stands in a FROM clause"
    group = select.args.get("group")
    keys = list(group.expressions) if group is not None else []
    names = {key.name for key in keys}
    if (
        group is None
        or not names >= {"window_start", "window_end"}
        or set(window.partition_by) != names - set(WINDOW_COLUMNS)
    ):
        raise UnsupportedError(
            "SESSION windows are supported under GROUP BY of window_start, window_end and exactly the function's "
            "PARTITION BY columns",
            hint="write SELECT ... FROM TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL ...)) "
            "GROUP BY k, window_start, window_end",
            span=window.span,
        )
    session = exp.Anonymous(
        this="session_window",
        expressions=[
            exp.column(window.time_column, quoted=True),
            exp.Literal.string(f"{window.gap_ms} milliseconds"),
        ],
    )
    others = [key for key in keys if key.name not in WINDOW_COLUMNS]
    group.set("expressions", [*others, session])
    _name_selected(select)
    for part in select.expressions:
        for column in list(part.find_all(exp.Column)):
            if column.name in WINDOW_COLUMNS:
                _replace_column(column, session)
    window.node.replace(_aliased(window))


def _name_selected(select: exp.Select) -> None:
    """Write the columns of the window in HAVING and ORDER BY, which know no session_window, by their selected names."""
    selected = {
        item.unalias().name: item.alias_or_name
        for item in select.expressions
        if isinstance(item.unalias(), exp.Column)
    }
    for clause in (select.args.get("having"), select.args.get("order")):
        for column in list(clause.find_all(exp.Column)) if clause is not None else ():
            if column.name in WINDOW_COLUMNS and column.name in selected:
                column.replace(exp.column(selected[column.name], quoted=True))


def _replace_column(column: exp.Column, session: exp.Expr) -> None:
    part: exp.Expr = exp.Dot(
        this=session.copy(), expression=exp.to_identifier(column.name.removeprefix("window_"))
    )
    if column.name == "window_time":
        end = exp.Dot(this=session.copy(), expression=exp.to_identifier("end"))
        interval = exp.Interval(this=exp.Literal.string("0.001"), unit=exp.var("SECOND"))
        part = exp.Paren(this=exp.Sub(this=end, expression=interval))
    if isinstance(column.parent, exp.Select):
        column.replace(exp.alias_(part, column.name, quoted=True))
    else:
        column.replace(part)


def _aliased(window: WindowTable) -> exp.Expr:
    table = window.input.copy()
    if window.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(window.alias, quoted=True)))
    return table
