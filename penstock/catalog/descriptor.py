"""What tables live in, as values: catalogs and databases, and the options that a catalog has."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.catalog.errors import DefinitionError, OptionError, UnsupportedError, did_you_mean
from penstock.catalog.options import STRING, Option, Resolved, optional, redact, resolve

__all__ = [
    "IN_MEMORY",
    "PERSISTENT",
    "CatalogDescriptor",
    "DatabaseDescriptor",
    "default_catalog",
    "implied_database",
]

DEFAULT_CATALOG = "default_catalog"
DEFAULT_DATABASE = "default_database"

PERSISTENT = "penstock"
"""The type of a catalog whose definitions are kept in the store."""
IN_MEMORY = "generic_in_memory"
"""The type of a catalog that lives as long as its session (Flink: GenericInMemoryCatalog)."""

OTHER_TYPES = ("hive", "jdbc", "paimon", "iceberg", "spark", "delta-path")

TYPE: Option[str | None] = optional(STRING, "type", f"'{PERSISTENT}' or '{IN_MEMORY}'")
PERSISTENT_DATABASE = Option(
    key="default-database",
    type=STRING,
    default=DEFAULT_DATABASE,
    doc="the database that USE CATALOG leads to; it is always there",
)
IN_MEMORY_DATABASE = Option(
    key="default-database",
    type=STRING,
    default="default",  # Flink: GenericInMemoryCatalog.DEFAULT_DB
    doc="the database that USE CATALOG leads to; it is always there",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogDescriptor:
    """A catalog by its name and options. Raises OptionError, UnsupportedError for what it cannot be."""

    name: str
    options: tuple[tuple[str, str], ...] = ()
    comment: str | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise DefinitionError("a catalog has a name")
        if not self._resolved.get(self._database):
            raise OptionError(f"catalog {self.name}: option 'default-database' is empty")

    @property
    def option_map(self) -> dict[str, str]:
        """The options by key."""
        return dict(self.options)

    @property
    def type(self) -> str:
        """Where its definitions are kept: PERSISTENT or IN_MEMORY."""
        return checked_type(self.name, self.option_map.get(TYPE.key))

    @property
    def default_database(self) -> str:
        """The database that is there from the start, and that USE CATALOG leads to."""
        return self._resolved.get(self._database)

    @property
    def _database(self) -> Option[str]:
        return PERSISTENT_DATABASE if self.type == PERSISTENT else IN_MEMORY_DATABASE

    @property
    def _resolved(self) -> Resolved:
        return resolve(self.option_map, (TYPE, self._database), owner=f"catalog {self.name}")

    def __repr__(self) -> str:
        return f"CatalogDescriptor({self.name}, options={redact(self.option_map)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseDescriptor:
    """A database. Its options mean nothing to Penstock: they are kept, as Flink keeps them."""

    catalog: str
    name: str
    options: tuple[tuple[str, str], ...] = ()
    comment: str | None = None

    def __post_init__(self) -> None:
        if not self.name:
            raise DefinitionError("a database has a name")

    @property
    def option_map(self) -> dict[str, str]:
        """The options by key."""
        return dict(self.options)

    def __repr__(self) -> str:
        return f"DatabaseDescriptor({self.catalog}.{self.name}, options={redact(self.option_map)})"


def checked_type(name: str, given: str | None) -> str:
    """The type of a catalog. Raises OptionError where it is missing or unknown, UnsupportedError for Flink's others."""
    known = (PERSISTENT, IN_MEMORY)
    either = f"'{PERSISTENT}' keeps its tables in the store, '{IN_MEMORY}' for the session"
    if given is None:
        raise OptionError(
            f"catalog {name}: one or more required options are missing: type",
            hint=f"add 'type' = '...': {either}",
        )
    if given in known:
        return given
    if given in OTHER_TYPES:
        raise UnsupportedError(f"catalog {name}: the type '{given}' is not supported", hint=either)
    raise OptionError(
        f"catalog {name}: option 'type' = '{given}' is no type of a catalog",
        hint=did_you_mean(given, known) or either,
    )


def default_catalog() -> CatalogDescriptor:
    """The catalog that every store has, as it is before it is altered."""
    return CatalogDescriptor(name=DEFAULT_CATALOG, options=((TYPE.key, PERSISTENT),))


def implied_database(catalog: CatalogDescriptor) -> DatabaseDescriptor:
    """The default database of a catalog, as it is before it is altered."""
    return DatabaseDescriptor(catalog=catalog.name, name=catalog.default_database)
