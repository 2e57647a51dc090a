"""Check INSERTs and SELECTs, as far as possible without a JVM; `physical/planner.py` starts from the result."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlglot import exp

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.table import MetadataColumn, PhysicalColumn, Table
from penstock.catalog.options.option import Resolved, resolve
from penstock.connector.capabilities import TableEditor
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import Connector, Sink
from penstock.connector.registry import connector_of
from penstock.sql.plan.analysed import AnalysedInsert, AnalysedQuery
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.insert_forms import FormsOfInsert, InsertForms
from penstock.sql.plan.rules.sink_changelog import SinkTable
from penstock.sql.settings import (
    CHECKPOINT_DIR,
    CHECKPOINT_INTERVAL,
    LOCAL_TIME_ZONE,
    PIPELINE_NAME,
    SETTINGS,
    STATE_TTL,
    TARGET,
)
from penstock.sql.statements.dml import InsertInto
from penstock.sql.syntax.refusal import Refusal


def overwriting(
    statement: InsertInto, target: Table, query: AnalysedQuery, connector: Connector
) -> TableEditor:
    """Return what replaces the rows of the target. Raises UnsupportedError where rows can only be added."""
    editor = connector.editor(target)
    if editor is None:
        raise UnsupportedError(
            f"{target.identifier}: tables of the connector '{connector.name}' cannot be overwritten",
            hint="tables of delta and filesystem can; write INSERT INTO",
            span=statement.span,
        )
    what = "REPLACE TABLE ... AS" if statement.replaces else "INSERT OVERWRITE"
    endless = [str(leaf.table.identifier) for leaf in query.leaves if not leaf.bounded]
    if endless:
        raise UnsupportedError(
            f"{what} needs a query that ends, and {endless[0]} has no end",
            hint="give it one, FROM t /*+ OPTIONS('scan.bounded.mode' = 'latest-offset') */; or add rows as "
            "they come: INSERT INTO, REFRESH_MODE = CONTINUOUS",
            span=statement.span,
        )
    if query.maintained is not None or query.changes is not ChangelogMode.INSERT_ONLY:
        raise UnsupportedError(
            f"{what} of a query whose rows are changes is not supported",
            hint="write INSERT INTO a table with a PRIMARY KEY",
            span=statement.span,
        )
    return editor


@dataclass(slots=True, kw_only=True)
class Analyzer:
    """Checks statements against a namespace, with the settings of SET. The settings may change in between.

    `running` gives the jobs of a session, whose statements start as soon as they are planned; where it is None, all
    are planned first, and the names that were chosen are `taken`.
    """

    namespace: Namespace
    project: Path
    settings: dict[str, str] = field(default_factory=dict)
    default_pipeline: str = "session"
    running: Callable[[], Collection[str]] | None = None
    taken: set[str] = field(default_factory=set)

    def analyse_insert(self, statement: InsertInto) -> AnalysedInsert:
        """Check an INSERT, as far as possible without a JVM. Raises InputError."""
        target = self.namespace.lookup(statement.target)
        if not isinstance(target, Table):
            raise UnsupportedError(
                f"{target.identifier} is a view; rows go into tables only", span=statement.span
            )
        if statement.options:
            options = {**target.option_map, **dict(statement.options)}
            target = replace(target, options=tuple(options.items()))
        connector = connector_of(target, project=self.project)
        connector.check(target)
        sink = connector.sink(target)
        editor, earlier = None, None
        if statement.overwrite:  # its query runs once, over all rows
            query = self.analyse_once(statement.query)
            editor = overwriting(statement, target, query, connector)
        else:
            found = self._analyse_forms(statement, target, sink)
            query, earlier = found.current, found.earlier
        return AnalysedInsert(
            statement=statement,
            target=target,
            query=query,
            sink=sink,
            earlier_forms=earlier,
            editor=editor,
            pipeline=self.pipeline,
            base=self.checkpoint_base,
            run_for=self.run_for,
            state_ttl_ms=self.state_ttl_ms,
        )

    def analyse_once(self, query: exp.Expr) -> AnalysedQuery:
        """Analyse a query whose rows are read, not written into a table. Raises InputError."""
        return analyse(query, self.namespace, self.project, appends=False, time_zone=self.time_zone)

    def analyse_followed(self, query: exp.Expr, sink: SinkTable) -> AnalysedQuery:
        """Analyse a query whose rows are followed, by what takes them as a sink. Raises InputError."""
        return analyse(
            query,
            self.namespace,
            self.project,
            appends=True,
            sink=sink,
            state_ttl_ms=self.state_ttl_ms,
            time_zone=self.time_zone,
        )

    def _analyse_forms(self, statement: InsertInto, target: Table, sink: Sink) -> FormsOfInsert:
        """Analyse the query of an INSERT; its earlier forms are analysed when they are asked for. Raises InputError."""
        key = target.schema.primary_key
        into = SinkTable(
            name=str(target.identifier),
            accepts=sink.capabilities.accepts,
            columns=tuple(filled_columns(statement, target)),
            key=key.columns if key is not None else (),
            wants_rows_before=sink.capabilities.needs_update_before,
        )
        forms = InsertForms(
            statement=statement,
            into=into,
            names=self.namespace.overlay(),
            shown=self.namespace,
            project=self.project,
            state_ttl_ms=self.state_ttl_ms,
            time_zone=self.time_zone,
        )
        found = forms.analyse()
        if isinstance(found, Refusal):
            raise found.error()
        if found.current.followed and sink.capabilities.bounded_only:
            raise UnsupportedError(
                f"{target.identifier} takes no stream: a batch that is written again would be in it twice",
                hint="make it a Delta table: those remember their batches",
                span=statement.span,
            )
        return found

    @property
    def pipeline(self) -> str:
        """The name of the pipeline that queries belong to now."""
        return self._resolved().get(PIPELINE_NAME) or self.default_pipeline

    @property
    def checkpoint_base(self) -> str:
        """`execution.checkpointing.dir`."""
        base = self._resolved().get(CHECKPOINT_DIR)
        assert base is not None, "it has a default"
        return base

    @property
    def run_for(self) -> str | None:
        """The project's target; empty for the default one, None where targets do not matter."""
        return self._resolved().get(TARGET)

    @property
    def checkpoint_interval_ms(self) -> int:
        """Time between the starts of two micro-batches of a continuous query; 0 is without a pause."""
        return self._resolved().get(CHECKPOINT_INTERVAL)

    @property
    def state_ttl_ms(self) -> int:
        """`table.exec.state.ttl`; 0 is none."""
        return self._resolved().get(STATE_TTL)

    @property
    def time_zone(self) -> str:
        """`table.local-time-zone`; UTC where it is not set."""
        return self._resolved().get(LOCAL_TIME_ZONE) or "UTC"

    def _resolved(self) -> Resolved:
        """Read the settings that Penstock knows; Flink files carry many others, which are kept and ignored."""
        known = {option.key for option in SETTINGS}
        read = {key: value for key, value in self.settings.items() if key in known}
        return resolve(read, SETTINGS, owner="SET")


def filled_columns(
    statement: InsertInto, target: Table
) -> dict[str, PhysicalColumn | MetadataColumn]:
    """Return the columns that an INSERT fills, in its order, by their names."""
    writable = {
        column.name: column
        for column in target.schema.columns
        if isinstance(column, PhysicalColumn)
        or (isinstance(column, MetadataColumn) and not column.virtual)
    }
    return {name: writable[name] for name in statement.columns or writable}


_SCREEN = SinkTable(name="the screen", accepts=ChangelogMode.ALL, columns=())


def analyse_unbounded(query: exp.Expr, analyzer: Analyzer) -> AnalysedQuery | None:
    """Analyse a SELECT; returns it as it is followed, or None for one that ends by itself. Raises InputError."""
    if analyzer.analyse_once(query).bounded:
        return None
    return analyzer.analyse_followed(query, _SCREEN)
