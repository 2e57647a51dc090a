"""Check that the table of a database exists, with the declared columns; reads no row."""

from __future__ import annotations

from sqlalchemy import Connection, inspect

from penstock.catalog.errors import UnknownObjectError
from penstock.connector.capabilities import TableAccess
from penstock.connector.jdbc.database import JdbcDatabase
from penstock.connector.jdbc.settings import JdbcTable

__all__ = ["check_table"]


def check_table(table: JdbcTable, access: TableAccess) -> str:
    """Ask the database for the table (a ConnectivityCheck). Raises UnknownObjectError, SinkError."""
    del access

    def work(connection: Connection) -> str:
        looked = inspect(connection)
        if not looked.has_table(table.name, table.database_schema):
            raise UnknownObjectError(f"there is no {table.shown}", hint="create it there first")
        there = [column["name"] for column in looked.get_columns(table.name, table.database_schema)]
        lost = [c.name for c in table.schema.physical if c.name not in there]
        if lost:
            raise UnknownObjectError(
                f"{table.shown} has no column {', '.join(lost)}",
                hint=f"its columns are: {', '.join(there)}",
            )
        return f"{table.shown}: columns {', '.join(there)}"

    return JdbcDatabase.of(table).run(work)
