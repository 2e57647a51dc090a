"""Finds a connector by the name that a table's `connector` option gives: built-ins first, then entry points."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import cast

from penstock.catalog.errors import OptionError, did_you_mean
from penstock.catalog.table import Table
from penstock.connector.contract import Connector
from penstock.connector.lacking import instead_of

__all__ = ["connector_names", "connector_of", "find_connector"]

ENTRY_POINT_GROUP = "penstock.connectors"
_BUILT_IN = (
    ("blackhole", "penstock.connector.blackhole:BlackholeConnector"),
    ("datagen", "penstock.connector.datagen.connector:DatagenConnector"),
    ("delta", "penstock.connector.delta.connector:DeltaConnector"),
    ("filesystem", "penstock.connector.filesystem.connector:FilesystemConnector"),
    ("jdbc", "penstock.connector.jdbc.connector:JdbcConnector"),
    ("kafka", "penstock.connector.kafka.connector:KafkaConnector"),
    ("memory", "penstock.connector.memory.connector:MemoryConnector"),
    ("print", "penstock.connector.printing.connector:PrintConnector"),
    ("upsert-kafka", "penstock.connector.kafka.upsert:UpsertKafkaConnector"),
)

_INTERNAL = (
    ("fixture", "penstock.connector.fixture.connector:FixtureConnector"),
    ("information-schema", "penstock.connector.information:InformationConnector"),
    ("spark", "penstock.connector.spark.native:SparkTableConnector"),
)
"""Found by their names, and named to nobody: `penstock test` puts the first in the place of others, tables that are
found in catalogs have the other two.
"""


def connector_names() -> tuple[str, ...]:
    """Give the names of all connectors that this installation has, sorted."""
    return tuple(
        sorted(
            {name for name, _ in _BUILT_IN}
            | {e.name for e in entry_points(group=ENTRY_POINT_GROUP)}
        )
    )


def find_connector(name: str, *, project: Path) -> Connector:
    """Load the connector `name`. Paths in options are relative to `project`. Raises OptionError."""
    for known, target in (*_BUILT_IN, *_INTERNAL):
        if known == name:
            module, _, attribute = target.partition(":")
            factory = cast("Callable[..., Connector]", getattr(import_module(module), attribute))
            return factory(project=project)
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        if entry.name == name:
            return cast("Connector", entry.load()(project=project))
    names = connector_names()
    suggestion = instead_of(name) or did_you_mean(name, names)
    raise OptionError(
        f"there is no connector {name!r}; available are: {', '.join(names)}",
        hint=suggestion or "a connector of another package is found once that package is installed",
    )


def connector_of(table: Table, *, project: Path) -> Connector:
    """Load the connector of a table. Raises OptionError when it names none or one that does not exist."""
    name = table.option_map.get("connector")
    if name is None:
        near = next((key for key in table.option_map if did_you_mean(key, ("connector",))), None)
        if near is not None:
            raise OptionError(
                f"table {table.identifier} has an option {near!r} and no 'connector'",
                hint="did you mean 'connector'?",
            )
        raise OptionError(
            f"table {table.identifier} has no 'connector' option",
            hint=f"add WITH ('connector' = ...); available are: {', '.join(connector_names())}",
        )
    return find_connector(name, project=project)
