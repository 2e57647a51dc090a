"""The input of a case, put where its queries read: records in files for tables read by splits, rows for the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.catalog.errors import DefinitionError, UnsupportedError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Table
from penstock.connector.arrow.types import arrow_schema
from penstock.connector.changelog import RowKind
from penstock.connector.contract import Source, SourceKind, SplitSource
from penstock.connector.registry import connector_of
from penstock.connector.spark.types import spark_schema
from penstock.connector.testing.encode import encoder_of, make_records
from penstock.connector.testing.records import FixtureRecord, publish, write_records
from penstock.connector.testing.values import read_cells
from penstock.sql.jobs.startable_query import StartableQuery
from penstock.sql.testing.cases import LocatedRow, Step
from penstock.sql.testing.named_tables import NamedTables
from penstock.sql.testing.substitutes import TableSubstitutes

__all__ = ["Sources"]

Ends = Mapping[str, int]


@dataclass(slots=True, kw_only=True)
class Sources:
    """The sources of one case. `write` first, then `publish` for each step in order."""

    doubles: TableSubstitutes
    project: Path
    _ends: list[dict[Identifier, Ends]] = field(default_factory=list)
    _rows: list[list[tuple[Table, pa.Table]]] = field(default_factory=list)
    _known: dict[Identifier, Table] = field(default_factory=dict)

    def write(self, steps: Sequence[Step], named: NamedTables) -> None:
        """Write the records of all steps; none is published yet. Raises InputError with the row's place."""
        given = self._by_table(steps, named)
        for table in named.all:
            self._known[table.identifier] = table
            if table.identifier not in named.read:
                continue
            rows = given.get(table.identifier, [])
            source = self._source(table)
            if source is None:
                if any(rows):
                    raise UnsupportedError(
                        f"table {table.identifier.name} is only written, so no rows of it can be given",
                        span=next(row.span for step in rows for row in step),
                    )
            elif source.kind is SourceKind.SPLITS:
                self._write_records(table, source, rows)
            else:
                for number, step in enumerate(rows):
                    if step:
                        self._step(self._rows, number).append((table, _arrow(table, step)))

    def prepare(self, query: StartableQuery, spark: SparkSession) -> None:
        """Make what a query writes into, and the tables that it follows and that do not exist yet."""
        query.prepare()
        for leaf in query.leaves:
            if not leaf.by_splits:
                self._prepare(self._known[leaf.table.identifier], spark)

    def publish(self, number: int, spark: SparkSession) -> None:
        """Publish the result of a step."""
        for identifier, ends in self._step_of(self._ends, number, {}).items():
            publish(self.doubles.records(identifier), ends)
        for table, rows in self._step_of(self._rows, number, []):
            self._prepare(table, spark)
            double = self.doubles.of(table)
            sink = connector_of(double, project=self.project).sink(double)
            sink.write(spark.createDataFrame(rows))

    def _prepare(self, table: Table, spark: SparkSession) -> None:
        double = self.doubles.of(table)
        sink = connector_of(double, project=self.project).sink(double)
        sink.prepare(spark, spark_schema(table.schema.physical))

    def _source(self, table: Table) -> Source | None:
        """Describe how a table is read; None where it is only written."""
        try:
            return connector_of(table, project=self.project).source(table)
        except UnsupportedError:
            return None

    def _by_table(
        self, steps: Sequence[Step], named: NamedTables
    ) -> dict[Identifier, list[list[LocatedRow]]]:
        """Sort rows by table, then by step: as many steps as the case has."""
        found: dict[Identifier, list[list[LocatedRow]]] = {}
        for number, step in enumerate(steps):
            for table in step:
                identifier = named.tables[table.name].identifier
                rows = found.setdefault(identifier, [[] for _ in steps])
                rows[number].extend(table.rows)
        return found

    def _write_records(
        self, table: Table, source: SplitSource, steps: Sequence[Sequence[LocatedRow]]
    ) -> None:
        encoder = encoder_of(table, source)
        records: list[FixtureRecord] = []
        ends: dict[str, int] = {}
        for number, step in enumerate(steps):
            made = make_records(encoder, [(placed.row, placed.span) for placed in step], ends)
            records += made
            ends = ends | {record.split: record.offset + 1 for record in made}
            while len(self._ends) <= number:
                self._ends.append({})
            self._ends[number][table.identifier] = ends
        write_records(self.doubles.records(table.identifier), records)

    def _step(self, steps: list[list[Any]], number: int) -> list[Any]:
        while len(steps) <= number:
            steps.append([])
        return steps[number]

    def _step_of(self, steps: Sequence[Any], number: int, default: Any) -> Any:
        return steps[number] if number < len(steps) else default


def _arrow(table: Table, rows: Sequence[LocatedRow]) -> pa.Table:
    """Make a table's rows of cells. Raises DefinitionError with the row's place."""
    columns = [(column.name, column.type) for column in table.schema.physical]
    values: list[dict[str, Any]] = []
    for placed in rows:
        if placed.row.kind is not RowKind.INSERT or placed.row.raw is not None:
            raise UnsupportedError(
                f"rows of table {table.identifier.name} are given as inserts: it has no records",
                span=placed.span,
            )
        try:
            cells = read_cells(table, placed.row, metadata=False)
        except DefinitionError as error:
            error.span = error.span or placed.span
            raise
        values.append({name: cells.get(name) for name, _ in columns})
    return pa.Table.from_pylist(values, schema=arrow_schema(columns))
