"""Keeps what `{{ secret('...') }}` put into SQL off the screen: values that this process must not show.

Everything that a command says passes through `without_secrets`; rows of tables do not, they are data.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["keep_secret", "masked", "without_secrets"]

REDACTED = "******"
SHORTEST = 3
"""Shorter values are not masked: masking every `a` makes a log unreadable (dbt-core#5312)."""

_values: set[str] = set()


def keep_secret(value: str) -> None:
    """Mask a value in all that is said from now on, as a whole and line by line."""
    for part in (value, *value.splitlines()):
        for spelled in (part, part.replace("'", "''"), json.dumps(part)[1:-1]):
            if len(part.strip()) >= SHORTEST:
                _values.add(spelled)


def without_secrets(text: str, *, same_length: bool = False) -> str:
    """Give a text with secrets as asterisks: six, or with `same_length` as many as there were characters."""
    for value in sorted(_values, key=len, reverse=True):
        if value in text:
            text = text.replace(value, _stars(value) if same_length else REDACTED)
    return text


def masked(document: Any) -> Any:
    """Give plain values (of a JSON document) with the secrets in their texts masked; keys and numbers stay."""
    match document:
        case str():
            return without_secrets(document)
        case dict():
            return {key: masked(value) for key, value in document.items()}
        case list() | tuple():
            return [masked(value) for value in document]
    return document


def _stars(value: str) -> str:
    return "".join(char if char == "\n" else "*" for char in value)
