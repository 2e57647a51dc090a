"""Functions of texts on Arrow arrays. What is searched for, a position and a length are constants: scalars."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connector.functions.letters import lower, upper


def elements(lists: pa.Array, index: int) -> pa.Array:
    """Return the element of each list at a position counted from 0; NULL where there is none."""
    starts = lists.offsets.slice(0, len(lists))
    there = pc.greater(pc.list_value_length(lists), index)
    offsets = pc.if_else(there, pc.add(starts, index), pa.scalar(None, starts.type))
    return lists.values.take(offsets)


def _substring(values: list[pa.Array], _: pa.DataType) -> pa.Array:
    text, *bounds = values
    start, *length = [bound.as_py() for bound in bounds]
    # of a text that begins behind it nothing is left, one that begins before it is empty
    if start < 0:
        found = pc.utf8_slice_codeunits(text, start)
        found = pc.if_else(pc.less(pc.utf8_length(text), -start), "", found)
        return pc.utf8_slice_codeunits(found, 0, length[0]) if length else found
    first = max(start - 1, 0)
    return pc.utf8_slice_codeunits(text, first, first + length[0] if length else None)


def _right(values: list[pa.Array], _: pa.DataType) -> pa.Array:
    text, length = values
    count = length.as_py()
    if count < 1:
        return pc.utf8_slice_codeunits(text, 0, 0)
    return pc.utf8_slice_codeunits(text, -count)


def _position(values: list[pa.Array], kind: pa.DataType) -> pa.Array:
    """Return where a text stands first in others, in characters from 1; 0 where it does not."""
    text, searched = values
    pattern = searched.as_py()
    found = pc.find_substring(text, pattern)
    if not pc.all(pc.string_is_ascii(text), min_count=0).as_py():
        before = elements(pc.split_pattern(text, pattern, max_splits=1), 0)
        found = pc.if_else(pc.less(found, 0), found, pc.utf8_length(before))
    return pc.add(found, pa.scalar(1, found.type)).cast(kind)


def _split_index(values: list[pa.Array], _: pa.DataType) -> pa.Array:
    text, separator, offset = values
    index = offset.as_py()
    parts = pc.split_pattern(text, separator.as_py(), max_splits=index + 1)
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, text.type), elements(parts, index))


def _padded(pad: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    def function(values: list[pa.Array], _: pa.DataType) -> pa.Array:
        text, length, padding = values
        width = length.as_py()
        return pc.utf8_slice_codeunits(pad(text, width, padding.as_py()), 0, width)

    return function


def _concat_ws(values: list[pa.Array], _: pa.DataType) -> pa.Array:
    separator, first, *texts = values
    # Arrow passes over a row without any text, and then has one row less
    none = reduce(pc.and_, (pc.is_null(text) for text in (first, *texts)))
    texts = [pc.if_else(none, "", first), *texts]
    return pc.binary_join_element_wise(*texts, separator, null_handling="skip")


def _trimmed(trim: Callable[..., pa.Array]) -> Callable[..., pa.Array]:
    return lambda values, _: trim(values[0], values[1].as_py() if len(values) > 1 else " ")


TEXT_FUNCTIONS: Mapping[str, Callable[[list[pa.Array], pa.DataType], pa.Array]] = {
    "upper": lambda v, _: upper(v[0]),
    "lower": lambda v, _: lower(v[0]),
    "char_length": lambda v, _: pc.utf8_length(v[0]),
    "substring": _substring,
    "right": _right,
    "trim": _trimmed(pc.utf8_trim),
    "ltrim": _trimmed(pc.utf8_ltrim),
    "rtrim": _trimmed(pc.utf8_rtrim),
    "concat": lambda v, _: pc.binary_join_element_wise(*v, "", null_handling="emit_null"),
    "concat_ws": _concat_ws,
    "replace": lambda v, _: pc.replace_substring(v[0], v[1].as_py(), v[2].as_py()),
    "position": _position,
    "split_index": _split_index,
    "lpad": _padded(pc.utf8_lpad),
    "rpad": _padded(pc.utf8_rpad),
    "repeat": lambda v, _: pc.binary_repeat(v[0], v[1]),
    "reverse": lambda v, _: pc.utf8_reverse(v[0]),
    "starts_with": lambda v, _: pc.starts_with(v[0], v[1].as_py()),
    "ends_with": lambda v, _: pc.ends_with(v[0], v[1].as_py()),
    "like": lambda v, _: pc.match_like(v[0], v[1].as_py()),
}
