"""What flows between the operators of a query: columns, kinds of changes, and the key that tells rows apart."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from sqlglot import exp

from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.sql.plan.mechanism import Mechanism

__all__ = [
    "LEAF", "Arrival", "Flow", "TableInput", "delete", "is_one_of", "kind_literal", "kind_of", "renamed",
]  # fmt: skip

LEAF = "penstock.leaf"  # label of a table node: index of its leaf


class Arrival(StrEnum):
    """What is known of the order in which the rows of a table came."""

    OPEN = "open"
    """Not asked for, as in versions of Penstock whose checkpoints go on."""
    BATCH = "batch"
    """The micro-batch that a row came in."""
    RECORD = "record"
    """The order of any two rows, by the column ARRIVED (`connector/arrival.py`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableInput:
    """A table that a query reads: the columns that it reads, what its rows are, its PRIMARY KEY (None: it has none).

    `static`: Spark reads it by itself, so that a query may also look into it once a batch instead of following it.
    `proctimes` are its columns that say when a row came (PROCTIME()). `rowtime` is the column that its WATERMARK is
    of, where the split runtime follows it. `arrival` says what is known of the order of its rows.
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
    """The rows that a relation gives.

    `columns` are None where they cannot be told. `key`: no two rows that are there at a time agree in these columns
    (None: not known); always known for UPSERT. `constants` have the same value in every row. `kinds`: the relation
    has the column ROW_KIND, its last one; without it rows are inserts, or newest rows of their key (`mechanism`).
    `origin` is where changes come from, `stateful` an operator below that keeps state in append mode.
    """

    columns: tuple[str, ...] | None
    changes: ChangelogMode = ChangelogMode.INSERT_ONLY
    key: tuple[str, ...] | None = None
    constants: frozenset[str] = frozenset()
    kinds: bool = False
    origin: exp.Expr | None = field(default=None, compare=False)
    stateful: exp.Expr | None = field(default=None, compare=False)
    mechanism: Mechanism | None = None

    @property
    def is_changing(self) -> bool:
        """Whether rows may be updated or deleted."""
        return self.changes is not ChangelogMode.INSERT_ONLY


def renamed(flow: Flow, names: list[str]) -> Flow:
    """Give the flow under other names of its columns, by position; the hidden column has none."""
    if flow.columns is None or len(names) != len(flow.columns):
        return replace(flow, columns=tuple(names))
    new = dict(zip(flow.columns, names, strict=True))
    return replace(
        flow,
        columns=tuple(names),
        key=None if flow.key is None else tuple(new.get(name, name) for name in flow.key),
        constants=frozenset(new.get(name, name) for name in flow.constants),
    )


def kind_literal(kind: RowKind) -> exp.Expr:
    """Give a row kind as SQL, in the type of the column."""
    return exp.cast(exp.Literal.number(int(kind)), exp.DType.TINYINT)


def kind_of(flow: Flow) -> exp.Expr:
    """Give the kind of a row of `flow` as SQL: its hidden column, or what all its rows are."""
    if flow.kinds:
        return exp.column(ROW_KIND, quoted=True)
    return kind_literal(RowKind.UPDATE_AFTER if flow.is_changing else RowKind.INSERT)


def is_one_of(kind: exp.Expr, *kinds: RowKind) -> exp.Expr:
    """Test a row's kind."""
    return exp.In(this=kind, expressions=[exp.Literal.number(int(k)) for k in kinds])


def delete() -> exp.Expr:
    """Give the kind of a row that is gone."""
    return kind_literal(RowKind.DELETE)
