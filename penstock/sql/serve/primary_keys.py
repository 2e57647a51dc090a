"""Tells clients the primary keys: `getPrimaryKeys` of Spark's Thrift server asks a Hive metastore, not Spark's catalog.

That metastore is one in memory, which the Thrift server brings along and which holds nothing else. So it gets an
entry with the key for each table that has one. Queries never see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import UnknownObjectError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import Table
from penstock.sql.publish.text import PublishedName

DEFAULT_DATABASE = "default"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class TableKey:
    """A primary key of a table, by the names that clients see; `columns` in the key's order."""

    database: str
    table: str
    columns: tuple[str, ...]
    name: str


def primary_keys(
    namespace: Namespace, names: Mapping[Identifier, PublishedName]
) -> frozenset[TableKey]:
    """Find the keys of what is published, under the names that it is published by."""
    found = set()
    for identifier, external in names.items():
        try:
            table = namespace.lookup(identifier)
        except UnknownObjectError:
            continue  # dropped since it was published
        key = table.schema.primary_key if isinstance(table, Table) else None
        if key is not None:
            found.add(
                TableKey(
                    database=external.database.lower(),
                    table=external.name.lower(),
                    columns=key.columns,
                    name=key.name or f"pk_{external.name}",
                )
            )
    return frozenset(found)


def changed_keys(
    before: frozenset[TableKey], after: frozenset[TableKey]
) -> tuple[list[TableKey], list[TableKey]]:
    """What to take out and what to put in, sorted; a key that changed is both."""
    return sorted(before - after), sorted(after - before)


class HiveKeys:
    """Keeps the keys in the metastore of a running Thrift server the same as those it is given."""

    def __init__(self, jvm: Any, hive_conf: Any) -> None:
        self._jvm = jvm
        self._conf = hive_conf
        self._known: frozenset[TableKey] = frozenset()
        self._databases = {DEFAULT_DATABASE}

    def replace(self, keys: frozenset[TableKey]) -> None:
        """Make `keys` the ones that clients see. The first one takes seconds: the metastore is made then."""
        gone, new = changed_keys(self._known, keys)
        if not gone and not new:
            return
        client = self._jvm.org.apache.hadoop.hive.ql.metadata.Hive.getWithoutRegisterFns(
            self._conf
        ).getMSC()
        for key in gone:
            client.dropTable(key.database, key.table, False, True)
        for key in new:
            self._add(client, key)
        self._known = keys

    def _add(self, client: Any, key: TableKey) -> None:
        api = self._jvm.org.apache.hadoop.hive.metastore.api
        if key.database not in self._databases:
            directory = self._conf.get("hive.exec.local.scratchdir")
            client.createDatabase(
                api.Database(key.database, "", f"{directory}/{key.database}.db", {})
            )
            self._databases.add(key.database)
        storage = api.StorageDescriptor()
        storage.setCols([api.FieldSchema(column, "string", "") for column in key.columns])
        serde = api.SerDeInfo()
        serde.setName(key.table)
        storage.setSerdeInfo(serde)
        table = api.Table()
        table.setDbName(key.database)
        table.setTableName(key.table)
        table.setTableType("EXTERNAL_TABLE")
        table.setParameters({"EXTERNAL": "TRUE"})
        table.setSd(storage)
        parts = [
            # enable, validate, rely: the key is declared, and nobody checks it
            api.SQLPrimaryKey(
                key.database, key.table, column, position, key.name, False, False, True
            )
            for position, column in enumerate(key.columns, start=1)
        ]
        client.createTableWithConstraints(table, parts, [])
