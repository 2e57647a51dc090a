"""Protocols of row-level changes: overwrite, truncate, update and delete the rows of a table.

For bounded statements (INSERT OVERWRITE, TRUNCATE, UPDATE, DELETE), on the driver; calls may block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.catalog.errors import PenstockError

__all__ = ["RowLevelEditor", "TableEditor"]


class TableEditor(Protocol):
    """Replaces the rows of a table, or of some of its partitions."""

    def overwrite(
        self, frame: DataFrame, partition: Mapping[str, str], *, whole: bool = False
    ) -> None:
        """Replace all rows by those of `frame`, atomically.

        Of a partitioned table the partitions that `frame` has rows for are replaced, others stay, unless `whole`; with
        `partition` (values of partition columns as text) those that it names, even where `frame` is empty.
        """

    def truncate(self, spark: SparkSession) -> None:
        """Remove every row; the table stays."""

    def partitions(self, spark: SparkSession) -> Sequence[Mapping[str, str | None]]:
        """List the partitions that there are: values of the partition columns as text, None for NULL."""

    @property
    def row_level(self) -> RowLevelEditor | None:
        """Return what changes rows in place; None where rows are only replaced."""
        return None

    def under_lease(
        self,
        lost_lease: Callable[[], PenstockError | None],  # noqa: ARG002  of the contract
    ) -> Self:
        """Return the same editor, which asks `lost_lease` before it changes the target (`Sink.under_lease`)."""
        return self


class RowLevelEditor(TableEditor, Protocol):
    """Changes rows in place. Conditions and values are Spark SQL over the columns, which `alias` may qualify."""

    def update(
        self, spark: SparkSession, alias: str, values: Mapping[str, str], condition: str | None
    ) -> int:
        """Set columns of the rows that fulfil `condition` (None: of all). Returns the number of rows."""

    def delete(self, spark: SparkSession, alias: str, condition: str | None) -> int:
        """Remove the rows that fulfil `condition` (None: all). Returns the number of rows."""
