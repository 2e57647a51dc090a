"""Check that a sink accepts the changes of a query, and by which key; what becomes of several rows of one key.

Changes whose rows are not unique by the sink's key are materialised (Flink's SinkUpsertMaterializer): the rows of each
key are state, the one that was added last is in the sink, and when it is deleted the one before comes back. ON CONFLICT
DO DEDUPLICATE asks for just that. NOTHING keeps the first row: the query is deduplicated by key in ingestion order,
which is stateful and exact on replay. Rows that the target has from elsewhere are no conflict, as in Flink.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.plan.rules.flow import Flow
from penstock.sql.statements.dml import Conflict, ConflictAction
from penstock.sql.syntax.positions import attach, source_of
from penstock.sql.syntax.refusal import Refusal

KEYED = "write into a table that takes updates: a Delta table with a PRIMARY KEY, or connector = 'upsert-kafka'"

WINDOW = (
    "aggregate over a window: FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
    "GROUP BY window_start, window_end, ..."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTable:
    """The sink of a query: the columns that it fills, in its order, and the PRIMARY KEY (empty: none).

    `wants_rows_before`: it needs UPDATE_BEFORE rows, so upserts are not enough.
    """

    name: str
    accepts: ChangelogMode
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    wants_rows_before: bool = False


def sink_refusal(flow: Flow, sink: SinkTable) -> Refusal | None:
    """Return why `sink` does not accept the changes of a query, at the operator that they come from; None: it does."""
    match flow.changes:
        case ChangelogMode.INSERT_ONLY:
            return None
        case ChangelogMode.UPSERT | ChangelogMode.ALL:
            if sink.accepts is ChangelogMode.INSERT_ONLY:
                return _append_only(flow, sink)
            if sink.wants_rows_before and flow.changes is ChangelogMode.UPSERT:
                return _upserts(flow, sink)
            return _key_refusal(flow, sink) if sink.key else None
        case _:
            assert_never(flow.changes)


def _append_only(flow: Flow, sink: SinkTable) -> Refusal:
    if flow.mechanism is None:
        return Refusal(
            message=f"the rows read here are updated and deleted, and {sink.name} only takes rows that stay",
            hint=KEYED,
            span=flow.span,
        )
    aggregation = flow.mechanism.operator == "aggregation"
    return Refusal(
        message=f"this {flow.mechanism.operator} updates its results as rows come, and {sink.name} only takes rows "
        "that stay",
        hint=f"{KEYED}; or {WINDOW}" if aggregation else KEYED,
        span=flow.span,
    )


def _upserts(flow: Flow, sink: SinkTable) -> Refusal:
    return Refusal(
        message=f"each row here replaces the one before with its key, and the format of {sink.name} writes that one, "
        "too",
        hint="write into connector = 'upsert-kafka', or a Delta table with a PRIMARY KEY",
        span=flow.span,
    )


def _key_refusal(flow: Flow, sink: SinkTable) -> Refusal | None:
    missing = [name for name in sink.key if name not in sink.columns]
    if missing:
        return Refusal(
            message=f"the INSERT fills no {', '.join(missing)}, by which {sink.name} tells rows apart",
            hint=f"fill all of PRIMARY KEY ({', '.join(sink.key)})",
            span=flow.span,
        )
    if sink.wants_rows_before and flow.key is None:
        return None  # it writes each change with the row before, and keeps no row by its key
    filled = _filled(flow, sink)
    if filled is None:
        return None  # Spark's own columns are compared later; they cannot be told here
    if flow.key is None:
        by = ", ".join(filled)
        return Refusal(
            message=f"rows of the query are updated and deleted, several may have one ({by}), and {sink.name} keeps "
            f"one for each ({', '.join(sink.key)})",
            hint=f"declare the PRIMARY KEY of the tables that are read, and select its columns; or {_one_row(by)}",
            span=flow.span,
        )
    if _fits(flow, filled):
        return None
    one = f"one row for each ({', '.join(flow.key)})" if flow.key else "one row in all"
    return Refusal(
        message=f"the query gives {one}, and {sink.name} keeps one for each ({', '.join(sink.key)}), which the query "
        f"fills with ({', '.join(filled)})",
        hint=_key_hint(flow, filled),
        span=flow.span,
    )


def _filled(flow: Flow, sink: SinkTable) -> list[str] | None:
    """Return the columns of the query that fill the key of the sink; None where they are unknown."""
    if flow.columns is None or len(flow.columns) != len(sink.columns):
        return None
    return [flow.columns[sink.columns.index(name)] for name in sink.key]


def _fits(flow: Flow, filled: Sequence[str]) -> bool:
    """Return whether a change of a row that is known by `flow.key` reaches no other row of the sink."""
    if flow.key is None:
        return False
    more = set(filled) - set(flow.key) - flow.constants
    # with the row before, a column that changes is taken back under its old value
    return set(flow.key) <= set(filled) and (flow.changes is ChangelogMode.ALL or not more)


def _one_row(by: str) -> str:
    return (
        f"choose one row for each ({by}) in the query: ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY ...) AS n, "
        "WHERE n = 1"
    )


def _key_hint(flow: Flow, filled: Sequence[str]) -> str:
    if flow.key:
        return (
            f"the PRIMARY KEY has to be the columns filled by ({', '.join(flow.key)}); or "
            f"{_one_row(', '.join(filled))}"
        )
    return "fill the PRIMARY KEY with a constant: SELECT 'all' AS name, COUNT(*) FROM t"


NUMBER, ROWS = "__number", "__rows"


def conflict_refusal(
    conflict: Conflict, flow: Flow, sink: SinkTable, *, followed: bool
) -> Refusal | None:
    """Refuse an ON CONFLICT that the sink, or the query, cannot honour. `followed`: the query's tables are streams."""
    words = f"ON CONFLICT {conflict.action}"
    if sink.accepts is ChangelogMode.INSERT_ONLY:
        return Refusal(
            message=f"{words} is for tables that take updates by their PRIMARY KEY, and {sink.name} only takes rows "
            "that stay",
            hint="leave it out, or write into a Delta table, upsert-kafka or jdbc",
            span=conflict.span,
        )
    if _is_unique(flow, sink):
        return None
    match conflict.action:
        case ConflictAction.DEDUPLICATE:
            return None  # rows that stay replace each other, changes are materialised
        case ConflictAction.NOTHING:
            reason = "they are updated and deleted" if flow.is_changing else "they are read once"
            refused = flow.is_changing or not followed
        case ConflictAction.ERROR:
            reason = "several may have one key, and no batch is failed for the keys of its rows"
            refused = True
        case _:
            assert_never(conflict.action)
    if refused:
        return Refusal(
            message=f"{words} is not supported over these rows: {reason}",
            hint=_hint(conflict.action, flow, sink),
            span=conflict.span,
        )
    return None


def keeps_first(conflict: Conflict | None, flow: Flow, sink: SinkTable) -> bool:
    """Return whether the query has to be deduplicated: its rows are inserts, and several may have one key."""
    return (
        conflict is not None
        and conflict.action is ConflictAction.NOTHING
        and not _is_unique(flow, sink)
    )


def has_several_rows_of_a_key(flow: Flow, sink: SinkTable) -> bool:
    """Return whether the rows of a changing query have to be materialised for a sink that keeps one by its key.

    Also where the query's key is a part of the sink's, and updates come without the row before: what it leaves under
    another key is in the state.
    """
    if not flow.is_changing or not sink.key or sink.wants_rows_before:
        return False
    if sink.accepts is ChangelogMode.INSERT_ONLY or not set(sink.key) <= set(sink.columns):
        return False
    filled = _filled(flow, sink)
    return filled is not None and not _fits(flow, filled)


def one_of_each_key(query: exp.Expr, sink: SinkTable, *, last: bool) -> exp.Query:
    """Write the query of the first row of each key of `sink`, or of the one added `last`, with its names."""
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
        order=exp.Order(
            expressions=[exp.Ordered(this=exp.Anonymous(this="PROCTIME"), desc=last or None)]
        ),
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
    """Return whether no two rows at a time have one key."""
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
