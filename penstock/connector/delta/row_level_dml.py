"""Change the rows of a Delta table: INSERT OVERWRITE, TRUNCATE, UPDATE, DELETE. Each statement is one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from penstock.catalog.errors import StateMismatchError
from penstock.catalog.model.identifier import quoted, spark_literal
from penstock.connector.capabilities import RowLevelEditor
from penstock.connector.changelog import ROW_KIND
from penstock.connector.delta.options import DeltaTarget, FileMaintenance
from penstock.connector.delta.table import exists, stored_schema, translate_errors
from penstock.connector.spark.session import configured
from penstock.connector.spark.sink.target_rows import IS_DELETE, last_changes


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaEditor(RowLevelEditor):
    """Changes rows in place. A streaming read of the table fails on such a commit, as Delta says."""

    target: DeltaTarget
    upkeep: FileMaintenance = field(default_factory=FileMaintenance)

    def overwrite(
        self, frame: DataFrame, partition: Mapping[str, str], *, whole: bool = False
    ) -> None:
        """Replace all rows by those of `frame`; of rows with one key the last stays."""
        key = self.target.table.schema.primary_key
        if key is not None:
            columns = [(each.name, each.dataType) for each in stored_schema(self.target.table)]
            frame = last_changes(frame, key.columns, columns).filter(~F.col(IS_DELETE))
            frame = frame.drop(IS_DELETE, ROW_KIND)
        writer = frame.write.format("delta").mode("overwrite")
        if partition:
            writer = writer.option("replaceWhere", self._within(partition))
        elif self.target.table.partition_keys and not whole:
            writer = writer.option("partitionOverwriteMode", "dynamic")
        settings = self.upkeep.settings
        with configured(frame.sparkSession, settings), translate_errors(self.target.shown):
            writer.save(self.target.location)

    @property
    def row_level(self) -> RowLevelEditor:
        """Rows are changed in place."""
        return self

    def truncate(self, spark: SparkSession) -> None:
        """Remove every row; the table stays."""
        with translate_errors(self.target.shown):
            self._table(spark).delete()

    def partitions(self, spark: SparkSession) -> Sequence[Mapping[str, str | None]]:
        """List the partitions that there are: those with rows."""
        keys = [quoted(name) for name in self.target.table.partition_keys]
        with translate_errors(self.target.shown):
            rows = self._table(spark).toDF().select(*keys).distinct().collect()
        names = self.target.table.partition_keys
        return [
            {
                name: None if value is None else str(value)
                for name, value in zip(names, row, strict=True)
            }
            for row in rows
        ]

    def update(
        self, spark: SparkSession, alias: str, values: Mapping[str, str], condition: str | None
    ) -> int:
        """Set columns of the rows that fulfil `condition`. Returns the number of rows."""
        changes = ", ".join(f"{quoted(name)} = {sql}" for name, sql in values.items())
        statement = f"UPDATE {self._named(alias)} SET {changes}"  # noqa: S608 - names are quoted, values are ours
        return self._counted(spark, statement, condition)

    def delete(self, spark: SparkSession, alias: str, condition: str | None) -> int:
        """Remove the rows that fulfil `condition`. Returns the number of rows."""
        statement = f"DELETE FROM {self._named(alias)}"  # noqa: S608 - names are quoted, values are ours
        return self._counted(spark, statement, condition)

    def _counted(self, spark: SparkSession, statement: str, condition: str | None) -> int:
        self._table(spark)
        where = f" WHERE {condition}" if condition is not None else ""
        with translate_errors(self.target.shown):
            rows = spark.sql(statement + where).collect()
        return int(rows[0]["num_affected_rows"])

    def _named(self, alias: str) -> str:
        return f"delta.{quoted(self.target.location)} AS {quoted(alias)}"

    def _table(self, spark: SparkSession) -> DeltaTable:
        if not exists(self.target, spark):
            raise StateMismatchError(
                f"there is no Delta table at {self.target.shown} yet",
                hint="INSERT INTO the table first: that makes it",
            )
        return DeltaTable.forPath(spark, self.target.location)

    def _within(self, partition: Mapping[str, str]) -> str:
        """The condition that a row is of the partition."""
        kinds = {
            each.name: each.dataType.simpleString() for each in stored_schema(self.target.table)
        }
        return " AND ".join(
            f"{quoted(name)} = CAST({spark_literal(value)} AS {kinds[name]})"
            for name, value in partition.items()
        )
