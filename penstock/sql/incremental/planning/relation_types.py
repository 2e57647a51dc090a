"""The columns of an incremental query's relations with their types, as far as they are known without Spark.

For the plan that is shown. A run asks Spark (`state/schemas.py`), whose types these are where one is known: of the
columns of tables, and of expressions whose type follows from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import assert_never

import pyarrow as pa
from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.table import Schema
from penstock.catalog.model.types import LogicalType
from penstock.connector.arrow import arrow_type
from penstock.connector.changelog import ROW_KIND
from penstock.connector.scan import ARRIVED, ARRIVED_FIELDS
from penstock.sql.dialect.windows.window_tables import (
    WINDOW_COLUMNS,
    is_windowing,
    window_tables,
)
from penstock.sql.expressions.expression import known_type
from penstock.sql.incremental.keyed.aggregates import sum_type
from penstock.sql.incremental.keyed.statement import TableColumns, translate_query
from penstock.sql.incremental.keyed.tables import UntranslatableError
from penstock.sql.incremental.keyed.values import SqlValue, translate
from penstock.sql.incremental.stages import (
    BATCH_TIME,
    COUNT,
    INGESTION_ORDER,
    PANE,
    PANE_ROWS,
    VALID_FROM,
    VALID_TO,
    AccumulatorFunction,
    AccumulatorState,
    Calc,
    ChangelogNormalize,
    IncrementalQuery,
    OverAggregate,
    PaneAggregate,
    RecomputeOperator,
    Stage,
    StageInput,
    TemporalJoin,
    WindowAggregate,
)
from penstock.sql.plan.logical.facts import Item
from penstock.sql.plan.rules.aggregate import without_filter
from penstock.sql.syntax.nodes import ScanTable

OPEN = pa.null()
"""The type of a column whose type is known when the query starts."""

Columns = tuple[tuple[str, pa.DataType], ...]


def relation_types(
    maintained: IncrementalQuery, feeds: Mapping[str, exp.Query], tables: Mapping[int, Schema]
) -> dict[str, pa.Schema]:
    """Return the columns of each relation by its name, without ROW_KIND.

    `feeds` are the queries of the inputs, `tables` those of tables by the number of their scan. Of a column whose
    type is not known it is OPEN.
    """
    found: dict[str, pa.Schema] = {}
    scanned = {number: _of_table(schema) for number, schema in tables.items()}
    for feed in maintained.feeds:
        columns = _columns_of(feeds.get(feed.name), lambda node: _scanned(node, scanned))
        found[feed.name] = _schema(columns or tuple((name, OPEN) for name in feed.columns))
    for stage in maintained.stages:
        found[stage.name] = _result(stage, found)
    return found


def added_schema(schema: pa.Schema, added: Sequence[Item]) -> pa.Schema:
    """Return the columns of a relation, and behind them expressions over them."""
    more = ((name, _type_over(value, schema)) for name, value in added)
    return pa.schema([*schema, *(pa.field(*column) for column in more)])


def _type_over(value: exp.Expr, schema: pa.Schema) -> pa.DataType:
    return _value_type(value, {"": _listed(schema)})


def _schema(columns: Sequence[tuple[str, pa.DataType]]) -> pa.Schema:
    return pa.schema([(name, kind) for name, kind in columns if name != ROW_KIND])


def _listed(schema: pa.Schema) -> Columns:
    return tuple((of.name, of.type) for of in schema)


def _of_table(schema: Schema) -> Columns:
    """Return the columns of a table, and that of the order of its rows."""
    kinds = ((column.name, column.type) for column in schema.columns)
    order = pa.struct([pa.field(name, pa.int64(), nullable=False) for name in ARRIVED_FIELDS])
    return (*((name, _arrow_type(kind)) for name, kind in kinds), (ARRIVED, order))


def _arrow_type(logical: LogicalType | None) -> pa.DataType:
    try:
        return OPEN if logical is None else arrow_type(logical)
    except UnsupportedError:
        return OPEN


def _scanned(node: exp.Table, tables: Mapping[int, Columns]) -> Columns | None:
    return tables.get(node.scan) if isinstance(node, ScanTable) else None


# --- stages ---


def _result(stage: Stage, found: Mapping[str, pa.Schema]) -> pa.Schema:
    match stage:
        case ChangelogNormalize():
            return found[stage.input]
        case Calc():
            tables = {name: (*_listed(found[name]), (ROW_KIND, pa.int8())) for name in stage.inputs}
            return _of_query(stage.query, tables, ())
        case RecomputeOperator():
            tables = {one.name: _seen(one, found[one.name]) for one in stage.inputs}
            arrivals = {one.arrival for one in stage.inputs if one.arrival is not None}
            return _of_query(stage.query, tables, arrivals)
        case TemporalJoin():
            versions = found[stage.versions]
            time = (
                versions.field(stage.version_time).type
                if stage.version_time in versions.names
                else OPEN
            )
            more = ((VALID_FROM, time), (VALID_TO, time))
            tables = {
                stage.rows: _listed(found[stage.rows]),
                stage.versions: (*_listed(versions), *more),
            }
            return _of_query(stage.query, tables, ())
        case OverAggregate():
            rows = found[stage.rows]
            tables = {
                stage.rows: (*_listed(rows), (INGESTION_ORDER, pa.int64()), *_totals(stage, rows))
            }
            return _of_query(stage.query, tables, (INGESTION_ORDER,), arrival=len(rows))
        case PaneAggregate():
            return _of_panes(stage, found[stage.input])
        case WindowAggregate():
            rows = found[stage.rows]
            bounds = (
                [] if stage.panes is None else [(n, rows.field(PANE).type) for n in WINDOW_COLUMNS]
            )
            return _of_query(stage.query, {stage.rows: (*_listed(rows), *bounds)}, ())
        case _:
            assert_never(stage)


def _of_panes(stage: PaneAggregate, rows: pa.Schema) -> pa.Schema:
    kinds = {name: rows.field(name).type for name in stage.keys}
    kinds[PANE] = rows.field(stage.time).type
    for part in stage.parts:
        call, _ = without_filter(part.call)
        match call:
            case exp.Count():
                kinds[part.name] = pa.int64()
            case exp.Sum():
                kinds[part.name] = _summed(call.this, rows)
            case _:
                kinds[part.name] = _type_over(call.this, rows)
    return _schema([*kinds.items(), (PANE_ROWS, pa.int64())])


def _seen(one: StageInput, schema: pa.Schema) -> Columns:
    """Return the columns that a stage's query reads of an input."""
    if not one.measures:
        arrival = () if one.arrival is None else ((one.arrival, pa.int64()),)
        return (*_listed(schema), *arrival)
    keys = tuple((of.name, of.type) for of in schema if of.name in one.key)
    sums = tuple((measure.name, _summed(measure.value, schema)) for measure in one.measures)
    return (*keys, *sums, (COUNT, pa.int64()))


def _summed(value: exp.Expr, schema: pa.Schema) -> pa.DataType:
    try:
        return sum_type(_type_over(value, schema))
    except UntranslatableError:
        return OPEN


def _totals(stage: OverAggregate, rows: pa.Schema) -> Iterator[tuple[str, pa.DataType]]:
    if isinstance(stage.frame_state, AccumulatorState):
        for one in stage.frame_state.running:
            is_sum = one.total is AccumulatorFunction.SUM
            yield one.name, (_summed if is_sum else _type_over)(one.value, rows)
    elif stage.time is None:
        yield BATCH_TIME, pa.timestamp("us", tz="UTC")


def _of_query(
    query: exp.Query,
    tables: Mapping[str, Columns],
    without: Sequence[str] | set[str],
    *,
    arrival: int | None = None,
) -> pa.Schema:
    """Return the columns of a stage's query: those of DuckDB's, which are Spark's, else what each one says."""
    try:
        statement = translate_query(
            query,
            {
                name: TableColumns(
                    sql=name,
                    columns=tuple(pa.field(*column) for column in columns),
                    order="c0",
                    arrival=None if arrival is None else f"c{arrival}",
                )
                for name, columns in tables.items()
            },
        )
    except UntranslatableError:
        columns = _columns_of(query, lambda node: tables.get(node.name)) or tuple(
            (name, OPEN) for name in query.named_selects
        )
    else:
        columns = tuple((name, OPEN if kind is None else kind) for name, kind in statement.columns)
    return _schema([(name, kind) for name, kind in columns if name not in without])


# --- queries ---

Find = Callable[[exp.Table], Columns | None]
"""Return the columns of a relation; None where they are not known."""


def _columns_of(query: exp.Expr | None, find: Find) -> Columns | None:
    """Return the columns of a query; None where not even their names are known."""
    match query:
        case exp.Subquery():
            return _columns_of(query.this, find)
        case exp.SetOperation():
            left, right = _columns_of(query.left, find), _columns_of(query.right, find)
            if left is None or right is None or len(left) != len(right):
                return None
            return tuple(
                (name, kind if kind == other else OPEN)
                for (name, kind), (_, other) in zip(left, right, strict=True)
            )
        case exp.Select():
            return _selected(query, find)
        case _:
            return None


def _selected(select: exp.Select, find: Find) -> Columns | None:
    scope = dict(_relations(select, find))
    columns: list[tuple[str, pa.DataType]] = []
    for item in select.expressions:
        if not _is_star(item):
            columns.append((item.alias_or_name, _value_type(item.unalias(), scope)))
            continue
        table = item.table if isinstance(item, exp.Column) else ""
        relations = [scope.get(table)] if table else list(scope.values())
        if any(of is None for of in relations):
            return None
        columns += [column for of in relations for column in of or ()]
    return tuple(columns)


def _is_star(item: exp.Expr) -> bool:
    return isinstance(item, exp.Star) or (
        isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
    )


def _relations(select: exp.Select, find: Find) -> Iterator[tuple[str, Columns | None]]:
    """Return the relations of FROM by their names; one of another kind, and what adds columns to it, is not known."""
    sources = [select.args["from_"].this] if select.args.get("from_") else []
    sources += [join.this for join in select.args.get("joins") or ()]
    sources += select.args.get("laterals") or ()
    for node in sources:
        alias = node.args.get("alias")
        plain = alias is None or not alias.args.get("columns")
        yield node.alias_or_name, _relation(node, find) if plain else None


def _relation(node: exp.Expr, find: Find) -> Columns | None:
    match node:
        case exp.Subquery():
            return _columns_of(node.this, find)
        case exp.Table() if node.args.get("laterals"):
            return None
        case exp.Table() if is_windowing(node):
            window = window_tables(node)[0]
            return _windowed(_relation(window.input, find), window.time_column)
        case exp.Table():
            return find(node)
        case _:
            return None


def _windowed(rows: Columns | None, time_column: str) -> Columns | None:
    """Return the columns of rows with their window, whose bounds are of the type of a time without a zone."""
    if rows is None:
        return None
    time = dict(rows).get(time_column)
    kind = time if time == pa.timestamp("us") else OPEN
    return (*rows, *((name, kind) for name in WINDOW_COLUMNS))


def _value_type(node: exp.Expr, scope: Mapping[str, Columns | None]) -> pa.DataType:
    """Return the type of a value: that which DuckDB gives it as Spark does, else the one that is certain."""

    def find(column: exp.Column) -> SqlValue:
        kind = _column_type(column, scope)
        if kind == OPEN:
            raise UntranslatableError(column.name)
        return SqlValue(column.name, kind)

    try:
        found = translate(node, find).type
    except UntranslatableError:
        return _declared(node)
    return OPEN if found is None else found


def _column_type(column: exp.Column, scope: Mapping[str, Columns | None]) -> pa.DataType:
    found = [
        kind
        for alias, columns in scope.items()
        if column.table in ("", alias)
        for name, kind in columns or ()
        if name == column.name
    ]
    return found[0] if len(found) == 1 else _declared(column)


def _declared(node: exp.Expr) -> pa.DataType:
    if isinstance(node, exp.Count):
        return pa.int64()
    return _arrow_type(known_type(node))
