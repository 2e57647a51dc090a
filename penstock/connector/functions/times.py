"""Functions of dates and times on Arrow arrays. A TIMESTAMP has no time zone; that of an instant is UTC here.

Planning leaves what hangs on the session's time zone to Spark where that is another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

_LOCAL = pa.timestamp("us")
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_CYCLE_YEARS = 400
_CYCLE = 146_097 * _DAY
"""After so many years the calendar is the same, and so many microseconds."""
_LAST_YEAR = 9_999
"""Later years have more than four digits, and a sign."""
_FIRST_MICROS, _LAST_MICROS = -62_135_596_800 * _SECOND, 253_402_300_800 * _SECOND - 1

_LAYOUT = "yyyy-MM-dd HH:mm:ss.SSSSSS"
"""Letters of a pattern where Arrow writes their digits."""


def _part(function: Callable[[pa.Array], pa.Array]) -> Callable[..., pa.Array]:
    return lambda values, kind: function(values[0]).cast(kind)


def _within_second(array: pa.Array) -> pa.Array:
    """Return microseconds of the second."""
    return pc.add(pc.multiply(pc.millisecond(array), 1_000), pc.microsecond(array))


def _epoch(values: list[pa.Array], _: pa.DataType) -> pa.Array:
    """Return seconds since 1970, those before it rounded up."""
    return pc.divide(values[0].cast(_LOCAL).cast(pa.int64()), _SECOND)


def _moved(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    moment, micros = values
    return pc.add_checked(moment, pa.scalar(micros.as_py(), pa.duration("us"))).cast(kind)


def _difference(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """Return whole units between two moments, rounded towards zero. Raises ArrowInvalid where they are too many."""
    later, earlier, unit = values
    since = pc.subtract(later.cast(_LOCAL), earlier.cast(_LOCAL)).cast(pa.int64())
    return pc.divide(since, unit.as_py()).cast(kind)


def _cut(function: Callable[..., pa.Array], **options: bool) -> Callable[..., pa.Array]:
    """Return FLOOR or CEIL to a unit; weeks begin on Sunday."""

    def cut(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
        moment, unit = values
        found = function(moment, unit=unit.as_py(), week_starts_monday=False, **options)
        return found.cast(kind)

    return cut


def _instant(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """Return the instant of a number of units since 1970; NULL outside of the years 0 to 9999."""
    number, micros, low, high = values
    there = pc.and_(
        pc.greater_equal(number, pa.scalar(low.as_py(), number.type)),
        pc.less_equal(number, pa.scalar(high.as_py(), number.type)),
    )
    known = pc.if_else(there, number, pa.scalar(None, number.type))
    return pc.multiply(known, pa.scalar(micros.as_py(), number.type)).cast(kind)


# --- texts of times ---


def _texts(moments: pa.Array) -> tuple[pa.Array, pa.Array | None]:
    """Return moments as texts of one width, and their years where some do not have four digits.

    The years of these texts are then others, of which the calendar is the same.
    """
    bounds = pc.min_max(moments.cast(pa.int64())).as_py()
    if bounds["min"] is None or _FIRST_MICROS <= bounds["min"] <= bounds["max"] <= _LAST_MICROS:
        return moments.cast(pa.string()), None
    years = pc.year(moments)
    cycles = pc.floor(pc.divide(pc.subtract(years, 2_000).cast(pa.float64()), float(_CYCLE_YEARS)))
    shift = pc.multiply(cycles.cast(pa.int64()), _CYCLE)
    known = pc.subtract(moments.cast(pa.int64()), shift)
    return known.cast(_LOCAL).cast(pa.string()), years


def _written(years: pa.Array) -> pa.Array:
    texts = [None if year is None else _year(year) for year in years.to_pylist()]
    return pa.array(texts, pa.string())


def _year(year: int) -> str:
    if year > _LAST_YEAR:
        return f"+{year}"
    return f"{year:04d}" if year >= 0 else f"-{-year:04d}"


def _runs(pattern: str) -> list[tuple[int, int] | str]:
    """Return the pieces of a pattern: from where to where they are in the layout, or a text as it is."""
    pieces: list[tuple[int, int] | str] = []
    rest = pattern
    while rest:
        letter = rest[0]
        if letter.isalpha():
            count = len(rest) - len(rest.lstrip(letter))
            start = _LAYOUT.index(letter)
            pieces.append((start, start + count))
        else:
            count, plain = (1, letter) if letter != "'" else _quoted(rest)
            pieces.append(plain)
        rest = rest[count:]
    return pieces


def _quoted(text: str) -> tuple[int, str]:
    end = text.index("'", 1)
    return end + 1, text[1:end] or "'"


def _joined(pieces: Sequence[tuple[int, int] | str]) -> list[tuple[int, int] | str]:
    """Put pieces together that stand in the layout behind each other, with what is between them."""
    joined: list[tuple[int, int] | str] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        before = joined[-2] if len(joined) > 1 else None
        match last, piece, before:
            case (int(), int()), (int(start), int(stop)), _ if last[1] == start:
                joined[-1] = (last[0], stop)
            case str(), (int(start), int(stop)), (int(first), int(middle)) if (
                _LAYOUT[middle:start] == last
            ):
                joined[-2:] = [(first, stop)]
            case _:
                joined.append(piece)
    return joined


def _date_format(values: list[pa.Array], _: pa.DataType) -> pa.Array:
    """Write moments in a pattern of the letters in `_LAYOUT`: where it has no fractions, those of a second once."""
    moment, pattern = values[0].cast(_LOCAL), values[1].as_py()
    if "S" in pattern or not isinstance(moment, pa.Array):
        return _formatted(moment, pattern)
    bounds = pc.min_max(moment.cast(pa.int64())).as_py()
    if bounds["min"] is None or not _FIRST_MICROS <= bounds["min"] <= bounds["max"] <= _LAST_MICROS:
        return _formatted(moment, pattern)
    unit = "second" if "s" in pattern else "minute"
    known = pc.floor_temporal(moment, unit=unit).dictionary_encode()
    return _formatted(known.dictionary, pattern).take(known.indices)


def _formatted(moment: pa.Array, pattern: str) -> pa.Array:
    texts, years = _texts(moment)
    pieces = _runs(pattern)
    if years is None:
        return _assembled([_taken(texts, piece) for piece in _joined(pieces)])
    written = _written(years)
    return _assembled(
        [written if piece == (0, 4) else _taken(texts, piece) for piece in pieces]
        + [pc.utf8_slice_codeunits(texts, 0, 0)]  # NULL where the moment is
    )


def _taken(texts: pa.Array, piece: tuple[int, int] | str) -> pa.Array:
    if isinstance(piece, str):
        return pa.scalar(piece, pa.string())
    start, stop = piece
    return pc.utf8_slice_codeunits(texts, start, stop)


def _assembled(parts: list[pa.Array]) -> pa.Array:
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*parts, "", null_handling="emit_null")


def _text(values: list[pa.Array], _: pa.DataType) -> pa.Array:
    """Write moments as CAST does, with so many characters."""
    moment, width = values
    texts, years = _texts(moment.cast(_LOCAL))
    if years is not None:
        rest = pc.utf8_slice_codeunits(texts, 4, len(_LAYOUT) if width.as_py() > 10 else 10)
        texts = _assembled([_written(years), rest])
        if width.as_py() <= 10:  # a DATE is not cut
            return texts
    return pc.utf8_slice_codeunits(texts, 0, width.as_py())


TIME_FUNCTIONS: Mapping[str, Callable[[list[pa.Array], pa.DataType], pa.Array]] = {
    "year": _part(pc.year),
    "quarter": _part(pc.quarter),
    "month": _part(pc.month),
    "day": _part(pc.day),
    "hour": _part(pc.hour),
    "minute": _part(pc.minute),
    "second": _part(pc.second),
    "millisecond": _part(pc.millisecond),
    "microsecond": _part(_within_second),
    "week": _part(pc.iso_week),
    "iso_year": _part(pc.iso_year),
    "day_of_year": _part(pc.day_of_year),
    "day_of_week": _part(lambda v: pc.day_of_week(v, count_from_zero=False, week_start=7)),
    "iso_day_of_week": _part(lambda v: pc.day_of_week(v, count_from_zero=False, week_start=1)),
    "epoch": _epoch,
    "moved": _moved,
    "time_difference": _difference,
    "floor_time": _cut(pc.floor_temporal),
    "ceil_time": _cut(pc.ceil_temporal, ceil_is_strictly_greater=False),
    "instant": _instant,
    # an instant and the time of day in UTC are the same number
    "local": lambda v, kind: v[0].cast(pa.int64()).cast(kind),
    "date_format": _date_format,
    "text_of_time": _text,
}
