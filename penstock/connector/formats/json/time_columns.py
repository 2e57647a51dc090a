"""Columns of date and time texts as columns of dates and times; values not of the usual form are marked.

Marked values are read again one by one, by `scalars`: this module accepts only values for which both agree.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.formats.json.lines import Mask
from penstock.connector.formats.json.options import TimestampStandard

__all__ = ["read_dates", "read_times", "read_timestamps"]

SECONDS = len("yyyy-MM-dd HH:mm:ss")
MAX_OFFSET_HOURS = 18
# What Arrow's cast takes, but for the lengths of months: keeps the search by halves to those
_POSSIBLE = (
    r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
    r"([ T]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-5][0-9])?)?$"
)
_DAY = "1970-01-01 "
_NS_IN_MS = 1_000_000


def read_timestamps(
    texts: pa.StringArray, standard: TimestampStandard, *, instant: bool
) -> tuple[pa.Array, Mask]:
    """Read a column of TIMESTAMP or TIMESTAMP_LTZ; returns it and which values are marked."""
    zoned = standard.offset or instant
    kind = pa.timestamp("us", tz="UTC") if zoned else pa.timestamp("us")
    shape = _Characters(texts)
    usual = shape.equal(10, standard.separator) & shape.equal(13, ":") & shape.equal(16, ":")
    if standard.offset:
        usual &= shape.ends_with("Z") | _usual_offset(shape)
    elif instant:
        usual &= shape.ends_with("Z")
    else:
        usual &= shape.ends_with_digit()
    usual &= shape.has_length(SECONDS + zoned)
    values, marked = _cast(texts, kind, usual)
    return (values if instant else values.cast(pa.timestamp("us"))), marked


def read_dates(texts: pa.StringArray) -> tuple[pa.Array, Mask]:
    """Read a column of DATE; returns it and which values are marked."""
    return _cast(texts, pa.date32(), _Characters(texts).has_length(len("yyyy-MM-dd"), longer=False))


def read_times(texts: pa.StringArray) -> tuple[pa.Array, Mask]:
    """Read a column of TIME, to the millisecond; returns it and which values are marked."""
    shape = _Characters(texts)
    usual = shape.has_length(len("HH:mm:ss")) & shape.equal(5, ":") & shape.ends_with_digit()
    dated = pc.binary_join_element_wise(_DAY, texts, "")
    moments, marked = _cast(dated, pa.timestamp("us"), usual)
    milliseconds = pc.divide(moments.cast(pa.int64()), 1000)
    return pc.multiply(milliseconds, _NS_IN_MS).cast(pa.time64("ns")), marked


class _Characters:
    """The bytes of a column of texts, looked at by position. Nulls answer yes to everything."""

    def __init__(self, texts: pa.StringArray) -> None:
        self._null = np.asarray(texts.is_null())
        offsets = np.frombuffer(texts.buffers()[1], np.int32)
        self._begin = offsets[texts.offset : texts.offset + len(texts)]
        self._end = offsets[texts.offset + 1 : texts.offset + len(texts) + 1]
        # one byte more, so that there is something to look at behind an empty text at the end
        data = texts.buffers()[2]
        self._data = np.append(np.frombuffer(data or b"", np.uint8), np.uint8(0))

    def has_length(self, length: int, *, longer: bool = True) -> Mask:
        lengths = self._end - self._begin
        return np.asarray(self._null | (lengths == length) | (longer & (lengths > length)))

    def _at(self, position: int) -> npt.NDArray[np.uint8]:
        """Return the byte at `position` of each text, from the end where negative; 0 where the text is shorter."""
        where = (self._begin if position >= 0 else self._end) + position
        inside = (where >= self._begin) & (where < self._end)
        return np.asarray(
            np.where(inside, self._data[np.where(inside, where, len(self._data) - 1)], 0)
        )

    def equal(self, position: int, character: str) -> Mask:
        return np.asarray(self._null | (self._at(position) == ord(character)))

    def ends_with(self, character: str) -> Mask:
        return self.equal(-1, character)

    def digit(self, position: int) -> npt.NDArray[np.int64]:
        """Return the digit at `position`, or 99 where there is none."""
        digit = self._at(position).astype(np.int64) - ord("0")
        return np.where((digit >= 0) & (digit <= 9), digit, 99)

    def ends_with_digit(self) -> Mask:
        return self._null | (self.digit(-1) <= 9)


def _usual_offset(shape: _Characters) -> Mask:
    """Return which texts end with +hh:mm of less than 18 hours; the minutes are checked by the cast."""
    signed = shape.equal(-6, "+") | shape.equal(-6, "-")
    hours = shape.digit(-5) * 10 + shape.digit(-4)
    return signed & shape.equal(-3, ":") & shape.ends_with_digit() & (hours < MAX_OFFSET_HOURS)


def _cut(texts: pa.StringArray) -> pa.StringArray:
    """Cut fractions of seven to nine digits, which Arrow does not take, to six."""
    return pc.replace_substring_regex(texts, r"(\.[0-9]{6})[0-9]{1,3}(Z|[+-].*)?$", r"\1\2")


def _cast(
    texts: pa.StringArray,
    kind: pa.DataType,
    usual: Mask,
) -> tuple[pa.Array, Mask]:
    """Cast the usual values; those that Arrow refuses are marked too."""
    if not usual.all():
        texts = pc.if_else(pa.array(usual), texts, None)
    try:
        return texts.cast(kind), ~usual
    except pa.ArrowInvalid:
        texts = _cut(texts)
    possible = pc.match_substring_regex(texts, _POSSIBLE)
    usual = usual & np.asarray(possible.fill_null(True))
    values, refused = _cast_by_halves(pc.if_else(possible, texts, None), kind)
    return values, ~usual | refused


def _cast_by_halves(texts: pa.StringArray, kind: pa.DataType) -> tuple[pa.Array, Mask]:
    refused = np.zeros(len(texts), np.bool_)
    done: list[pa.Array] = []
    todo = [(0, len(texts))]
    while todo:
        begin, end = todo.pop()
        try:
            done.append(texts.slice(begin, end - begin).cast(kind))
        except pa.ArrowInvalid:
            if end - begin == 1:
                refused[begin] = True
                done.append(pa.nulls(1, kind))
            else:
                middle = (begin + end) // 2
                todo += [(middle, end), (begin, middle)]
    return pa.concat_arrays(done), refused
