"""Namespaces of tables, as values: catalogs and databases, and the options of a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.catalog.errors import DefinitionError, OptionError, UnsupportedError, did_you_mean
from penstock.catalog.options.option import STRING, Option, Resolved, resolve
from penstock.catalog.options.redaction import redact

DEFAULT_CATALOG = "default_catalog"
DEFAULT_DATABASE = "default_database"
INFORMATION_SCHEMA = "information_schema"
"""The database in every catalog that shows what the catalogs hold; SHOW DATABASES leaves it out."""

PERSISTENT = "penstock"
"""The type of a catalog whose definitions are kept in the store."""
IN_MEMORY = "generic_in_memory"
"""The type of a catalog that lives as long as its session (Flink: GenericInMemoryCatalog)."""
DELTA_PATH = "delta-path"
"""The type of a catalog that is a folder of Delta tables."""
FOLDER_CONNECTOR = "delta"
"""The connector of the tables in such a folder."""
JDBC = "jdbc"
"""The type of a catalog that is a database server (Flink: JdbcCatalog)."""
SPARK = "spark"
"""The type of a catalog that Spark has: its session catalog, which may be a Hive metastore, or another by name."""

EXTERNAL = frozenset({DELTA_PATH, JDBC, SPARK})
"""Types of catalogs whose tables are found elsewhere: the store keeps their options."""

ROOT_DATABASE = "default"
"""The database of a folder of Delta tables whose tables lie right in it."""

_KNOWN = {
    PERSISTENT: "keeps its tables in the store",
    IN_MEMORY: "is kept for the session",
    DELTA_PATH: "is a folder of Delta tables",
    JDBC: "is a database server",
    SPARK: "is what Spark's catalog holds",
}
_OTHERS = {
    "hive": "Spark reads a Hive metastore: start Spark with it, and CREATE CATALOG ... WITH ('type' = 'spark')",
    "paimon": "Spark with Paimon's jars has it as a catalog: WITH ('type' = 'spark', 'name' = '...')",
    "iceberg": "Spark with Iceberg's jars has it as a catalog: WITH ('type' = 'spark', 'name' = '...')",
}

TYPE: Option[str | None] = Option(
    key="type",
    type=STRING,
    default=None,
    doc="what the catalog is: " + ", ".join(_KNOWN),
    required=True,
    flink="generic_in_memory, jdbc and hive",
)
PATH = Option(
    key="path",
    type=STRING,
    default="",
    doc="the folder of Delta tables: a path relative to the project, or a URL",
    required=True,
    flink=None,
)
BASE_URL = Option(
    key="base-url",
    type=STRING,
    default="",
    doc="the server without a database: jdbc:postgresql://host:5432, or jdbc:sqlite:folder whose files are databases",
    required=True,
)
USERNAME: Option[str | None] = Option(
    key="username",
    type=STRING,
    default=None,
    doc="user of the database server; needs 'password'",
    references=True,
)
PASSWORD: Option[str | None] = Option(
    key="password",
    type=STRING,
    default=None,
    doc="password of the user",
    secret=True,
    references=True,
)
SPARK_NAME = Option(
    key="name",
    type=STRING,
    default="spark_catalog",
    doc="the catalog's name in Spark; spark_catalog is the session's own, which may be a Hive metastore",
    flink=None,
)


def _default_database(name: str, doc: str, *, required: bool = False) -> Option[str]:
    return Option(
        key="default-database",
        type=STRING,
        default=name,
        doc=f"the database that USE CATALOG leads to{doc}",
        required=required,
    )


_DATABASE: dict[str, Option[str]] = {
    PERSISTENT: _default_database(DEFAULT_DATABASE, "; it is always there"),
    # Flink: GenericInMemoryCatalog.DEFAULT_DB
    IN_MEMORY: _default_database("default", "; it is always there"),
    DELTA_PATH: _default_database(ROOT_DATABASE, "; default has the tables right in the folder"),
    JDBC: _default_database("", "", required=True),
    SPARK: _default_database("default", ""),
}
_OPTIONS: dict[str, tuple[Option[Any], ...]] = {
    PERSISTENT: (),
    IN_MEMORY: (),
    DELTA_PATH: (PATH,),
    JDBC: (BASE_URL, USERNAME, PASSWORD),
    SPARK: (SPARK_NAME,),
}


def catalog_types() -> Mapping[str, str]:
    """Return the types of catalogs, each with what such a catalog does."""
    return _KNOWN


def catalog_options(kind: str) -> tuple[Option[Any], ...]:
    """Return the options of catalogs of a type."""
    return (TYPE, _DATABASE[kind], *_OPTIONS[kind])


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogDescriptor:
    """A catalog by its name and options. Raises OptionError, UnsupportedError for what it cannot be."""

    name: str
    options: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    version: int | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise DefinitionError("a catalog has a name")
        values = self.resolved
        empty = [o.key for o in self._known if o.required and not values.get(o)]
        if not values.get(self._database):
            empty.append(self._database.key)
        if empty:
            raise OptionError(f"catalog {self.name}: option '{empty[0]}' is empty")
        if self.type == JDBC and values.is_set(USERNAME) != values.is_set(PASSWORD):
            raise OptionError(
                f"catalog {self.name}: 'username' and 'password' are given together, or neither"
            )

    @property
    def option_map(self) -> dict[str, str]:
        """The options by key."""
        return dict(self.options)

    @property
    def type(self) -> str:
        """What it is, and so where its tables are found."""
        return checked_type(self.name, self.option_map.get(TYPE.key))

    @property
    def is_external(self) -> bool:
        """Whether its tables are found elsewhere than in the store."""
        return self.type in EXTERNAL

    @property
    def default_database(self) -> str:
        """The initial database, which USE CATALOG selects."""
        return self.resolved.get(self._database)

    @property
    def resolved(self) -> Resolved:
        """The options as values. Raises OptionError."""
        return resolve(self.option_map, self._known, owner=f"catalog {self.name}")

    @property
    def _database(self) -> Option[str]:
        return _DATABASE[self.type]

    @property
    def _known(self) -> tuple[Option[Any], ...]:
        return catalog_options(self.type)

    def __repr__(self) -> str:
        return f"CatalogDescriptor({self.name}, options={redact(self.option_map)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseDescriptor:
    """A database. Its options mean nothing to Penstock: they are kept, as Flink keeps them."""

    catalog: str
    name: str
    options: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    version: int | None = field(default=None, compare=False, repr=False)

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
    either = ", ".join(f"'{kind}' {what}" for kind, what in _KNOWN.items())
    if given is None:
        raise OptionError(
            f"catalog {name}: one or more required options are missing: type",
            hint=f"add 'type' = '...': {either}",
        )
    if given in _KNOWN:
        return given
    if given in _OTHERS:
        raise UnsupportedError(
            f"catalog {name}: the type '{given}' is not supported", hint=_OTHERS[given]
        )
    raise OptionError(
        f"catalog {name}: option 'type' = '{given}' is no type of a catalog",
        hint=did_you_mean(given, _KNOWN) or either,
    )


def default_catalog() -> CatalogDescriptor:
    """The catalog that every store has, as it is before it is altered."""
    return CatalogDescriptor(name=DEFAULT_CATALOG, options=((TYPE.key, PERSISTENT),))


def implied_database(catalog: CatalogDescriptor) -> DatabaseDescriptor:
    """The default database of a catalog, as it is before it is altered."""
    return DatabaseDescriptor(catalog=catalog.name, name=catalog.default_database)
