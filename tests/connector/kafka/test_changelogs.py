"""Kafka tables whose records are changes of rows: what they may declare, and the rows that a reader gives."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from penstock.catalog.errors import DefinitionError, OptionError
from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from tests.connector.kafka.reading import planned, planning, read, topic_source
from tests.connector.kafka.tables import kafka_source

if TYPE_CHECKING:
    from tests.kafka_server import KafkaServer

DEBEZIUM = {"format": "debezium-json"}


@pytest.mark.parametrize("name", ["debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_a_format_of_changes_makes_the_table_one(name: str) -> None:
    """It gives every kind of change, and may say which rows are the same by a PRIMARY KEY."""
    source = kafka_source({"format": name}, key=("id",))

    assert source.changes is ChangelogMode.ALL
    assert pickle.loads(pickle.dumps(source)).changes is ChangelogMode.ALL
    assert kafka_source().changes is ChangelogMode.INSERT_ONLY


def test_a_primary_key_is_refused_where_records_are_rows_that_stay() -> None:
    """With the connector that keeps one."""
    with pytest.raises(DefinitionError, match="'json' format doesn't support") as caught:
        kafka_source(key=("id",))

    assert "upsert-kafka" in (caught.value.hint or "")


def test_a_key_is_no_change() -> None:
    """A key format is insert-only."""
    with pytest.raises(OptionError, match="'debezium-json' cannot be the key format"):
        kafka_source({"key.format": "debezium-json", "key.fields": "id"})


def test_metadata_of_the_format_is_declared_by_value_and_its_name() -> None:
    """With its type, and only where the format has it."""
    column = {"at": ("value.source.timestamp", "TIMESTAMP_LTZ(3)")}
    source = kafka_source(DEBEZIUM, metadata=column)

    assert str(source.metadata_types["value.source.timestamp"]) == "TIMESTAMP_LTZ(3)"
    for options, metadata, message in (
        ({}, column, "metadata 'value.source.timestamp', which 'kafka' does not have"),
        (DEBEZIUM, {"at": ("value.source.timestamp", "INT")}, "is not cast to it"),
        (DEBEZIUM, {"at": ("value.offset", "BIGINT")}, "'value.offset'"),
    ):
        with pytest.raises(DefinitionError, match=message):
            kafka_source(options, metadata=metadata)


# --- on a broker ---


def test_changes_are_read_with_their_kinds_keys_and_metadata(kafka: KafkaServer) -> None:
    """Both rows of an update have the key, offset and source of their record; the tombstone gives no row."""
    topic = kafka.create_topic()
    row, later = {"id": 1, "name": "a"}, {"id": 1, "name": "b"}
    envelopes = [
        {"op": "c", "after": row},
        {"op": "u", "before": row, "after": later},
        {"op": "d", "before": later},
    ]
    source = {"table": "orders", "ts_ms": 1000}
    values = [*(json.dumps({**change, "source": source}) for change in envelopes), None]
    kafka.produce(topic, values, keys=['{"id":1}'] * 4)
    table = topic_source(
        kafka,
        topic,
        {
            **DEBEZIUM,
            "key.format": "json",
            "key.fields": "k_id",
            "key.fields-prefix": "k_",
            "value.fields-include": "EXCEPT_KEY",
            "scan.bounded.mode": "latest-offset",
        },
        columns={"k_id": "INT", "id": "INT", "name": "STRING"},
        metadata={
            "at": ("value.source.timestamp", "TIMESTAMP_LTZ(6)"),
            "of": ("value.source.table", "STRING"),
            "offset": ("offset", "BIGINT"),
        },
        key=("id",),
    )
    result = read(table, ["k_id", "name", "of", "offset", ROW_KIND])
    kinds = read(table, [ROW_KIND])
    with planning(table, "name", "at") as planner:
        peeked = planner.peek(planned(planner))

    assert [tuple(row.values()) for row in result.all] == [
        (1, "a", "orders", 0, RowKind.INSERT),
        (1, "a", "orders", 1, RowKind.UPDATE_BEFORE),
        (1, "b", "orders", 1, RowKind.UPDATE_AFTER),
        (1, "b", "orders", 2, RowKind.DELETE),
    ]
    assert kinds.column(ROW_KIND) == [0, 1, 2, 3]
    assert (result.skipped, len(read(table, []).all)) == (0, 4)
    assert [batch.to_pylist() for batch in peeked.values()] == [
        [{"name": "b", "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)}]
    ]
