"""Finds a format by the name in `format`, `key.format` or `value.format`."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from penstock.catalog.errors import OptionError, UnsupportedError, did_you_mean
from penstock.connector.formats.contract import Format

__all__ = ["find_format", "format_names"]

_BUILT_IN = (
    ("canal-json", "penstock.connector.formats.changelog.canal_json:CanalJsonFormat"),
    ("debezium-json", "penstock.connector.formats.changelog.debezium_json:DebeziumJsonFormat"),
    ("json", "penstock.connector.formats.json.format:JsonFormat"),
    ("maxwell-json", "penstock.connector.formats.changelog.maxwell_json:MaxwellJsonFormat"),
    ("ogg-json", "penstock.connector.formats.changelog.ogg_json:OggJsonFormat"),
    ("raw", "penstock.connector.formats.raw:RawFormat"),
)
AVRO = (
    "have the records written as json (Kafka Connect: value.converter = "
    "org.apache.kafka.connect.json.JsonConverter), or read them whole, 'format' = 'raw' and a column of BYTES, and "
    "decode them in a function: CREATE FUNCTION ... LANGUAGE PYTHON"
)
_NOT_HERE = {
    "avro": AVRO,
    "avro-confluent": AVRO,
    "debezium-avro-confluent": "set the JSON converter in the Debezium connector, and 'format' = 'debezium-json'",
    "protobuf": "write the records as json, or read them whole by 'format' = 'raw' and a column of BYTES",
    "csv": "declare one column, line STRING, with 'format' = 'raw', and split it in a view: "
    "CAST(SPLIT_INDEX(line, ',', 0) AS INT) AS id, ...; files are written as csv",
    "orc": "'connector' = 'filesystem' writes files of it; a Delta table is read",
    "parquet": "'connector' = 'filesystem' writes files of it; a Delta table is read",
}
"""Formats of Flink that records are not read or written in, and what can be done instead."""


def format_names() -> tuple[str, ...]:
    """Return the names of all formats, sorted."""
    return tuple(name for name, _ in _BUILT_IN)


def find_format(name: str, *, option: str = "format") -> Format:
    """Load the format `name`, which the option `option` gave. Raises OptionError, UnsupportedError."""
    for known, target in _BUILT_IN:
        if known == name:
            module, _, attribute = target.partition(":")
            return cast("Format", getattr(import_module(module), attribute)())
    names = format_names()
    if name in _NOT_HERE:
        raise UnsupportedError(
            f"the format {name!r} (option '{option}') is not supported here; available are: {', '.join(names)}",
            hint=_NOT_HERE[name],
        )
    raise OptionError(
        f"there is no format {name!r} (option '{option}'); available are: {', '.join(names)}",
        hint=did_you_mean(name, names),
    )
