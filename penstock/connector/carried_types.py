"""Which types records carry. Every one of them has an Arrow type (`arrow.py`), which a check does without."""

from __future__ import annotations

from penstock.catalog import types as t
from penstock.catalog.errors import UnsupportedError

__all__ = ["check_carried"]


def check_carried(logical: t.LogicalType) -> None:
    """Refuse a type that no record carries, and one that is made of such: intervals. Raises UnsupportedError."""
    match logical:
        case t.ArrayType(element=element) | t.MultisetType(element=element):
            check_carried(element)
        case t.MapType(key=key, value=value):
            check_carried(key)
            check_carried(value)
        case t.RowType(fields=fields):
            for field in fields:
                check_carried(field.type)
        case t.IntervalYearMonthType() | t.IntervalDaySecondType():
            raise UnsupportedError(
                f"a column of type {logical} cannot be read from records",
                hint="keep it as a STRING or a BIGINT column and convert it in a computed column",
            )
