"""Find a connector by the value of a table's `connector` option: built-in ones first, then entry points.

The only module that names connectors, their jars and external catalogs. Also says what replaces connectors of Flink
that do not exist here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

from penstock.catalog.errors import OptionError, did_you_mean
from penstock.catalog.model.namespaces import DELTA_PATH, JDBC, SPARK
from penstock.catalog.model.table import Table
from penstock.catalog.options.option import Option, PrefixOption
from penstock.connector.capabilities import MakeExternalCatalog
from penstock.connector.contract import Connector
from penstock.connector.jvm.jars import JarSet, fetch_jars

logger = logging.getLogger(__name__)

_CONNECT = "write into a Kafka topic, and let a sink of Kafka Connect bring it there"

_STORE = _CONNECT + "; a table that is looked up can be one of 'jdbc' or 'delta'"

_LAKE = (
    "keep it as a Delta table: 'connector' = 'delta', 'path' = '...'; tables that Spark itself can read are there by "
    "CREATE CATALOG c WITH ('type' = 'spark')"
)

_BROUGHT = (
    "bring the records into a Kafka topic (Kafka Connect has a source for it), and read that: "
    "'connector' = 'kafka'"
)

_DEBEZIUM = (
    "let Debezium write the database's changes into a Kafka topic, and read that: 'connector' = 'kafka', 'format' = "
    "'debezium-json', with the table's PRIMARY KEY"
)

_OTHERS = "'connector' = 'jdbc' knows PostgreSQL and SQLite; for others, " + _CONNECT

_REPLACEMENTS = {
    "faker": "'datagen' makes rows up, too: 'connector' = 'datagen', 'rows-per-second' = '10', and where they matter "
    "'fields.<column>.min', '.max', '.length' or '.kind' = 'sequence' in the place of '.expression'",
    "socket": "penstock kafka start gives a broker to type records into; or put lines into a folder: 'connector' = "
    "'filesystem', 'format' = 'raw', 'source.monitor-interval' = '1 s'",
    "python-input-format": "'datagen' makes rows up; 'filesystem' reads a folder of JSON lines",
    "values": "'datagen' makes rows up; INSERT INTO ... VALUES fills a table of 'memory' or 'delta'",
    "hive": _LAKE,
    "iceberg": _LAKE,
    "hudi": _LAKE,
    "paimon": _LAKE,
    "fluss": _LAKE,
    "kinesis": _BROUGHT,
    "kinesis-legacy": _BROUGHT,
    "pulsar": _BROUGHT,
    "upsert-pulsar": _BROUGHT,
    "rabbitmq": _BROUGHT,
    "mqtt": _BROUGHT,
    "sqs": _BROUGHT,
    "firehose": _CONNECT,
    "dynamodb": _STORE,
    "redis": _STORE,
    "mongodb": _STORE,
    "cassandra": _STORE,
    "clickhouse": _STORE,
    "kudu": _STORE,
    "doris": _STORE,
    "starrocks": _STORE,
    "http": "look values up in a table of 'jdbc', or call the service in a function: CREATE FUNCTION ... LANGUAGE "
    "PYTHON",
    "mysql": _OTHERS,
}

_FAMILIES = {
    "elasticsearch": _CONNECT,
    "opensearch": _CONNECT,
    "hbase": _STORE,
    "kinesis": _BROUGHT,
}


def replacement_for(name: str) -> str | None:
    """Describe what can be done without the connector `name`; None for a name that is none of Flink's known ones."""
    name = name.lower()
    if name.endswith("-cdc"):
        return _DEBEZIUM
    family = name.partition("-")[0]
    return _REPLACEMENTS.get(name) or _FAMILIES.get(family)


ENTRY_POINT_GROUP = "penstock.connectors"

_BUILT_IN = (
    ("blackhole", "penstock.connector.print.blackhole:BlackholeConnector"),
    ("datagen", "penstock.connector.datagen.connector:DatagenConnector"),
    ("delta", "penstock.connector.delta.connector:DeltaConnector"),
    ("filesystem", "penstock.connector.filesystem.connector:FilesystemConnector"),
    ("jdbc", "penstock.connector.jdbc.connector:JdbcConnector"),
    ("kafka", "penstock.connector.kafka.connector:KafkaConnector"),
    ("memory", "penstock.connector.memory.connector:MemoryConnector"),
    ("nexmark", "penstock.connector.nexmark.connector:NexmarkConnector"),
    ("print", "penstock.connector.print.connector:PrintConnector"),
    ("upsert-kafka", "penstock.connector.kafka.connector:UpsertKafkaConnector"),
)

_CATALOGS = (
    (DELTA_PATH, "penstock.connector.delta.catalog:DeltaCatalog.of"),
    (JDBC, "penstock.connector.jdbc.catalog:JdbcCatalog.of"),
    (SPARK, "penstock.connector.spark_catalog.catalog:SparkCatalog.of"),
)
"""External catalogs by the type in their options."""

_ENGINE_JARS = ("penstock.connector.delta.connector:delta_jar_set",)

_PROCESS_JARS = ("penstock.connector.kafka.broker.broker:broker_jar_set",)

_READERS = (
    "penstock.connector.formats.json.format",
    "penstock.connector.kafka.source.metadata_client",
    "penstock.connector.kafka.source.reader",
    "penstock.connector.kafka.source.source",
)
"""Imported before anyone asks, where that is done once for all queries of a session: what most of them read by."""

_INTERNAL = (
    ("fixture", "penstock.connector.testing.connector:FixtureConnector"),
    ("information-schema", "penstock.connector.information_schema:InformationConnector"),
    ("spark", "penstock.connector.spark_catalog.connector:SparkTableConnector"),
)
"""Found by their names, and absent from lists of connectors: `penstock test` puts the first in the place of others,
tables that are found in catalogs have the other two.
"""


def built_in_names() -> tuple[str, ...]:
    """Return the names of Penstock's own connectors, sorted."""
    return tuple(sorted(name for name, _ in _BUILT_IN))


def reader_modules() -> tuple[str, ...]:
    """Return the modules by which most queries read, for a process that others are forked from."""
    return _READERS


def connector_names() -> tuple[str, ...]:
    """Return the names of all connectors that this installation has, sorted."""
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
            return cast("Connector", _loaded(target)(project=project))
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        if entry.name == name:
            return cast("Connector", entry.load()(project=project))
    names = connector_names()
    suggestion = replacement_for(name) or did_you_mean(name, names)
    raise OptionError(
        f"there is no connector {name!r}; available are: {', '.join(names)}",
        hint=suggestion or "a connector of another package is found once that package is installed",
    )


@cache
def options_of(connector: str | None) -> Sequence[Option[Any] | PrefixOption]:
    """Return the options of a connector's tables; none of a connector that does not exist or does not say."""
    try:
        return find_connector(connector or "", project=Path()).options
    except OptionError:
        return ()


def options_of_provider(provider: str, location: str) -> Mapping[str, str] | None:
    """Return the options of a table of Spark's `provider` in the folder `location`; None: no connector reads it."""
    for connector in _loadable():
        options = connector.options_of_provider(provider, location)
        if options is not None:
            return options
    return None


@cache
def _loadable() -> tuple[Connector, ...]:
    """Return the connectors that can be loaded, ours first: a package that is broken costs its own tables alone."""
    ours = [name for name, _ in _BUILT_IN]
    found = []
    for name in (*ours, *(name for name in connector_names() if name not in ours)):
        try:
            found.append(find_connector(name, project=Path()))
        except Exception as error:  # noqa: BLE001  the code of another package
            logger.warning("the connector %r cannot be loaded, and is not asked: %s", name, error)
    return tuple(found)


def jar_sets() -> tuple[JarSet, ...]:
    """Return the pinned jars of connectors: those that Spark loads, and those of processes of their own."""
    return tuple(_loaded(target)() for target in (*_ENGINE_JARS, *_PROCESS_JARS))


def engine_jars() -> list[Path]:
    """Return the jars that Spark has to load for connectors; fetches them at first use. Raises RunError."""
    return [jar for jar_set in engine_jar_sets() for jar in fetch_jars(jar_set)]


def engine_jar_sets() -> tuple[JarSet, ...]:
    """Return the pinned jars that Spark has to load for connectors; fetches nothing."""
    return tuple(_loaded(target)() for target in _ENGINE_JARS)


def external_catalog(kind: str) -> MakeExternalCatalog:
    """Return what makes external catalogs of a type. Its clients are loaded here."""
    found: MakeExternalCatalog = _loaded(dict(_CATALOGS)[kind])
    return found


def _loaded(target: str) -> Any:
    module, _, name = target.partition(":")
    return attrgetter(name)(import_module(module))


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
