"""The analysed query and INSERT, before any JVM runs, as frozen values; `analysis.py` makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from penstock.catalog.model.table import Table
from penstock.connector.capabilities import TableEditor
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import EngineSource, OutputMode, Sink
from penstock.connector.expression import PartialAggregate, Unnesting
from penstock.connector.scan import Rowtime
from penstock.sql.checkpoint.identity import QueryLocation
from penstock.sql.incremental.stages import IncrementalQuery, PaneAggregate, RecomputeOperator
from penstock.sql.plan.placement.keyed import joins_for_good
from penstock.sql.plan.placement.place import PhysicalPlan
from penstock.sql.plan.rules.field_paths import Paths, narrowed
from penstock.sql.plan.rules.flow import Flow
from penstock.sql.plan.rules.prune_columns import prune_projections
from penstock.sql.plan.rules.push_filters import Fragment
from penstock.sql.plan.spark_text.two_phases import TwoPhases
from penstock.sql.statements.dml import InsertInto
from penstock.sql.syntax.nodes import ScanTable


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScan:
    """A table that a query reads. `columns` come from the source, `computed` are Flink SQL over them.

    `rowtime` is set when the query waits for the table's watermark, or the table is aligned by it; `by_splits`: the
    split runtime reads the table, not the engine. `group` is the table's alignment group, `max_drift_ms` its drift.
    `looked_up`: each batch reads the whole table again, it is no source of the stream. `marked`: operators with
    state take the rowtime for event time, and drop what is late. `source` is set where no connector has the table.
    `fields` are the fields read of columns whose rows are not read whole. `fragment` is what reading tasks compute
    of its rows; `two_phases` is how the aggregation over it runs, if `in_two_phases`, and `panes` the groups that
    stages get of its rows.
    """

    table: Table
    columns: tuple[str, ...]
    computed: Mapping[str, str] = field(default_factory=dict)
    rowtime: Rowtime | None = None
    by_splits: bool = True
    bounded: bool = False
    group: str | None = None
    max_drift_ms: int | None = field(default=None, compare=False)
    looked_up: bool = False
    marked: bool = True
    fields: Mapping[str, Paths] = field(default_factory=dict)
    fragment: Fragment | None = field(default=None, compare=False, repr=False)
    panes: PartialAggregate | None = field(default=None, compare=False, repr=False)
    two_phases: TwoPhases | None = field(default=None, compare=False, repr=False)
    in_two_phases: bool = field(default=False, compare=False)
    source: EngineSource | None = field(default=None, compare=False, repr=False)

    @property
    def grouped(self) -> PartialAggregate | None:
        """The groups that reading tasks make of its rows; None where Spark gets the rows."""
        if self.panes is not None:
            return self.panes
        if self.two_phases is None or not self.in_two_phases or not self.two_phases.by_tasks:
            return None
        return self.two_phases.aggregate

    @property
    def unnesting(self) -> Unnesting | None:
        """The rows of arrays that reading tasks make where they write or group the rows; None where there are none."""
        return None if self.fragment is None else self.fragment.unnesting

    @property
    def read_table(self) -> Table:
        """Return the table as it is read: rows have the requested fields only."""
        return replace(self.table, schema=narrowed(self.table.schema, self.fields))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedQuery:
    """A query without views, its table nodes labelled with their leaf. `bounded`: every table it reads has an end.

    `flow` says how its rows change; `query` is rewritten accordingly, with ROW_KIND as last column if `flow.kinds`.
    For a query that is `maintained` it returns the inputs, and `flow` is that of the last stage; `combined` is what
    Spark runs in its place, and `inputs` are the queries of the inputs, one by one, whatever reading tasks group.
    `plan` are its operators, each on its engine, and `scan_order` the numbers that the plan knows the leaves by; empty:
    in order. `lists_apart`: SELECT lists of aggregations are computed behind their stages, which earlier versions did
    not do.
    """

    query: exp.Expr
    leaves: tuple[TableScan, ...]
    flow: Flow = Flow(columns=None)  # noqa: RUF009 - a frozen value
    maintained: IncrementalQuery | None = None
    plan: PhysicalPlan | None = field(default=None, compare=False, repr=False)
    combined: exp.Expr | None = field(default=None, compare=False, repr=False)
    inputs: tuple[exp.Expr, ...] = field(default=(), compare=False, repr=False)
    scan_order: tuple[int, ...] = field(default=(), compare=False, repr=False)
    lists_apart: bool = field(default=False, compare=False)

    @property
    def bounded(self) -> bool:
        """Whether every table read has an end."""
        return all(leaf.bounded for leaf in self.leaves)

    @property
    def executed(self) -> exp.Expr:
        """The query as Spark gets it, a copy: without the columns of inner queries that nothing names."""
        return prune_projections(self.query if self.combined is None else self.combined)

    @property
    def followed(self) -> tuple[TableScan, ...]:
        """The tables that are sources of the stream, in the order that a checkpoint knows them by."""
        return tuple(leaf for leaf in self.leaves if not leaf.looked_up)

    @property
    def breaks_ties(self) -> bool:
        """Whether ties in the order are broken by arrival."""
        if any(table.arrives for table in self.query.find_all(ScanTable)):
            return True
        stages = () if self.maintained is None else self.maintained.stages
        inputs = (
            stage_input
            for stage in stages
            if isinstance(stage, RecomputeOperator)
            for stage_input in stage.inputs
        )
        return any(stage_input.by_batch for stage_input in inputs)

    @property
    def follows_windows(self) -> bool:
        """Whether an operator is one of windows, and the names of their bounds do not tell that."""
        return self.plan is not None and self.plan.plan.follows_windows

    @property
    def joins_regularly(self) -> bool:
        """Whether stages run joins, which earlier versions gave to Spark where it streams them."""
        stages = () if self.maintained is None else self.maintained.stages
        return any(isinstance(stage, RecomputeOperator) and stage.joins for stage in stages)

    @property
    def streams_joins(self) -> bool:
        """Whether Spark streams inner joins, of which earlier versions gave all to stages, whatever their columns."""
        return (
            self.maintained is None
            and self.plan is not None
            and joins_for_good(self.plan.plan.root)
        )

    @property
    def joins_in_time(self) -> bool:
        """Whether stages run joins that end with the watermark, which earlier versions gave to Spark."""
        stages = () if self.maintained is None else self.maintained.stages
        return any(isinstance(stage, RecomputeOperator) and stage.times for stage in stages)

    @property
    def aggregates_panes(self) -> bool:
        """Whether stages aggregate windows of inserts, which earlier versions gave to Spark."""
        stages = () if self.maintained is None else self.maintained.stages
        return any(isinstance(stage, PaneAggregate) for stage in stages)

    @property
    def ranks_rows(self) -> bool:
        """Whether stages run Top-1 of inserts, which earlier versions gave to Spark."""
        return self.plan is not None and self.plan.of_best_rows

    @property
    def accumulates(self) -> bool:
        """Whether stages keep accumulators of inserts, which earlier versions left to Spark's update mode.

        Or whose rows they kept: with a time to live, and where the row before an update is written.
        """
        return self.plan is not None and self.plan.of_accumulators

    def in_one_phase(self) -> AnalysedQuery:
        """Return the query as versions ran it that had no aggregations in two phases."""
        return self._in_phases(frozenset())

    def in_other_phases(self) -> tuple[AnalysedQuery, ...]:
        """Return the forms whose checkpoints have other state of aggregations than this one: in one phase, and in two
        for all that have them, as it was before a condition became one that tasks do not check.
        """
        tables = range(len(self.leaves))
        able = frozenset(i for i in tables if self.leaves[i].two_phases is not None)
        now = frozenset(i for i in tables if self.leaves[i].in_two_phases)
        others = dict.fromkeys((frozenset[int](), able))
        return tuple(self._in_phases(leaves) for leaves in others if leaves != now)

    def _in_phases(self, leaves: frozenset[int]) -> AnalysedQuery:
        if all(leaf.in_two_phases == (i in leaves) for i, leaf in enumerate(self.leaves)):
            return self
        changed = (replace(leaf, in_two_phases=i in leaves) for i, leaf in enumerate(self.leaves))
        return replace(self, leaves=tuple(changed))

    @property
    def phases(self) -> tuple[str, ...]:
        """Return what a checkpoint says of the aggregations that run in two phases: their state is another."""
        found = (leaf.table.identifier for leaf in self.leaves if leaf.in_two_phases)
        return tuple(f"TWO PHASES OVER {table}" for table in found)

    @property
    def source_names(self) -> tuple[str, ...]:
        """Return the names of `followed`."""
        return tuple(str(leaf.table.identifier) for leaf in self.followed)

    @property
    def output(self) -> OutputMode:
        """The output mode that Spark runs the query in."""
        in_update_mode = self.maintained is None and self.flow.mechanism is not None
        return OutputMode.UPDATE if in_update_mode else OutputMode.APPEND

    @property
    def changes(self) -> ChangelogMode:
        """The changelog mode of the frame; unless INSERT_ONLY it has the column ROW_KIND."""
        return self.flow.changes if self.flow.kinds else ChangelogMode.INSERT_ONLY


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysedInsert:
    """An INSERT that passed every check that needs no JVM.

    `earlier_forms` analyses the forms in which earlier versions ran the query, where their checkpoints do not fit
    `query`: they resume with those; None where there is none. `pipeline` and `base` are the settings that name its
    pipeline and the folder of checkpoints, `run_for` is the project's target (`TARGET`), `state_ttl_ms` is how long
    state is kept without use (0: unlimited); `location` is its query's name and checkpoint once they are chosen.
    """

    statement: InsertInto
    target: Table
    query: AnalysedQuery
    sink: Sink
    earlier_forms: Callable[[], tuple[AnalysedQuery, ...]] | None = field(
        default=None, compare=False, repr=False
    )
    editor: TableEditor | None = None
    pipeline: str = ""
    base: str = ""
    run_for: str | None = None
    state_ttl_ms: int = 0
    location: QueryLocation | None = None

    @property
    def earlier(self) -> tuple[AnalysedQuery, ...]:
        """The forms of earlier versions; each is analysed when this is first asked."""
        return () if self.earlier_forms is None else self.earlier_forms()

    @property
    def is_stream(self) -> bool:
        """Whether it runs as a streaming query: it reads tables, and does not overwrite its target."""
        return bool(self.query.followed) and self.editor is None
