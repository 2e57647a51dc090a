"""Writing into Kafka topics: records made by Spark expressions, sent by tasks, exactly once where the table asks.

`kafka_sink` is the door. `sink` is what queries call, `protocol` the proof, `tasks` what runs on workers, `client` the
only part that speaks to the broker.
"""

from __future__ import annotations

from penstock.catalog.table import Table
from penstock.connector.contract import Sink

__all__ = ["kafka_sink"]


def kafka_sink(table: Table, *, upsert: bool, sparse: bool = False) -> Sink:
    """Describe writing into `table`; `upsert` is for tables keyed by their PRIMARY KEY (`upsert-kafka`).

    `sparse`: it is given some batches only, see `sparse.py`.
    Raises OptionError, DefinitionError or UnsupportedError.
    """
    from penstock.connector.kafka.connector import describe
    from penstock.connector.kafka.sink.definition import check_order, check_writable
    from penstock.connector.kafka.sink.settings import read_sink_settings
    from penstock.connector.kafka.sink.sink import KafkaSink
    from penstock.connector.kafka.upsert import describe_upserts

    owner = f"table {table.identifier}"
    described = describe_upserts(table) if upsert else describe(table)
    settings = read_sink_settings(described.settings.resolved, upsert=upsert, owner=owner)
    check_writable(described, owner=owner)
    check_order(described, settings, owner=owner)
    return KafkaSink(table=described, settings=settings, name=owner, upsert=upsert, sparse=sparse)
