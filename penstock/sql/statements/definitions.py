"""The statements that change tables and views, and define databases and catalogs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from penstock.catalog.errors import DefinitionError, InputError, Span
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import CatalogDescriptor, DatabaseDescriptor
from penstock.catalog.model.table import Table, View
from penstock.sql.errors.locate import position_of_option

__all__ = [
    "AlterCatalog",
    "AlterDatabase",
    "AlterTable",
    "AlterView",
    "CreateCatalog",
    "CreateDatabase",
    "DropCatalog",
    "DropDatabase",
    "ShowCreateCatalog",
    "locate_option",
]


def locate_option(
    error: InputError,
    option_spans: Mapping[str, Span],
    statement: Span,
    column_spans: Mapping[str, Span] = MappingProxyType({}),
) -> InputError:
    """Add to an error the position of the column it is about, of the option that it names, or of the statement."""
    if error.span is None:
        column = error.column if isinstance(error, DefinitionError) else None
        of_column = column_spans.get(column) if column is not None else None
        of_option = None if column is not None else position_of_option(error.message, option_spans)
        error.span = of_column or of_option or statement
    return error


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTable:
    """ALTER TABLE [IF EXISTS] name ADD | MODIFY | DROP | RENAME | SET | RESET ...: one definition becomes another.

    `before` and `after` are None for a missing table under IF EXISTS.
    """

    identifier: Identifier
    before: Table | None
    after: Table | None
    option_spans: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False)
    column_spans: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False)
    span: Span = field(compare=False)

    def place(self, error: InputError) -> InputError:
        """Add to an error about this table the position of its column, of the option that it names,
        or of the statement.
        """
        return locate_option(error, self.option_spans, self.span, self.column_spans)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterView:
    """ALTER VIEW name RENAME TO name, ALTER VIEW name AS query."""

    before: View
    after: View
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDatabase:
    """CREATE DATABASE [IF NOT EXISTS] [catalog.]name [COMMENT] [WITH (options)]."""

    database: DatabaseDescriptor
    if_not_exists: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterDatabase:
    """ALTER DATABASE [catalog.]name SET (options)."""

    before: DatabaseDescriptor
    after: DatabaseDescriptor
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDatabase:
    """DROP DATABASE [IF EXISTS] [catalog.]name [RESTRICT | CASCADE]."""

    catalog: str
    name: str
    if_exists: bool = False
    cascade: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateCatalog:
    """CREATE CATALOG [IF NOT EXISTS] name [COMMENT] WITH ('type' = 'penstock' | 'generic_in_memory', ...)."""

    catalog: CatalogDescriptor
    if_not_exists: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterCatalog:
    """ALTER CATALOG name SET (options) | RESET (keys) | COMMENT 'text'."""

    before: CatalogDescriptor
    after: CatalogDescriptor
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropCatalog:
    """DROP CATALOG [IF EXISTS] name."""

    name: str
    if_exists: bool = False
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowCreateCatalog:
    """SHOW CREATE CATALOG name."""

    name: str
    span: Span = field(compare=False)
