"""Functions of regular expressions on Arrow arrays.

Planning gives each pattern twice: as RE2 reads it, for all texts, and as Python's `re` does where `$` is in it, for
texts that end with a line terminator. Java's `$` is in front of that, too, and RE2 has no such position. A pattern has
one group at most, with a name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

_ENDED = r"[\n\r\x{85}\x{2028}\x{2029}]\z"

_CHARACTERS = re.compile(r"\(\?P<found>((?:\[\\x\{[0-9A-F]+\}\])+)\)")
_CODE = re.compile(r"\{([0-9A-F]+)\}")
"""Single characters one behind the other, as planning writes them: their text is found in a fifth of the time."""


def _by_text(
    text: pa.Array, found: pa.Array, pattern: str, one: Callable[[re.Pattern[str], str], object]
) -> pa.Array:
    """Compute texts that end with a line terminator one by one, where the pattern asks for the end."""
    if not pattern:
        return found
    rows = pc.fill_null(pc.match_substring_regex(text, _ENDED), fill_value=False)
    if not rows.true_count:
        return found
    compiled = re.compile(pattern)
    values = [one(compiled, each) for each in text.filter(rows).to_pylist()]
    return pc.replace_with_mask(found, rows, pa.array(values, found.type))


def _matches(values: list[pa.Array], _: pa.DataType) -> pa.Array:
    text, pattern, at_end = values
    found = pc.match_substring_regex(text, pattern.as_py())
    return _by_text(text, found, at_end.as_py(), _has)


def _has(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.search(text) is not None


def _extract(values: list[pa.Array], _: pa.DataType) -> pa.Array:
    """Return the group of the first match: empty where it took no part, NULL without a match."""
    text, pattern, at_end = values
    found = pc.struct_field(pc.extract_regex(text, pattern.as_py()), [0])
    return _by_text(text, found, at_end.as_py(), _group)


def _group(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return None if match is None else match[1] or ""


def literal(pattern: str) -> str | None:
    """Return the text that is all that a pattern matches, if there is one."""
    found = _CHARACTERS.fullmatch(pattern)
    return None if found is None else "".join(chr(int(c, 16)) for c in _CODE.findall(found[1]))


def _replace(values: list[pa.Array], _: pa.DataType) -> pa.Array:
    text, pattern, at_end, put = values
    plain = put.as_py()
    if (wanted := literal(pattern.as_py())) is not None:
        return pc.replace_substring(text, wanted, plain)
    found = pc.replace_substring_regex(text, pattern.as_py(), plain.replace("\\", "\\\\"))
    return _by_text(text, found, at_end.as_py(), partial(_replaced, put=plain))


def _replaced(pattern: re.Pattern[str], text: str, *, put: str) -> str:
    return pattern.sub(lambda _: put, text)


PATTERN_FUNCTIONS: Mapping[str, Callable[[list[pa.Array], pa.DataType], pa.Array]] = {
    "matches": _matches,
    "regexp_extract": _extract,
    "regexp_replace": _replace,
}
