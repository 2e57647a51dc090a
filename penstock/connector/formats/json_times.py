"""Dates and times of single JSON values, by the rules of java.time that Flink's TimeFormats rest on.

The columns of a whole batch are read by `json_columns`; what that does not take comes here one by one.
"""

from __future__ import annotations

import re

from penstock.connector.formats.json_options import TimestampStandard

__all__ = ["date_days", "time_ms", "timestamp_us"]

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
    """Give microseconds of the day, and 1 for the 24:00 that ends a day, else 0."""
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
