"""A jdbc table as one checked value: database, table, columns, key."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from penstock.catalog import types as t
from penstock.catalog.errors import DefinitionError, OptionError, UnsupportedError
from penstock.catalog.identifier import quote
from penstock.catalog.options import resolve
from penstock.catalog.schema import Schema
from penstock.catalog.table import Table
from penstock.connector.jdbc import options as o
from penstock.connector.jdbc.address import DRIVERS, Address, read_address
from penstock.connector.metadata_columns import check_written_metadata

__all__ = ["JdbcTable", "read_jdbc_table"]

_NOT_STORED = (
    t.ArrayType,
    t.MapType,
    t.MultisetType,
    t.RowType,
    t.IntervalYearMonthType,
    t.IntervalDaySecondType,
)
_MS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcTable:
    """What a definition says. `database_schema` is None for the connection's own; `key` is empty for appends.

    `rows_at_once` are sent together; a batch's transaction is tried `retries` times more.
    """

    owner: str
    schema: Schema
    address: Address
    name: str
    database_schema: str | None
    username: str | None
    password: str | None = field(repr=False)
    key: tuple[str, ...]
    connect_timeout_s: int
    rows_at_once: int
    retries: int

    @property
    def shown(self) -> str:
        """The table for messages."""
        name = f"{self.database_schema}.{self.name}" if self.database_schema else self.name
        return f"table {name} of {self.address.shown}"


def read_jdbc_table(table: Table, project: Path) -> JdbcTable:
    """Check a definition, without I/O. Raises OptionError, DefinitionError, UnsupportedError."""
    owner = f"table {table.identifier}"
    options = resolve(table.option_map, o.OPTIONS, owner=owner)
    address = read_address(options.get(o.URL), project, owner=owner)
    driver = options.get(o.DRIVER)
    if driver is not None and DRIVERS.get(driver) is not address.backend:
        raise OptionError(
            f"{owner}: option 'driver' = '{driver}' is not the driver of a {address.backend} database",
            hint="leave it out: the URL says which driver is used",
        )
    if options.is_set(o.COMPATIBLE_MODE):
        raise UnsupportedError(
            f"{owner}: option '{o.COMPATIBLE_MODE.key}' is not supported", hint="leave it out"
        )
    if options.get(o.PARALLELISM) not in (None, 1):
        raise UnsupportedError(
            f"{owner}: '{o.PARALLELISM.key}' above 1 is not supported",
            hint="a micro-batch is one transaction, and so one connection; leave it out",
        )
    username, password = options.get(o.USERNAME), options.get(o.PASSWORD)
    if (username is None) != (password is None):
        raise OptionError(f"{owner}: 'username' and 'password' are given together, or neither")
    if options.get(o.MAX_ROWS) < 0 or options.get(o.MAX_RETRIES) < 0:
        raise OptionError(
            f"{owner}: '{o.MAX_ROWS.key}' and '{o.MAX_RETRIES.key}' cannot be less than 0"
        )
    schema_name, name = _names(options.get(o.TABLE_NAME), owner)
    _check_columns(table, owner)
    key = table.schema.primary_key
    return JdbcTable(
        owner=owner,
        schema=table.schema,
        address=address,
        name=name,
        database_schema=schema_name,
        username=username,
        password=password,
        key=() if key is None else key.columns,
        connect_timeout_s=max(2, -(-options.get(o.CONNECT_TIMEOUT) // _MS)),
        # 0 sets no limit in Flink; here a batch of Arrow sets one
        rows_at_once=options.get(o.MAX_ROWS) or o.MAX_ROWS.default or 1,
        retries=options.get(o.MAX_RETRIES),
    )


def _names(text: str, owner: str) -> tuple[str | None, str]:
    parts = text.strip().split(".")
    if len(parts) > 2 or not all(parts):
        raise OptionError(
            f"{owner}: option '{o.TABLE_NAME.key}' = '{text}' names no table", hint=o.TABLE_NAME.doc
        )
    return (None, parts[0]) if len(parts) == 1 else (parts[0], parts[1])


def _check_columns(table: Table, owner: str) -> None:
    if table.partition_keys:
        raise DefinitionError(f"{owner}: a jdbc table is not PARTITIONED BY Penstock")
    if not table.schema.physical:
        raise DefinitionError(f"{owner} has no physical column, so its rows would hold nothing")
    check_written_metadata(table, "jdbc")
    for column in table.schema.physical:
        if isinstance(column.type, _NOT_STORED):
            raise UnsupportedError(
                f"{owner}: column {quote(column.name)} has type {column.type}, which is not written to a database",
                hint="convert it to STRING, or write its parts as columns",
            )
