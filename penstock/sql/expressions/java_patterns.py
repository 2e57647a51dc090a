r"""Regular expressions of Java that RE2 and Python read alike: a closed set, read here and written for both.

All three take the leftmost match, of those the first by the order of alternatives and of greed. Left out is what one
of them has not or has otherwise: look-around, references, possessive and atomic groups, \b (its letters hang on the
release of Java), \p, unions and intersections of classes, and repetitions of what may be empty or has groups inside.
`.`, \s and `$` are written out, as their characters differ. Texts are in code points in all three.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.sql.expressions.value_types import OutsideError

_MOST_CHARACTERS = 1_000
"""Characters of a pattern with its repetitions written out, which RE2 does: it has a bound."""
_GROUP = "found"
"""The name of the one group that a pattern has."""
_LAST = 0x10FFFF
_TERMINATORS = ((0x0A, 0x0A), (0x0D, 0x0D), (0x85, 0x85), (0x2028, 0x2029))
_LETTERS = {
    "d": ((0x30, 0x39),),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "s": ((0x09, 0x0D), (0x20, 0x20)),
}
_CHARACTERS = {"t": 0x09, "n": 0x0A, "f": 0x0C, "r": 0x0D}
# the end, in front of a line terminator at the end, but not inside of \r\n
_PYTHON_END = r"(?:\Z|(?=\r\n\Z)|(?=[\n\r\x85\u2028\u2029]\Z)(?!(?<=\r)\n))"

_Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """A pattern for RE2 and for Python; the latter is empty without `$`. `empty`: it may match nothing."""

    re2: str
    python: str
    empty: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A part of a pattern. `grouped`: it has groups inside; `size`: its characters, repetitions written out."""

    re2: str
    python: str
    size: int = 1
    empty: bool = False
    grouped: bool = False


def read_pattern(text: str, group: int = 0) -> Pattern:
    """Read a pattern whose group of this number is asked for. Raises OutsideError for one that is not in the set."""
    return _Reader(text, group).whole()


class _Reader:
    """Reads one pattern from left to right."""

    def __init__(self, text: str, wanted: int) -> None:
        self._text = text
        self._at = 0
        self._wanted = wanted
        self._groups = 0
        self._ends = False
        self._any_case = False
        self._dot_all = False

    def whole(self) -> Pattern:
        """Return the pattern as it is written for both."""
        self._flags()
        found = self._alternatives()
        if self._at < len(self._text) or self._wanted > self._groups:
            raise OutsideError
        if self._wanted == 0:
            found = _group(found, "?P<" + _GROUP + ">")
        _bounded(found.size)
        python = found.python if self._ends else ""
        return Pattern(re2=found.re2, python=python, empty=found.empty)

    def _flags(self) -> None:
        while self._text.startswith(("(?i)", "(?s)"), self._at):
            self._any_case |= self._text[self._at + 2] == "i"
            self._dot_all |= self._text[self._at + 2] == "s"
            self._at += 4

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        letter = self._next()
        if not letter:
            raise OutsideError
        self._at += 1
        return letter

    def _alternatives(self) -> _Part:
        parts = [self._sequence()]
        while self._next() == "|":
            self._at += 1
            parts.append(self._sequence())
        return _joined(parts, "|", empty=any(part.empty for part in parts))

    def _sequence(self) -> _Part:
        parts = []
        while self._next() not in ("", "|", ")"):
            parts.append(self._repeated())
        return _joined(parts, "", empty=all(part.empty for part in parts))

    def _repeated(self) -> _Part:
        part = self._atom()
        if self._next() not in ("*", "+", "?", "{"):
            return part
        if part.empty or part.grouped:
            raise OutsideError
        times, least, most = self._times()
        if self._next() == "?":
            times += self._take()
        if self._next() in ("*", "+", "?", "{"):
            raise OutsideError
        return _Part(
            re2=part.re2 + times,
            python=part.python + times,
            size=_bounded(part.size * most),
            empty=least == 0,
        )

    def _times(self) -> tuple[str, int, int]:
        """Return how often a part is repeated, with the least number and the largest that is written out."""
        sign = self._take()
        if sign != "{":
            return sign, 1 if sign == "+" else 0, 1
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at : max(end, self._at)].partition(",")
        numbers = [least, *([most] if most else [])]
        if not all(number.isdecimal() and number.isascii() for number in numbers):
            raise OutsideError
        counts = [int(number) for number in numbers]
        if counts != sorted(counts) or counts[-1] == 0:
            raise OutsideError
        self._at = end + 1
        return f"{{{counts[0]}{comma}{counts[1] if most else ''}}}", counts[0], counts[-1]

    def _atom(self) -> _Part:
        letter = self._take()
        match letter:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case ".":
                return _set((), negated=True) if self._dot_all else _set(_TERMINATORS, negated=True)
            case "^":
                return _Part(re2=r"\A", python=r"\A", empty=True)
            case "$":
                self._ends = True
                return _Part(re2=r"\z", python=_PYTHON_END, empty=True)
            case "\\":
                ranges, negated = self._escaped()
                return _set(self._folded(ranges), negated=negated)
            case "*" | "+" | "?" | "{" | "}" | "]" | ")" | "|":
                raise OutsideError
            case _:
                return _set(self._folded(((ord(letter), ord(letter)),)))

    def _group(self) -> _Part:
        if self._next() == "?":
            if not self._text.startswith("?:", self._at):
                raise OutsideError
            self._at += 2
            return self._closed("?:")
        self._groups += 1
        mark = f"?P<{_GROUP}>" if self._groups == self._wanted else "?:"
        return self._closed(mark)

    def _closed(self, mark: str) -> _Part:
        before = self._groups
        found = self._alternatives()
        if self._take() != ")":
            raise OutsideError
        return _group(found, mark, grouped=self._groups > before)

    def _escaped(self) -> tuple[_Ranges, bool]:
        """Return the characters of an escape, and whether they are all others."""
        letter = self._take()
        if letter.lower() in _LETTERS:
            return _LETTERS[letter.lower()], letter.isupper()
        if letter in "xu":
            return self._code(2 if letter == "x" else 4), False
        if letter in _CHARACTERS:
            return ((_CHARACTERS[letter], _CHARACTERS[letter]),), False
        if letter.isalnum():
            raise OutsideError
        return ((ord(letter), ord(letter)),), False

    def _code(self, digits: int) -> _Ranges:
        text = self._text[self._at : self._at + digits]
        if len(text) < digits or any(digit not in "0123456789abcdefABCDEF" for digit in text):
            raise OutsideError
        self._at += digits
        code = int(text, 16)
        if 0xD800 <= code < 0xE000:
            raise OutsideError  # half of a character
        return ((code, code),)

    def _class(self) -> _Part:
        negated = self._next() == "^"
        self._at += negated
        ranges: list[tuple[int, int]] = []
        if self._next() == "]":
            raise OutsideError
        while self._next() != "]":
            first = self._member()
            single = len(first) == 1 and first[0][0] == first[0][1]
            if self._next() == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                last = self._member()
                if not single or len(last) != 1 or not first[0][0] <= last[0][1] == last[0][0]:
                    raise OutsideError
                first = ((first[0][0], last[0][1]),)
            ranges += first
        self._at += 1
        return _set(self._folded(tuple(ranges)), negated=negated)

    def _member(self) -> _Ranges:
        letter = self._take()
        following = self._next()
        set_operation = letter in "[^" or (letter == following == "&")
        if set_operation or (letter == "-" and following not in ("]", "")):
            raise OutsideError
        if letter != "\\":
            return ((ord(letter), ord(letter)),)
        ranges, negated = self._escaped()
        if negated:
            raise OutsideError
        return ranges

    def _folded(self, ranges: _Ranges) -> _Ranges:
        """Add the other case of letters of ASCII, the only ones of which Java asks for none here."""
        if not self._any_case:
            return ranges
        added = []
        for low, high, shift in ((0x41, 0x5A, 32), (0x61, 0x7A, -32)):
            for first, last in ranges:
                start, stop = max(first, low), min(last, high)
                if start <= stop:
                    added.append((start + shift, stop + shift))
        return (*ranges, *added)


def _bounded(size: int) -> int:
    if size > _MOST_CHARACTERS:
        raise OutsideError
    return size


def _joined(parts: Sequence[_Part], between: str, *, empty: bool) -> _Part:
    return _Part(
        re2=between.join(part.re2 for part in parts),
        python=between.join(part.python for part in parts),
        size=sum(part.size for part in parts),
        empty=empty,
        grouped=any(part.grouped for part in parts),
    )


def _group(part: _Part, mark: str, *, grouped: bool = False) -> _Part:
    return _Part(
        re2=f"({mark}{part.re2})",
        python=f"({mark}{part.python})",
        size=part.size,
        empty=part.empty,
        grouped=grouped,
    )


def _set(ranges: _Ranges, *, negated: bool = False) -> _Part:
    """Return one character of these, or of all others."""
    if not ranges:
        ranges, negated = ((0, _LAST),), False
    sign = "^" if negated else ""
    return _Part(
        re2=f"[{sign}{_written(ranges, _re2)}]", python=f"[{sign}{_written(ranges, _python)}]"
    )


def _re2(code: int) -> str:
    return rf"\x{{{code:X}}}"


def _python(code: int) -> str:
    return f"\\U{code:08x}"


def _written(ranges: _Ranges, character: Callable[[int], str]) -> str:
    members = (
        character(first) if first == last else f"{character(first)}-{character(last)}"
        for first, last in ranges
    )
    return "".join(members)
