"""INSERT ... ON CONFLICT: what becomes of several rows of a query that have one PRIMARY KEY of the target (FLIP-558).

DEDUPLICATE keeps the last one, as tables with a key do. NOTHING keeps the first one that came: the query is
deduplicated by the key, in the order of arrival, which is stateful and exact whatever is replayed. What can have no
two rows of a key needs neither. Rows that the target has from elsewhere are no conflict, as in Flink.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ChangelogMode
from penstock.sql.plan.flow import Flow
from penstock.sql.plan.sink_changes import SinkTable
from penstock.sql.positions import attach, source_of
from penstock.sql.statements import Conflict, ConflictAction

__all__ = ["check_conflict", "first_of_each_key", "keeps_first"]

NUMBER, ROWS = "__number", "__rows"


def check_conflict(conflict: Conflict, flow: Flow, sink: SinkTable, *, followed: bool) -> None:
    """Refuse what a sink, or a query, cannot keep of ON CONFLICT. `followed`: the query's tables are streams.

    Raises UnsupportedError at the clause.
    """
    words = f"ON CONFLICT {conflict.action}"
    if sink.accepts is ChangelogMode.INSERT_ONLY:
        raise UnsupportedError(
            f"{words} is for tables that take updates by their PRIMARY KEY, and {sink.name} only takes rows that stay",
            hint="leave it out, or write into a Delta table, upsert-kafka or jdbc",
            span=conflict.span,
        )
    if _is_unique(flow, sink):
        return
    match conflict.action:
        case ConflictAction.DEDUPLICATE:
            reason = "they are updated and deleted, and none is kept to go back to when the last one of a key goes"
            refused = flow.is_changing
        case ConflictAction.NOTHING:
            reason = "they are updated and deleted" if flow.is_changing else "they are read once"
            refused = flow.is_changing or not followed
        case ConflictAction.ERROR:
            reason = "several may have one key, and no batch is failed for the keys of its rows"
            refused = True
        case _:
            assert_never(conflict.action)
    if refused:
        raise UnsupportedError(
            f"{words} is not supported over these rows: {reason}",
            hint=_hint(conflict.action, flow, sink),
            span=conflict.span,
        )


def keeps_first(conflict: Conflict | None, flow: Flow, sink: SinkTable) -> bool:
    """Tell whether the query has to be deduplicated: its rows stay, and several may have one key."""
    return (
        conflict is not None
        and conflict.action is ConflictAction.NOTHING
        and not _is_unique(flow, sink)
    )


def first_of_each_key(query: exp.Expr, sink: SinkTable) -> exp.Query:
    """Write the query of the first rows that come, one for each key of `sink`, with its names."""
    rows = attach(
        exp.Subquery(
            this=query.copy(),
            alias=_alias(ROWS, sink.columns),
        ),
        source_of(query),
    )
    number = exp.Window(
        this=exp.RowNumber(),
        partition_by=[exp.column(_name(c)) for c in sink.key],
        order=exp.Order(expressions=[exp.Ordered(this=exp.Anonymous(this="PROCTIME"))]),
    )
    items = _columns(sink.columns)
    numbered = exp.select(*items, exp.alias_(number, NUMBER, quoted=True)).from_(rows, copy=False)
    first = exp.EQ(this=exp.column(_name(NUMBER)), expression=exp.Literal.number(1))
    return (
        exp.select(*_columns(sink.columns))
        .from_(exp.Subquery(this=numbered, alias=_alias(f"{ROWS}{NUMBER}")), copy=False)
        .where(first, copy=False)
    )


def _is_unique(flow: Flow, sink: SinkTable) -> bool:
    """Whether no two rows that are there at a time have one key."""
    if flow.key is None or flow.columns is None or len(flow.columns) != len(sink.columns):
        return False
    filled = dict(zip(sink.columns, flow.columns, strict=True))
    by = {filled[name] for name in sink.key if name in filled}
    return set(flow.key) <= by


def _hint(action: ConflictAction, flow: Flow, sink: SinkTable) -> str:
    key = ", ".join(sink.key)
    if flow.is_changing:
        return f"make PRIMARY KEY ({key}) that of the query's rows, as by GROUP BY {key}"
    if action is ConflictAction.ERROR:
        return "DO NOTHING keeps the first row of each key, DO DEDUPLICATE the last one"
    return "DO DEDUPLICATE keeps the last row of each key"


def _columns(names: Sequence[str]) -> list[exp.Column]:
    return [exp.column(_name(name)) for name in names]


def _alias(name: str, columns: Sequence[str] = ()) -> exp.TableAlias:
    return exp.TableAlias(this=_name(name), columns=[_name(column) for column in columns])


def _name(name: str) -> exp.Identifier:
    return exp.to_identifier(name, quoted=True)
