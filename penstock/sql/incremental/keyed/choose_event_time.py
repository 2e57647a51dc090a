"""Give the stages whose rows wait for the watermark, or end with it, their keyed operators. No JVM; for the driver.

Raises UntranslatableError, which names what Spark has to compute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import assert_never

import pyarrow as pa
from sqlglot import exp

from penstock.sql.dialect import to_text
from penstock.sql.dialect.windows.window_tables import WINDOW_COLUMNS
from penstock.sql.incremental.keyed.aggregates import frame_text, sum_type, window_order
from penstock.sql.incremental.keyed.append_join import (
    ALL,
    DUE,
    MARKED,
    MATCHED,
    NEW,
    OLD,
    AppendJoin,
    PaddedSide,
)
from penstock.sql.incremental.keyed.event_time import WaitingRows
from penstock.sql.incremental.keyed.over import (
    NEEDED,
    FrameSum,
    FrameSums,
    OverFrames,
    OverTotals,
    RunningTotal,
)
from penstock.sql.incremental.keyed.recompute import KeyedInput, SideQuery
from penstock.sql.incremental.keyed.statement import (
    TableColumns,
    result_columns,
    translate_over,
    translate_query,
)
from penstock.sql.incremental.keyed.tables import UntranslatableError, check_stored, is_nested
from penstock.sql.incremental.keyed.temporal_join import VALID, JoinVersions, VersionedTable
from penstock.sql.incremental.keyed.values import SqlValue
from penstock.sql.incremental.keyed.windows import AggregatePanes, AggregateWindows
from penstock.sql.incremental.stages import (
    INGESTION_ORDER,
    Accumulator,
    AccumulatorFunction,
    AccumulatorState,
    EventTimeStage,
    OverAggregate,
    Panes,
    RangeState,
    RecomputeOperator,
    RowsState,
    SideTime,
    TemporalJoin,
    UnboundedState,
    WindowAggregate,
)


def over_operator(
    stage: OverAggregate, schemas: Mapping[str, pa.Schema], time_to_live_ms: int
) -> OverFrames | OverTotals:
    """Return the operator of an OVER aggregate."""
    rows = _waiting_rows(stage, schemas[stage.rows], stage.key)
    result = schemas[stage.name]
    match stage.frame_state:
        case AccumulatorState(running=running):
            totals = tuple(_running_total(one, rows) for one in running)
            more = tuple(one.field for one in totals)
            return OverTotals(
                rows=rows,
                totals=totals,
                query=_query(stage.query, rows, more, result),
                result=tuple(result),
                time_to_live_ms=time_to_live_ms,
            )
        case RangeState() if not stage.waits_for:
            raise UntranslatableError(
                "an interval of rows that do not wait for a watermark",
                "order by a column that is a rowtime: a table with WATERMARK FOR",
            )
        case RowsState() | UnboundedState() if stage.waits_for and time_to_live_ms:
            # it counts from the arrival of a row, and rows are kept from their release on
            raise UntranslatableError(
                "the state TTL of rows that wait for a watermark",
                "run it without table.exec.state.ttl: the rows of its frames then stay",
            )
        case RangeState() | RowsState() | UnboundedState():
            ends = isinstance(stage.frame_state, RangeState)
            sums, query = _with_sums(stage.query, rows)
            more = () if sums is None else tuple(one.field for one in sums.sums)
            return OverFrames(
                rows=rows,
                frame=stage.frame_state,
                sums=sums,
                query=_query(query, rows, more, result),
                result=tuple(result),
                time_to_live_ms=0 if ends else time_to_live_ms,
            )
        case _:
            assert_never(stage.frame_state)


def _with_sums(query: exp.Query, rows: WaitingRows) -> tuple[FrameSums | None, exp.Query]:
    """Return the sums and averages of DOUBLE in the windows of a query, and the query that reads them as columns."""
    found: dict[str, FrameSum] = {}
    windows: set[str] = set()

    def plain(node: exp.Expr) -> SqlValue:
        return translate_over(node, TableColumns(sql=NEEDED, columns=rows.numbered))

    def summed(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Window):
            return node
        call = node.this
        if not isinstance(call, exp.Sum | exp.Avg) or isinstance(call.this, exp.Distinct):
            return node
        value = plain(call.this)
        if value.type != pa.float64():
            return node
        name = f"__sum{len(found)}"
        one = FrameSum(
            field=pa.field(name, value.type), value=value.sql, averages=isinstance(call, exp.Avg)
        )
        one = found.setdefault(to_text(node), one)
        windows.add(window_order(node, plain).over(frame_text(node.args["spec"], node)))
        return exp.column(one.field.name, quoted=True)

    replaced = query.transform(summed)
    if not found:
        return None, query
    assert isinstance(replaced, exp.Query), "only its windows are replaced"
    (window,) = windows
    return FrameSums(window=window, sums=tuple(found.values())), replaced


def temporal_join_operator(
    stage: TemporalJoin, schemas: Mapping[str, pa.Schema], time_to_live_ms: int
) -> JoinVersions:
    """Return the operator of a temporal join."""
    rows = _waiting_rows(stage, schemas[stage.rows], stage.row_key)
    versions = VersionedTable(
        name=stage.versions,
        columns=_stored(schemas[stage.versions], stage.version_time),
        key=stage.version_key,
        time=stage.version_time,
        time_to_live_ms=time_to_live_ms,
    )
    if rows.layout.key_types != versions.layout.key_types:
        raise UntranslatableError("keys of different types", "CAST both sides to one type")
    if not isinstance(stage.query, exp.Select):
        raise UntranslatableError(f"the query {to_text(stage.query)}")
    numbered = stage.query.select(exp.column(INGESTION_ORDER, stage.rows, quoted=True))
    tables = {
        rows.name: TableColumns(sql="due", columns=rows.numbered),
        versions.name: TableColumns(sql=VALID, columns=versions.read),
    }
    result = schemas[stage.name]
    return JoinVersions(
        rows=rows,
        versions=versions,
        query=_numbered_query(numbered, tables, result),
        result=tuple(result),
    )


def panes_operator(
    stage: WindowAggregate, panes: Panes, schemas: Mapping[str, pa.Schema]
) -> AggregatePanes:
    """Return the operator of an aggregation by windows over panes, whose groups go to buckets by their keys."""
    *columns, _ = _stored(schemas[stage.rows], stage.time)
    time = schemas[stage.rows].field(stage.time).type
    bounds = (pa.field(name, time) for name in WINDOW_COLUMNS)
    names = [of.name for of in columns]
    return AggregatePanes(
        name=stage.rows,
        columns=tuple(columns),
        key=tuple(names[: names.index(stage.time)]),
        pane=stage.time,
        panes=panes,
        waits_for=stage.waits_for,
        query=_due_query(stage, (*columns, *bounds), schemas[stage.name], ""),
        result=tuple(schemas[stage.name]),
    )


def _due_query(
    stage: WindowAggregate, columns: tuple[pa.Field, ...], result: pa.Schema, order: str
) -> SideQuery:
    """Write a stage's query over the table `due`."""
    table = TableColumns(sql="due", columns=columns, order=order)
    statement = translate_query(stage.query, {stage.rows: table})
    shown = result_columns(statement, result, {})
    return SideQuery(
        sql=statement.sql,
        names=tuple(name for name, _ in shown),
        columns=tuple(text for _, text in shown),
    )


def window_operator(stage: WindowAggregate, schemas: Mapping[str, pa.Schema]) -> AggregateWindows:
    """Return the operator of an aggregation by windows, whose rows go to buckets by all grouping columns."""
    group = stage.query.args.get("group")
    assert group is not None, "it groups by the bounds of windows"
    keys = tuple(dict.fromkeys(key.name for key in group.expressions))
    assert set(keys) <= set(schemas[stage.rows].names), "it groups by columns"
    rows = _waiting_rows(stage, schemas[stage.rows], keys)
    order = ", ".join(f"{{0}}.c{n}" for n in range(len(rows.columns)))
    result = schemas[stage.name]
    return AggregateWindows(
        rows=rows,
        query=_due_query(stage, rows.columns, result, order),
        result=tuple(result),
    )


def _stored(schema: pa.Schema, time: str | None) -> tuple[pa.Field, ...]:
    """Return the columns of a relation that is kept by the column `time`."""
    check_stored(schema)
    if time is not None and not pa.types.is_timestamp(schema.field(time).type):
        raise UntranslatableError(f"the rowtime {time}")
    return tuple(schema)


def _waiting_rows(stage: EventTimeStage, schema: pa.Schema, key: tuple[str, ...]) -> WaitingRows:
    return WaitingRows(
        name=stage.rows,
        columns=_stored(schema, stage.time),
        key=key,
        time=stage.time,
        waits_for=stage.waits_for,
    )


def _query(
    query: exp.Query, rows: WaitingRows, more: tuple[pa.Field, ...], result: pa.Schema
) -> SideQuery:
    """Write a stage's query over NEEDED; the number of arrival is the last of its columns."""
    table = TableColumns(sql=NEEDED, columns=(*rows.numbered, *more), arrival=rows.arrival)
    return _numbered_query(query, {rows.name: table}, result)


def _numbered_query(
    query: exp.Query, tables: Mapping[str, TableColumns], result: pa.Schema
) -> SideQuery:
    statement = translate_query(query, tables)
    columns = result_columns(statement, result, {INGESTION_ORDER: pa.int64()})
    assert columns[-1][0] == INGESTION_ORDER, "the stage's query returns it last"
    return SideQuery(
        sql=statement.sql,
        names=tuple(name for name, _ in columns),
        columns=tuple(text for _, text in columns),
    )


def _running_total(one: Accumulator, rows: WaitingRows) -> RunningTotal:
    value = translate_over(one.value, TableColumns(sql="due", columns=rows.numbered))
    if value.type is None:
        raise UntranslatableError(f"the accumulator {one.name} of NULL")
    kind = value.type
    match one.total:
        case AccumulatorFunction.SUM:
            kind = kind if pa.types.is_float64(kind) else sum_type(kind)
        case AccumulatorFunction.MIN | AccumulatorFunction.MAX:
            if is_nested(kind):
                raise UntranslatableError(f"{one.total.upper()} of values of the type {kind}")
        case AccumulatorFunction.FIRST | AccumulatorFunction.LAST:
            pass
        case _:
            assert_never(one.total)
    return RunningTotal(
        field=pa.field(one.name, kind), total=one.total, value=value.sql, by_row=one.by_row
    )


# --- joins of inserts ---

_PADDED_SIDES: Mapping[str, tuple[int, ...]] = {"": (), "LEFT": (0,), "RIGHT": (1,), "FULL": (0, 1)}


def append_join_operator(
    stage: RecomputeOperator, inputs: tuple[KeyedInput, KeyedInput], result: pa.Schema
) -> AppendJoin:
    """Return the operator of a join of inserts: an inner one, or any whose rows end."""
    (join,) = stage.query.args["joins"]
    padded = _PADDED_SIDES[join.side or ""]
    left, right = (replace(one, layout=replace(one.layout, inserts=True)) for one in inputs)
    if stage.times is not None:
        left, right = (
            _ending(one, side, by_time=n in padded)
            for n, (one, side) in enumerate(zip((left, right), stage.times.sides, strict=True))
        )
    inner = stage.query.copy()
    inner.args["joins"][0].set("side", None)
    of_left, of_right = (
        side_query(
            inner,
            {
                one.name: TableColumns(sql=name, columns=one.columns)
                for one, name in zip((left, right), names, strict=True)
            },
            result,
        )
        for names in ((f"{NEW}0", f"{OLD}1"), (f"{ALL}0", f"{NEW}1"))
    )
    return AppendJoin(
        inputs=(left, right),
        of_left=of_left,
        of_right=of_right,
        result=tuple(result),
        times=stage.times,
        padded=tuple(_padded_side(stage, (left, right), n, result) for n in padded),
    )


def _padded_side(
    stage: RecomputeOperator, inputs: tuple[KeyedInput, KeyedInput], n: int, result: pa.Schema
) -> PaddedSide:
    """Return the rows of a side that an outer join keeps: all that are due, with a mark of those that match."""
    own, other = inputs[n], inputs[1 - n]
    query = stage.query.copy()
    assert isinstance(query, exp.Select), "a join of two relations"
    query.args["joins"][0].set("side", ("LEFT", "RIGHT")[n])
    query = query.select(exp.column(MATCHED, other.name, quoted=True), copy=False)
    mark = pa.field(MATCHED, pa.bool_())
    tables = {
        own.name: TableColumns(sql=f"{DUE}{n}", columns=own.columns),
        other.name: TableColumns(sql=f"{MARKED}{1 - n}", columns=(*other.columns, mark)),
    }
    return PaddedSide(number=n, query=side_query(query, tables, result, {MATCHED: mark.type}))


def _ending(one: KeyedInput, side: SideTime, *, by_time: bool) -> KeyedInput:
    """Return an input whose rows end, and are looked up by that time. Raises UntranslatableError where it is none."""
    for name in filter(None, (side.ends, side.rowtime)):
        if not pa.types.is_timestamp(one.layout.dims[one.layout.names.index(name)].type):
            raise UntranslatableError(f"the rowtime {name}")
    rowtime = side.ends if by_time else None
    return replace(one, layout=replace(one.layout, ends=side.ends, rowtime=rowtime))


def side_query(
    query: exp.Query,
    tables: Mapping[str, TableColumns],
    result: pa.Schema,
    more: Mapping[str, pa.DataType] = MappingProxyType({}),
) -> SideQuery:
    """Write a stage's query over `tables`; the columns `more` come behind those of the result."""
    statement = translate_query(query, tables)
    columns = result_columns(statement, result, more)
    return SideQuery(
        sql=statement.sql,
        names=tuple(name for name, _ in columns),
        columns=tuple(text for _, text in columns),
    )
