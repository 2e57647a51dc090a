"""A batch of JSON texts as one buffer of lines, the single call that parses it, and which kinds of values it holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as pa_json

from penstock.connector.arrow import query
from penstock.connector.formats.values import ArrowValues

Lines: TypeAlias = pa.BinaryArray
"""JSON texts, each with a newline behind it, in one buffer; slices share the buffer."""

Mask: TypeAlias = npt.NDArray[np.bool_]

MAX_SPACE = 32
"""Whitespace characters tolerated before and behind an object by the fast path."""

_SPACES = np.frombuffer(b" \t\r\n", np.uint8)
# In pyarrow's messages. Should they change, bad lines are found all the same, only more slowly.
_ROW = re.compile(r" in row (\d+)")
_COLUMN = re.compile(r"Column\((.*)\) changed from", re.DOTALL)
_MISTYPED = re.compile(r"changed from|couldn't parse|not a valid decimal|requires scale|data loss")


# pyarrow 26 reads decimals wrongly, or outside of its tables, where they do not fit decimal256(76, 38): it gives
# other numbers, or crashes. Safe are 38 digits on each side, or 20 with an exponent of at most 18. In the way are
# also the characters of a number written as escapes.
_LONG_DECIMAL = (
    r'[:\[,"][ \t\r\n]*[+-]?([0-9.]{21,}[eE]|[0-9.]*[eE][+-]?0*(19|[2-9][0-9]|[0-9]{3}))'
    r"|[0-9]{39}|\\u00(2[bBdDeE]|3[0-9]|45|65)"
)


class UnreadableError(Exception):
    """A line, or more, cannot be read into the types asked for.

    Where they are known: `line` is the first such; `mistyped` says that it is JSON, but not of those types, and
    `column` is where, as in "/name/field".
    """

    def __init__(
        self, line: int | None = None, *, mistyped: bool = False, column: str | None = None
    ) -> None:
        super().__init__(line)
        self.line = line
        self.mistyped = mistyped
        self.column = column


def to_lines(values: Sequence[bytes | None]) -> Lines:
    """Join values; None stays null. Values of more than two gigabytes give a chunked array."""
    if isinstance(values, ArrowValues) and values.lines is not None:
        return values.lines
    return pc.binary_join_element_wise(pa.array(values, pa.binary()), b"", b"\n")


def looks_like_object(lines: Lines) -> Mask:
    """Return which lines begin with `{`, end with `}`, whitespace aside, and are valid UTF-8."""
    offsets = _offsets(lines)
    data = np.frombuffer(lines.buffers()[2] or b"", np.uint8)
    first, last = offsets[:-1].copy(), offsets[1:] - 2
    candidate = np.asarray(lines.is_valid()) & (last > first)
    if not candidate.all():
        first[~candidate] = last[~candidate] = 0
    if not len(data):
        return candidate
    for _ in range(MAX_SPACE):
        space = np.isin(data[first], _SPACES) & (first < last)
        if not space.any():
            break
        first += space
    for _ in range(MAX_SPACE):
        space = np.isin(data[last], _SPACES) & (first < last)
        if not space.any():
            break
        last -= space
    candidate &= (data[first] == ord("{")) & (data[last] == ord("}"))
    return candidate & _is_utf8(lines)


def has_long_decimal(lines: Lines) -> Mask:
    """Return which lines may hold a decimal that the parser must not see; some hold nothing of the kind."""
    return np.asarray(pc.match_substring_regex(lines, _LONG_DECIMAL))


def has_minus_zero(lines: Lines) -> Mask:
    """Return which lines may hold the whole number -0, of which DuckDB makes 0."""
    return np.asarray(pc.match_substring_regex(lines, r"-0[ \t\r\n]*[,}\]]"))


def read_lines(lines: Lines, schema: pa.Schema) -> pa.Table:
    """Parse lines that look like objects: exactly one row for each, or UnreadableError.

    The proof: the parser takes no newline inside a string, and nowhere takes `}` newline `{` but between two whole
    values. So a line that begins with `{` and ends with `}` is one or more whole objects; as many rows as lines means
    one each. pyarrow must never see anything else: a batch that begins with `null` crashes it. Nor may it see lines of
    `has_long_decimal`, where `schema` has decimals.
    """
    if len(lines) == 0:
        return schema.empty_table()
    offsets = _offsets(lines)
    begin, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    try:
        table = pa_json.read_json(
            pa.BufferReader(lines.buffers()[2].slice(begin, size)),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=size + 1),
            parse_options=pa_json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid as error:
        message = str(error)
        row, column = _ROW.search(message), _COLUMN.search(message)
        line = int(row.group(1)) if row else None
        raise UnreadableError(
            line if line is not None and line < len(lines) else None,
            mistyped=_MISTYPED.search(message) is not None,
            column=column.group(1) if column else None,
        ) from error
    if table.num_rows != len(lines):
        raise UnreadableError
    return table


def _offsets(lines: Lines) -> npt.NDArray[np.int32]:
    buffer = lines.buffers()[1]
    if buffer is None or not len(lines):
        return np.zeros(1, np.int32)
    return np.frombuffer(buffer, np.int32)[lines.offset : lines.offset + len(lines) + 1]


def _is_utf8(lines: Lines) -> Mask:
    """Return which lines are valid UTF-8: checked at once, and one by one only where that fails."""
    if _valid_utf8(lines, 0, len(lines)):
        return np.ones(len(lines), np.bool_)
    valid = np.empty(len(lines), np.bool_)
    todo = [(0, len(lines))]
    while todo:
        begin, end = todo.pop()
        if end - begin == 1 or _valid_utf8(lines, begin, end):
            valid[begin:end] = _valid_utf8(lines, begin, end)
        else:
            middle = (begin + end) // 2
            todo += [(begin, middle), (middle, end)]
    return valid


def _valid_utf8(lines: Lines, begin: int, end: int) -> bool:
    offsets = _offsets(lines)
    if end == begin or lines.buffers()[2] is None:
        return True
    # as one string: a character cannot span lines, as the newline between them is none of its bytes
    whole = pa.StringArray.from_buffers(
        1, pa.py_buffer(offsets[[begin, end]].tobytes()), lines.buffers()[2]
    )
    try:
        whole.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


INTEGER = frozenset({"UBIGINT", "BIGINT"})
NUMBER = INTEGER | {"DOUBLE"}
"""DuckDB's names (json_type); the others are VARCHAR, BOOLEAN, OBJECT, ARRAY and NULL."""


def is_json(lines: Lines) -> Mask:
    """Return which lines are one JSON value each, by DuckDB, which takes NaN and stray commas too."""
    valid = query("SELECT json_valid(line) AS valid FROM records", _table(lines)).column("valid")
    return np.asarray(valid.combine_chunks().fill_null(False))


def kinds_at(lines: Lines, paths: Sequence[tuple[str, ...]]) -> tuple[Mask, list[pa.StringArray]]:
    """Return which lines are valid JSON (by DuckDB), and the kind at each path, null where there is nothing.

    A line that is not valid has null everywhere.
    """
    pointers = ", ".join(_literal(_pointer(path)) for path in paths)
    sql = f"SELECT json_type(TRY_CAST(line AS JSON), ['', {pointers}]) AS kinds FROM records"  # noqa: S608  literals are quoted
    kinds = query(sql, _table(lines)).column("kinds").combine_chunks()
    valid = np.asarray(kinds.is_valid())
    flat = kinds.flatten()
    per_line = len(paths) + 1
    # where each line's kinds begin in `flat`; lines without any point nowhere
    begin = pa.array(np.where(valid, (np.cumsum(valid) - 1) * per_line, 0), mask=~valid)
    return valid, [flat.take(pc.add(begin, index + 1)) for index in range(len(paths))]


def map_entries(lines: Lines, path: tuple[str, ...]) -> tuple[pa.ListArray, pa.ListArray]:
    """Return the keys, and the values as JSON texts, of the object at `path` of each line.

    DuckDB rewrites numbers: equal as doubles, not in their digits.
    """
    pointer, wildcard = _literal(_pointer(path)), _literal(_wildcard(path))
    sql = (
        f"SELECT json_keys(line, {pointer}) AS keys, "  # noqa: S608  as above
        f"json_extract(line, {wildcard})::VARCHAR[] AS vals FROM records"
    )
    found = query(sql, _table(lines))
    return found.column("keys").combine_chunks(), found.column("vals").combine_chunks()


def _table(lines: Lines) -> pa.Table:
    offsets, data = lines.buffers()[1:]
    texts = pa.StringArray.from_buffers(len(lines), offsets, data, offset=lines.offset)
    return pa.table({"line": texts})


def _pointer(path: tuple[str, ...]) -> str:
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in path)


def _wildcard(path: tuple[str, ...]) -> str:
    assert not any('"' in name or "\\" in name for name in path), "checked by can_extract"
    return "$" + "".join(f'."{name}"' for name in path) + ".*"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
