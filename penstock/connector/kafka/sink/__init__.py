"""Writing into Kafka topics: records made by Spark expressions, sent by tasks, exactly once on request.

`kafka_sink` is the entry point. `sink` is called by queries, `protocol` proves exactly-once delivery, `tasks`
runs on workers, `client` is the only module that speaks to the broker.
"""

from __future__ import annotations

from penstock.catalog.model.table import Table
from penstock.connector.contract import Sink
from penstock.connector.kafka.table.fields import KafkaTable

__all__ = ["kafka_sink"]


def kafka_sink(table: Table, described: KafkaTable) -> Sink:
    """Describe writing into `table`, as it was checked; one of upserts is written by its key.

    Raises OptionError, DefinitionError or UnsupportedError.
    """
    from penstock.connector.kafka.sink.records import check_order, check_writable
    from penstock.connector.kafka.sink.settings import read_sink_settings
    from penstock.connector.kafka.sink.sink import KafkaSink

    owner, upsert = f"table {table.identifier}", described.upserts
    settings = read_sink_settings(described.settings.resolved, upsert=upsert, owner=owner)
    check_writable(described, owner=owner)
    check_order(described, settings, owner=owner)
    return KafkaSink(
        table=described, settings=settings, name=owner, upsert=upsert, definition=table
    )
