"""Write DATE_FORMAT of a TIMESTAMP for Spark without the session's time zone, in which an hour may be missing.

Spark's date_format takes instants alone: of a TIMESTAMP it makes one by the zone, and of a time that is not there the
next one that is. Flink's writes what the TIMESTAMP says (DateTimeUtils.formatTimestamp, in UTC), as reading tasks do
(`connector/functions/times.py`). Of a time that is not there the letters of the date are written by its midnight, or
the first time behind that, and those of the time of day by a day on which no zone changes its clocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

from penstock.catalog.model.identifier import spark_literal
from penstock.sql.dialect.spark.types import let

_OF_DATES = frozenset("GyDMLdQqEF")
_OF_TIMES = frozenset("ahKkHmsS")
_RESERVED = frozenset("[]{}#")

SINCE_MIDNIGHT = "({0} - CAST(CAST({0} AS DATE) AS TIMESTAMP_NTZ))"
"""The interval from the begin of the day of a TIMESTAMP."""

_IS_THERE = "{0} = CAST(CAST({0} AS TIMESTAMP) AS TIMESTAMP_NTZ)"
_MIDNIGHT = "CAST(CAST({0} AS DATE) AS TIMESTAMP)"
_TIME_OF_DAY = f"CAST(TIMESTAMP_NTZ '2001-01-02 00:00:00' + {SINCE_MIDNIGHT} AS TIMESTAMP)"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A piece of a pattern as it is written there: a letter so many times, or a text that is put out."""

    written: str
    is_text: bool


def local_date_format(time: str, pattern: str) -> str:
    """The Spark SQL of DATE_FORMAT, of the SQL of a TIMESTAMP and a pattern whose letters Spark has."""
    pieces = _pieces(pattern)
    letters = {piece.written[0] for piece in pieces if not piece.is_text}
    if not letters or not letters <= _OF_DATES | _OF_TIMES:
        return _by_spark(time, pattern)
    return let([time], lambda v: _where_there(v[0], pattern, pieces))


def _where_there(time: str, pattern: str, pieces: list[_Piece]) -> str:
    there = _IS_THERE.format(time)
    return f"CASE WHEN {there} THEN {_by_spark(time, pattern)} ELSE {_of_parts(time, pieces)} END"


def _by_spark(time: str, pattern: str) -> str:
    return f"date_format({time}, {spark_literal(pattern)})"


def _pieces(pattern: str) -> list[_Piece]:
    """Split a pattern. Brackets, as what is between them cannot be split, stand there as letters do."""
    pieces: list[_Piece] = []
    rest = pattern
    while rest:
        letter = rest[0]
        is_text = letter not in _RESERVED and not (letter.isascii() and letter.isalpha())
        size = 1 if is_text else len(rest) - len(rest.lstrip(letter))
        if letter == "'":
            size = rest.find("'", 1) + 1 or len(rest)
        pieces.append(_Piece(written=rest[:size], is_text=is_text))
        rest = rest[size:]
    return pieces


def _of_parts(time: str, pieces: list[_Piece]) -> str:
    """Write each part of a pattern by what its letters need; a text goes with those before it, the first of all."""
    form = next(_form_of(piece) for piece in pieces if not piece.is_text)
    parts: list[tuple[str, str]] = []
    for piece in pieces:
        form = form if piece.is_text else _form_of(piece)
        parts.append((form, piece.written))
    items = [
        _by_spark(form.format(time), "".join(written for _, written in group))
        for form, group in groupby(parts, key=itemgetter(0))
    ]
    return items[0] if len(items) == 1 else f"concat({', '.join(items)})"


def _form_of(piece: _Piece) -> str:
    return _MIDNIGHT if piece.written[0] in _OF_DATES else _TIME_OF_DAY
