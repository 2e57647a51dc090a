"""Where a Delta table is, and as what it was declared: known without Spark. `table.py` looks at the table itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.catalog.errors import StateMismatchError
from penstock.catalog.redaction import redact
from penstock.catalog.table import Table

__all__ = ["Target"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the rows of `table` are. `properties` are the `delta.*` options, `clustering` the columns to cluster by."""

    table: Table
    location: str
    properties: Mapping[str, str] = field(default_factory=dict)
    clustering: tuple[str, ...] = ()

    @property
    def shown(self) -> str:
        """The location for messages: keys inside a URL are not shown."""
        return redact({"path": self.location})["path"]

    def mismatch(self, what: str, hint: str | None = None) -> StateMismatchError:
        """Make the error for a table that is not the declared one."""
        return StateMismatchError(
            f"the Delta table at {self.shown} is not the declared table {self.table.identifier}: {what}",
            hint=hint
            or "declare the table as it is, change it with Spark's ALTER TABLE, or give another 'path'",
        )
