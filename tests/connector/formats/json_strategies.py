"""Random tables and random records for the JSON format: mostly what fits, sometimes what is odd, sometimes broken."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from penstock.catalog.model import types as t
from penstock.connector.formats.contract import Fields

NAMES = ["a", "A", "b", "id", "näme", "with space", "x.y", "a/b~c", "€", "null"]

RAW_NUMBERS = [
    *("0", "-0", "1", "-1", "127", "128", "-129", "32768", "2147483648", "9223372036854775807"),
    *("9223372036854775808", "-9223372036854775809", "1.0", "1.5", "-0.0", "1e3", "1E-3", "1e39"),
    *("1e400", "12345678901234567890.123456789", "0.005", "2.675", "1e-50", "99999999.995"),
    *("16777217", "1.00000017881393432617187499", "9007199254740993"),
]
TEXTS = [
    *("", " ", "x", "true", "TRUE", " 12 ", "+5", "-7", "0x1F", "1_0", "12", "1.5", "1e2", "NaN"),
    *("Infinity", "1d", ".5", "5.", "é", "😀", "line\nbreak", "tab\t", 'quo"te', "back\\slash"),
    *("2024-02-29", "2024-02-30", "0000-00-00", "12:30:00", "24:00:00", "12:30:00.1234567"),
    *("2024-02-29 12:30:00", "2024-02-29T12:30:00", "2024-02-29 12:30:00.123456789"),
    *("2024-02-29 12:30:00Z", "2024-02-29T12:30:00.5Z", "2024-02-29T12:30:00+05:30"),
    *("2024-04-31 12:30:00", "2024-02-29 24:00:00", "2024-02-29 12:30"),
    *("aGk=", "aGk", "aGVsbG8h", "aGk=\n", "a===", "\u0000", "\u007f"),
]


def scalar_types() -> st.SearchStrategy[t.LogicalType]:
    """Every scalar type, NOT NULL now and then."""
    nullable = st.sampled_from([True, True, True, False])
    plain = [
        *(t.BooleanType, t.TinyIntType, t.SmallIntType, t.IntType, t.BigIntType, t.FloatType),
        *(t.DoubleType, t.DateType),
    ]
    return st.one_of(
        st.sampled_from(plain).flatmap(lambda kind: st.builds(kind, nullable=nullable)),
        st.builds(t.VarCharType, nullable=nullable, length=st.just(t.MAX_LENGTH)),
        st.builds(t.VarBinaryType, nullable=nullable, length=st.just(t.MAX_LENGTH)),
        st.builds(t.TimeType, nullable=nullable, precision=st.just(3)),
        st.builds(t.TimestampType, nullable=nullable, precision=st.sampled_from([3, 9])),
        st.builds(t.TimestampLtzType, nullable=nullable, precision=st.just(3)),
        st.sampled_from([(10, 2), (38, 0), (38, 18), (3, 3), (1, 0)]).flatmap(
            lambda size: st.builds(
                t.DecimalType, nullable=nullable, precision=st.just(size[0]), scale=st.just(size[1])
            )
        ),
    )


def any_type(depth: int = 2) -> st.SearchStrategy[t.LogicalType]:
    """Scalars and what can be made of them."""
    if depth == 0:
        return scalar_types()
    inner = any_type(depth - 1)
    text = t.VarCharType(length=t.MAX_LENGTH)
    return st.one_of(
        scalar_types(),
        scalar_types(),
        st.builds(t.ArrayType, element=inner),
        st.builds(t.MapType, key=st.just(text), value=inner),
        st.builds(t.MultisetType, element=st.just(text)),
        fields(depth - 1, 3).map(
            lambda some: t.RowType(
                fields=tuple(t.RowField(name=name, type=kind) for name, kind in some)
            )
        ),
    )


def fields(depth: int = 2, most: int = 5) -> st.SearchStrategy[Fields]:
    """Columns of different names."""
    column = st.tuples(st.sampled_from(NAMES), any_type(depth))
    return st.lists(column, min_size=1, max_size=most, unique_by=lambda item: item[0].lower())


class Raw(str):
    """A text that stands in the record as it is."""

    __slots__ = ()


def json_values(depth: int = 2) -> st.SearchStrategy[Any]:
    """Any JSON value, whatever the column."""
    scalars = st.one_of(
        st.sampled_from([None, True, False]),
        st.sampled_from(RAW_NUMBERS).map(Raw),
        st.sampled_from(TEXTS),
        st.text(max_size=5),
    )
    if depth == 0:
        return scalars
    inner = json_values(depth - 1)
    return st.one_of(
        scalars,
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    )


def fitting(
    logical: t.LogicalType,
) -> st.SearchStrategy[Any]:
    """Values as a well-behaved producer writes them."""
    match logical:
        case t.BooleanType():
            present: st.SearchStrategy[Any] = st.booleans()
        case t.TinyIntType():
            present = st.integers(-128, 127)
        case t.SmallIntType():
            present = st.integers(-(1 << 15), (1 << 15) - 1)
        case t.IntType():
            present = st.integers(-(1 << 31), (1 << 31) - 1)
        case t.BigIntType():
            present = st.integers(-(1 << 63), (1 << 63) - 1)
        case t.FloatType() | t.DoubleType():
            present = st.floats(allow_nan=False, allow_infinity=False, width=32)
        case t.DecimalType():
            # below 1 where the type has no digits before the point; digits behind it are rounded away
            most = Decimal("0.999") if logical.precision == logical.scale else Decimal(9)
            present = st.decimals(-most, most, allow_nan=False, places=3).map(
                lambda d: Raw(f"{d:f}")
            )
        case t.VarBinaryType():
            present = st.binary(max_size=7).map(lambda raw: base64.b64encode(raw).decode())
        case t.DateType():
            present = st.dates().map(str)
        case t.TimeType():
            present = st.times().map(lambda time: time.isoformat())
        case t.TimestampType():
            present = st.datetimes().map(lambda moment: moment.isoformat(sep=" "))
        case t.TimestampLtzType():
            present = st.datetimes().map(lambda moment: moment.isoformat(sep=" ") + "Z")
        case t.ArrayType():
            present = st.lists(fitting(logical.element), max_size=3)
        case t.MapType():
            present = st.dictionaries(st.sampled_from(NAMES), fitting(logical.value), max_size=3)
        case t.MultisetType():
            present = st.dictionaries(st.sampled_from(NAMES), st.integers(1, 9), max_size=3)
        case t.RowType():
            present = objects([(field.name, field.type) for field in logical.fields])
        case _:
            present = st.text(max_size=8)
    return st.one_of(present, present, present, st.none()) if logical.nullable else present


def objects(columns: Fields) -> st.SearchStrategy[dict[str, Any]]:
    """Records of a table, now and then with a field more."""
    required = {name: fitting(kind) for name, kind in columns if not kind.nullable}
    optional = {name: fitting(kind) for name, kind in columns if kind.nullable}
    return st.fixed_dictionaries(required, optional={**optional, "more": json_values(1)})


def odd_objects(columns: Fields) -> st.SearchStrategy[dict[str, Any]]:
    """Records of a table where any field may hold anything."""
    return st.fixed_dictionaries(
        {}, optional={name: st.one_of(fitting(kind), json_values()) for name, kind in columns}
    )


def written(value: Any) -> str:
    """Write a value as JSON; control characters stay as they are, as Flink allows."""
    match value:
        case Raw():
            return str(value)
        case dict():
            return "{" + ",".join(f"{written(k)}:{written(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ",".join(written(item) for item in value) + "]"
        case float():
            return repr(value)
    return json.dumps(value, ensure_ascii=False)


@st.composite
def broken(draw: st.DrawFn, columns: Fields) -> bytes | None:
    """Something that is hardly a record: cut, doubled, changed at some byte, or none at all."""
    whole = written(draw(objects(columns))).encode("utf-8", "replace")
    at = draw(st.integers(0, len(whole)))
    return draw(
        st.sampled_from(
            [
                *(None, b"", b" ", b"null", b"[]", b"{", b"}", b"{}", b"[{},null,{}]", b"{}null{}"),
                *(b"\x00", b'{"a":NaN}', b'{"a":-Infinity}', b'{"a":1,"a":2}', b'{"a":\xff}'),
                *(
                    b'{"a":"\xed\xa0\x80"}',
                    b'{"a":"\\ud800"}',
                    b"\xef\xbb\xbf{}",
                    b'{"a":"}',
                    b'{"}',
                ),
                whole[:at],
                whole + whole,
                whole + b"," + whole,
                b"[" + whole + b"," + whole + b"]",
                b" \r\n" + whole + b"\n",
                whole.decode().encode("utf-16"),
                whole[:at] + draw(st.binary(min_size=1, max_size=2)) + whole[at + 1 :],
            ]
        )
    )


def records(columns: Fields) -> st.SearchStrategy[bytes | None]:
    """Records of all sorts."""
    good = objects(columns).map(lambda value: written(value).encode("utf-8", "replace"))
    odd = odd_objects(columns).map(lambda value: written(value).encode("utf-8", "replace"))
    return st.one_of(good, good, good, odd, broken(columns))
