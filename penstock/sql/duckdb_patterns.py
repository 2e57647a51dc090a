"""Java's date patterns as DuckDB's strptime reads them: a closed set of letters, each of a fixed width."""

from __future__ import annotations

import re

from sqlglot import exp

from penstock.sql.dialect.problems import NodeError

__all__ = ["strptime_form"]

# Letters of Java's date patterns: what strptime and strftime call them, and the digits they take.
PATTERN_LETTERS = {
    "yyyy": ("%Y", "[0-9]{4}"),
    "MM": ("%m", "[0-9]{2}"),
    "dd": ("%d", "[0-9]{2}"),
    "HH": ("%H", "[0-9]{2}"),
    "mm": ("%M", "[0-9]{2}"),
    "ss": ("%S", "[0-9]{2}"),
    "SSS": ("%g", "[0-9]{3}"),
    "SSSSSS": ("%f", "[0-9]{6}"),
}
PATTERN_PARTS = re.compile(r"'((?:[^']|'')*)'|((?:([A-Za-z])\3*)|[^A-Za-z'])")


def strptime_form(node: exp.Expr) -> tuple[str, str]:
    """The strptime form of a Java pattern, and the shape of the texts that it reads in Java."""
    literal = node.expressions[1]
    if not literal.is_string:
        raise NodeError(f"the pattern of {node.name} in a time column must be a text", literal)
    form, shape = "", ""
    for quoted, letters, letter in PATTERN_PARTS.findall(literal.name):
        if letters in PATTERN_LETTERS:
            one, digits = PATTERN_LETTERS[letters]
            form, shape = form + one, shape + digits
        elif letter:
            raise NodeError(
                f"the letters '{letters}' of a pattern are not supported in a time column",
                literal,
                f"supported are {', '.join(PATTERN_LETTERS)} and quoted text",
            )
        else:
            text = quoted.replace("''", "'") or letters or "'"
            form, shape = form + text.replace("%", "%%"), shape + re.escape(text)
    return form, f"^{shape}$"
