"""A refresh of a FULL materialized table: ALTER MATERIALIZED TABLE ... REFRESH, by the definition as it is then.

Flink's scheduler runs the same statement at each of its times. The query is planned anew each time, in a Spark session
of the job's own: what it names and sets there does not reach the user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from pyspark.sql import SparkSession

from penstock.catalog.errors import UnknownObjectError
from penstock.catalog.identifier import Identifier
from penstock.catalog.materialization import RefreshMode
from penstock.catalog.names import Namespace
from penstock.catalog.table import Table
from penstock.connector.spark.session_copy import copy_of, forget_views
from penstock.sql.change_statements import ChangeMaterializedTable
from penstock.sql.lower import parse_statement
from penstock.sql.plan.planner import Planner
from penstock.sql.run.functions import register_called
from penstock.sql.run.progress import short_name
from penstock.sql.script import split

if TYPE_CHECKING:
    from penstock.connector.contract import LostLease
    from penstock.sql.statements import InsertInto

__all__ = ["FullRefresh"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FullRefresh:
    """Writes `table` anew (`refresher.Refresh`). `settings` are those of the statement that had it refreshed.

    `group` names its Spark jobs, so that they can be cancelled.
    """

    table: Identifier
    namespace: Namespace
    project: Path
    settings: Mapping[str, str]
    spark: SparkSession
    group: str = field(default_factory=lambda: f"penstock-refresh-{uuid4().hex}")
    _copies: list[SparkSession] = field(default_factory=list, compare=False, repr=False)

    @property
    def sink(self) -> str:
        """The table written, as messages name it."""
        return short_name(self.table)

    def interval_ms(self) -> int | None:
        """Give the table's freshness; None where it was dropped, suspended, or made another table."""
        try:
            found = self.namespace.lookup(self.table)
        except UnknownObjectError:
            return None
        kept = found.materialization if isinstance(found, Table) else None
        if kept is None or kept.suspended or kept.refresh_mode is not RefreshMode.FULL:
            return None
        return kept.interval_ms

    def write(self, lost_lease: LostLease | None = None) -> None:
        """Write the table anew, in one commit. Raises InputError, the error of `lost_lease`, what Spark raises."""
        if not self._copies:
            self._copies.append(copy_of(self.spark))
        (spark,) = self._copies
        spark.sparkContext.setJobGroup(self.group, f"refresh {self.sink}", interruptOnCancel=True)
        insert = self._insert()
        register_called(insert.query, self.namespace, spark, self.project)
        planner = Planner(
            namespace=self.namespace, project=self.project, settings=dict(self.settings)
        )
        try:
            planned = planner.plan_insert(planner.analyse_insert(insert), spark)
            planned.prepare()
            planned.write(lost_lease)
        finally:
            planner.close()
            forget_views(spark)

    def cancel(self) -> None:
        """End a `write` that runs."""
        self.spark.sparkContext.cancelJobGroup(self.group)

    def _insert(self) -> InsertInto:
        (text,) = split(f"ALTER MATERIALIZED TABLE {self.table} REFRESH", "<refresh>")
        statement = parse_statement(text, self.namespace)
        assert isinstance(statement, ChangeMaterializedTable), "it says so"
        assert statement.insert is not None, "REFRESH has one"
        return statement.insert
