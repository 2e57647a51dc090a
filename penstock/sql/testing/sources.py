"""The tables that a case names, and its input, put where its queries read.

Tables read by splits get their records in files, the others their rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import ConfigError, DefinitionError, InputError, Span, UnsupportedError
from penstock.catalog.model.identifier import Identifier, parse_identifier
from penstock.catalog.model.table import Table
from penstock.connector.arrow import arrow_schema
from penstock.connector.changelog import RowKind
from penstock.connector.contract import Source, SourceKind, SplitSource
from penstock.connector.registry import connector_of
from penstock.connector.spark.types import spark_schema
from penstock.connector.testing.decode import FixtureRecord, publish, write_records
from penstock.connector.testing.encode import encoder_of, make_records
from penstock.connector.testing.values import read_cells
from penstock.sql.check.script_check import CheckedScript, CheckedStatement
from penstock.sql.ddl.apply_ddl import is_definition
from penstock.sql.execution.ddl import define
from penstock.sql.jobs.startable_query import StartableQuery
from penstock.sql.plan.analysed import AnalysedInsert
from penstock.sql.statements.dml import DeleteRows, TruncateTable, UpdateRows
from penstock.sql.testing.cases import Case, LocatedRow, Step
from penstock.sql.testing.substitutes import TableSubstitutes, all_tables, local_store_of


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTables:
    """Tables by the names that a case uses. `written` are the names of those that its files write into.

    `read` are those that queries read; `shared` those that are stored here and are read, replaced or given rows.
    """

    tables: Mapping[str, Table] = field(default_factory=dict)
    written: tuple[str, ...] = ()
    all: tuple[Table, ...] = ()
    shared: frozenset[Identifier] = frozenset()
    read: frozenset[Identifier] = frozenset()


def name_tables(
    case: Case, scripts: Sequence[CheckedScript], namespace: Namespace, *, lenient: bool
) -> NamedTables:
    """Look up what a case names, in the definitions of its files.

    `lenient`: a case that expects nothing yields every table that is written. Raises ConfigError for an unknown name,
    and for a table without a broker between its writer and its reader.
    """
    checked = [one for script in scripts for one in script.statements]
    final = namespace.overlay()
    for one in checked:
        if is_definition(one.statement):
            define(one.statement, final)
    found = {name: _find(name, span, final) for name, span in _names(case)}
    filled = {found[name].identifier for name, _ in _case_tables(case)}
    inserts = [insert for one in checked for insert in _inserts(one)]
    written = {insert.target.identifier for insert in inserts}
    _check_chains(case, inserts, filled, written)
    names = _short_names(sorted(written), final)
    if lenient and case.then is None:
        found |= {name: _find(name, case.span, final) for name in names}
    tables = [table for table in all_tables(final) if isinstance(table, Table)]
    read = {leaf.table.identifier for insert in inserts for leaf in insert.query.leaves}
    looked_at = _changed(inserts, checked, tables) | read | filled
    return NamedTables(
        tables=found,
        written=names,
        all=tuple(tables),
        read=frozenset(read | filled),
        shared=frozenset(
            t.identifier
            for t in tables
            if t.identifier in looked_at and local_store_of(t) is not None
        ),
    )


def _changed(
    inserts: Sequence[AnalysedInsert],
    checked: Sequence[CheckedStatement],
    tables: Sequence[Table],
) -> set[Identifier]:
    """Find the tables whose rows statements replace or change."""
    if any(isinstance(o.statement, UpdateRows | DeleteRows | TruncateTable) for o in checked):
        return {table.identifier for table in tables}
    return {insert.target.identifier for insert in inserts if insert.editor is not None}


def _names(case: Case) -> Iterator[tuple[str, Span]]:
    yield from _case_tables(case)
    if case.then is not None:
        yield from ((table.name, table.span) for table in case.then.tables)


def _case_tables(case: Case) -> Iterator[tuple[str, Span]]:
    for step in case.steps:
        yield from ((table.name, table.span) for table in step)


def _find(name: str, span: Span, namespace: Namespace) -> Table:
    try:
        table = namespace.lookup(namespace.resolve(parse_identifier(name)))
    except InputError as error:
        raise ConfigError(error.message, hint=error.hint, span=span) from error
    if not isinstance(table, Table):
        raise ConfigError(f"{name} is a view", hint="name the tables that it reads", span=span)
    return table


def _inserts(checked: CheckedStatement) -> Sequence[AnalysedInsert]:
    one = () if checked.analysed is None else (checked.analysed,)
    return (*one, *checked.members)


def _check_chains(
    case: Case,
    inserts: Sequence[AnalysedInsert],
    filled: set[Identifier],
    written: set[Identifier],
) -> None:
    """Refuse a topic between two statements for which the case gives no rows. Raises ConfigError."""
    for insert in inserts:
        for leaf in insert.query.leaves:
            table = leaf.table
            between = table.identifier in written and local_store_of(table) is None
            if between and table.identifier not in filled:
                raise ConfigError(
                    f"table {table.identifier.name} is written by one statement and read by another, and a test has "
                    "nothing between them",
                    hint=f"give rows of {table.identifier.name}, as they would be written",
                    span=case.span,
                )


def _short_names(identifiers: Sequence[Identifier], namespace: Namespace) -> tuple[str, ...]:
    """Name tables as a statement of the current database would."""
    here = (namespace.current_catalog, namespace.current_database)
    return tuple(
        i.name if (i.catalog, i.database) == here and i.name.isidentifier() else str(i)
        for i in identifiers
    )


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
        by_table = self._by_table(steps, named)
        for table in named.all:
            self._known[table.identifier] = table
            if table.identifier not in named.read:
                continue
            rows = by_table.get(table.identifier, [])
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
