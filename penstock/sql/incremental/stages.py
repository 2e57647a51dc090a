"""The plan of an incremental query: inputs that Spark streams, and stages that process their changes.

Every relation between stages is a set of changes: its columns and ROW_KIND as the last one, -U in front of the +U of
the same key. Stages name each other as the tables of their SQL do; names are unique within a query and no user's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from sqlglot import exp

from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect.windows.window_tables import WindowKind
from penstock.sql.plan.rules.flow import UpdatingOperator

COUNT = "__n"
"""BIGINT column: how often a row is there, or the row count of a key; as written, insertions less deletions."""

TIME = "__time"
"""BIGINT column: when that was written, in ms since the epoch (the batch's time)."""

# --- state of an OVER aggregate ---

BATCH_TIME = "__batch_time"
"""TIMESTAMP_LTZ column: the time of the batch in which a row arrived, which is PROCTIME() here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeState:
    """Rows whose time is at most `micros` microseconds before that of a later row."""

    micros: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsState:
    """The last `count` rows of each key."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnboundedState:
    """All rows: no accumulator suffices."""


class AccumulatorFunction(StrEnum):
    """How the values of rows are accumulated. All ignore NULL, and without a value are NULL."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accumulator:
    """An accumulator of `value` over the rows of a key up to a row: those of its time too, unless `by_row`."""

    name: str
    total: AccumulatorFunction
    value: exp.Expr
    by_row: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AccumulatorState:
    """A few accumulators of each key, instead of rows."""

    running: tuple[Accumulator, ...]


OverFrameState = RangeState | RowsState | UnboundedState | AccumulatorState


# --- inputs and stages ---

INPUT_INDEX = "__feed"
"""INT column of the streaming query: the index of a row's input."""
INPUT_TIME = "__time"
"""TIMESTAMP column of the streaming query: the time of the batch, the same on a replay."""

INGESTION_ORDER = "__arrival"
"""BIGINT column that numbers rows in order of arrival, where a stage adds it."""

_BATCH_BITS = 32
"""Bits of an arrival number below the batch's, which is an INT: a batch has fewer rows than this counts."""


def first_ingestion_number(batch_id: int) -> int:
    """Return the number of a batch's first row: those of earlier batches are less."""
    return batch_id << _BATCH_BITS


def input_column(index: int) -> str:
    """Name the STRUCT column that holds the rows of an input; NULL in rows of others."""
    return f"__feed{index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInput:
    """Rows that Spark streams: inserts, without ROW_KIND; or changes, with ROW_KIND last.

    `columns` are without ROW_KIND. UPSERT rows have a `key`; a ChangelogNormalize follows them, or the versions of a
    TemporalJoin. `scans` are the numbers of the tables that they are read from. `shuffled`: they do not come in the
    order of the records of these tables.
    """

    name: str
    columns: tuple[str, ...]
    changes: ChangelogMode = ChangelogMode.INSERT_ONLY
    key: tuple[str, ...] | None = None
    scans: frozenset[int] = frozenset()
    shuffled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogNormalize:
    """Upserts and deletes by `key` become changes with the row before (Flink's ChangelogNormalize).

    State: the last row of each key. A delete of an absent key has no effect.
    """

    name: str
    input: str
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calc:
    """SQL over the changes of other relations, row by row; `query` returns ROW_KIND as its last column itself.

    `of_windows`: it groups the rows of closed windows, all of which come in one batch.
    """

    name: str
    inputs: tuple[str, ...]
    query: exp.Query
    of_windows: bool = False


class InputState(StrEnum):
    """The rows of an input that a stage keeps."""

    ROWS = "rows"
    """All of them."""
    RESULT = "result"
    """The rows of the result: whole rows; an omitted one never returns (Top-N of inserts).

    The stage has only this input, and its query returns all columns of it by name, `arrival` too, and perhaps others.
    """
    ACCUMULATORS = "accumulators"
    """The aggregates of each key, and the values of DISTINCT, of inserts; without a keyed operator all rows."""
    EXPIRING = "expiring accumulators"
    """The same, with the time at which each key began: by that what is older than the key does not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """A signed sum over the rows of a key: SUM(`value` * multiplicity). NULLs of `value` add nothing.

    Never NULL: 0 where nothing was added. Of whole numbers a BIGINT, of DECIMAL(p, s) as Spark's SUM; no FLOAT or
    DOUBLE, from which an addend cannot be subtracted again exactly. `value` names only columns of the relation.
    """

    name: str
    value: exp.Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class StageInput:
    """A relation that a stateful stage reads. In its SQL the table `name` has the columns of the relation.

    `key` are the columns by which a change affects results: rows of the result depend only on rows of one key. The
    keys of a stage's inputs agree by position. Empty: everything depends on everything. With `measures` the table has
    one row a key (those with rows left): the key columns, the measures, and `__n` (BIGINT), the number of rows; rows
    themselves are not kept. `arrival`: name of a BIGINT column to add, which numbers rows in order of arrival
    (PROCTIME order). Where the query returns it, it is no column of the stage's result. `by_batch`: rows of a batch
    have one number, as their order differs each time that the batch runs. `by_change`: for relations whose rows are
    updated or deleted; the number is that of the batch that last added the row. `time_to_live_ms`: that of the hint
    STATE_TTL, 0: unlimited; None: that of `table.exec.state.ttl`. `renewed`: a change of another input makes rows of
    its key younger, too.
    """

    name: str
    key: tuple[str, ...]
    measures: tuple[Measure, ...] = ()
    keeps: InputState = InputState.ROWS
    arrival: str | None = None
    by_batch: bool = False
    by_change: bool = False
    time_to_live_ms: int | None = None
    renewed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SideTime:
    """When rows of a side of a join match no later row of the other side: `micros` behind their time `ends`.

    `rowtime` is the column by which rows are late; None: rows of closed windows, which come a batch behind the
    watermark that closes them.
    """

    ends: str
    micros: int
    rowtime: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTimes:
    """The event times of both sides of a join of inserts; the lowest watermark of `waits_for` ends rows.

    `at_once`: rows of closed windows come in the batch whose watermark closes them, as stages aggregate them.
    """

    sides: tuple[SideTime, SideTime]
    waits_for: tuple[int, ...]
    at_once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputeOperator:
    """Computes the results of the keys that a batch changes, before and after it, and emits the difference.

    `query` is SQL over the inputs as plain tables, in Flink's dialect. `key`: columns that identify a row of the
    result (None: unknown); a key that exists before and after emits -U and +U, else +I, -D. `joins`: TTL is by row of
    an input; else by its key as a whole. `mechanism` describes the stage for EXPLAIN. Without a row in any input there
    is no result: an aggregation without keys begins with its first row, as Flink's. The query is deterministic:
    functions that depend on the order of rows sort by columns (or arrival). `times`: rows of a join that end, and are
    dropped where they are late; only keyed operators do that, so others keep rows for good, and run no outer one.
    `upserts`: nothing reads the row before an update, which is left out. `inserts`: rows of the result never change.
    """

    name: str
    inputs: tuple[StageInput, ...]
    query: exp.Query
    key: tuple[str, ...] | None = None
    joins: bool = False
    times: JoinTimes | None = None
    upserts: bool = False
    inserts: bool = False
    mechanism: UpdatingOperator

    @property
    def keeps_first(self) -> bool:
        """Whether it keeps the first rows of inserts that are numbered as they come."""
        return all(
            one.keeps is InputState.RESULT
            and one.arrival is not None
            and not (one.by_batch or one.by_change)
            for one in self.inputs
        )

    @property
    def is_padded(self) -> bool:
        """Whether it is an outer join whose rows end: those without a match come then, and stay."""
        return self.times is not None and any(join.side for join in self.query.args["joins"])


VALID_FROM, VALID_TO = "__valid_from", "__valid_to"
"""Columns of versions in the SQL of a TemporalJoin: their rowtime, and the next one's of the key (NULL: none)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalJoin:
    """Joins each row with the version of its key that was valid at its rowtime (TemporalRowTimeJoinOperator).

    `rows` is a relation of inserts with the rowtime `time`, whose columns `row_key` are compared with `version_key`.
    `versions` are changes as they arrive: each but an -U is a version from its `version_time` on, a delete one without
    a row. A row waits until the watermark has passed its time: the lowest of the sources `waits_for` (their place
    among the tables of the query). Rows behind the watermark before the batch are late, and dropped. `query` is SQL
    over both as plain tables, the versions with VALID_FROM and VALID_TO; `key` as in a RecomputeOperator.
    """

    name: str
    rows: str
    time: str
    row_key: tuple[str, ...]
    versions: str
    version_time: str
    version_key: tuple[str, ...]
    waits_for: tuple[int, ...]
    query: exp.Query
    key: tuple[str, ...] | None = None
    mechanism: UpdatingOperator


@dataclass(frozen=True, slots=True, kw_only=True)
class OverAggregate:
    """Emits the rows of a relation of inserts, each with OVER aggregates of those before it (StreamExecOverAggregate).

    A row waits until the watermark has passed its `time`, as in a TemporalJoin. Without `waits_for` rows are emitted
    as they arrive; without a `time` in that order, too. Rows of one time count in order of arrival. `key` are the
    columns of PARTITION BY. `frame_state` says which rows the next ones need, or which accumulators: in the SQL `query`
    the table `rows` has all rows that are needed, with ARRIVAL, and without a `time` BATCH_TIME; with AccumulatorState
    only those that are emitted, and the accumulators up to each as columns. The query returns the columns of the
    stage's result, and ARRIVAL as the last one.
    """

    name: str
    rows: str
    key: tuple[str, ...]
    time: str | None
    waits_for: tuple[int, ...]
    frame_state: OverFrameState
    query: exp.Query
    mechanism: UpdatingOperator


PANE, PANE_ROWS = "__pane", "__rows"
"""Columns of the groups of a PaneAggregate: the start of the pane (NULL: of rows without a time), their BIGINT rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialCall:
    """A part of an aggregate, COUNT, SUM, MIN or MAX with its FILTER: `call` is over the columns of the rows."""

    name: str
    call: exp.Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Panes:
    """TUMBLE, HOP or CUMULATE over panes: the rows of a pane of `pane_ms` have the same windows.

    A pane is the slide of HOP, the step of CUMULATE, the size of TUMBLE. Lengths are milliseconds.
    """

    kind: WindowKind
    size_ms: int
    pane_ms: int
    offset_ms: int = 0

    @property
    def text(self) -> str:
        """The windows as EXPLAIN and a checkpoint name them."""
        offset = f" OFFSET {self.offset_ms} ms" if self.offset_ms else ""
        return f"{self.kind} {self.size_ms} ms OF {self.pane_ms} ms{offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaneAggregate:
    """Groups the inserts of a batch by pane and keys: the first phase of a WindowAggregate, without state.

    `input` has the event time in `time`. The columns are `keys`, PANE, those of `parts`, PANE_ROWS. `merges`: the rows
    of the input are such groups already, with the start of their pane as their time, as the tasks that read made them.
    """

    name: str
    input: str
    time: str
    panes: Panes
    keys: tuple[str, ...]
    parts: tuple[PartialCall, ...]
    merges: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the groups."""
        return (*self.keys, PANE, *(part.name for part in self.parts), PANE_ROWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowAggregate:
    """Aggregates windows when the watermark has passed them; all rows of a window are then due in one batch.

    `rows` is a relation of inserts, or of `changes`, with the last time of their window in `time`. `waits_for` as in a
    TemporalJoin; rows of windows behind the watermark before the batch are late, and so are their deletions. `query` is
    SQL over the rows that are due, `key` as in a RecomputeOperator. With `panes`, `rows` are the groups of a
    PaneAggregate, which are late by the last of their windows, and are in the SQL under each of their windows.
    """

    name: str
    rows: str
    time: str
    waits_for: tuple[int, ...]
    query: exp.Query
    key: tuple[str, ...] | None = None
    changes: bool = False
    panes: Panes | None = None
    mechanism: UpdatingOperator


EventTimeStage = TemporalJoin | OverAggregate | WindowAggregate
"""Stages whose rows wait for the watermark of the sources `waits_for`."""

Stateless = Calc | PaneAggregate
"""Stages without state. Spark computes them over the rows of a batch; a Calc behind an operator is computed by the one
task of a small batch."""

Stage = ChangelogNormalize | Stateless | RecomputeOperator | EventTimeStage


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementalQuery:
    """An incremental query: its inputs by index, its stages in order; the last one's changes are the result.

    The streaming query returns INPUT_INDEX, INPUT_TIME and `input_column(i)` for each input.
    """

    feeds: tuple[StreamInput, ...]
    stages: tuple[Stage, ...]
    columns: tuple[str, ...]
    key: tuple[str, ...] | None = None


def without_kinds(maintained: IncrementalQuery) -> frozenset[str]:
    """Return the relations whose rows are inserts, and have no ROW_KIND."""
    feeds = {feed.name for feed in maintained.feeds if feed.changes is ChangelogMode.INSERT_ONLY}
    groups = {stage.name for stage in maintained.stages if isinstance(stage, PaneAggregate)}
    return frozenset(feeds | groups)


def sources_of(stage: Stage) -> tuple[int, ...]:
    """Return the sources for whose watermarks a stage waits, or whose watermarks end its rows."""
    match stage:
        case RecomputeOperator(times=times):
            return () if times is None else times.waits_for
        case OverAggregate() | WindowAggregate() | TemporalJoin():
            return stage.waits_for
        case _:
            return ()


def inputs_of(stage: Stage) -> tuple[str, ...]:
    """Return the relations that a stage reads."""
    match stage:
        case ChangelogNormalize() | PaneAggregate():
            return (stage.input,)
        case Calc():
            return stage.inputs
        case RecomputeOperator():
            return tuple(stage_input.name for stage_input in stage.inputs)
        case OverAggregate() | WindowAggregate():
            return (stage.rows,)
        case TemporalJoin():
            return (stage.rows, stage.versions)
        case _:
            assert_never(stage)


def ordered_inputs_of(stage: Stage) -> tuple[str, ...]:
    """Return the relations whose rows a stage counts in order of arrival."""
    match stage:
        case ChangelogNormalize() | OverAggregate() | TemporalJoin():
            return inputs_of(stage)
        case RecomputeOperator():
            return tuple(
                one.name
                for one in stage.inputs
                if one.arrival is not None and not (one.by_batch or one.by_change)
            )
        case Calc() | PaneAggregate() | WindowAggregate():
            return ()
        case _:
            assert_never(stage)


def ordered_relations(maintained: IncrementalQuery) -> frozenset[str]:
    """Return the relations whose rows some stage counts in order of arrival, also as a Calc gives them."""
    found: set[str] = set()
    for stage in reversed(maintained.stages):
        found.update(ordered_inputs_of(stage))
        if isinstance(stage, Calc) and not stage.of_windows and stage.name in found:
            found.update(stage.inputs)
    return frozenset(found)


def shuffled_relations(maintained: IncrementalQuery) -> frozenset[str]:
    """Return the relations of inserts whose rows do not come in an order that the batch alone decides."""
    found = {
        feed.name
        for feed in maintained.feeds
        if feed.shuffled and feed.changes is ChangelogMode.INSERT_ONLY
    }
    for stage in maintained.stages:
        if isinstance(stage, Calc) and (stage.of_windows or not found.isdisjoint(stage.inputs)):
            found.add(stage.name)
    return frozenset(found)


def ordered_scans(maintained: IncrementalQuery) -> frozenset[int]:
    """Return the tables, by their numbers, whose own rows some stage counts in order of arrival."""
    names = ordered_relations(maintained)
    return frozenset().union(
        *(feed.scans for feed in maintained.feeds if feed.name in names and not feed.shuffled)
    )


def scans_below(maintained: IncrementalQuery, relation: str) -> frozenset[int]:
    """Return the tables, by their numbers, that the rows of a relation are made of."""
    below: dict[str, frozenset[int]] = {feed.name: feed.scans for feed in maintained.feeds}
    for stage in maintained.stages:
        below[stage.name] = frozenset().union(*(below[name] for name in inputs_of(stage)))
    return below[relation]
