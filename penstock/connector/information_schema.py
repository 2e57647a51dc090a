"""The connector `information-schema`: refuses what these tables do not support. `sql` runs queries over them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.catalog.definitions.information_schema import CONNECTOR, is_information
from penstock.catalog.errors import DefinitionError, UnsupportedError
from penstock.catalog.model.namespaces import INFORMATION_SCHEMA
from penstock.catalog.model.table import Table
from penstock.connector.capabilities import ConnectivityCheck
from penstock.connector.checks import check_nothing
from penstock.connector.contract import Connector, EngineSource, Sink


@dataclass(frozen=True, slots=True, kw_only=True)
class InformationConnector(Connector):
    """Tables of `information_schema` (`Connector`). `project` is not used."""

    project: Path

    @property
    def name(self) -> str:
        """The value of the option `connector`."""
        return CONNECTOR

    def check(self, table: Table) -> None:
        """Check that no other table has it. Raises DefinitionError."""
        if not is_information(table.identifier):
            raise DefinitionError(
                f"table {table.identifier}: the connector '{CONNECTOR}' is of {INFORMATION_SCHEMA} alone",
                hint=f"SELECT from {INFORMATION_SCHEMA}.tables and its other tables",
            )

    def connectivity_check(self, table: Table) -> ConnectivityCheck:  # noqa: ARG002  of the contract
        """There is nothing to ask."""
        return check_nothing

    def source(self, table: Table) -> EngineSource:
        """Refuse: what is in it is known to a session alone. Raises UnsupportedError."""
        raise UnsupportedError(
            f"{table.identifier} is read by queries",
            hint="`penstock shell -e 'SELECT * FROM information_schema.tables'`",
        )

    def sink(self, table: Table) -> Sink:
        """Refuse. Raises UnsupportedError."""
        raise UnsupportedError(
            f"{table.identifier} is only read: it shows what the catalogs hold",
            hint="CREATE and ALTER change what is there",
        )
