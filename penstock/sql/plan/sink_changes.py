"""Whether a sink takes the changes of a query: their kinds, and by the key that it tells rows apart by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ChangelogMode
from penstock.sql.plan.flow import Flow
from penstock.sql.positions import span_of

__all__ = ["SinkTable", "check_sink"]

KEYED = "write into a table that takes updates: a Delta table with a PRIMARY KEY, or connector = 'upsert-kafka'"
WINDOW = (
    "aggregate over a window: FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) "
    "GROUP BY window_start, window_end, ..."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTable:
    """What a query is written into: the columns that it fills, in its order, and the PRIMARY KEY (empty: none).

    `wants_rows_before`: it takes changes, and upserts are not enough.
    """

    name: str
    accepts: ChangelogMode
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    wants_rows_before: bool = False


def check_sink(flow: Flow, sink: SinkTable) -> None:
    """Raise UnsupportedError, at the operator that the changes come from, when `sink` cannot take them."""
    match flow.changes:
        case ChangelogMode.INSERT_ONLY:
            return
        case ChangelogMode.UPSERT | ChangelogMode.ALL:
            if sink.accepts is ChangelogMode.INSERT_ONLY:
                raise _append_only(flow, sink)
            if sink.wants_rows_before and flow.changes is ChangelogMode.UPSERT:
                raise _upserts(flow, sink)
            if sink.key:
                _check_key(flow, sink)
        case _:
            assert_never(flow.changes)


def _append_only(flow: Flow, sink: SinkTable) -> UnsupportedError:
    place = span_of(flow.origin) if flow.origin is not None else None
    if flow.mechanism is None:
        return UnsupportedError(
            f"the rows read here are updated and deleted, and {sink.name} only takes rows that stay",
            hint=KEYED,
            span=place,
        )
    aggregation = flow.mechanism.operator == "aggregation"
    return UnsupportedError(
        f"this {flow.mechanism.operator} updates its results as rows come, and {sink.name} only takes rows that stay",
        hint=f"{KEYED}; or {WINDOW}" if aggregation else KEYED,
        span=flow.mechanism.span or place,
    )


def _upserts(flow: Flow, sink: SinkTable) -> UnsupportedError:
    place = span_of(flow.origin) if flow.origin is not None else None
    return UnsupportedError(
        f"each row here replaces the one before with its key, and the format of {sink.name} writes that one, too",
        hint="write into connector = 'upsert-kafka', or a Delta table with a PRIMARY KEY",
        span=flow.mechanism.span or place if flow.mechanism is not None else place,
    )


def _check_key(flow: Flow, sink: SinkTable) -> None:
    if flow.key is None:
        return  # changes with the row before take away what they brought, by whatever key
    place = span_of(flow.origin) if flow.origin is not None else None
    missing = [name for name in sink.key if name not in sink.columns]
    if missing:
        raise UnsupportedError(
            f"the INSERT fills no {', '.join(missing)}, by which {sink.name} tells rows apart",
            hint=f"fill all of PRIMARY KEY ({', '.join(sink.key)})",
            span=place,
        )
    if flow.columns is None or len(flow.columns) != len(sink.columns):
        return  # Spark's own columns are compared later; they cannot be told here
    filled = [flow.columns[sink.columns.index(name)] for name in sink.key]
    more = set(filled) - set(flow.key) - flow.constants
    # with the row before, a column that changes is taken back under its old value
    fits = set(flow.key) <= set(filled) and (flow.changes is ChangelogMode.ALL or not more)
    if not fits:
        one = f"one row for each ({', '.join(flow.key)})" if flow.key else "one row in all"
        raise UnsupportedError(
            f"the query gives {one}, and {sink.name} keeps one for each ({', '.join(sink.key)}), which the query "
            f"fills with ({', '.join(filled)})",
            hint=_key_hint(flow, filled),
            span=place,
        )


def _key_hint(flow: Flow, filled: Sequence[str]) -> str:
    if flow.key:
        by = ", ".join(filled)
        return (
            f"the PRIMARY KEY has to be the columns filled by ({', '.join(flow.key)}); or choose one row for each "
            f"({by}) in the query: ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY ...) AS n, WHERE n = 1"
        )
    return "fill the PRIMARY KEY with a constant: SELECT 'all' AS name, COUNT(*) FROM t"
