"""Convert single JSON values to scalar types, dates and times by the rules of Flink's
JsonParserToRowDataConverters.

Dates and times follow java.time, on which Flink's TimeFormats rest.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Any

from penstock.catalog.errors import UnsupportedError
from penstock.catalog.model import types as t
from penstock.connector.formats.json.options import TimestampStandard
from penstock.connector.formats.json.text import Float, Integer, NotJson, TypeMismatch, tree_text

# DateTimeFormatter reads ASCII digits only. Years of more than four digits carry a sign (SignStyle.EXCEEDS_PAD).
_DATE = r"([0-9]{4}|-[0-9]{4,10}|\+[0-9]{5,10})-([0-9]{2})-([0-9]{2})"

_TIME = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{0,9}))?"

_TIME_ANY = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{0,9}))?)?"

_OFFSET = r"([Zz]|[+-][0-9]{2}:[0-9]{2}(?::[0-9]{2})?)"

_DATE_ONLY = re.compile(_DATE)

_TIME_ONLY = re.compile(_TIME)

_DAY_S = 86_400

_SHORT_MONTHS = (4, 6, 9, 11)


def date_days(text: str) -> int:
    """Read 'yyyy-MM-dd' as days since 1970 (ISO_LOCAL_DATE, strict). Raises ValueError."""
    found = _DATE_ONLY.fullmatch(text)
    if found is None:
        raise ValueError("not of the form yyyy-MM-dd")
    return _days(found.group(1), found.group(2), found.group(3), strict=True)


def time_ms(text: str) -> int:
    """Read 'HH:mm:ss.s' as milliseconds of the day, the rest cut off (SQL_TIME_FORMAT). Raises ValueError."""
    found = _TIME_ONLY.fullmatch(text)
    if found is None:
        raise ValueError("not of the form HH:mm:ss.s")
    us, _ = _time_us(*found.groups(), strict=False)
    return us // 1000


def timestamp_us(text: str, standard: TimestampStandard, *, instant: bool) -> int:
    """Read a timestamp as microseconds since 1970, of the local time or of the instant. Raises ValueError.

    Digits past the microsecond are cut off.
    """
    found = _pattern(standard, instant=instant).fullmatch(text)
    if found is None:
        raise ValueError(f"not of the form {_form(standard, instant=instant)}")
    year, month, day, hour, minute, second, fraction = found.groups()[:7]
    strict = standard.resolves_strictly and not instant
    days = _days(year, month, day, strict=strict)
    us, overflow_days = _time_us(hour, minute, second, fraction, strict=strict)
    us += (days + overflow_days) * _DAY_S * 1_000_000
    if standard.offset:
        us -= _offset_s(found.group(8)) * 1_000_000
    if not -(1 << 63) <= us < 1 << 63:
        raise ValueError("out of the range of a timestamp in microseconds")
    return us


def _pattern(standard: TimestampStandard, *, instant: bool) -> re.Pattern[str]:
    # ISO_LOCAL_DATE_TIME alone is case-insensitive
    lenient_case = standard.separator == "T" and not standard.offset and not instant
    separator = "[Tt]" if lenient_case else standard.separator
    ending = _OFFSET if standard.offset else "Z" if instant else ""
    return re.compile(
        _DATE + separator + (_TIME if standard.seconds_required else _TIME_ANY) + ending
    )


def _form(standard: TimestampStandard, *, instant: bool) -> str:
    ending = "+hh:mm" if standard.offset else "Z" if instant else ""
    return f"yyyy-MM-dd{standard.separator}HH:mm:ss.s{ending}"


def _time_us(
    hour: str, minute: str, second: str | None, fraction: str | None, *, strict: bool
) -> tuple[int, int]:
    """Return microseconds of the day, and 1 for the 24:00 that ends a day, else 0."""
    hours, minutes, seconds = int(hour), int(minute), int(second or 0)
    us = int((fraction or "").ljust(6, "0")[:6])
    if hours == 24 and not strict and not (minutes or seconds or (fraction or "").strip("0")):
        return 0, 1
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError("not a time of day")
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + us, 0


def _offset_s(text: str) -> int:
    if text in ("Z", "z"):
        return 0
    hours, minutes, *rest = (int(part) for part in text[1:].split(":"))
    seconds = (hours * 60 + minutes) * 60 + (rest[0] if rest else 0)
    if minutes > 59 or (rest and rest[0] > 59) or seconds > 18 * 3600:
        raise ValueError("not an offset of at most 18 hours")
    return -seconds if text[0] == "-" else seconds


def _days(year: str, month: str, day: str, *, strict: bool) -> int:
    """Count the days since 1970 in the proleptic calendar; a day past the month's end is its last, or refused."""
    y, m, d = int(year), int(month), int(day)
    if (y == 0 and year[0] == "-") or abs(y) > 999_999_999 or not (1 <= m <= 12 and 1 <= d <= 31):
        raise ValueError("not a date")
    leap = y % 4 == 0 and (y % 100 != 0 or y % 400 == 0)
    last = 30 if m in _SHORT_MONTHS else (29 if leap else 28) if m == 2 else 31
    if d > last and strict:
        raise ValueError("not a date")
    # days from civil: years begin in March, so that the leap day is the last
    y -= m <= 2
    era, year_of_era = divmod(y, 400)
    day_of_year = (153 * ((m + 9) % 12) + 2) // 5 + min(d, last) - 1
    day_of_era = year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year
    return era * 146_097 + day_of_era - 719_468


_INTEGER_BITS = {t.TinyIntType: 8, t.SmallIntType: 16, t.IntType: 32, t.BigIntType: 64}

MAX_DIGITS = 20
"""More than any BIGINT has."""

MAX_EXPONENT = (1 << 31) - 1
"""Of a BigDecimal."""

_TRIMMED = "".join(map(chr, range(0x21)))
"""What Java's String.trim takes off."""

_INTEGER = re.compile(r"[+-]?\d+")

_FLOATING = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<word>NaN|Infinity)"
    r"|(?P<decimal>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]?"
    r"|(?P<hex>0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[fFdD]?)"
)

_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?0*(\d{1,10}))?")

_BASE64 = re.compile(
    r"(?:[\x00-\x20]*[A-Za-z0-9+/]{2}(?:[A-Za-z0-9+/]{2}|[A-Za-z0-9+/]=|==))*[\x00-\x20]*"
)

_NANOSECONDS = 1_000_000  # in a millisecond


def scalar_converter(
    logical: t.LogicalType, standard: TimestampStandard, *, decimals: bool
) -> Callable[[Any], Any]:
    """Make the converter of a scalar type. `decimals`: see `tree_text`. Raises UnsupportedError."""
    match logical:
        case t.BooleanType():
            return _boolean
        case t.TinyIntType() | t.SmallIntType() | t.IntType() | t.BigIntType():
            return partial(_integer, logical, 1 << (_INTEGER_BITS[type(logical)] - 1))
        case t.FloatType():
            return lambda node: _float32(_floating_text(logical, node))
        case t.DoubleType():
            return lambda node: _float64(_floating_text(logical, node))
        case t.DecimalType():
            return partial(_decimal, logical)
        case t.CharType() | t.VarCharType():
            return partial(_string, decimals=decimals)
        case t.BinaryType() | t.VarBinaryType():
            return _binary
        case t.DateType():
            return partial(_temporal, logical, date_days)
        case t.TimeType():
            return partial(_temporal, logical, lambda text: time_ms(text) * _NANOSECONDS)
        case t.TimestampType():
            read = partial(timestamp_us, standard=standard, instant=False)
            return partial(_temporal, logical, read)
        case t.TimestampLtzType():
            read = partial(timestamp_us, standard=standard, instant=True)
            return partial(_temporal, logical, read)
    raise UnsupportedError(f"the format 'json' cannot read a column of type {logical}")


def _text(logical: t.LogicalType, node: Any) -> str:
    """Return the text of a scalar as JsonParser.getText does."""
    if isinstance(node, bool):
        return "true" if node else "false"
    if isinstance(node, str) and type(node) is not NotJson:
        return node
    raise TypeMismatch(f"not {_article(logical)}", node)


def _article(logical: t.LogicalType) -> str:
    name = str(logical).removesuffix(" NOT NULL")
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


def _boolean(node: Any) -> bool:
    """Read a BOOLEAN: whatever is not true is false, as with Boolean.parseBoolean."""
    if isinstance(node, bool):
        return node
    if isinstance(node, NotJson):
        raise TypeMismatch("not a BOOLEAN", node)
    return isinstance(node, str) and node.strip(_TRIMMED).lower() == "true"


def _integer(logical: t.LogicalType, bound: int, node: Any) -> int:
    """Read a whole number from -bound to below bound."""
    if (
        type(node) is Integer
        and len(node) <= MAX_DIGITS
        and -bound <= (number := int(node)) < bound
    ):
        return number
    if isinstance(node, Float) and isinstance(logical, t.IntType | t.BigIntType):
        double = float(node)  # JsonParser.getLongValue: by way of double, fraction cut off
        if not -bound <= double <= (bound if isinstance(logical, t.BigIntType) else bound - 1):
            raise TypeMismatch(f"out of the range of {_article(logical)}", node)
        return min(int(double), bound - 1)
    text = node if isinstance(node, Integer) else _text(logical, node).strip(_TRIMMED)
    if not _INTEGER.fullmatch(text):
        raise TypeMismatch(f"not {_article(logical)}", node)
    if len(text.lstrip("+-0")) > MAX_DIGITS or not -bound <= int(text) < bound:
        raise TypeMismatch(f"out of the range of {_article(logical)}", node)
    return int(text)


def _floating_text(logical: t.LogicalType, node: Any) -> str:
    """Return the text of a number that Double.parseDouble takes, in a form that Python's float takes."""
    if isinstance(node, Integer | Float):
        return node
    found = _FLOATING.fullmatch(_text(logical, node).strip(_TRIMMED))
    if found is None:
        raise TypeMismatch(f"not {_article(logical)}", node)
    if found["hex"]:
        return found["sign"] + _from_hex(found["hex"])
    return found["sign"] + (found["word"] or found["decimal"])


def _from_hex(text: str) -> str:
    try:
        return repr(float.fromhex(text))
    except OverflowError:
        return "Infinity"


def _float64(text: str) -> float:
    return float(text)


def _float32(text: str) -> float:
    """Round a number's text to the nearest 32-bit value, not by way of the nearest 64-bit one."""
    double = float(text)
    try:
        (single,) = struct.unpack("f", struct.pack("f", double))
    except OverflowError:
        return float("inf") if double > 0 else float("-inf")
    assert isinstance(single, float), "unpack gives a float"
    if single == double or double != double or double in (float("inf"), float("-inf")):  # noqa: PLR0124  NaN
        return single
    # the text may lie on the other side of the middle between two 32-bit values than its double
    bits = struct.unpack("i", struct.pack("f", single))[0]
    towards = bits + (1 if (double > single) == (single > 0 or bits == 0) else -1)
    (other,) = struct.unpack("f", struct.pack("i", towards))
    middle = (Decimal(single) + Decimal(other)) / 2
    if Decimal(double) != middle or Decimal(text) == middle:
        return single
    nearer_other = (Decimal(text) > middle) == (other > single)
    return float(other) if nearer_other else single


def _decimal(logical: t.DecimalType, node: Any) -> Decimal | None:
    """Read a DECIMAL, rounded half up; NULL where it has too many digits (DecimalData.fromBigDecimal)."""
    if isinstance(node, bool):
        raise TypeMismatch(f"not {_article(logical)}", node)
    text = _text(logical, node).strip(_TRIMMED)
    found = _DECIMAL.fullmatch(text)
    if found is None or int(found.group(1) or 0) > MAX_EXPONENT:
        raise TypeMismatch(f"not {_article(logical)}", node)
    number = Decimal(text)
    if not number:
        return Decimal(0)
    if number.adjusted() >= logical.precision - logical.scale:
        return None
    if number.adjusted() < -logical.scale - 1:
        return Decimal(0)
    exact = Context(prec=len(text) + 80)
    rounded = number.quantize(Decimal(1).scaleb(-logical.scale), ROUND_HALF_UP, context=exact)
    return rounded if len(rounded.as_tuple().digits) <= logical.precision or not rounded else None


def _string(node: Any, *, decimals: bool) -> str:
    """Read a STRING: numbers as written, objects and arrays as JSON text, lone surrogates as '?'."""
    if isinstance(node, bool):
        return "true" if node else "false"
    if isinstance(node, NotJson):
        raise TypeMismatch("not a STRING", node)
    text = node if isinstance(node, str) else tree_text(node, decimals=decimals)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _binary(node: Any) -> bytes:
    """Read BYTES from base64 with padding, groups of four apart (Jackson's MIME_NO_LINEFEEDS)."""
    if (
        not isinstance(node, str)
        or isinstance(node, Integer | Float)
        or not _BASE64.fullmatch(node)
    ):
        raise TypeMismatch("not base64", node)
    packed = re.sub(r"[\x00-\x20]+", "", node)
    if "=" not in packed[:-2]:
        return base64.b64decode(packed)
    return b"".join(base64.b64decode(packed[i : i + 4]) for i in range(0, len(packed), 4))


def _temporal(logical: t.LogicalType, read: Callable[[str], int], node: Any) -> int:
    try:
        return read(_text(logical, node))
    except ValueError as error:
        raise TypeMismatch(f"not {_article(logical)}, {error}", node) from None
