"""Completion of a statement that is being typed: tables, columns, options and their values, keywords.

Pure: it reads the text and the given names. Options come from the connectors' descriptors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.catalog.options.option import BOOLEAN, STRING, Option
from penstock.connector.registry import connector_names, options_of

KEYWORDS = (
    "ALTER", "AND", "AS", "BEGIN", "BETWEEN", "CASE", "CAST", "COUNT", "CREATE", "CROSS", "CUMULATE",
    "DATABASE", "DATABASES", "DELETE", "DESCRIBE", "DESCRIPTOR", "DISTINCT", "DROP", "ELSE", "END",
    "EXECUTE", "EXISTS", "EXPLAIN", "FROM", "FULL", "FUNCTION", "FUNCTIONS", "GROUP BY", "HAVING",
    "HELP", "HOP", "INNER", "INSERT INTO", "INTERVAL", "JOIN", "LEFT", "LIKE", "LIMIT", "METADATA",
    "NOT", "NULL", "ORDER BY", "OVER", "PARTITION BY", "PARTITIONED BY", "PRIMARY KEY", "QUIT",
    "RESET", "RIGHT", "SECRET", "SECRETS", "SELECT", "SESSION", "SET", "SHOW", "STATEMENT SET", "SUM",
    "TABLE", "TABLES", "TEMPORARY", "THEN", "TUMBLE", "UNION ALL", "USE", "VALUES", "VIEW", "VIEWS", "VIRTUAL",
    "WATERMARK FOR", "WHEN", "WHERE", "WITH",
)  # fmt: skip
TYPES = (
    "ARRAY", "BIGINT", "BOOLEAN", "BYTES", "DATE", "DECIMAL", "DOUBLE", "FLOAT", "INT", "MAP",
    "ROW", "SMALLINT", "STRING", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "TINYINT", "VARCHAR",
)  # fmt: skip

_AFTER_TABLE_WORD = re.compile(
    r"\b(?:FROM|JOIN|INTO|TABLE|VIEW|DESCRIBE|DESC|USE)\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?[`\w.]*$",
    re.IGNORECASE,
)
_KEY = re.compile(r"(?:\(|,)\s*'[^']*$")
_VALUE = re.compile(r"'([^']+)'\s*=\s*'[^']*$")
_SET_KEY = re.compile(r"^\s*(?:RE)?SET\s+'[^']*$", re.IGNORECASE)
_WITH = re.compile(r"\b(?:WITH\s*\(|OPTIONS\s*\()[^()]*$", re.IGNORECASE)
_CONNECTOR = re.compile(r"'connector'\s*=\s*'([^']+)'", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What can be named: tables and views, the columns of one, functions, SET keys with their option."""

    tables: Callable[[], Sequence[str]]
    columns: Callable[[str], Sequence[str]]
    functions: Callable[[], Iterable[str]]
    settings: Mapping[str, Option[Any]]


def complete(before: str, word: str, names: Names) -> list[str]:
    """Return what `word`, the end of the typed text `before` + `word`, may become; sorted, keywords last."""
    text = before + word
    if _SET_KEY.search(text):
        return _starting(word.lstrip("'"), names.settings, "'")
    found = _VALUE.search(text)
    if found is not None:
        return _starting(word.lstrip("'"), _values(found[1], text, names), "'")
    if _WITH.search(text):
        if _KEY.search(text):
            return _starting(word.lstrip("'"), known_options(_connector(text)), "'")
        return []
    if text.count("'") % 2:
        return []
    tables = names.tables()
    if _AFTER_TABLE_WORD.search(text):
        return _starting(word, tables)
    mentioned = [t for t in tables if re.search(rf"\b{re.escape(t)}\b", text, re.IGNORECASE)]
    columns = [column for table in mentioned for column in names.columns(table)]
    functions = _alike(word, (name.upper() + "(" for name in names.functions()))
    return _starting(word, columns) + functions + _alike(word, (*KEYWORDS, *TYPES))


def known_options(connector: str | None) -> dict[str, Option[Any]]:
    """Return the options of a connector by key; of a name that is none, `connector` alone."""
    named = Option(key="connector", type=STRING, default=None, doc="the kind of table")
    options: dict[str, Option[Any]] = {"connector": named}
    if connector not in connector_names():
        return options
    options |= {o.key: o for o in options_of(connector) if isinstance(o, Option)}
    return options


def _connector(text: str) -> str | None:
    found = _CONNECTOR.search(text)
    return found[1] if found else None


def _values(key: str, text: str, names: Names) -> Iterable[str]:
    if key.lower() == "connector":
        return connector_names()
    option = names.settings.get(key) or known_options(_connector(text)).get(key)
    if option is None:
        return ()
    return ("true", "false") if option.type is BOOLEAN else option.type.choices


def _starting(word: str, candidates: Iterable[str], quote: str = "") -> list[str]:
    low = word.lower()
    return [f"{quote}{c}{quote}" for c in sorted(set(candidates)) if c.lower().startswith(low)]


def _alike(word: str, candidates: Iterable[str]) -> list[str]:
    """Return the keywords with a prefix, in lower case where the typed text is."""
    if not word:
        return []
    found = [each for each in sorted(set(candidates)) if each.startswith(word.upper())]
    return [each.lower() for each in found] if word.islower() else found
