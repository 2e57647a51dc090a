"""One value of a row as text: exact, on one line, and not longer than a reader's patience."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from penstock.sql.run.summary import plain

__all__ = ["LONGEST", "cell_text"]

LONGEST = 300
"""Characters of a value that are shown; what is cut says how long it was."""


def cell_text(value: Any) -> str:
    """Write a value; NULL has its name, control characters are written out."""
    text = _text(value)
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    if len(shown) <= LONGEST:
        return shown
    return f"{shown[:LONGEST]}… ({len(text):,} characters)"


def _text(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case Decimal():
            return f"{value:f}"
        case int() | float():
            return str(value)
        case bytes() | bytearray():
            return f"0x{bytes(value).hex()}"
        case datetime():
            exact = value.microsecond % 1000 == 0 and value.microsecond > 0
            return value.isoformat(" ", "milliseconds" if exact else "auto")
        case date() | time():
            return value.isoformat()
        case dict() | list() | tuple():
            return json.dumps(plain(value), ensure_ascii=False)
    return str(value)
