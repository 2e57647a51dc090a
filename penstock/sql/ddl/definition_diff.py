"""How a definition in a file differs from the catalog's of the same name, compared by meaning and not by text.

Expressions are compared in one spelling, options by their parsed values: an alias is its option, and a default that is
written out is the default. Comments change no result, so they are compared separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sqlglot.errors import ParseError

from penstock.catalog.definitions.contract import ChangeKind
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import PenstockError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Column, ComputedColumn, MetadataColumn, Table, View
from penstock.catalog.options.option import Option, PrefixOption
from penstock.catalog.options.redaction import is_secret
from penstock.connector.registry import options_of
from penstock.sql.dialect.flink.trees import to_text
from penstock.sql.expressions.expression import parse_expression

__all__ = ["DefinitionDiff", "diff_definitions", "since"]

RECENT = 20
"""Changes of a name among which that of a table or view is looked for: a function may have the same name."""

SHOWN = 6
"""Columns, and options, that a message lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionDiff:
    """What differs in a file's definition from the catalog's.

    `parts` change what the table is, `comments` do not. `names` are the columns that differ.
    """

    identifier: Identifier
    parts: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    names: frozenset[str] = field(default_factory=frozenset)

    def __bool__(self) -> bool:
        return bool(self.parts or self.comments)

    def __str__(self) -> str:
        return ", ".join((*self.parts, *self.comments))


def diff_definitions(stored: Table | View, written: Table | View) -> DefinitionDiff:
    """Compare a definition of the catalog with one of a file that has its name and kind."""
    if isinstance(stored, Table) and isinstance(written, Table):
        return _table_drift(stored, written)
    assert isinstance(stored, View), "the kinds are the same"
    assert isinstance(written, View), "the kinds are the same"
    return _view_drift(stored, written)


def since(identifier: Identifier, namespace: Namespace) -> str:
    """Return since when a definition is in the catalog, as ` since <time>`; empty without a history."""
    try:
        changes = namespace.catalog.history(identifier, limit=RECENT)
    except PenstockError:
        return ""  # a store without history, or one that is away: it is only a detail of a message
    last = next((c for c in changes if c.kind in {ChangeKind.TABLE, ChangeKind.VIEW}), None)
    return "" if last is None else f" since {last.when}"


# --- tables ---


def _table_drift(stored: Table, written: Table) -> DefinitionDiff:
    names: set[str] = set()
    parts = [*_columns(stored, written, names)]
    parts += _clause("WATERMARK", _watermark(stored), _watermark(written))
    parts += _clause("PRIMARY KEY", _key(stored), _key(written))
    parts += _clause("PARTITIONED BY", list(stored.partition_keys), list(written.partition_keys))
    parts += _clause("DISTRIBUTED BY", stored.distribution, written.distribution)
    if stored.materialization != written.materialization:
        parts.append("it is a materialized table" if stored.materialization else "materialized")
    parts += _options(stored, written)
    return DefinitionDiff(
        identifier=written.identifier,
        parts=tuple(parts),
        comments=tuple(_comments(stored, written)),
        names=frozenset(names),
    )


def _columns(stored: Table, written: Table, names: set[str]) -> Iterator[str]:
    before = {column.name: column for column in _of_keys(stored)}
    after = {column.name: column for column in _of_keys(written)}
    added = [name for name in after if name not in before]
    gone = [name for name in before if name not in after]
    changed = [n for n in after if n in before and _column(before[n]) != _column(after[n])]
    names |= {*added, *gone, *changed}
    shown = [f"+{name}" for name in added] + [f"-{name}" for name in gone]
    shown += [f"{name} {_shown(after[name])} (not {_shown(before[name])})" for name in changed]
    if shown:
        yield f"column{'s' if len(shown) > 1 else ''} {_in_short(shown)}"
    elif list(before) != list(after):
        yield f"order of columns ({', '.join(after)}, not {', '.join(before)})"


def _of_keys(table: Table) -> Iterator[Column]:
    """Return the columns; those of the PRIMARY KEY are NOT NULL, whether that is written or not."""
    key = table.schema.primary_key
    for column in table.schema.columns:
        if key is not None and column.name in key.columns and column.type is not None:
            yield replace(column, type=replace(column.type, nullable=False))
        else:
            yield column


def _column(column: Column) -> tuple[object, ...]:
    """Return the definition of a column; the type of a computed one follows from its expression."""
    match column:
        case ComputedColumn():
            return ("computed", _spelled(column.expression))
        case MetadataColumn():
            return ("metadata", column.type, column.metadata_key, column.virtual)
    return ("physical", column.type)


def _shown(column: Column) -> str:
    match column:
        case ComputedColumn():
            return f"AS {column.expression}"
        case MetadataColumn():
            virtual = " VIRTUAL" if column.virtual else ""
            return f"{column.type} METADATA FROM '{column.metadata_key}'{virtual}"
    return str(column.type)


def _spelled(expression: str) -> str:
    """Write an expression in today's spelling: an older Penstock may have stored another."""
    try:
        return to_text(parse_expression(expression))
    except ParseError:
        return expression


def _clause(title: str, before: object, after: object) -> Iterator[str]:
    if before != after:
        yield title if before and after else f"{'+' if after else '-'}{title}"


def _watermark(table: Table) -> tuple[str, str] | None:
    mark = table.schema.watermark
    return None if mark is None else (mark.column, _spelled(mark.expression))


def _key(table: Table) -> tuple[str, ...]:
    key = table.schema.primary_key
    return () if key is None else key.columns  # its name means nothing


def _comments(stored: Table, written: Table) -> Iterator[str]:
    if stored.comment != written.comment:
        yield "the table's comment"
    before = {column.name: column.comment for column in stored.schema.columns}
    for column in written.schema.columns:
        if column.name in before and column.comment != before[column.name]:
            yield f"the comment of {column.name}"


def _in_short(shown: Sequence[str]) -> str:
    more = len(shown) - SHOWN
    return ", ".join(shown[:SHOWN]) + (f" and {more} more" if more > 0 else "")


# --- options ---


def _options(stored: Table, written: Table) -> Iterator[str]:
    before, after = stored.option_map, written.option_map
    if before == after:
        return
    known = options_of(written.connector) if stored.connector == written.connector else ()
    parse = partial(_value, known=known)
    old, new = _by_key(before, known), _by_key(after, known)
    shown = [
        _shown_option(key, new.get(key), old.get(key))
        for key in dict.fromkeys((*new, *old))
        if parse(key, new.get(key)) != parse(key, old.get(key))
    ]
    if shown:
        yield f"option{'s' if len(shown) > 1 else ''} {_in_short(shown)}"


def _by_key(
    options: Mapping[str, str], known: Sequence[Option[Any] | PrefixOption]
) -> dict[str, str]:
    """Return options by their own keys, where older ones are written."""
    own = {alias: o.key for o in known if isinstance(o, Option) for alias in o.aliases}
    return {own.get(key, key): value for key, value in options.items()}


def _value(key: str, text: str | None, *, known: Sequence[Option[Any] | PrefixOption]) -> object:
    option = next((o for o in known if isinstance(o, Option) and o.key == key), None)
    if option is None:
        return text
    if text is None:
        return option.default
    try:
        value: object = option.type.parse(text)
    except ValueError:
        return text  # a reference, or what the connector is going to refuse
    return value


def _shown_option(key: str, new: str | None, old: str | None) -> str:
    if new is None:
        return f"-'{key}'"
    if is_secret(key):
        return f"'{key}'"
    return f"+'{key}' = '{new}'" if old is None else f"'{key}' = '{new}' (not '{old}')"


# --- views ---


def _view_drift(stored: View, written: View) -> DefinitionDiff:
    parts = []
    if stored.query != written.query:
        parts.append("its query")
    if stored.columns != written.columns:
        parts.append("its columns")
    comments = (stored.comment, stored.column_comments) != (
        written.comment,
        written.column_comments,
    )
    return DefinitionDiff(
        identifier=written.identifier,
        parts=tuple(parts),
        comments=("comments",) if comments else (),
        names=frozenset({*stored.columns} ^ {*written.columns}),
    )
