"""The relation between two operators of a query: columns, changelog mode, upsert key.

Also the updating operator that runs a query with changing results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import assert_never

from sqlglot import exp

from penstock.catalog.errors import Span
from penstock.connector.changelog import ChangelogMode
from penstock.sql.plan.logical.facts import Arrival


class OperatorKind(StrEnum):
    """Updating operators. Spark's update mode runs the first five: a key's newest row replaces the one before.

    The others, and those again, are stages of incremental queries.
    """

    AGGREGATE = "aggregate"
    RETRACTING_AGGREGATE = "retracting aggregate"
    FIRST_ROW = "first row"
    LAST_ROW = "last row"
    TOP_N = "Top-N"
    DISTINCT = "distinct rows"
    JOIN = "join"
    TEMPORAL_JOIN = "temporal join"
    OVER = "OVER aggregation"
    SET = "set operation"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdatingOperator:
    """One updating operator of a query.

    `key` are its output columns that identify a row, `state` describes the state of each key. `span` is the operator's
    place in the text.
    """

    way: OperatorKind
    key: tuple[str, ...]
    state: str
    span: Span | None = None

    @property
    def operator(self) -> str:
        """Name the operator, as messages do."""
        match self.way:
            case OperatorKind.AGGREGATE | OperatorKind.RETRACTING_AGGREGATE:
                return "aggregation"
            case OperatorKind.FIRST_ROW | OperatorKind.LAST_ROW:
                return "deduplication"
            case OperatorKind.TOP_N:
                return "Top-N"
            case OperatorKind.DISTINCT:
                return "DISTINCT"
            case OperatorKind.JOIN:
                return "join"
            case OperatorKind.TEMPORAL_JOIN:
                return "temporal join"
            case OperatorKind.OVER:
                return "OVER aggregation"
            case OperatorKind.SET:
                return "set operation"
            case _:
                assert_never(self.way)

    @property
    def named(self) -> str:
        """The operator with its article."""
        return f"{'an' if self.operator.startswith(('a', 'O')) else 'a'} {self.operator}"


def describe_changes(changes: ChangelogMode, key: Sequence[str] | None) -> str:
    """Describe in one line the rows that reach the sink."""
    match changes:
        case ChangelogMode.INSERT_ONLY:
            return "inserts"
        case ChangelogMode.UPSERT:
            return f"upserts and deletes by ({', '.join(key or ())})"
        case ChangelogMode.ALL:
            return "inserts, updates with the row before and after, deletes"
        case _:
            assert_never(changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanFlow:
    """A table that a query reads: the columns that it reads, its changelog mode, its PRIMARY KEY (None: it has none).

    `static`: Spark reads it by itself, so that a query may also read it once a batch instead of following it.
    `proctimes` are its columns of processing time (PROCTIME()). `rowtime` is the column that its WATERMARK is of,
    where the split runtime follows it. `arrival` is the known arrival order of its rows.
    """

    name: str
    columns: tuple[str, ...]
    changes: ChangelogMode = ChangelogMode.INSERT_ONLY
    key: tuple[str, ...] | None = None
    static: bool = False
    proctimes: frozenset[str] = frozenset()
    rowtime: str | None = None
    arrival: Arrival = Arrival.OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The rows of a relation.

    `columns` are None where they are unknown. `key`: no two rows at a time agree in these columns (None: unknown);
    always known for UPSERT. `constants` have the same value in every row. `kinds`: the relation has the column
    ROW_KIND, its last one; without it rows are inserts, or newest rows of their key (`mechanism`). `origin` is the
    place of the table that changes come from, `stateful` an operator below that keeps state in append mode.
    """

    columns: tuple[str, ...] | None
    changes: ChangelogMode = ChangelogMode.INSERT_ONLY
    key: tuple[str, ...] | None = None
    constants: frozenset[str] = frozenset()
    kinds: bool = False
    origin: Span | None = field(default=None, compare=False)
    stateful: exp.Expr | None = field(default=None, compare=False)
    mechanism: UpdatingOperator | None = None

    @property
    def is_changing(self) -> bool:
        """Whether rows may be updated or deleted."""
        return self.changes is not ChangelogMode.INSERT_ONLY

    @property
    def span(self) -> Span | None:
        """The place of what changes the rows: an operator, or the table that is read."""
        return self.origin if self.mechanism is None else self.mechanism.span


def renamed(flow: Flow, names: list[str]) -> Flow:
    """Return the flow under other names of its columns, by position; the hidden column has none."""
    if flow.columns is None or len(names) != len(flow.columns):
        return replace(flow, columns=tuple(names))
    new = dict(zip(flow.columns, names, strict=True))
    return replace(
        flow,
        columns=tuple(names),
        key=None if flow.key is None else tuple(new.get(name, name) for name in flow.key),
        constants=frozenset(new.get(name, name) for name in flow.constants),
    )
