"""Plan checked files in Spark, before anything of them runs, to report all errors at once.

A statement set becomes the one query that reads once and writes every sink, or several queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from penstock.catalog.errors import InputError
from penstock.connector.commits import CommitLog, OffsetCommits
from penstock.connector.contract import Guarantee, LostLease, MicroBatch, SinkSettings, Trigger
from penstock.connector.dead_letters.publisher import DeadLetterPublisher, dead_letter_publisher
from penstock.connector.failpoints import reach
from penstock.connector.spark.session import configured
from penstock.connector.spark.sink.determinism import nondeterministic_functions
from penstock.connector.spark.sink.micro_batch import micro_batch_query
from penstock.connector.spark.source.retry import Outage, current_commits, current_outage
from penstock.sql.check.checkpoint_assignment import name_scripts
from penstock.sql.check.script_check import (
    CheckedScript,
    CheckedStatement,
    CheckOverlay,
    ErrorCollector,
)
from penstock.sql.check.source_status import check_rivals
from penstock.sql.checkpoint.directory import (
    check_checkpoint,
    checkpoint_files,
    record_failures,
    record_plan,
    record_query,
)
from penstock.sql.checkpoint.failure_record import FailureRecord
from penstock.sql.checkpoint.fingerprint import QueryFingerprint
from penstock.sql.checkpoint.identity import LocatedQuery, QueryLocation, read_identity
from penstock.sql.checkpoint.plan_record import Mechanism, OperatorRecord, PlanRecord, StartedPlan
from penstock.sql.dialect import to_spark_query
from penstock.sql.errors.spark import translate
from penstock.sql.execution.context import SessionContext
from penstock.sql.execution.functions import add_jar, register_called
from penstock.sql.jobs.live_query import live_query
from penstock.sql.jobs.startable_query import StartableQuery
from penstock.sql.observation.batch_metrics import BatchMetrics, read_batch_metrics
from penstock.sql.observation.pipeline import PipelineTraits, ResultMode
from penstock.sql.plan.analysed import AnalysedInsert, TableScan
from penstock.sql.plan.analyzer import analyse_unbounded
from penstock.sql.plan.physical.incremental import SinkCounts
from penstock.sql.plan.physical.insert import PlannedInsert
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.plan.query_location import LocatedStatement, Unit
from penstock.sql.plan.statement_set import (
    SeparateQueries,
    SharedRead,
    order_sinks,
    read_of,
    reading,
    share,
)
from penstock.sql.statements.show import AddJar
from penstock.sql.statements.statement import Select


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedQuery(LocatedQuery):
    """Several INSERTs as one streaming query (`StartableQuery`).

    `names` identify its sinks, in the order of `inserts`.

    `leaf` is the table that all of them read, with every column that one of them needs.
    """

    inserts: tuple[PlannedInsert, ...]
    names: tuple[str, ...]
    leaf: TableScan
    counts: SinkCounts = field(default_factory=SinkCounts, compare=False, repr=False)
    commits: CommitLog = field(default_factory=CommitLog, compare=False, repr=False)
    started: StartedPlan = field(default_factory=StartedPlan, compare=False, repr=False)

    @property
    def spark(self) -> SparkSession:
        """The session that the query is started in."""
        return self.inserts[0].spark

    @property
    def sink(self) -> str:
        """The tables written, as messages name them."""
        return ", ".join(self.names)

    @property
    def sources(self) -> tuple[str, ...]:
        """The table read."""
        return (str(self.leaf.table.identifier),)

    @property
    def leaves(self) -> tuple[TableScan, ...]:
        """The table read."""
        return (self.leaf,)

    @property
    def bounded(self) -> bool:
        """Whether the table has an end."""
        return self.leaf.bounded

    @property
    def is_stream(self) -> bool:
        """It reads a table."""
        return True

    @property
    def project(self) -> Path:
        """The folder that relative paths of tables are relative to."""
        return self.inserts[0].project

    @property
    def shape(self) -> QueryFingerprint:
        """One table, these sinks, no state."""
        return QueryFingerprint(sources=self.sources, sink=self.sink, state=())

    @property
    def bad_records(self) -> DeadLetterPublisher | None:
        """Where the bad records of the table are collected; None where each of those fails the query."""
        return dead_letter_publisher(
            [self.leaf.table],
            checkpoint=self.checkpoint,
            pipeline=self.pipeline,
            project=self.project,
        )

    @property
    def plan(self) -> PlanRecord | None:
        """The plan that it was started with last."""
        return self.started.plan

    @property
    def traits(self) -> PipelineTraits:
        """Rows are only added; what the sink promises that promises least."""
        guarantees = {insert.target.capabilities.guarantee for insert in self.inserts}
        weakest = min(guarantees, key=list(Guarantee).index)
        return PipelineTraits(mode=ResultMode.APPEND, guarantee=weakest.value)

    @property
    def statement_digest(self) -> str:
        """It has a checkpoint."""
        return ""

    @property
    def rows_by_sink(self) -> Mapping[str, int]:
        """Rows written since the query was planned, by sink."""
        return {name: self.counts.total().get(name, 0) for name in self.names}

    def check_target(self) -> None:
        """Check that every target fits the checkpoint; changes nothing. Raises StateMismatchError."""
        self._check_targets(notes=False)

    def prepare(self) -> None:
        """Create or check every target. Raises InputError."""
        for insert in self.inserts:
            insert.prepare()
        if self.bad_records is not None:
            self.bad_records.prepare(self.spark)

    def write(self, lost_lease: LostLease | None = None) -> None:  # noqa: ARG002  as it is never called
        """Never called: a set that reads a table is a stream."""
        raise AssertionError("a shared query is a stream")

    def start(self, trigger: Trigger, lost_lease: LostLease | None = None) -> StreamingQuery:
        """Start the query from its checkpoint."""
        record_query(self.spark, self.location, self.shape)
        self._check_targets(notes=True)
        self.started.plan = self._plan_record()
        record_plan(self.spark, self.checkpoint, self.started.plan)
        bad_records = self.bad_records
        if bad_records is not None:
            bad_records.open(self.spark)
        builder = replace(self.inserts[0].builder, checkpoint=self.checkpoint)
        frame = builder.build(read_of(self.leaf), streaming=True)
        settings = SinkSettings(
            checkpoint=self.checkpoint,
            query_name=self.pipeline,
            trigger=trigger,
            plan="\n".join(insert.text for insert in self.inserts),
            after_batch=None if bad_records is None else bad_records.after_batch,
            lost_lease=lost_lease,
            commits=self.commits,
        )
        with configured(self.spark, builder.conf):
            return micro_batch_query(frame, settings, self._write_batch)

    def _plan_record(self) -> PlanRecord:
        """Describe the plans of the INSERTs for people, each below the table that it writes."""
        operators: list[OperatorRecord] = []
        plans = [insert.plan_record(tasks_write=False) for insert in self.inserts]
        for plan in plans:
            (sink,) = plan.sinks
            operators.append(
                OperatorRecord(name=f"write {sink.name}", level=0, mechanism=Mechanism.SPARK)
            )
            operators += (replace(each, level=each.level + 1) for each in plan.operators)
        sinks = (
            replace(plan.sinks[0], name=name) for plan, name in zip(plans, self.names, strict=True)
        )
        return PlanRecord(operators=tuple(operators), sinks=tuple(sinks))

    def _check_targets(self, *, notes: bool) -> None:
        for name, insert in zip(self.names, self.inserts, strict=True):
            if insert.target.capabilities.resumable:
                with _named(name):
                    insert.target.check_resumes(self.spark, self.checkpoint, name, notes=notes)

    def outage(self) -> Outage | None:
        """Return what the table waits for."""
        return current_outage(self.inserts[0].builder.workdir, self.checkpoint)

    def offset_commits(self) -> Mapping[int, OffsetCommits]:
        """Return how commits to the consumer group of the table ended."""
        return current_commits(self.inserts[0].builder.workdir, self.checkpoint, 1)

    def record_failures(self, failures: Iterable[FailureRecord]) -> None:
        """Keep failures in the checkpoint, for people."""
        record_failures(self.spark, self.checkpoint, failures)

    def read_metrics(self, progress: Mapping[str, Any]) -> BatchMetrics:
        """Read what a batch did from its progress event; rows out are those of all sinks."""
        metrics = read_batch_metrics(progress, rows_out_metric=None)
        return replace(metrics, rows_out=sum(self.counts.of(metrics.batch_id).values()))

    def _write_batch(self, rows: DataFrame, batch: MicroBatch) -> None:
        view = f"penstock_set_{uuid4().hex[:8]}"
        rows.persist()
        try:
            total = rows.count()  # the one read of the source
            rows.createOrReplaceTempView(view)
            counted: dict[str, int] = {}
            for name, insert in zip(self.names, self.inserts, strict=True):
                with _named(name):
                    text = to_spark_query(reading(insert.analysed, view))
                    frame = insert.shaped(batch.spark.sql(text))
                    insert.target.write_batch(frame, replace(batch, sink=name))
                    counted[name] = total if insert.sends_on_each_row else frame.count()
                reach("sink-written")
            self.counts.add(batch.batch_id, counted)
        finally:
            batch.spark.catalog.dropTempView(view)
            rows.unpersist()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedSet:
    """A statement set that passed every check. `queries` are its queries: one, or one for each INSERT.

    `reason` says why there are several. `rivals` are the checkpoints of the other way to run the set: an existing one
    shows that the set ran that way, and its positions are unknown to the queries of this way.
    """

    spark: SparkSession
    inserts: tuple[PlannedInsert, ...]
    queries: tuple[StartableQuery, ...]
    rivals: tuple[str, ...]
    reason: str | None = None

    def check_checkpoints(self) -> None:
        """Check that checkpoints are whole and of these queries. Raises StateMismatchError."""
        for query in self.queries:
            if query.is_stream:
                check_checkpoint(query.spark, query.location, query.shape)
        self.check_rivals()

    def check_rivals(self) -> None:
        """Check that the set did not run the other way before. Raises StateMismatchError."""
        check_rivals(self.rivals, self.reason, checkpoint_files(self.spark))


def plan_set(
    analysed: Sequence[AnalysedInsert],
    planner: Planner,
    spark: SparkSession,
    placed: LocatedStatement | None = None,
) -> PlannedSet:
    """Plan the INSERTs of a set in Spark and choose how they run. Raises InputError; nothing is started.

    `with_location` are the names and checkpoints that were chosen for them.
    """
    placed = placed or planner.locate(Unit(inserts=tuple(analysed), is_set=True), spark)
    members = [
        replace(one, location=location)
        for one, location in zip(analysed, placed.locations, strict=True)
    ]
    inserts = tuple(planner.plan_insert(one, spark) for one in members)
    way = share([one.query for one in members], planner.project)
    if isinstance(way, SharedRead) and (chancy := _chancy_functions(inserts)):
        reason = f"{', '.join(chancy)} is declared not deterministic: a replayed batch would not give the same rows"
        unit = Unit(inserts=tuple(analysed), is_set=True, apart=True, file=placed.file)
        placed = planner.locate(unit, spark, instead=placed)
        pairs = zip(inserts, placed.locations, strict=True)
        inserts = tuple(_at(location, insert) for insert, location in pairs)
        way = SeparateQueries(reason=reason)
    match way:
        case SeparateQueries(reason=reason):
            return PlannedSet(
                spark=spark, inserts=inserts, queries=inserts, rivals=placed.rivals, reason=reason
            )
        case SharedRead(leaf=leaf):
            assert placed.set_location is not None, "it was placed as one query"
            found = read_identity(checkpoint_files(spark)(placed.set_location.checkpoint))
            order, location = order_sinks(members, placed.set_location, found)
            shared = SharedQuery(
                inserts=tuple(inserts[index] for index, _ in order),
                names=tuple(name for _, name in order),
                leaf=planner.ready_leaf(leaf),
                location=location,
            )
            return PlannedSet(spark=spark, inserts=inserts, queries=(shared,), rivals=placed.rivals)


def _at(location: QueryLocation, insert: PlannedInsert) -> PlannedInsert:
    """Set another checkpoint folder for an INSERT; frames that know the former folder are not started."""
    if location.checkpoint == insert.checkpoint:
        return replace(insert, location=location)
    builder = replace(insert.builder, checkpoint=location.checkpoint)
    return replace(insert, location=location, builder=builder, unused=[])


def _chancy_functions(inserts: Sequence[PlannedInsert]) -> tuple[str, ...]:
    """Name the users' functions that are not deterministic, which only Spark knows."""
    frames = [insert.frame() for insert in inserts]
    return tuple(
        dict.fromkeys(name for frame in frames for name in nondeterministic_functions(frame))
    )


@contextmanager
def _named(sink: str) -> Iterator[None]:
    """Prefix errors of the sink with its name."""
    try:
        yield
    except Exception as error:
        raise translate(error).within(f"sink {sink}") from error


def plan_scripts(
    scripts: Sequence[CheckedScript],
    spark: SparkSession,
    context: SessionContext,
    *,
    judges: bool = False,
    from_scratch: bool = False,
) -> tuple[CheckedScript, ...]:
    """Check every query by Spark, and plan every INSERT. Raises InputErrors; nothing is started or written.

    A checkpoint that does not fit is an error, unless the caller `judges` checkpoints; with `from_scratch` no query
    resumes from one.
    """
    overlay, faults = CheckOverlay(context), ErrorCollector()
    scripts = name_scripts(
        scripts, context.project, checkpoint_files(spark), from_scratch=from_scratch
    )
    taken = {job for s in scripts for one in s.statements if one.placed for job in one.placed.jobs}
    planned: list[CheckedScript] = []
    for script in scripts:
        planner = Planner(
            namespace=overlay.context.namespace,
            project=overlay.context.project,
            settings=overlay.context.settings,
            default_pipeline=script.file.pipeline,
            taken=taken,
            from_scratch=from_scratch,
        )
        statements = tuple(
            faults.gather(partial(_plan, one, overlay, planner, spark, judges=judges), default=one)
            for one in script.statements
        )
        planned.append(replace(script, statements=statements, planner=planner))
    faults.raise_all()
    return tuple(planned)


def _plan(
    checked: CheckedStatement,
    overlay: CheckOverlay,
    planner: Planner,
    spark: SparkSession,
    *,
    judges: bool,
) -> CheckedStatement:
    statement = checked.statement
    namespace, project = overlay.context.namespace, overlay.context.project
    try:
        overlay.apply(statement)
        if isinstance(statement, AddJar):
            add_jar(statement.path, spark, project)  # functions further down may need it
        if isinstance(statement, Select):
            register_called(statement.query, namespace, spark, project)
            watched = analyse_unbounded(statement.query, planner)
            if watched is not None:
                live_query(watched, planner, spark)
            else:
                planner.select(statement, spark)
        for analysed in (checked.analysed, *checked.members):
            if analysed is not None:
                register_called(analysed.statement.query, namespace, spark, project)
        if checked.analysed is not None:
            planned = planner.plan_insert(checked.analysed, spark)
            if not judges:
                planned.check_checkpoint()
            return replace(checked, planned=planned)
        if checked.members:
            planned_set = plan_set(checked.members, planner, spark, checked.placed)
            if not judges:
                planned_set.check_checkpoints()
            return replace(checked, planned_set=planned_set)
    except InputError as error:
        error.span = error.span or statement.span
        raise
    return checked
