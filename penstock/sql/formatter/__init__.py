"""Reformats SQL text without changing what it means: the formatter behind `penstock format`.

It works on the tokens of the file as it is edited, comments and Jinja included, so nothing is lost: `tokens.py` cuts
the text and finds parentheses and lists, `writer.py` decides lines and blanks, `formatter.py` puts a file
together and checks that the tokens are still the same.
"""

from __future__ import annotations

from penstock.sql.formatter.formatter import format_sql

__all__ = ["format_sql"]
