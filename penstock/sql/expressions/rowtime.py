"""How the watermark of a raw record is found at planning: the table's expression as DuckDB SQL."""

from __future__ import annotations

from functools import lru_cache

from sqlglot import exp

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model.table import ComputedColumn, Schema, Table
from penstock.catalog.model.types import (
    BigIntType,
    BooleanType,
    IntType,
    LogicalType,
    TimestampLtzType,
    TimestampType,
)
from penstock.connector.expression import Expression, FieldValue, FunctionCall
from penstock.connector.scan import Delayed, DelayedValue, Rowtime
from penstock.sql.expressions.expression import (
    columns_of,
    find_nondeterministic,
    parse_expression,
    substitute,
    timestamp_kind,
    to_duckdb,
)
from penstock.sql.expressions.fragments import compile_expression, field_of
from penstock.sql.expressions.value_types import hangs_on_zone
from penstock.sql.syntax.intervals import interval_value

_UNITS_US = {"0": 1_000_000, "3": 1000}
"""Microseconds of an epoch number, by the precision that TO_TIMESTAMP_LTZ is given."""


@lru_cache(maxsize=1024)  # a file reads a table in many statements
def rowtime_of(table: Table) -> Rowtime | None:
    """Build the rowtime of a table; None when it declares no watermark.

    Raises UnsupportedError, naming the function, when the expression cannot be evaluated before Spark runs.
    """
    watermark = table.schema.watermark
    if watermark is None:
        return None
    inlined = inline_computed(watermark.expression, table.schema)
    instant = _is_instant(table, watermark.column)
    bound = _bound(inlined)
    return Rowtime(
        column=watermark.column,
        inputs=_inputs(inlined, table.schema),
        expression=to_duckdb(inlined, table.schema),
        instant=instant,
        delayed=_delayed(inlined, table.schema, instant=instant),
        bound_us=None if bound is None else bound[1],
        of_clock=any(find_nondeterministic(parse_expression(inlined))),
    )


def _inputs(expression: str, schema: Schema) -> tuple[str, ...]:
    """Name the columns that an expression reads; one in any case, as without any there are no rows to count."""
    return tuple(sorted(columns_of(expression))) or tuple(c.name for c in schema.physical[:1])


def inline_computed(expression: str, schema: Schema) -> str:
    """Write the computed columns of an expression out, until only delivered columns are left."""
    computed = {c.name: c.expression for c in schema.columns if isinstance(c, ComputedColumn)}
    for _ in computed:
        used = {name: computed[name] for name in columns_of(expression) if name in computed}
        if not used:
            break
        expression = substitute(expression, used)
    return expression


def _delayed(expression: str, schema: Schema, *, instant: bool) -> Delayed | DelayedValue | None:
    """Recognise a time less a day-time interval, delivered, an epoch number or one that tasks compute; else None."""
    bound = _bound(expression)
    if bound is None:
        return None
    tree, delay_us = bound
    unit_us: int | None = None
    kinds: tuple[type[LogicalType], ...] = (TimestampLtzType if instant else TimestampType,)
    if isinstance(tree, exp.Anonymous) and tree.name.upper() == "TO_TIMESTAMP_LTZ":
        unit_us = _UNITS_US.get(tree.expressions[-1].name) if len(tree.expressions) > 1 else None
        if unit_us is None:
            return None
        tree, kinds = tree.expressions[0].unnest(), (IntType, BigIntType)
    if not isinstance(tree, exp.Column) or len(tree.parts) > 1:
        return None if unit_us is not None else _computed(tree, schema, kinds[0], delay_us)
    plain = isinstance(schema.column(tree.name).type, kinds)
    return Delayed(column=tree.name, delay_us=delay_us, unit_us=unit_us) if plain else None


def _computed(
    tree: exp.Expr, schema: Schema, kind: type[LogicalType], delay_us: int
) -> DelayedValue | None:
    """Recognise a time that reading tasks choose among delivered ones, in any time zone."""

    def value_of(column: exp.Column) -> Expression | None:
        first, *rest = column.parts
        found = next((c for c in schema.columns if c.name == first.name), None)
        if found is None or isinstance(found, ComputedColumn):
            return None
        return field_of(
            FieldValue(path=(found.name,), type=found.type), [part.name for part in rest]
        )

    time = compile_expression(tree, value_of)
    if time is None or not _is_chosen(time, kind) or hangs_on_zone(time):
        return None
    return DelayedValue(time=time, delay_us=delay_us)


def _is_chosen(value: Expression, kind: type[LogicalType]) -> bool:
    """Return whether a value is one of delivered times as it is, by conditions of any form."""
    if not isinstance(value.type, kind):
        return False
    if not isinstance(value, FunctionCall):
        return True
    return all(
        isinstance(argument.type, BooleanType) or _is_chosen(argument, kind)
        for argument in value.arguments
    )


def _bound(expression: str) -> tuple[exp.Expr, int] | None:
    """Part an expression into the time and the bound that is taken from it, in microseconds; None for months."""
    tree = parse_expression(expression).unnest()
    if isinstance(tree, exp.Sub) and isinstance(tree.expression, exp.Interval):
        delay = interval_value(tree.expression)
        return None if delay.year_month else (tree.this.unnest(), delay.micros)
    return tree, 0


def _is_instant(table: Table, name: str) -> bool:
    """Return whether the rowtime is a TIMESTAMP_LTZ, an instant, or a TIMESTAMP, a local time."""
    column = table.schema.column(name)
    match column.type:
        case TimestampLtzType():
            return True
        case TimestampType():
            return False
        case None if isinstance(column, ComputedColumn):
            kind = timestamp_kind(inline_computed(column.expression, table.schema), table.schema)
            if kind is not None:
                return kind is TimestampLtzType
    raise UnsupportedError(
        f"the type of the watermark column {name!r} of table {table.identifier} cannot be derived from its expression",
        hint="wrap the expression in CAST(... AS TIMESTAMP(3)) or CAST(... AS TIMESTAMP_LTZ(3))",
    )
