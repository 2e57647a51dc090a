"""Casts on Arrow arrays that are Flink's, and not Arrow's: numbers that stop at their limits, texts that are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

_LIMITS = {pa.int32(): 2**31, pa.int64(): 2**63}
_DIGITS_OF_WHOLE = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
_SPACE = r"[\x00-\x20\x7F]*"
_JAVA_SPACE = r"[ \t\n\x0B\f\r]*"
_PLAIN_NUMBER = r"\A-?[0-9]{1,18}\z"
_NUMBER = rf"\A(?:{_SPACE}[+-]?[0-9]+{_SPACE}|{_JAVA_SPACE}[+-]?[0-9]+\.[0-9]*{_JAVA_SPACE})\z"
_DIGITS = rf"\A{_SPACE}\+?(-?)0*([0-9]+?)(?:\.[0-9]*)?{_SPACE}\z"

_DAY = (
    r"(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))"
    r"|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)"
)
"""A day of the calendar."""
_MOMENT = rf"\A{_DAY}(?: (?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{{1,9}})?)?\z"
_SHORT_MOMENT = (
    r"\A[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
    r"(?: (?:[01]?[0-9]|2[0-3]):[0-5]?[0-9]:[0-5]?[0-9](?:\.[0-9]{1,9})?)?(?:\r\n|\n|\r)?\z"
)
"""A moment with one digit where two may be, and a line terminator behind it, of which Java's `$` is in front."""
_MILLIS = len("2026-01-01 10:00:00.123")


def _stopped(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """Return fractions as whole numbers: NaN is 0, what is beyond the limits is the limit."""
    (value,) = values
    wide = pa.int64() if kind == pa.int64() else pa.int32()
    limit = _LIMITS[wide]
    high = pc.greater_equal(value, float(limit))
    low = pc.less_equal(value, float(-limit))
    plain = pc.if_else(pc.or_(pc.or_(high, low), pc.is_nan(value)), 0.0, value)
    found = plain.cast(wide, safe=False)
    found = pc.if_else(high, pa.scalar(limit - 1, wide), found)
    return pc.if_else(low, pa.scalar(-limit, wide), found).cast(kind, safe=False)


def _to_decimal(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """Return whole numbers or DECIMALs as DECIMALs: rounded half away from zero, NULL where one does not fit."""
    (value,) = values
    if pa.types.is_integer(value.type):
        value = value.cast(pa.decimal128(_DIGITS_OF_WHOLE[value.type], 0))
    rounded = value.type.scale > kind.scale
    if rounded:
        # Arrow rounds a DECIMAL only where it has one more digit than is used
        value = pc.round(
            value.cast(pa.decimal128(38, value.type.scale)),
            kind.scale,
            round_mode="half_towards_infinity",
        )
    before = kind.precision - kind.scale
    if value.type.precision - value.type.scale > before:
        limit = pa.scalar(Decimal(10**before), value.type)
        value = pc.if_else(pc.less(pc.abs(value), limit), value, pa.scalar(None, value.type))
    return value.cast(kind, safe=not rounded)


def _fraction_of_decimal(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """Return the nearest fraction of a DECIMAL, which Arrow finds in its text, and not by its own cast."""
    return values[0].cast(pa.string()).cast(kind)


def _whole_of_decimal(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """Return DECIMALs of up to 18 digits before the point without a fraction, cut to the bits of the type."""
    return pc.trunc(values[0]).cast(pa.int64(), safe=False).cast(kind, safe=False)


def _boolean_text(values: list[pa.Array], _: pa.DataType) -> pa.Array:
    return pc.if_else(values[0], "TRUE", "FALSE")


def _try_number(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """Return the whole number that a text has, its fraction dropped; NULL where it has none of the type."""
    (text,) = values
    if pc.all(pc.match_substring_regex(text, _PLAIN_NUMBER), min_count=0).as_py():
        found = text.cast(pa.int64())
    else:
        known = pc.if_else(
            pc.match_substring_regex(text, _NUMBER), text, pa.scalar(None, text.type)
        )
        found = _of_digits(pc.replace_substring_regex(known, _DIGITS, r"\1\2"))
    if kind == pa.int64():
        return found
    limit = _LIMITS[kind]
    fits = pc.and_(pc.less(found, limit), pc.greater_equal(found, -limit))
    return pc.if_else(fits, found, pa.scalar(None, pa.int64())).cast(kind)


def _of_digits(text: pa.Array) -> pa.Array:
    """Return the number of a text of digits without zeros in front; NULL beyond 64 bits."""
    digits = pc.utf8_ltrim(text, "-")
    size = pc.utf8_length(digits)
    last = pc.if_else(pc.starts_with(text, "-"), str(2**63), str(2**63 - 1))
    fits = pc.or_(pc.less(size, 19), pc.and_(pc.equal(size, 19), pc.less_equal(digits, last)))
    return pc.if_else(fits, text, pa.scalar(None, text.type)).cast(pa.int64())


def _number(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """Return the number of each text. Raises ArrowInvalid where one has none."""
    return _all(_try_number(values, kind), values, f"whole number of the type {kind}")


def _all(found: pa.Array, values: list[pa.Array], what: str) -> pa.Array:
    """Return what was found in texts. Raises ArrowInvalid for the first text that has nothing."""
    (text,) = values
    if found.null_count > text.null_count:
        wrong = text.filter(pc.and_(pc.is_null(found), pc.is_valid(text)))[0].as_py()
        raise pa.ArrowInvalid(f"{wrong!r} is no {what}")
    return found


def _to_timestamp(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """Return the moment that a text has, in milliseconds; NULL where it has none."""
    (text,) = values
    exact = pc.match_substring_regex(text, _MOMENT)
    if pc.any(pc.invert(exact), min_count=0).as_py():
        short = pc.and_(pc.invert(exact), pc.match_substring_regex(text, _SHORT_MOMENT))
        text = pc.if_else(short, _filled(text), text)
        exact = pc.match_substring_regex(text, _MOMENT)
    known = pc.if_else(exact, text, pa.scalar(None, text.type))
    return pc.utf8_slice_codeunits(known, 0, _MILLIS).cast(kind)


def _filled(text: pa.Array) -> pa.Array:
    """Write two digits where a moment has one; twice, as a separator belongs to the number on either side."""
    text = pc.replace_substring_regex(text, r"[\r\n]+\z", "")
    for _ in range(2):
        text = pc.replace_substring_regex(text, r"-([0-9])(-| |\z)", r"-0\1\2")
        text = pc.replace_substring_regex(text, r"([ :])([0-9])(:|\.|\z)", r"\10\2\3")
    return text


# --- days ---


_DAY_AND_TIME = rf"(?s)\A{_DAY}(?:[ T].*)?\z"
_ODD_DAY = re.compile(
    r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL
)
_AROUND = "".join(map(chr, range(33))) + "\x7f"
"""Spaces and controls that Spark takes away around a day."""
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097
"""After so many years the calendar is the same, and so many days."""
_FIRST_DAY = date(1970, 1, 1).toordinal()


def _try_day(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """Return the day of each text, behind which a time may stand; NULL where it has none."""
    (text,) = values
    plain = pc.match_substring_regex(text, _DAY_AND_TIME)
    days = pc.utf8_slice_codeunits(pc.if_else(plain, text, pa.scalar(None, text.type)), 0, 10)
    found = days.cast(kind)
    if pc.all(plain, min_count=0).as_py():
        return found
    odd = pc.fill_null(pc.invert(plain), fill_value=False)
    others = [_odd_day(each) for each in text.filter(odd).to_pylist()]
    return pc.replace_with_mask(found, odd, pa.array(others, pa.int32()).cast(kind))


def _odd_day(text: str) -> int | None:
    """Return days since 1970 of a text with a longer year, or with one digit of a month or day, or none."""
    match = _ODD_DAY.fullmatch(text.strip(_AROUND))
    if match is None:
        return None
    year, month, day = (int(each or 1) for each in match.groups())
    cycles = (year - 2_000) // _CYCLE_YEARS
    try:
        known = date(year - cycles * _CYCLE_YEARS, month, day)
    except ValueError:
        return None
    days = known.toordinal() - _FIRST_DAY + cycles * _CYCLE_DAYS
    return days if -(2**31) <= days < 2**31 else None


def _day(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """Return the day of each text. Raises ArrowInvalid where one has none."""
    return _all(_try_day(values, kind), values, "day")


CAST_FUNCTIONS: Mapping[str, Callable[[list[pa.Array], pa.DataType], pa.Array]] = {
    "stopped": _stopped,
    "to_decimal": _to_decimal,
    "fraction_of_decimal": _fraction_of_decimal,
    "whole_of_decimal": _whole_of_decimal,
    "boolean_text": _boolean_text,
    "number_of_text": _number,
    "try_number_of_text": _try_number,
    "to_timestamp": _to_timestamp,
    "day_of_text": _day,
    "try_day_of_text": _try_day,
}
