"""Replay checked files without running them, with a planner for each statement.

Also samples the first records through a query. Of a Kafka table the first records from its start are read,
partition by partition, without its consumer group; other tables are read as they are. Results are those of a
bounded query over these records: every window closes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.catalog.definitions.encryption import encrypt_references
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.model.identifier import short_name
from penstock.catalog.model.table import Table, View
from penstock.connector.contract import ReadRequest, SourceKind, SplitSource
from penstock.connector.registry import connector_of
from penstock.connector.spark.session import configured
from penstock.sql.check.script_check import CheckedScript, CheckedStatement
from penstock.sql.clock import SystemClock
from penstock.sql.ddl.apply_ddl import is_definition
from penstock.sql.execution.context import SessionContext
from penstock.sql.execution.ddl import define, set_option
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.plan.rules.inline import find_relations
from penstock.sql.runner.select import collect_rows
from penstock.sql.statements.dml import InsertInto
from penstock.sql.statements.statement import ResetOption, Select, SetOption, StatementSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.sql.runner.summary import ResultRows
    from penstock.sql.statements.statement import Statement


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """A statement of a file, and a planner as of its turn; earlier definitions have taken effect."""

    script: CheckedScript
    checked: CheckedStatement
    planner: Planner


def replay(scripts: Sequence[CheckedScript], context: SessionContext) -> Iterator[Replayed]:
    """Return the statements in order. Works on an overlay: neither the catalog nor any table is changed."""
    overlay = context.overlay()
    for script in scripts:
        planner = Planner(
            namespace=overlay.namespace,
            project=overlay.project,
            settings=overlay.settings,
            default_pipeline=script.file.pipeline,
        )
        for checked in script.statements:
            statement = checked.statement
            if is_definition(statement):
                define(statement, overlay.namespace)
            elif isinstance(statement, SetOption | ResetOption):
                set_option(statement, overlay.settings)
            yield Replayed(script=script, checked=checked, planner=planner)
        planner.close()


RECORDS_PER_SPLIT = 1000
"""Records read of each Kafka partition, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledQuery:
    """A query and its name. `columns` are those of the table that it fills, none for a SELECT."""

    title: str
    select: Select
    columns: tuple[str, ...] = ()


def queries_of(one: Replayed) -> list[SampledQuery]:
    """List the queries of a statement: an INSERT's, each of a set's, a SELECT."""
    analysed = one.checked.analysed
    statement = one.checked.statement if analysed is None else analysed.statement
    return list(_queries(statement, one.planner.namespace))


def _queries(statement: Statement, namespace: Namespace) -> Iterator[SampledQuery]:
    match statement:
        case Select():
            yield SampledQuery(title="SELECT", select=statement)
        case InsertInto():
            select = Select(
                query=statement.query,
                output=statement.output,
                source=statement.source,
                span=statement.span,
            )
            title = f"INSERT INTO {short_name(statement.target)}"
            columns = statement.columns or _written(namespace.lookup(statement.target))
            yield SampledQuery(title=title, select=select, columns=columns)
        case StatementSet(inserts=inserts):
            for insert in inserts:
                yield from _queries(insert, namespace)


def _written(target: Table | View) -> tuple[str, ...]:
    """Return the columns that an INSERT without a list of its own fills."""
    assert isinstance(target, Table), "checked before"
    schema = target.schema
    return tuple(
        column.name
        for column in schema.columns
        if column in schema.physical or (column in schema.metadata and not column.virtual)
    )


def sample(query: SampledQuery, planner: Planner, spark: SparkSession, *, rows: int) -> ResultRows:
    """Run a query over the first records of its sources and return `rows` rows at most. Raises PenstockError."""
    overlay = planner.namespace.overlay()
    for leaf in find_relations(query.select.query, planner.namespace).leaves:
        shortened = _shortened(leaf.table, planner)
        if shortened is not leaf.table:
            overlay.create(shortened, replace=True)
    sampler = Planner(namespace=overlay, project=planner.project, settings=dict(planner.settings))
    try:
        with configured(spark, sampler.engine_conf):
            frame = sampler.select(query.select, spark)
            if len(query.columns) == len(frame.columns):
                frame = frame.toDF(*query.columns)
            found = collect_rows(frame, limit=rows, cancelled=lambda: False, clock=SystemClock())
    finally:
        sampler.close()
    assert found is not None, "nobody cancels it"
    return found


def _shortened(table: Table, planner: Planner) -> Table:
    """Set the end of a table that is read from chosen positions a few records behind its start."""
    connector = connector_of(table, project=planner.project)
    if connector.scan_modes is None:
        return table
    source = connector.source(encrypt_references(table, planner.namespace.secrets))
    assert source.kind is SourceKind.SPLITS, "positions are those of splits"
    return connector.scan_modes.stopping_at(table, _stops(source))


def _stops(source: SplitSource) -> dict[str, int]:
    planner = source.open_planner(ReadRequest(columns=()))
    try:
        splits = tuple(planner.list_splits().owners)
        starts = planner.start_positions(splits, first_listing=True)
        extents = planner.extents(splits)
    finally:
        planner.close()
    return {
        split: min(starts[split] + RECORDS_PER_SPLIT, extents[split].end)
        for split in splits
        if split in starts
    }
