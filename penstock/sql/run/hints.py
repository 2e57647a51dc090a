"""The SQL type that a plain Python function gives, by the type hint of its result."""

from __future__ import annotations

import datetime as dt
import decimal
import types
import typing
from collections.abc import Callable
from typing import Any

from penstock.catalog.errors import DefinitionError

__all__ = ["result_type"]

SCALARS: dict[Any, str] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "STRING",
    bytes: "BINARY",
    bytearray: "BINARY",
    decimal.Decimal: "DECIMAL(38, 18)",
    dt.date: "DATE",
    dt.datetime: "TIMESTAMP_NTZ",
    dt.timedelta: "INTERVAL DAY TO SECOND",
}
COLUMNS = ("pandas", "pyarrow")


def result_type(function: Callable[..., Any], *, owner: str) -> str:
    """Spark's type of what `function` gives. Raises DefinitionError where the hint is missing or says no SQL type."""
    try:
        hint = typing.get_type_hints(function).get("return")
    except (NameError, TypeError) as error:
        raise DefinitionError(f"{owner}: its type hints cannot be read: {error}") from error
    if hint is None:
        raise DefinitionError(
            f"{owner}: it does not say what it gives",
            hint="add a type hint, def f(x: int) -> str; or decorate it with pyspark's @udf, @arrow_udf or @pandas_udf",
        )
    found = _spark_type(hint)
    if found is not None:
        return found
    whole_columns = getattr(hint, "__module__", "").split(".")[0] in COLUMNS
    decorator = "@arrow_udf('type') or @pandas_udf('type')" if whole_columns else "@udf('type')"
    raise DefinitionError(
        f"{owner}: its result {_shown(hint)} names no SQL type",
        hint=f"decorate it with pyspark's {decorator}, which says the type of a value",
    )


def _spark_type(hint: Any) -> str | None:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        rest = [each for each in arguments if each is not type(None)]
        return _spark_type(rest[0]) if len(rest) == 1 else None
    inner = [_spark_type(each) for each in arguments]
    if origin is list and len(inner) == 1 and inner[0] is not None:
        return f"ARRAY<{inner[0]}>"
    if origin is dict and len(inner) == 2 and None not in inner:
        return f"MAP<{inner[0]}, {inner[1]}>"
    return SCALARS.get(hint)


def _shown(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)
