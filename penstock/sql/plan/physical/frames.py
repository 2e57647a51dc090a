"""Build the Spark frame of an analysed query.

A view for every table read and every windowing function, with alignment groups. Runs on the driver; reads no
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.identifier import quoted
from penstock.connector.contract import Source, SourceKind
from penstock.connector.dead_letters.publisher import staging_of
from penstock.connector.event_time.reports import FOLDER as EVENT_TIMES
from penstock.connector.expression import BucketedRows
from penstock.connector.file_output import TaskOutput
from penstock.connector.registry import connector_of
from penstock.connector.scan import ARRIVED, GroupMember, Scan
from penstock.connector.spark.internals import without_call_sites
from penstock.connector.spark.lookup import register_lookup
from penstock.connector.spark.session import configured
from penstock.connector.spark.source.columns import WATERMARK_BEFORE
from penstock.connector.spark.source.frame import read_file_frame, read_scan_frame
from penstock.connector.spark.source.retry import outage_file
from penstock.connector.spark.source.segment_folder import FOLDER as SEEN_FILES
from penstock.connector.spark.source.watermark import unmark
from penstock.connector.spark.source.windows import (
    Cumulate,
    Hop,
    Tumble,
    WindowFunction,
    assign_windows,
)
from penstock.connector.spark.storage_access import storage_access
from penstock.connector.storage import StorageAccess
from penstock.connector.urls import resolve_path
from penstock.sql.dialect import WindowKind, WindowTable, to_spark_query, window_tables
from penstock.sql.dialect.rewrites.session_windows import rewrite_session_windows
from penstock.sql.expressions.expression import to_spark
from penstock.sql.incremental.stages import ordered_scans
from penstock.sql.plan.analysed import AnalysedQuery, TableScan
from penstock.sql.plan.lookup_keys import KeyLookup, lookup_strategy, lookups_in, write_lookup
from penstock.sql.plan.rules.inline import inline_ctes, is_plain_projection
from penstock.sql.plan.spark_text.changes import keep_distinct_of_streams
from penstock.sql.plan.spark_text.second_phase import write_second_phase
from penstock.sql.settings import TIME_ZONE
from penstock.sql.syntax.nodes import ScanTable


def group_members(
    leaves: Sequence[TableScan], views: Sequence[str], directory: Path
) -> tuple[GroupMember | None, ...]:
    """Return each table's place in its group; None for one that is alone in it, or has none.

    `views` name the tables' scans; `directory`, one for each start of a query, is where they exchange watermarks.
    """
    return tuple(_member(leaves, views, index, directory) for index in range(len(leaves)))


def _member(
    leaves: Sequence[TableScan], views: Sequence[str], index: int, directory: Path
) -> GroupMember | None:
    group = leaves[index].group
    others = tuple(
        (view, str(leaf.table.identifier))
        for leaf, view in zip(leaves, views, strict=True)
        if group is not None and leaf.group == group and view != views[index]
    )
    if not others:
        return None
    return GroupMember(directory=str(directory), name=views[index], others=others)


def without_checked_conditions(analysed: AnalysedQuery) -> exp.Expr:
    """Return a query as Spark gets it, without the conditions of a projection that reading tasks check.

    A regular expression would be looked for in each row once more.
    """
    query = analysed.executed
    if len(analysed.leaves) != 1 or not is_plain_projection(query, filtered=True):
        return query
    fragment = analysed.leaves[0].fragment
    if fragment is None or not fragment.filters_alone or fragment.condition is None:
        return query
    if fragment.unnesting is not None:
        return query
    for select in query.find_all(exp.Select):
        select.set("where", None)
    return query


RegisterView = Callable[[DataFrame, str], None]
"""Registers a frame as a temporary view of this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameBuilder:
    """Makes frames in one Spark session; its temporary views have names that no user's view has.

    `conf` are the Spark settings that the session's ask for. `workdir` is private to this process, for the files that
    describe to a data source what to read. `checkpoint` is the directory of the streaming query that the frames are
    for; bad records are counted and kept there.
    """

    spark: SparkSession
    workdir: Path
    project: Path
    conf: Mapping[str, str]
    default_limit: int | None
    checkpoint: str | None = None

    def build(
        self, analysed: AnalysedQuery, *, streaming: bool, engine_streaming: bool | None = None
    ) -> DataFrame:
        """Return the frame of a query. Each call makes new views, so that a query can be started again.

        `engine_streaming` (default: as `streaming`) is for tables that the engine reads: a check treats them as
        bounded, as a table that an earlier statement fills may not exist yet.
        """
        if engine_streaming is None:
            engine_streaming = streaming
        with configured(self.spark, self.conf), without_call_sites():
            return self._build(analysed, streaming=streaming, engine_streaming=engine_streaming)

    def build_files(self, analysed: AnalysedQuery, output: TaskOutput) -> DataFrame:
        """Return the streaming frame of the files into which tasks write the rows of a projection of one table."""
        (leaf,) = analysed.leaves
        tag = uuid4().hex[:8]
        with configured(self.spark, self.conf):
            scan = self._only_scan(leaf, tag)
            return read_file_frame(
                self.spark,
                replace(scan, output=output, unnesting=leaf.unnesting),
                view=f"penstock_{tag}_0",
                workdir=self.workdir,
            )

    def _only_scan(self, leaf: TableScan, tag: str) -> Scan:
        """Return the streaming scan of a query over one table, whose tasks do more than read."""
        return self._scan(
            leaf,
            streaming=True,
            staging=self._staging(0, leaf),
            outage_file=self._outage_file(0),
            event_times=self._event_times(0, tag),
        )

    def build_buckets(self, analysed: AnalysedQuery, buckets: BucketedRows) -> DataFrame:
        """Return the streaming frame of the inputs of keyed operators over one table, by bucket."""
        (leaf,) = analysed.leaves
        tag = uuid4().hex[:8]
        with configured(self.spark, self.conf):
            scan = replace(
                self._only_scan(leaf, tag),
                buckets=buckets,
                split_by_split=0 in _split_by_split(analysed),
                # inputs have their own conditions and groups
                condition=None,
                aggregate=None,
                unnesting=None,
            )
            return read_scan_frame(
                self.spark,
                scan,
                view=f"penstock_{tag}_0",
                workdir=self.workdir,
                streaming=True,
                computed={},
            ).frame

    def _build(
        self, analysed: AnalysedQuery, *, streaming: bool, engine_streaming: bool
    ) -> DataFrame:
        with _registered_views(self.spark) as register:
            return self._frame_of(
                analysed, register, streaming=streaming, engine_streaming=engine_streaming
            )

    def _frame_of(
        self,
        analysed: AnalysedQuery,
        register: RegisterView,
        *,
        streaming: bool,
        engine_streaming: bool,
    ) -> DataFrame:
        tag = uuid4().hex[:8]
        query = without_checked_conditions(analysed)
        for index, leaf in enumerate(analysed.leaves):
            if leaf.two_phases is not None and leaf.in_two_phases:
                query = inline_ctes(query)
                write_second_phase(query, index, leaf.two_phases)
        self._write_lookups(query, analysed.leaves, tag)
        views = [f"penstock_{tag}_{index}" for index in range(len(analysed.leaves))]
        members = group_members(analysed.leaves, views, self.workdir / f"penstock_{tag}_groups")
        ordered = _split_by_split(analysed)
        for index, leaf in enumerate(analysed.leaves):
            nodes = [node for node in query.find_all(ScanTable) if node.scan == index]
            if not nodes:
                continue  # it is only asked for the rows of keys
            self._replace_leaf(
                leaf,
                nodes,
                views[index],
                members[index],
                register,
                streaming=streaming if leaf.by_splits else engine_streaming,
                staging=self._staging(index, leaf) if streaming else None,
                outage_file=self._outage_file(index) if streaming else None,
                event_times=self._event_times(index, tag),
                number=index,
                split_by_split=index in ordered,
            )
        if window_tables(query):
            query = inline_ctes(query)  # a function reads a query of its own, which knows no WITH
        if streaming:
            leaves = enumerate(analysed.leaves)
            streams = frozenset(i for i, leaf in leaves if leaf.by_splits and not leaf.looked_up)
            keep_distinct_of_streams(query, streams)
        query = rewrite_session_windows(query)
        # inner functions come after the outer ones in the tree, and have to be there first
        for index, window in enumerate(reversed(window_tables(query))):
            self._replace_window(window, f"penstock_{tag}_w{index}", register)
        return self.spark.sql(to_spark_query(query))

    def _write_lookups(self, query: exp.Expr, leaves: Sequence[TableScan], tag: str) -> None:
        """Write the lookups by key as calls of functions, which are registered here."""
        for number, (index, join) in enumerate(lookups_in(query)):
            leaf = leaves[index]
            way = lookup_strategy(join, leaf, self._source(leaf))
            if isinstance(way, KeyLookup):
                function = f"penstock_{tag}_l{number}"
                register_lookup(
                    self.spark, function, way.source.lookup(way.keys, leaf.columns, way.retry)
                )
                write_lookup(join, way, function)

    def counts_records(self, query: AnalysedQuery) -> bool:
        """Return whether positions of all tables that a query follows are records."""
        sources = [self._source(leaf) for leaf in query.followed]
        return all(
            source.kind is SourceKind.SPLITS
            and (source.task_size is None or source.task_size.of_records)
            for source in sources
        )

    def _source(self, leaf: TableScan) -> Source:
        return leaf.source or connector_of(leaf.table, project=self.project).source(leaf.table)

    def _replace_leaf(
        self,
        leaf: TableScan,
        nodes: Sequence[ScanTable],
        view: str,
        member: GroupMember | None,
        register: RegisterView,
        *,
        streaming: bool,
        staging: str | None,
        outage_file: str | None,
        event_times: str,
        number: int,
        split_by_split: bool,
    ) -> None:
        arrives = any(node.arrives for node in nodes)
        frame, late_bound = self._leaf_frame(
            leaf,
            view,
            member,
            streaming=streaming,
            staging=staging,
            outage_file=outage_file,
            event_times=event_times,
            number=number if arrives else None,
            split_by_split=split_by_split,
        )
        views: dict[tuple[bool, bool], str] = {}
        for node in nodes:
            alias = node.alias or node.name
            # a windowing function directly on the table counts late rows, which takes the hidden column
            hidden = (late_bound and node.counts_late, node.arrives)
            if hidden not in views:
                views[hidden] = f"{view}_{len(views)}" if views else view
                shown = frame if hidden[0] else frame.drop(WATERMARK_BEFORE)
                register(shown if hidden[1] else shown.drop(ARRIVED), views[hidden])
            name = views[hidden]
            columns = node.args["alias"].columns if node.args.get("alias") is not None else []
            identifier = exp.to_identifier(alias, quoted=True)
            node.set("alias", exp.TableAlias(this=identifier, columns=columns))
            node.set("this", exp.to_identifier(name))
            node.set("db", None)
            node.set("catalog", None)

    def _staging(self, index: int, leaf: TableScan) -> str | None:
        """Return the folder in the checkpoint where tasks report a table's bad records."""
        if self.checkpoint is None or not leaf.by_splits:
            return None
        return staging_of(self.checkpoint, index, leaf.table)

    def _outage_file(self, index: int) -> str | None:
        """Return the file in which a source of the query records what it waits for."""
        if self.checkpoint is None:
            return None
        return str(outage_file(self.workdir, self.checkpoint, index))

    def _event_times(self, index: int, tag: str) -> str:
        """Return the folder where tasks report event times: in the checkpoint, else one of this process."""
        base = self.checkpoint or str(self.workdir / f"penstock_{tag}")
        return f"{base}/{EVENT_TIMES}/{index}"

    def _seen_files(self) -> str | None:
        """Return the folder in the checkpoint for the files that planning has seen in monitored
        folders, of all tables alike.
        """
        return None if self.checkpoint is None else f"{self.checkpoint}/{SEEN_FILES}"

    def _leaf_frame(
        self,
        leaf: TableScan,
        view: str,
        member: GroupMember | None,
        *,
        streaming: bool,
        staging: str | None,
        outage_file: str | None,
        event_times: str,
        number: int | None,
        split_by_split: bool,
    ) -> tuple[DataFrame, bool]:
        computed = {name: to_spark(text, leaf.table.schema) for name, text in leaf.computed.items()}
        source = self._source(leaf)
        if not leaf.by_splits:
            streaming = streaming and not leaf.looked_up
            assert source.kind is not SourceKind.SPLITS, "the analysis says so"
            frame = source.reading(leaf.columns).frame(self.spark, streaming=streaming)
            return _with_computed(frame, leaf.table.schema.names, computed), False
        scan = self._scan(
            leaf,
            streaming=streaming,
            staging=staging,
            outage_file=outage_file,
            event_times=event_times,
        )
        scan = replace(
            scan,
            member=member if streaming else None,
            input=number,
            split_by_split=split_by_split,
        )
        read = read_scan_frame(
            self.spark,
            scan,
            view=view,
            workdir=self.workdir,
            streaming=streaming,
            computed=computed,
        )
        frame = read.frame
        if scan.rowtime is not None and not leaf.marked:
            name = scan.rowtime.column
            frame = frame.select(
                *(
                    unmark(F.col(f"`{n}`"), n) if n == name else F.col(f"`{n}`")
                    for n in frame.columns
                )
            )
        return frame, read.late_bound

    def _scan(
        self,
        leaf: TableScan,
        *,
        streaming: bool,
        staging: str | None,
        outage_file: str | None,
        event_times: str,
    ) -> Scan:
        return Scan(
            table=leaf.read_table,
            columns=leaf.columns,
            rowtime=leaf.rowtime if streaming else None,
            time_zone=self.spark.conf.get(TIME_ZONE) or "UTC",
            project=str(self.project),
            condition=None if leaf.fragment is None else leaf.fragment.condition,
            aggregate=leaf.grouped,
            unnesting=None if leaf.grouped is None else leaf.unnesting,
            default_limit=self.default_limit,
            staging=staging,
            outage_file=outage_file,
            event_times=event_times if streaming else None,
            seen_files=self._seen_files() if streaming else None,
            access=self._access(leaf),
        )

    def _access(self, leaf: TableScan) -> StorageAccess:
        """Return how tasks open the stores of the checkpoint and of the table's folder of dead letters."""
        source = self._source(leaf)
        assert source.kind is SourceKind.SPLITS, "others have no tasks of ours"
        path = source.watermark.dead_letter_path
        letters = None if path is None else resolve_path(path, self.project)
        return storage_access(self.spark, self.checkpoint, letters)

    def _replace_window(self, window: WindowTable, view: str, register: RegisterView) -> None:
        inner = exp.select("*").from_(window.input.copy())
        frame = self.spark.sql(to_spark_query(inner))
        scans = {node.scan for node in window.input.find_all(ScanTable)}
        windowed = assign_windows(
            frame,
            window.time_column,
            _function(window),
            view=view,
            source=scans.pop() if len(scans) == 1 else None,
        )
        register(windowed, view)
        alias = window.alias or view
        window.node.replace(
            exp.Table(
                this=exp.to_identifier(view),
                alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
            )
        )


def _split_by_split(analysed: AnalysedQuery) -> frozenset[int]:
    """Return the tables, by their numbers, of which tasks give the rows of one split after the other."""
    return frozenset() if analysed.maintained is None else ordered_scans(analysed.maintained)


@contextmanager
def _registered_views(spark: SparkSession) -> Iterator[RegisterView]:
    """Yield a function that registers temporary views, which are dropped at the end: users list the session's tables.

    A frame that was made by SQL over them is analysed and needs them no more.
    """
    names: list[str] = []

    def register(frame: DataFrame, name: str) -> None:
        names.append(name)
        frame.createOrReplaceTempView(name)

    try:
        yield register
    finally:
        for name in names:
            spark.catalog.dropTempView(name)


def _with_computed(
    frame: DataFrame, names: Sequence[str], computed: Mapping[str, str]
) -> DataFrame:
    """Add computed columns at their places in the table, whose columns are `names`: a star expands to these."""
    if not computed:
        return frame
    values = {name: quoted(name) for name in frame.columns}
    values |= {name: f"{text} AS {quoted(name)}" for name, text in computed.items()}
    order = [*(name for name in names if name in values), *(n for n in values if n not in names)]
    return frame.selectExpr(*(values[name] for name in order))


def _function(window: WindowTable) -> WindowFunction:
    match window.kind:
        case WindowKind.TUMBLE:
            return Tumble(size_ms=window.size_ms, offset_ms=window.offset_ms)
        case WindowKind.HOP:
            return Hop(
                size_ms=window.size_ms,
                slide_ms=window.slide_ms or window.size_ms,
                offset_ms=window.offset_ms,
            )
        case WindowKind.CUMULATE:
            return Cumulate(
                size_ms=window.size_ms,
                step_ms=window.step_ms or window.size_ms,
                offset_ms=window.offset_ms,
            )
    raise UnsupportedError(
        f"{window.kind} is only supported directly under a GROUP BY of its window_start and window_end",
        span=window.span,
    )
