"""Flink's formats (its page "Formats"), each in a table that names it. Their options are the connectors' to check."""

from __future__ import annotations

from penstock.sql.compatibility.row import Kind, Row, Status

__all__ = ["FORMATS"]

PLAIN = "id BIGINT, name STRING"
KAFKA = "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'localhost:9092'"
FILES = "'connector' = 'filesystem', 'path' = 'files'"
CHANGES = "read and written: inserts, updates and deletes"
WRITTEN = "files are written in it, not read; in a topic it is refused"


def _row(
    name: str,
    note: str = "",
    *,
    status: Status = Status.OWN,
    options: str = KAFKA,
    columns: str = PLAIN,
) -> Row:
    example = f"CREATE TABLE formatted ({columns}) WITH ({options}, 'format' = '{name}')"
    return Row(Kind.FORMAT, name, example, status, note)


def _refused(name: str, note: str) -> Row:
    return _row(name, note, status=Status.REFUSE)


FORMATS: tuple[Row, ...] = (
    _row("json", "read and written; with Flink's options"),
    _row("raw", "read and written; one column", columns="line STRING"),
    _row("csv", WRITTEN, options=FILES),
    _row("parquet", WRITTEN, options=FILES),
    _row("orc", WRITTEN, options=FILES),
    _row("debezium-json", CHANGES),
    _row("canal-json", CHANGES),
    _row("maxwell-json", CHANGES),
    _row("ogg-json", CHANGES),
    _refused("avro", "have the records written as json"),
    _refused("avro-confluent", "have the records written as json"),
    _refused("debezium-avro-confluent", "set the JSON converter in the Debezium connector"),
    _refused("protobuf", "read them whole by 'format' = 'raw'"),
)  # fmt: skip
"""Every format of Flink 2.2."""
