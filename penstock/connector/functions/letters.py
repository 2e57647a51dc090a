"""UPPER and LOWER as Java's ICU has them, which Spark asks: letters that become several, a sigma at the end of a word.

Texts of ASCII, and of letters that have one other, are computed for a whole array. A text with one of the few hundred
letters below is computed by itself: those whose other form is several letters, and those that one release of Unicode
has and another has not, as Arrow, Python and Spark know different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

_SIGMA = "\u03a3"

_NEW_PAIRS: tuple[tuple[int, int, int], ...] = (
    (0x019B, 0xA7DC, 1),
    (0x0264, 0xA7CB, 1),
    (0x1C8A, 0x1C89, 1),
    (0xA7CD, 0xA7CC, 1),
    (0xA7CF, 0xA7CE, 1),
    (0xA7D3, 0xA7D2, 1),
    (0xA7D5, 0xA7D4, 1),
    (0xA7DB, 0xA7DA, 1),
    (0x10D70, 0x10D50, 22),
    (0x16EBB, 0x16EA0, 25),
)
"""Small letters, capitals and their count, of pairs behind Unicode 15 that Spark has."""

_UNPAIRED_SMALL = "\u0277\u027c\uab4b\uab4c" + "".join(
    map(chr, (0x1DF41, 0x1DF49, 0x1DF4B, 0x1DF4E, 0x1DF52, 0x1DF69, 0x1DF6B, 0x1DF6D, 0x1DF6F))
) + "".join(map(chr, range(0x1DF73, 0x1DF80, 2)))  # fmt: skip
_UNPAIRED_CAPITAL = "\ua7dd\ua7e2\uab6c\uab6d" + "".join(
    chr(ord(letter) - 1) for letter in _UNPAIRED_SMALL[4:]
)
"""Letters of pairs that Spark does not have yet."""


def _pairs() -> Iterator[tuple[str, str]]:
    for small, capital, count in _NEW_PAIRS:
        for offset in range(count):
            yield chr(small + offset), chr(capital + offset)


def _several() -> Iterator[tuple[str, str]]:
    """Iterate over letters with several capitals; no release of Unicode changes these."""
    for start, stop in ((0xDF, 0x588), (0x1E96, 0x1FFD), (0xFB00, 0xFB18)):
        for code in range(start, stop):
            capitals = chr(code).upper()
            if len(capitals) > 1:
                yield chr(code), capitals


_CAPITALS: Mapping[str, str] = {
    **dict(_several()),
    **dict(_pairs()),
    **{letter: letter for letter in _UNPAIRED_SMALL},
}
_SMALL: Mapping[str, str] = {
    "\u0130": "i\u0307",
    **{capital: small for small, capital in _pairs()},
    **{letter: letter for letter in _UNPAIRED_CAPITAL},
}


_STAND_IN: Mapping[str, str] = {
    "\u0130": "I",
    **{letter: "a" for pair in _pairs() for letter in pair},
    **dict.fromkeys((*_UNPAIRED_SMALL[4:], *_UNPAIRED_CAPITAL), " "),
}
"""Letters that each release of Unicode has, in the place of those that it has not, or has no small letter for."""


def _any_of(letters: str) -> str:
    return "[" + "".join(rf"\x{{{ord(letter):X}}}" for letter in letters) + "]"


_WITH_CAPITALS = _any_of("".join(_CAPITALS))
_WITH_SMALL = _any_of("".join(_SMALL) + _SIGMA)


def upper(array: pa.Array) -> pa.Array:
    """Return texts in capitals."""
    return _cased(array, pc.ascii_upper, pc.utf8_upper, _WITH_CAPITALS, _upper)


def lower(array: pa.Array) -> pa.Array:
    """Return texts in small letters."""
    return _cased(array, pc.ascii_lower, pc.utf8_lower, _WITH_SMALL, _lower)


def _cased(
    array: pa.Array,
    ascii_alone: Callable[[pa.Array], pa.Array],
    plain: Callable[[pa.Array], pa.Array],
    special: str,
    one: Callable[[str], str],
) -> pa.Array:
    if pc.all(pc.string_is_ascii(array), min_count=0).as_py():
        return ascii_alone(array)
    rows = pc.fill_null(pc.match_substring_regex(array, special), fill_value=False)
    found = plain(array)
    if not rows.true_count:
        return found
    texts = [one(text) for text in array.filter(rows).to_pylist()]
    return pc.replace_with_mask(found, rows, pa.array(texts, array.type))


def _upper(text: str) -> str:
    return "".join(_CAPITALS.get(letter) or letter.upper() for letter in text)


def _lower(text: str) -> str:
    # the last sigma of a word has a form of its own: Python finds it, in letters that every release has
    known = "".join(_STAND_IN.get(letter, letter) for letter in text).lower()
    return "".join(
        _SMALL.get(letter, letter if letter in _STAND_IN else small)
        for letter, small in zip(text, known, strict=True)
    )
