"""The connector upsert-kafka: what its tables may say, and the rows that their records give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from penstock.catalog.errors import BadRecordError, DefinitionError, OptionError
from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.connector.formats.decoders import collecting_errors
from penstock.connector.kafka.connector import UpsertKafkaConnector
from penstock.connector.kafka.source.decode import Tombstones, UpsertDecoder
from penstock.connector.kafka.source.source import KafkaSource
from penstock.connector.kafka.table.startup import Earliest, Latest
from tests.connector.formats.decoding import make_decoder, where
from tests.connector.kafka.reading import planned, planning, read
from tests.connector.kafka.tables import kafka_table

if TYPE_CHECKING:
    from tests.kafka_server import KafkaServer

UPSERTS = {
    "connector": "upsert-kafka",
    "format": None,
    "scan.startup.mode": None,
    "key.format": "json",
    "value.format": "json",
}
COLUMNS = {"region": "STRING", "id": "BIGINT NOT NULL", "name": "STRING NOT NULL"}
KEY = ("id", "region")


def upsert_source(options: Mapping[str, str | None] | None = None, **more: Any) -> KafkaSource:
    """The source of an upsert table, changed by `options`."""
    given = {"columns": COLUMNS, "key": KEY, **more}
    return UpsertKafkaConnector().source(kafka_table({**UPSERTS, **(options or {})}, **given))


def test_a_table_is_read_from_its_beginning_by_its_primary_key() -> None:
    """The key's columns are those of PRIMARY KEY, in its order; the value has all columns."""
    source = upsert_source({"scan.bounded.mode": "latest-offset", "scan.parallelism": "2"})

    assert source.changes is ChangelogMode.UPSERT
    assert source.table.settings.startup == Earliest()
    assert source.table.settings.bounded == Latest()
    assert [field.name for field in source.table.projection.key] == ["id", "region"]
    assert [field.name for field in source.table.projection.value] == ["region", "id", "name"]


def test_a_prefix_tells_columns_of_the_key_from_those_of_the_value() -> None:
    """With the value's fields except the key's."""
    source = upsert_source(
        {"key.fields-prefix": "k_", "value.fields-include": "EXCEPT_KEY"},
        columns={"k_id": "BIGINT", "id": "BIGINT"},
        key=("k_id",),
    )

    assert [(field.column, field.name) for field in source.table.projection.key] == [("k_id", "id")]
    assert [field.name for field in source.table.projection.value] == ["id"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key.format": None, "value.format": None}, "missing: key.format, value.format"),
        ({"format": "json"}, "unsupported option 'format'"),
        ({"key.fields": "id"}, "unsupported option 'key.fields'"),
        ({"scan.startup.mode": "latest-offset"}, "unsupported option 'scan.startup.mode'"),
        ({"value.format": "debezium-json"}, "'debezium-json' cannot be the value format"),
        ({"key.format": "canal-json"}, "'canal-json' cannot be the key format"),
        ({"key.fields-prefix": "k_"}, "key prefix is not allowed"),
        ({"topic": None}, "either 'topic' or 'topic-pattern' must be set"),
        ({"scan.bounded.mode": "group-offsets"}, "'properties.group.id' is required"),
    ],
)
def test_what_flink_refuses_is_refused(options: dict[str, str | None], message: str) -> None:
    """Each rule of its factory, by its name here."""
    with pytest.raises(OptionError, match=message):
        upsert_source(options)


def test_a_primary_key_is_required() -> None:
    """With what it is for."""
    with pytest.raises(DefinitionError, match="'upsert-kafka' tables require a PRIMARY KEY"):
        upsert_source(key=())


VALUES = [b'{"n":1}', None, b'{"n":2}', b"", None]


def test_values_replace_and_missing_values_delete() -> None:
    """In the order of the records; an empty value is nothing at all, as in Flink."""
    decoder = UpsertDecoder(make_decoder({"n": "INT NOT NULL"}), Tombstones.DELETE)
    decoded = decoder.decode(VALUES, where)

    assert decoded.batch.to_pylist() == [{"n": 1}, {"n": None}, {"n": 2}, {"n": None}]
    assert decoded.kinds.tolist() == [
        RowKind.UPDATE_AFTER,
        RowKind.DELETE,
        RowKind.UPDATE_AFTER,
        RowKind.DELETE,
    ]
    assert (decoded.kept.tolist(), decoded.skipped) == ([0, 1, 2, 4], 1)


def test_a_format_never_sees_a_missing_value() -> None:
    """Of `raw` it would be a row of NULL; errors name records by their place in the fetch."""
    raw = UpsertDecoder(make_decoder({"v": "STRING NOT NULL"}, name="raw"), Tombstones.DELETE)
    rows = raw.decode([None, b"x"], where)
    json = UpsertDecoder(make_decoder({"n": "INT"}), Tombstones.DELETE)

    assert rows.batch.to_pylist() == [{"v": None}, {"v": "x"}]
    with pytest.raises(BadRecordError, match="offset 102"):
        json.decode([None, None, b"{"], where)
    assert [bad.index for bad in collecting_errors(json).decode([None, b"{", None], where).bad] == [
        1
    ]


def test_deletions_are_left_out_where_only_values_count() -> None:
    """Peeks for event times pass over them."""
    decoder = UpsertDecoder(make_decoder({"n": "INT"}), Tombstones.LEAVE_OUT)

    assert decoder.decode(VALUES, where).kept.tolist() == [0, 2]


def test_rows_are_counted_without_columns() -> None:
    """COUNT(*) of changes."""
    decoded = UpsertDecoder(make_decoder({}), Tombstones.DELETE).decode(VALUES, where)

    assert (decoded.batch.num_rows, decoded.kinds.tolist()) == (4, [2, 3, 2, 3])


# --- on a broker ---


def test_a_topic_of_upserts_gives_rows_and_deletions_by_key(kafka: KafkaServer) -> None:
    """The key's columns come from the key, of a deletion nothing else; peeks find the last row with a value."""
    topic = kafka.create_topic()
    keys = [f'{{"id":{i},"region":"eu"}}' for i in (1, 2, 1, 2)] + [None]
    values = ['{"name":"a"}', '{"id":7,"name":"b"}', None, '{"name":"c"}', '{"name":"nobody"}']
    kafka.produce(topic, [*values[:4], values[4]], keys=keys)
    kafka.produce(topic, [None], keys=[keys[0]])
    source = upsert_source(
        {
            "properties.bootstrap.servers": kafka.bootstrap,
            "topic": topic,
            "scan.bounded.mode": "latest-offset",
        },
        metadata={"at": ("offset", "BIGINT")},
    )
    result = read(source, ["id", "region", "name", "at", ROW_KIND])
    with planning(source, "id", "name") as planner:
        peeked = planner.peek(planned(planner))

    upsert, delete = RowKind.UPDATE_AFTER, RowKind.DELETE
    assert [tuple(row.values()) for row in result.all] == [
        (1, "eu", "a", 0, upsert),
        (2, "eu", "b", 1, upsert),
        (1, "eu", None, 2, delete),
        (2, "eu", "c", 3, upsert),
        (1, "eu", None, 5, delete),
    ]
    assert read(source, [ROW_KIND]).column(ROW_KIND) == [upsert, upsert, delete, upsert, delete]
    assert [batch.to_pylist() for batch in peeked.values()] == [[{"id": 2, "name": "c"}]]
