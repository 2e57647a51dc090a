"""Expressions that reading tasks compute, as values that travel with a scan: planning makes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, assert_never

from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.model.types import LogicalType


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
