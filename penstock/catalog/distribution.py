"""DISTRIBUTED BY of a table: how a connector should spread rows over buckets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from penstock.catalog.errors import DefinitionError
from penstock.catalog.identifier import quoted

__all__ = ["Distribution", "DistributionKind"]

DistributionKind = Literal["HASH", "RANGE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """Buckets by columns, or by number alone (Flink: TableDistribution). None as `kind`: the connector chooses."""

    kind: DistributionKind | None = None
    columns: tuple[str, ...] = ()
    buckets: int | None = None

    def __post_init__(self) -> None:
        if not self.columns and self.buckets is None:
            raise DefinitionError("DISTRIBUTED names neither columns nor a number of buckets")
        if self.buckets is not None and self.buckets < 1:
            raise DefinitionError("DISTRIBUTED INTO needs 1 bucket or more")
        if len(set(self.columns)) < len(self.columns):
            raise DefinitionError("DISTRIBUTED BY names a column twice")

    def __str__(self) -> str:
        """The clause, behind DISTRIBUTED or DISTRIBUTION."""
        parts = []
        if self.columns:
            columns = f"({', '.join(quoted(name) for name in self.columns)})"
            parts.append(f"BY {self.kind}{columns}" if self.kind else f"BY {columns}")
        if self.buckets is not None:
            parts.append(f"INTO {self.buckets} BUCKETS")
        return " ".join(parts)
