"""One JSON value as the Python value of a column, by the rules of Flink's JsonToRowDataConverters.

The slow way, for the records of a batch that the fast way refused. A converter raises ValueError when the value
does not fit; NULL is handled by the caller.
"""

# ruff: noqa: TRY004  a value that does not fit is a ValueError, whatever is wrong with it

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from functools import partial
from typing import Any

from penstock.catalog import types as t

__all__ = ["Convert", "converter"]

Convert = Callable[[Any], Any]
_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?)(Z|[+-]\d\d:?\d\d)?\Z"
)
_RANGES = {t.TinyIntType: 8, t.SmallIntType: 16, t.IntType: 32, t.BigIntType: 64}


def converter(  # noqa: C901, PLR0911, PLR0912  one case for each type
    logical: t.LogicalType, *, nulls_for_errors: bool = False
) -> Convert:
    """Make the converter of a type. `nulls_for_errors`: a wrong value inside a nested one becomes NULL."""
    match logical:
        case t.BooleanType():
            return _boolean
        case t.TinyIntType() | t.SmallIntType() | t.IntType() | t.BigIntType():
            return partial(_integer, _RANGES[type(logical)])
        case t.FloatType() | t.DoubleType():
            return _floating
        case t.DecimalType():
            return partial(_decimal, logical.precision, logical.scale)
        case t.CharType() | t.VarCharType():
            return _text
        case t.BinaryType() | t.VarBinaryType():
            return _binary
        case t.DateType():
            return _date
        case t.TimeType():
            return _time
        case t.TimestampType():
            return partial(_timestamp, False)
        case t.TimestampLtzType():
            return partial(_timestamp, True)
        case t.ArrayType():
            return partial(_array, _nullable(logical.element, nulls_for_errors))
        case t.MapType():
            value = _nullable(logical.value, nulls_for_errors)
            return partial(_map, converter(logical.key), value)
        case t.MultisetType():
            return partial(_map, converter(logical.element), partial(_integer, 32))
        case t.RowType():
            fields = {
                field.name: _nullable(field.type, nulls_for_errors) for field in logical.fields
            }
            return partial(_row, fields)
    raise AssertionError(f"no JSON value is a {logical}")


def _nullable(logical: t.LogicalType, nulls_for_errors: bool) -> Convert:
    convert = converter(logical, nulls_for_errors=nulls_for_errors)

    def converted(value: Any) -> Any:
        if value is None:
            if not logical.nullable:
                raise ValueError("NULL where the type is NOT NULL")
            return None
        try:
            return convert(value)
        except (ValueError, TypeError):
            if nulls_for_errors and logical.nullable:
                return None
            raise

    return converted


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    return _text(value).strip().lower() == "true"


def _integer(bits: int, value: Any) -> int:
    if isinstance(value, bool):
        raise ValueError("a boolean, not a whole number")
    number = int(value) if isinstance(value, int | float) else int(_text(value).strip())
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(f"out of the range of {bits} bits")
    return number


def _floating(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError("a boolean, not a number")
    return float(value) if isinstance(value, int | float) else float(_text(value).strip())


def _decimal(precision: int, scale: int, value: Any) -> Decimal | None:
    if isinstance(value, bool | list | dict):
        raise ValueError("not a number")
    try:
        with localcontext() as context:
            context.prec = 2 * 38 + 1
            number = Decimal(str(value).strip()).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
    except InvalidOperation as error:
        raise ValueError("not a decimal number") from error
    if not number.is_finite():
        raise ValueError("not a finite number")
    # Flink: a number with more digits than the type has becomes NULL
    return None if abs(number) >= Decimal(10) ** (precision - scale) else number


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return str(value)


def _binary(value: Any) -> bytes:
    if not isinstance(value, str):
        raise ValueError("not a base64 text")
    return base64.b64decode(value, validate=True)


def _date(value: Any) -> date:
    return date.fromisoformat(_text(value))


def _time(value: Any) -> time:
    text = _text(value)
    return time.fromisoformat(text.removesuffix("Z"))


def _timestamp(instant: bool, value: Any) -> datetime:
    found = _TIMESTAMP.match(_text(value))
    if found is None:
        raise ValueError("not a timestamp 'yyyy-MM-dd HH:mm:ss.SSS'" + ("Z" if instant else ""))
    day, clock, zone = found.groups()
    whole, _, fraction = clock.partition(".")
    moment = datetime.fromisoformat(f"{day} {whole}").replace(
        microsecond=int(f"{fraction:0<6}"[:6] or 0)
    )
    if not instant:
        if zone is not None:
            raise ValueError("a time zone, where a TIMESTAMP has none")
        return moment
    if zone is None:
        raise ValueError("no time zone: an instant ends in Z")
    if zone == "Z":
        return moment.replace(tzinfo=UTC)
    return datetime.fromisoformat(f"{day} {whole}{zone}").replace(microsecond=moment.microsecond)


def _array(element: Convert, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("not an array")
    return [element(item) for item in value]


def _map(key: Convert, item: Convert, value: Any) -> list[tuple[Any, Any]]:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return [(key(name), item(content)) for name, content in value.items()]


def _row(fields: Mapping[str, Convert], value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return {name: convert(value.get(name)) for name, convert in fields.items()}
