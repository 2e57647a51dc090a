"""CREATE of an existing object: the same definition is the same table; another one is reported with its differences.

Definitions are compared by meaning and not by text.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from sqlglot.errors import ParseError

from penstock.catalog.definitions.contract import Catalog, ChangeKind, kind_of
from penstock.catalog.definitions.ddl_rules import find_catalog
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import ObjectExistsError, PenstockError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Column, ComputedColumn, MetadataColumn, Table, View
from penstock.catalog.options.option import Option, PrefixOption
from penstock.catalog.options.redaction import is_secret
from penstock.connector.registry import options_of
from penstock.sql.dialect.flink.trees import to_text
from penstock.sql.expressions.expression import parse_expression
from penstock.sql.statements.definitions import CreateCatalog, CreateDatabase
from penstock.sql.statements.statement import CreateTable, CreateTableAs, CreateView, Statement

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


log = logging.getLogger(__name__)


def create_or_keep(obj: Table | View, namespace: Namespace, *, if_not_exists: bool) -> None:
    """Add a definition, unless an equal one exists. Raises ObjectExistsError with the differences."""
    found = namespace.same_named(obj) if namespace.redefines else None
    if found is not None and kind_of(found) == kind_of(obj) and diff_definitions(found, obj):
        namespace.replace(found, obj)
        return
    try:
        namespace.create(obj, if_not_exists=if_not_exists)
    except ObjectExistsError as error:
        found = namespace.same_named(obj)
        if found is None or kind_of(found) != kind_of(obj):
            raise
        drift = diff_definitions(found, obj)
        if drift.parts:
            raise _other(obj, drift, error) from None


def create_database_or_keep(statement: CreateDatabase, catalog: Catalog) -> None:
    """Add a database, unless an equal one exists. Raises ObjectExistsError."""
    wanted = statement.database
    try:
        catalog.create_database(wanted, if_not_exists=statement.if_not_exists)
    except ObjectExistsError:
        if catalog.database(wanted.catalog, wanted.name) != wanted:
            raise


def create_catalog_or_keep(statement: CreateCatalog, catalog: Catalog) -> None:
    """Add a catalog, unless an equal one exists. Raises ObjectExistsError."""
    wanted = statement.catalog
    try:
        catalog.create_catalog(wanted, if_not_exists=statement.if_not_exists)
    except ObjectExistsError:
        if find_catalog(wanted.name, catalog) != wanted:
            raise


def refilled_error(statement: Statement, namespace: Namespace) -> ObjectExistsError | None:
    """Make the error for a CREATE TABLE ... AS of an existing table, which would get its rows twice.

    None for other statements, and for a new table. A query that never ends resumes from its checkpoint.
    """
    if not isinstance(statement, CreateTableAs) or statement.create.if_not_exists:
        return None
    if not is_there(statement, namespace):
        return None
    table = statement.create.table.identifier
    return ObjectExistsError(
        f"there is a table {table} already, and its query ends: it would write its rows again",
        hint=f"CREATE OR REPLACE TABLE {table.name} AS rewrites them, IF NOT EXISTS adds them again, "
        f"DROP TABLE {table.name} forgets the table",
        span=statement.span,
    )


def is_there(statement: Statement, namespace: Namespace) -> bool:
    """Return whether a CREATE defines an existing object, of this name and definition."""
    obj = _created(statement)
    found = None if obj is None else namespace.same_named(obj)
    if obj is None or found is None or kind_of(found) != kind_of(obj):
        return False
    return not diff_definitions(found, obj)


def existing_note(statement: Statement, namespace: Namespace) -> str | None:
    """Return a note that what a plain CREATE defines exists already; None where it is new, or under IF NOT EXISTS."""
    match statement:
        case CreateTable(if_not_exists=False) | CreateView(if_not_exists=False):
            obj = _created(statement)
            if obj is not None and is_there(statement, namespace):
                return f"{obj.identifier.name} is there already, with this definition"
    return None


def log_existing_definition(statement: Statement, namespace: Namespace) -> None:
    """Log that what a typed CREATE defines exists already, with the same definition or another.
    Raises ObjectExistsError.
    """
    if (refilled := refilled_error(statement, namespace)) is not None:
        raise refilled
    if (drift := diff_with_catalog(statement, namespace)) is not None:
        log.warning("%s", definition_warning(statement, drift, namespace).message)
    elif (note := existing_note(statement, namespace)) is not None:
        log.info("%s", note)


def diff_with_catalog(statement: Statement, namespace: Namespace) -> DefinitionDiff | None:
    """Describe how a CREATE differs from what the catalog holds under its name; None where it holds nothing else."""
    obj = _created(statement)
    found = None if obj is None else namespace.same_named(obj)
    # what has no version is not stored: it is of this file, of this session, or of a folder
    if obj is None or found is None or found.version is None or kind_of(found) != kind_of(obj):
        return None
    return diff_definitions(found, obj) or None


def definition_warning(
    statement: Statement, drift: DefinitionDiff, namespace: Namespace
) -> ObjectExistsError:
    """Make the warning that a definition of a file is not the one that is used."""
    obj = _created(statement)
    assert obj is not None, "a drift is of a CREATE"
    kind = kind_of(obj)
    return ObjectExistsError(
        f"{drift.identifier.name} is in the catalog with another definition{since(drift.identifier, namespace)}, "
        f"which is used; here it has: {drift}",
        hint=_ways(kind, drift.identifier.name),
        span=statement.span,
    )


def _created(statement: Statement) -> Table | View | None:
    match statement:
        case CreateTable(table=table):
            return table
        case CreateTableAs(create=create):
            return create.table
        case CreateView(view=view):
            return view
    return None


def _other(obj: Table | View, drift: DefinitionDiff, found: ObjectExistsError) -> ObjectExistsError:
    kind, name = kind_of(obj), obj.identifier.name
    if obj.temporary:
        return ObjectExistsError(
            f"{found.message}, with another definition; here it has: {drift}", hint=found.hint
        )
    return ObjectExistsError(
        f"there is a {kind} {obj.identifier} already, with another definition; here it has: "
        f"{drift}",
        hint=f"{_ways(kind, name)}; IF NOT EXISTS uses the catalog's",
    )


def _ways(kind: str, name: str) -> str:
    return (
        f"`penstock catalog apply FILE` takes the file's definition, ALTER {kind.upper()} {name} changes the "
        f"catalog's, DROP {kind.upper()} {name} forgets it (data stays)"
    )
