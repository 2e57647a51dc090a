"""Parse JSON texts so that numbers keep their digits, write them as Jackson does, and word the errors of values."""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import Any, Self


class Integer(str):
    """The text of a JSON number without fraction and exponent."""

    __slots__ = ()


class Float(str):
    """The text of a JSON number with a fraction or an exponent."""

    __slots__ = ()


class NotJson(str):
    """NaN or an infinity without quotes: read by Python, not by Jackson."""

    __slots__ = ()


class MalformedError(Exception):
    """The text is not JSON; the message says where and why."""


# strict=False: Flink allows control characters in strings (ALLOW_UNESCAPED_CONTROL_CHARS)
_DECODER = json.JSONDecoder(
    strict=False, parse_int=Integer, parse_float=Float, parse_constant=NotJson
)

_WHITESPACE = re.compile(r"[ \t\n\r]*")


def parse(value: bytes) -> Any:
    """Parse the first JSON value of a record; what follows it is not checked, as in Flink.

    Gives dict, list, str, Integer, Float, bool or None. UTF-16 and UTF-32 are recognised, as by Jackson. Of
    equal keys the last one counts. Raises MalformedError.
    """
    plain = value[:1] == b"{" and value[1:2] != b"\0"
    try:
        text = value.decode("utf-8" if plain else json.detect_encoding(value), "surrogatepass")
    except UnicodeDecodeError as error:
        raise MalformedError(f"invalid {error.encoding} at byte {error.start + 1}") from error
    begin = _WHITESPACE.match(text)
    assert begin is not None, "the pattern matches the empty text"
    try:
        parsed, _ = _DECODER.raw_decode(text, begin.end())
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - 20) : error.pos + 20]
        raise MalformedError(f"{error.msg} at character {error.pos + 1}, near {near!r}") from error
    except RecursionError as error:
        raise MalformedError("nested too deeply") from error
    return parsed


def tree_text(value: Any, *, decimals: bool) -> str:
    """Write an object or array as Jackson's JsonNode.toString does: no spaces, numbers in Java's spelling.

    `decimals`: the table has a DECIMAL column, so that Flink reads fractions as BigDecimal instead of double.
    Raises MalformedError for what is no JSON.
    """
    pieces: list[str] = []
    try:
        _write(value, pieces, decimals)
    except RecursionError as error:
        raise MalformedError("nested too deeply") from error
    return "".join(pieces)


def _write(value: Any, pieces: list[str], decimals: bool) -> None:
    match value:
        case NotJson():
            raise MalformedError(f"{value} is not JSON")
        case dict():
            for index, (key, item) in enumerate(value.items()):
                pieces += ("{" if index == 0 else ",", _quoted(key), ":")
                _write(item, pieces, decimals)
            pieces.append("}" if value else "{}")
        case list():
            for index, item in enumerate(value):
                pieces.append("[" if index == 0 else ",")
                _write(item, pieces, decimals)
            pieces.append("]" if value else "[]")
        case Integer():
            pieces.append("0" if value == "-0" else value)
        case Float():
            pieces.append(_java_decimal(value) if decimals else _java_double(float(value)))
        case str():
            pieces.append(_quoted(value))
        case None:
            pieces.append("null")
        case _:
            pieces.append("true" if value else "false")


_ESCAPED = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    ord("\b"): "\\b",
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\f"): "\\f",
    ord("\r"): "\\r",
}


def _quoted(text: str) -> str:
    return '"' + text.translate(_ESCAPED) + '"'


def _java_double(number: float) -> str:
    """Write a double as Double.toString: plain from 0.001 to below 10 million, else with an exponent."""
    if number in (float("inf"), float("-inf")):
        return '"Infinity"' if number > 0 else '"-Infinity"'
    if number == 0:
        return repr(number)
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int), "infinities are written above"
    text = "".join(map(str, digits))
    point = len(text) + exponent  # position of the decimal point in the digits
    if 1e-3 <= abs(number) < 1e7:
        if point <= 0:
            plain = "0." + "0" * -point + text
        else:
            plain = text[:point].ljust(point, "0") + "." + (text[point:] or "0")
    else:
        plain = f"{text[0]}.{text[1:] or '0'}E{point - 1}"
    return "-" * sign + plain


def _java_decimal(value: str) -> str:
    """Write a decimal as BigDecimal.toString, without trailing zeros."""
    try:
        number = Decimal(value)
    except InvalidOperation as error:
        raise MalformedError("a number's exponent is out of range") from error
    if number == 0:
        return "0"
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int), "JSON has no infinities"
    text = "".join(map(str, digits)).lstrip("0")
    stripped = text.rstrip("0")
    exponent += len(text) - len(stripped)
    adjusted = exponent + len(stripped) - 1
    if exponent <= 0 and adjusted >= -6:
        if exponent == 0:
            plain = stripped
        elif len(stripped) > -exponent:
            plain = stripped[:exponent] + "." + stripped[exponent:]
        else:
            plain = "0." + stripped.rjust(-exponent, "0")
    else:
        rest = "." + stripped[1:] if len(stripped) > 1 else ""
        plain = f"{stripped[0]}{rest}E{adjusted:+d}"
    return "-" * sign + plain


EXCERPT = 200
"""Characters of a record shown in an error."""

VALUE_EXCERPT = 80
"""Characters of a single value shown in an error."""


class Problem(Exception):
    """Something about one value: `what`, without its place; `within` adds the place from the inside out."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.path = ""

    def within(self, step: str) -> Self:
        """Prefix the path with `step`: a field's name, or `[...]` for an element."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        self.path = f"{step}{joint}{self.path}"
        return self

    def __str__(self) -> str:
        return f"field '{self.path}': {self.what}" if self.path else self.what


class TypeMismatch(Problem):
    """A value that its type does not take; ignore-parse-errors makes it NULL.

    Raises MalformedError instead where the value is, or holds, what only Python takes for JSON.
    """

    def __init__(self, what: str, value: Any) -> None:
        super().__init__(f"{what}: {_shown(value)}")


class NotNullViolation(Problem):
    """No value where the type is NOT NULL: NULL cannot stand in, the row goes."""


def excerpt(value: bytes, limit: int = EXCERPT) -> str:
    """Return the beginning of a record as one line of text."""
    text = value[: limit * 4].decode("utf-8", "backslashreplace")
    line = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:limit]
    )
    return line if len(value) <= limit * 4 and len(text) <= limit else line[:limit] + "..."


def _shown(value: Any) -> str:
    if isinstance(value, Integer | Float):
        text = str(value)
    else:
        text = tree_text(value, decimals=False)
    return excerpt(text.encode("utf-8", "backslashreplace"), VALUE_EXCERPT)
