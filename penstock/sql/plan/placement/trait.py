"""Traits: what an engine gives of an operator, or why it cannot run it."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.plan.logical.nodes import Scan
from penstock.sql.plan.rules.flow import Flow, ScanFlow, UpdatingOperator
from penstock.sql.syntax.refusal import Refusal

__all__ = ["StageTrait", "Trait", "scan_flow"]

Trait = Flow | Refusal
"""The rows that an engine gives of an operator, or the refusal of the first operator that it cannot run."""


def scan_flow(scan: Scan) -> ScanFlow:
    """Return the properties of a scan by which the rules of a SELECT ask."""
    return ScanFlow(
        name=scan.table,
        columns=scan.facts.names or (),
        changes=scan.changes,
        key=scan.key,
        static=scan.static,
        proctimes=scan.proctimes,
        rowtime=scan.rowtime,
        arrival=scan.arrival,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTrait:
    """The rows that a stage gives, or that Spark streams for one (`native`).

    `stays`: rows are never changed. `key`: no two rows agree in these columns (None: unknown). `constants` have the
    same value in every row. `mechanism` is the nearest stage with state, `origin` its place.
    """

    columns: tuple[str, ...]
    stays: bool
    key: tuple[str, ...] | None = None
    constants: frozenset[str] = frozenset()
    mechanism: UpdatingOperator | None = None
    origin: exp.Expr | None = field(default=None, compare=False)
    native: bool = False

    @property
    def flow(self) -> Flow:
        """The rows as a relation between two operators."""
        return Flow(
            columns=self.columns,
            changes=ChangelogMode.INSERT_ONLY if self.stays else ChangelogMode.ALL,
            key=self.key,
            constants=self.constants,
            kinds=not self.stays,
            origin=self.origin,
            mechanism=self.mechanism,
        )
