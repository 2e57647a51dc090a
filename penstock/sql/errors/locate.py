"""The place of an error without one: that of the subject of its message in the statement."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from penstock.catalog.errors import Span
from penstock.sql.script.splitter import StatementText

_OPTION_VALUE = re.compile(r"option ('[^']+') = ")
_VALUE = re.compile(r"\s*=\s*('(?:[^']|'')*')")
_QUOTED = re.compile(r"'[^']+'")


def position_of_message(message: str, text: StatementText) -> Span:
    """Return the place of the value of the option that a message is about, of the first thing it quotes that the
    statement has, or of the statement's first line.
    """
    for option in _OPTION_VALUE.finditer(message):
        # the message may have the value in another form (asterisks): the key finds it
        found = re.search(rf"{re.escape(option[1])}\s*=\s*('(?:[^']|'')*')", text.text)
        if found is not None:
            return _span(text, found.start(1), found.end(1))
    for word in _QUOTED.findall(message):
        start = text.text.find(word)
        if start >= 0:
            return _span(text, start, start + len(word))
    return text.span


def position_of_option(message: str, keys: Mapping[str, Span]) -> Span | None:
    """Return the place of the option that a message names, of its value where that is what is wrong; `keys` are the
    places of the keys. None where it names none.
    """
    for key, span in keys.items():
        if f"option '{key}' = " in message:
            return _value_of(span) or span
    for key, span in keys.items():
        if f"'{key}'" in message:
            return span
    for span in keys.values():
        value = _value_of(span)
        if value is not None and _text_at(value) in message:
            return value
    return None


def _value_of(key: Span) -> Span | None:
    """Return the place of the value of an option whose key is at a place, where it stands on the same line."""
    behind = key.column - 1 + key.length
    found = _VALUE.match(key.line_text, behind)
    if found is None:
        return None
    return replace(key, column=found.start(1) + 1, length=found.end(1) - found.start(1))


def _text_at(span: Span) -> str:
    return span.line_text[span.column - 1 :][: span.length]


def _span(text: StatementText, start: int, end: int) -> Span:
    return text.source.span(text.offset + start, text.offset + end - 1)
