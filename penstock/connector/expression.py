"""Expressions that reading tasks compute, rows that they make of arrays, groups and buckets of rows, as values that
travel with a scan: planning makes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.model.types import (
    MAX_LENGTH,
    BigIntType,
    BooleanType,
    IntType,
    LogicalType,
    VarBinaryType,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldValue:
    """A column that the source delivers, or a field of its rows: `path` are the names from the column inwards."""

    path: tuple[str, ...]
    type: LogicalType


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """A value; None is NULL. Of a DECIMAL it is a text, of a DATE the day, of a TIMESTAMP the microsecond of 1970."""

    value: bool | int | float | str | None
    type: LogicalType


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall:
    """A function of `fragments.py` by its name; `type` is that of its value."""

    function: str
    arguments: tuple[Expression, ...]
    type: LogicalType


Expression = FieldValue | Constant | FunctionCall


def fields_of(expression: Expression) -> Iterator[FieldValue]:
    """Iterate over the fields that an expression reads."""
    match expression:
        case FieldValue():
            yield expression
        case Constant():
            pass
        case FunctionCall(arguments=arguments):
            for argument in arguments:
                yield from fields_of(argument)
        case _:
            assert_never(expression)


def expression_to_json(expression: Expression) -> dict[str, Any]:
    """Write an expression as JSON values; `expression_from_json` is the inverse."""
    match expression:
        case FieldValue(path=path, type=kind):
            return {"field": list(path), "type": str(kind)}
        case Constant(value=value, type=kind):
            return {"constant": value, "type": str(kind)}
        case FunctionCall(function=function, arguments=arguments, type=kind):
            inner = [expression_to_json(argument) for argument in arguments]
            return {"call": function, "arguments": inner, "type": str(kind)}
        case _:
            assert_never(expression)


def expression_from_json(value: dict[str, Any]) -> Expression:
    """Read what `expression_to_json` wrote."""
    kind = parse_type(value["type"])
    if "field" in value:
        return FieldValue(path=tuple(value["field"]), type=kind)
    if "call" in value:
        inner = tuple(expression_from_json(argument) for argument in value["arguments"])
        return FunctionCall(function=value["call"], arguments=inner, type=kind)
    return Constant(value=value["constant"], type=kind)


# --- arrays and maps that become rows ---


@dataclass(frozen=True, slots=True, kw_only=True)
class UnnestedField:
    """An array or a map of which each element becomes a row, beside the columns of the row that it is in.

    An element is the column `name`; of a map there are two, `key_column` and `value_column`. `numbered`: the number of
    an element, from 1, is `number_column`. `outer`: a row without elements stays, with NULL in their place.
    """

    field: FieldValue
    name: str
    outer: bool = False
    numbered: bool = False

    @property
    def key_column(self) -> str:
        """The column of the keys of a map."""
        return f"{self.name}_key"

    @property
    def value_column(self) -> str:
        """The column of the values of a map."""
        return f"{self.name}_value"

    @property
    def number_column(self) -> str:
        """The column of the numbers of elements."""
        return f"{self.name}_number"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unnesting:
    """The rows that a task makes of each row: `fields` become rows one after the other, a later one of an earlier's.

    Those for which the `condition` is not TRUE are left out.
    """

    fields: tuple[UnnestedField, ...]
    condition: Expression | None = None


def unnesting_to_json(unnesting: Unnesting) -> dict[str, Any]:
    """Write what rows become as JSON values; `unnesting_from_json` is the inverse."""
    fields = [
        {
            "field": expression_to_json(unnested.field),
            "name": unnested.name,
            "outer": unnested.outer,
            "numbered": unnested.numbered,
        }
        for unnested in unnesting.fields
    ]
    return {"fields": fields, "condition": _optional_to_json(unnesting.condition)}


def unnesting_from_json(value: dict[str, Any]) -> Unnesting:
    """Read what `unnesting_to_json` wrote."""
    fields = []
    for unnested in value["fields"]:
        field = expression_from_json(unnested["field"])
        assert isinstance(field, FieldValue), "an array is a column or a field of one"
        fields.append(
            UnnestedField(
                field=field,
                name=unnested["name"],
                outer=unnested["outer"],
                numbered=unnested["numbered"],
            )
        )
    return Unnesting(fields=tuple(fields), condition=_optional_from_json(value["condition"]))


# --- groups of rows: the first phase of an aggregation by windows ---

ROWS = "__rows"
"""Name of the hidden column with the number of rows that a partial result stands for."""
COUNTED = "__counted"
"""Name of the hidden column that tells groups of rows from those whose condition does not hold."""


class PartialFunction(StrEnum):
    """What a task computes of the values of a group. NULL is left out; without any value it is NULL, of COUNT 0."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedExpression:
    """A column that a task computes."""

    name: str
    value: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialResult:
    """A partial result, as the column `name`.

    `argument` is None where rows are counted. Rows for which the `condition` is not TRUE do not count.
    """

    name: str
    function: PartialFunction
    argument: Expression | None
    condition: Expression | None
    type: LogicalType


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialAggregate:
    """The first phase of an aggregation.

    Rows are grouped by `keys` and, of an aggregation by windows, by the start of their pane. A pane has `pane_ms`,
    counted from `offset_ms`: all rows of one have the same windows. `time` is the rowtime, and becomes the pane's
    start; None: there are no windows. Rows for which the `condition` is not TRUE are no part of a result; they have a
    group of each pane, without keys, as late ones of them are counted.
    With an `unnesting` results are of the rows of arrays, and late rows are those that have the arrays.
    """

    keys: tuple[NamedExpression, ...]
    results: tuple[PartialResult, ...]
    time: NamedExpression | None = None
    pane_ms: int = 0
    offset_ms: int = 0
    condition: Expression | None = None
    unnesting: Unnesting | None = None

    @property
    def counts_others(self) -> bool:
        """Whether there are groups of rows that are no part of a result, which COUNTED tells."""
        return self.condition is not None or self.unnesting is not None

    def inputs(self) -> Iterator[Expression]:
        """Iterate over what is read of the rows, their arrays too."""
        yield from self.expressions()
        if self.unnesting is not None:
            yield from (unnested.field for unnested in self.unnesting.fields)

    @property
    def grouped_by(self) -> tuple[NamedExpression, ...]:
        """The columns that groups differ by."""
        return self.keys if self.time is None else (self.time, *self.keys)

    def expressions(self) -> Iterator[Expression]:
        """Iterate over what is computed of the rows, or of the rows of their arrays."""
        yield from (column.value for column in self.grouped_by)
        for result in self.results:
            yield from (e for e in (result.argument, result.condition) if e is not None)
        if self.condition is not None:
            yield self.condition

    def typed_columns(self) -> Iterator[tuple[str, LogicalType]]:
        """Iterate over names and types of the columns that Spark gets."""
        for column in self.grouped_by:
            yield column.name, column.value.type
        for result in self.results:
            yield result.name, result.type
        yield ROWS, BigIntType()
        if self.counts_others:
            yield COUNTED, BooleanType()


def aggregate_to_json(aggregate: PartialAggregate) -> dict[str, Any]:
    """Write a first phase as JSON values; `aggregate_from_json` is the inverse."""
    return {
        "time": None if aggregate.time is None else _named_to_json(aggregate.time),
        "pane_ms": aggregate.pane_ms,
        "offset_ms": aggregate.offset_ms,
        "keys": [_named_to_json(key) for key in aggregate.keys],
        "results": [
            {
                "name": result.name,
                "function": result.function.value,
                "argument": _optional_to_json(result.argument),
                "condition": _optional_to_json(result.condition),
                "type": str(result.type),
            }
            for result in aggregate.results
        ],
        "condition": _optional_to_json(aggregate.condition),
        "unnesting": None
        if aggregate.unnesting is None
        else unnesting_to_json(aggregate.unnesting),
    }


def aggregate_from_json(value: dict[str, Any]) -> PartialAggregate:
    """Read what `aggregate_to_json` wrote."""
    return PartialAggregate(
        time=None if value["time"] is None else _named_from_json(value["time"]),
        pane_ms=value["pane_ms"],
        offset_ms=value["offset_ms"],
        keys=tuple(map(_named_from_json, value["keys"])),
        results=tuple(
            PartialResult(
                name=result["name"],
                function=PartialFunction(result["function"]),
                argument=_optional_from_json(result["argument"]),
                condition=_optional_from_json(result["condition"]),
                type=parse_type(result["type"]),
            )
            for result in value["results"]
        ),
        condition=_optional_from_json(value["condition"]),
        unnesting=None if value["unnesting"] is None else unnesting_from_json(value["unnesting"]),
    )


# --- buckets of rows: what keyed operators get ---

BUCKET = "__bucket"
"""Name of the column with the number of a bucket."""
INPUT = "__input"
"""Name of the column with the number of an input."""
FIRST = "__first"
"""Name of the column with the place of the first of these rows among those of its input in a task."""
ENCODED = "__rows"
"""Name of the column with rows of an input in a bucket, as a stream of Arrow IPC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketedInput:
    """Rows of a table in the columns of an input, those for which the `condition` is TRUE.

    `key` are the places of the columns by which they go to buckets; without any all rows are in the first one.
    With `groups` they are grouped, and the columns are over those of the groups.
    """

    columns: tuple[NamedExpression, ...]
    key: tuple[int, ...]
    condition: Expression | None = None
    groups: PartialAggregate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketedRows:
    """Rows of a table for keyed operators: a row may be one of several inputs."""

    buckets: int
    inputs: tuple[BucketedInput, ...]

    def typed_columns(self) -> Iterator[tuple[str, LogicalType]]:
        """Iterate over names and types of the columns that Spark gets."""
        yield BUCKET, IntType()
        yield INPUT, IntType()
        yield FIRST, BigIntType()
        yield ENCODED, VarBinaryType(length=MAX_LENGTH)


def bucketed_to_json(rows: BucketedRows) -> dict[str, Any]:
    """Write buckets as JSON values; `bucketed_from_json` is the inverse."""
    inputs = [
        {
            "columns": [_named_to_json(column) for column in one.columns],
            "key": list(one.key),
            "condition": _optional_to_json(one.condition),
            "groups": None if one.groups is None else aggregate_to_json(one.groups),
        }
        for one in rows.inputs
    ]
    return {"buckets": rows.buckets, "inputs": inputs}


def bucketed_from_json(value: dict[str, Any]) -> BucketedRows:
    """Read what `bucketed_to_json` wrote."""
    inputs = (
        BucketedInput(
            columns=tuple(map(_named_from_json, one["columns"])),
            key=tuple(one["key"]),
            condition=_optional_from_json(one["condition"]),
            groups=None if one["groups"] is None else aggregate_from_json(one["groups"]),
        )
        for one in value["inputs"]
    )
    return BucketedRows(buckets=value["buckets"], inputs=tuple(inputs))


def _named_to_json(column: NamedExpression) -> dict[str, Any]:
    return {"name": column.name, "value": expression_to_json(column.value)}


def _named_from_json(value: dict[str, Any]) -> NamedExpression:
    return NamedExpression(name=value["name"], value=expression_from_json(value["value"]))


def _optional_to_json(expression: Expression | None) -> dict[str, Any] | None:
    return None if expression is None else expression_to_json(expression)


def _optional_from_json(value: dict[str, Any] | None) -> Expression | None:
    return None if value is None else expression_from_json(value)
