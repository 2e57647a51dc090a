"""Reads Java's properties files: lines of key and value (java.util.Properties.load)."""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["properties_text", "read_properties"]

_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\$")
_LINE = re.compile(
    r"(?P<key>(?:[^\\=:\s]|\\.)*)(?:[ \t\f]*[=:][ \t\f]*|[ \t\f]+)?(?P<value>.*)", re.DOTALL
)
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_properties(text: str) -> dict[str, str]:
    """Return the pairs of a properties file; the last one of a key counts."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _LINE.fullmatch(line)
        assert match is not None, "every line matches"
        found[_plain(match["key"])] = _plain(match["value"])
    return found


def properties_text(values: Mapping[str, str]) -> str:
    """Write pairs as a properties file that Java reads back as they are."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in values.items())


def _escaped(text: str) -> str:
    """Escape what Java would take for a separator, a comment, an escape or an end."""
    named = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
    return "".join(named.get(c, f"\\{c}" if c in "\\=:#! " else c) for c in text)


def _logical_lines(text: str) -> list[str]:
    """Join lines that end with a backslash to the next ones; comments and empty lines are left out."""
    lines: list[str] = []
    begun: str | None = None
    for natural in re.split(r"\r\n|\n|\r", text):
        line = natural.lstrip(" \t\f")
        if begun is None and (not line or line[0] in "#!"):
            continue
        line = (begun or "") + line
        begun = line[:-1] if _CONTINUED.search(line) else None
        if begun is None:
            lines.append(line)
    return [*lines, begun] if begun else lines


def _plain(text: str) -> str:
    return _ESCAPE.sub(
        lambda m: chr(int(m[1], 16)) if m[1] else _CONTROL.get(m[2], m[2]),
        text,
    )
