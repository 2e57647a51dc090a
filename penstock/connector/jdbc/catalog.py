"""A database server as a catalog (`ExternalCatalog`, Flink's JdbcCatalog): its tables as definitions, with their keys.

PostgreSQL's databases are those of the server, a table outside of the schema `public` is named `schema.table`.
SQLite's are the files of a folder. The database is asked each time; the caller caches the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect, text
from sqlalchemy import types as a
from sqlalchemy.types import TypeEngine

from penstock.catalog.definitions.federated import NotReachedError
from penstock.catalog.errors import ConfigError, QueryFailedError
from penstock.catalog.model import types as t
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.namespaces import BASE_URL, PASSWORD, USERNAME, CatalogDescriptor
from penstock.catalog.model.table import PhysicalColumn, PrimaryKey, Schema, Table
from penstock.catalog.options.references import sealed_text
from penstock.connector.capabilities import CatalogAccess
from penstock.connector.jdbc.address import Address, Backend, read_address
from penstock.connector.jdbc.database import JdbcDatabase

CONNECT_TIMEOUT_S = 10
PUBLIC = "public"
_FILES = (".db", ".sqlite", ".sqlite3")
_DATABASES = "SELECT datname FROM pg_database WHERE datallowconn AND NOT datistemplate"
_OWN = ("pg_catalog", "information_schema")
"""PostgreSQL's own schemas; Flink leaves them out as well."""
_LEDGER = "penstock_ledger"
_LONGEST = 38
"""Digits of a DECIMAL, at most."""
_MICROS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcCatalog:
    """The server of `descriptor`; SQLite's relative folder is of `project`. `seal` encrypts secrets for other
    processes.

    `offline`: no server is asked, and every method raises NotReachedError.
    """

    descriptor: CatalogDescriptor
    project: Path
    seal: Callable[[str], str]
    offline: bool = False

    @classmethod
    def of(cls, descriptor: CatalogDescriptor, access: CatalogAccess) -> JdbcCatalog:
        """Make the catalog of a descriptor (MakeExternalCatalog)."""
        return cls(
            descriptor=descriptor,
            project=access.project,
            seal=lambda text: sealed_text(text, access.seal),
            offline=access.offline,
        )

    def check(self) -> None:
        """Connect to the default database (Flink: AbstractJdbcCatalog.open). Raises ConfigError, OptionError."""
        name = self.descriptor.default_database
        with self._connected(name) as connection:
            connection.execute(text("SELECT 1"))

    def databases(self) -> Sequence[str]:
        """List the server's databases, without templates; of SQLite the files of the folder."""
        address = self._address(self.descriptor.default_database)
        if address.backend is Backend.SQLITE:
            self._check_reach()
            folder = Path(address.database).parent
            files = folder.iterdir() if folder.is_dir() else ()
            return sorted(file.name for file in files if file.suffix.lower() in _FILES)
        with self._connected(self.descriptor.default_database) as connection:
            return sorted(connection.scalars(text(_DATABASES)))

    def tables(self, database: str) -> Sequence[str]:
        """List the tables and views of a database."""
        if database not in self.databases():
            return ()
        with self._connected(database) as connection:
            looked = inspect(connection)
            if connection.dialect.name == Backend.SQLITE:
                names = [*looked.get_table_names(), *looked.get_view_names()]
                return sorted(set(names) - {_LEDGER})
            found: set[str] = set()
            for schema in looked.get_schema_names():
                if schema in _OWN or schema.startswith("pg_"):
                    continue
                views = (
                    *looked.get_view_names(schema),
                    *looked.get_materialized_view_names(schema),
                )
                for name in {*looked.get_table_names(schema), *views} - {_LEDGER}:
                    found.add(name if schema == PUBLIC else f"{schema}.{name}")
            return sorted(found)

    def find(self, identifier: Identifier) -> Table | None:
        """Return a table as a definition with the connector `jdbc`."""
        if identifier.database not in self.databases():
            return None
        with self._connected(identifier.database) as connection:
            looked = inspect(connection)
            backend = Backend(connection.dialect.name)
            on_server = backend is Backend.POSTGRESQL
            schema, name = (
                _schema_and_name(identifier.name) if on_server else (None, identifier.name)
            )
            if not looked.has_table(name, schema):
                return None
            columns = looked.get_columns(name, schema)
            key = looked.get_pk_constraint(name, schema)
            comment = looked.get_table_comment(name, schema)["text"] if on_server else None
        names = key["constrained_columns"]
        return Table(
            identifier=identifier,
            schema=Schema(
                columns=tuple(_column(each, names, backend) for each in columns),
                primary_key=PrimaryKey(columns=tuple(names)) if names else None,
            ),
            options=self._options(identifier.database, name, schema),
            comment=comment,
        )

    def _options(self, database: str, name: str, schema: str | None) -> tuple[tuple[str, str], ...]:
        values = self.descriptor.resolved
        options = {
            "connector": "jdbc",
            "url": self._url(database),
            "table-name": name if schema in (None, PUBLIC) else f"{schema}.{name}",
        }
        username, password = values.get(USERNAME), values.get(PASSWORD)
        if username is not None and password is not None:
            options |= {"username": username, "password": password}
        return tuple(options.items())

    def _url(self, database: str) -> str:
        base, question, parameters = self.descriptor.resolved.get(BASE_URL).partition("?")
        return f"{base.rstrip('/')}/{database}{question}{parameters}"

    def _address(self, database: str) -> Address:
        return read_address(
            self._url(database), self.project, owner=f"catalog {self.descriptor.name}"
        )

    def _check_reach(self) -> None:
        if self.offline:
            raise NotReachedError(
                f"the catalog {self.descriptor.name!r} is a database, which is not asked here",
                hint="`penstock validate --level connect` asks it",
            )

    @contextmanager
    def _connected(self, database: str) -> Iterator[Connection]:
        self._check_reach()
        values, address = self.descriptor.resolved, self._address(database)
        username, password = values.get(USERNAME), values.get(PASSWORD)
        connected = JdbcDatabase(
            address=address,
            username=None if username is None else self.seal(username),
            password=None if password is None else self.seal(password),
            connect_timeout_s=CONNECT_TIMEOUT_S,
            retries=0,
            shown=f"catalog {self.descriptor.name} ({address.shown})",
        )
        try:
            with connected.reading() as connection:
                yield connection
        except QueryFailedError as error:
            raise ConfigError(error.message, hint=error.hint) from error


def _schema_and_name(name: str) -> tuple[str, str]:
    """Split `schema.table`; a name alone is in `public` (Flink: PostgresTablePath)."""
    schema, dot, table = name.partition(".")
    return (schema, table) if dot else (PUBLIC, schema)


def _column(found: Any, key: Sequence[str], backend: Backend) -> PhysicalColumn:
    nullable = bool(found["nullable"]) and found["name"] not in key
    kind = logical_type(found["type"], backend, nullable=nullable)
    return PhysicalColumn(name=found["name"], type=kind, comment=found.get("comment"))


def logical_type(kind: TypeEngine[Any], backend: Backend, *, nullable: bool) -> t.LogicalType:
    """Return our type for a column's in a database (Flink: PostgresTypeMapper). A type without a
    counterpart is read as text.
    """
    match kind:
        case a.Boolean():
            return t.BooleanType(nullable=nullable)
        case a.SmallInteger():
            return t.SmallIntType(nullable=nullable)
        case a.BigInteger():
            return t.BigIntType(nullable=nullable)
        case a.Integer() if backend is Backend.SQLITE:
            return t.BigIntType(nullable=nullable)  # of 64 bits, whatever it is called
        case a.Integer():
            return t.IntType(nullable=nullable)
        case a.REAL() if backend is Backend.POSTGRESQL:
            return t.FloatType(nullable=nullable)
        case a.Float():
            return t.DoubleType(nullable=nullable)
        case a.Numeric(precision=None):
            return t.DecimalType(precision=_LONGEST, scale=18, nullable=nullable)
        case a.Numeric(precision=int(precision), scale=scale) if precision <= _LONGEST:
            return t.DecimalType(precision=precision, scale=scale or 0, nullable=nullable)
        case a.Date():
            return t.DateType(nullable=nullable)
        case a.DateTime(timezone=True):
            return t.TimestampLtzType(precision=_precision(kind), nullable=nullable)
        case a.DateTime():
            return t.TimestampType(precision=_precision(kind), nullable=nullable)
        case a.Time(timezone=False):
            return t.TimeType(precision=_precision(kind), nullable=nullable)
        case a.LargeBinary() | a.BINARY() | a.VARBINARY():
            return t.VarBinaryType(length=t.MAX_LENGTH, nullable=nullable)
        case a.Enum():
            return t.VarCharType(length=t.MAX_LENGTH, nullable=nullable)
        case a.CHAR(length=int(length)):
            return t.CharType(length=length, nullable=nullable)
        case a.String(length=int(length)):
            return t.VarCharType(length=length, nullable=nullable)
    return t.VarCharType(length=t.MAX_LENGTH, nullable=nullable)


def _precision(kind: TypeEngine[Any]) -> int:
    """Return the digits of a second that a type keeps; PostgreSQL keeps microseconds where none are said."""
    given = getattr(kind, "precision", None)
    return given if isinstance(given, int) else _MICROS
