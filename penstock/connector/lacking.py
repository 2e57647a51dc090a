"""Connectors of Flink that this installation has not: what can be written in their place."""

from __future__ import annotations

__all__ = ["instead_of"]

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
_INSTEAD = {
    "faker": "'datagen' makes rows up, too: 'connector' = 'datagen', 'rows-per-second' = '10', and where they matter "
    "'fields.<column>.min', '.max', '.length' or '.kind' = 'sequence' in the place of '.expression'",
    "socket": "penstock kafka start gives a broker to type records into; or put lines into a folder: 'connector' = "
    "'filesystem', 'format' = 'raw', 'source.monitor-interval' = '1 s'",
    "nexmark": "'datagen' makes such events up: its columns person, auction and bid are of type ROW",
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


def instead_of(name: str) -> str | None:
    """Say what can be done without the connector `name`; None for a name that is none of Flink's known ones."""
    name = name.lower()
    if name.endswith("-cdc"):
        return _DEBEZIUM
    family = name.partition("-")[0]
    return _INSTEAD.get(name) or _FAMILIES.get(family)
