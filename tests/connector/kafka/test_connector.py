"""What a WITH clause of a Kafka table may say: Flink's options, defaults, rules and messages."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.catalog.errors import BadRecordError, DefinitionError, OptionError
from penstock.catalog.model.table import PrimaryKey
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.changelog import ROW_KIND, ChangelogMode, RowKind
from penstock.connector.contract import SourceKind
from penstock.connector.formats.decoders import collecting_errors
from penstock.connector.kafka.connector import KafkaConnector, UpsertKafkaConnector
from penstock.connector.kafka.source.decode import Tombstones, UpsertDecoder
from penstock.connector.kafka.source.source import KafkaSource
from penstock.connector.kafka.table.settings import TopicList, TopicPattern
from penstock.connector.kafka.table.startup import (
    AtTimestamp,
    Earliest,
    GroupOffsets,
    Latest,
    SpecificOffsets,
)
from tests.connector.formats.decoding import make_decoder, where
from tests.connector.kafka.reading import planned, planning, read
from tests.connector.kafka.tables import kafka_source, kafka_table

ROOT = Path(__file__).resolve().parents[3]


def refusal(options: dict[str, str | None], **more: object) -> OptionError:
    """The error that a definition is refused with."""
    with pytest.raises(OptionError) as caught:
        KafkaConnector().check(kafka_table(options, **more))
    return caught.value


def test_a_plain_table_has_flinks_defaults() -> None:
    """One task a partition, no limit, loss is an error; discovery every second is ours."""
    source = kafka_source()

    assert source.kind is SourceKind.SPLITS
    assert source.discovery_interval_ms == 1_000
    assert not source.bounded
    assert (source.parallelism, source.max_records_per_batch, source.watermark.idle_timeout_ms) == (
        None,
        None,
        None,
    )
    assert not source.tolerates_loss
    assert not source.skips_bad_records
    assert source.table.settings.reads_committed
    assert source.table.settings.startup == Earliest()


def test_every_option_of_the_scan_is_understood() -> None:
    """Values arrive typed."""
    source = kafka_source(
        {
            "scan.startup.mode": "timestamp",
            "scan.startup.timestamp-millis": "1700000000000",
            "scan.topic-partition-discovery.interval": "10 s",
            "scan.parallelism": "3",
            "scan.on-data-loss": "continue",
            "scan.max-records-per-batch": "5000",
            "scan.watermark.idle-timeout": "1 min",
            "scan.watermark.emit.strategy": "on-event",
            "scan.watermark.alignment.group": "g",
            "scan.watermark.alignment.max-drift": "1 min",
            "scan.watermark.alignment.update-interval": "500 ms",
            "properties.isolation.level": "read_uncommitted",
            "sink.delivery-guarantee": "exactly-once",
            "sink.parallelism": "2",
        }
    )

    assert source.table.settings.startup == AtTimestamp(at_ms=1_700_000_000_000)
    assert source.discovery_interval_ms == 10_000
    assert (source.parallelism, source.max_records_per_batch, source.watermark.idle_timeout_ms) == (
        3,
        5000,
        60_000,
    )
    assert source.tolerates_loss
    assert not source.table.settings.reads_committed


@pytest.mark.parametrize(
    ("mode", "more", "expected"),
    [
        ("earliest-offset", {}, Earliest()),
        ("latest-offset", {}, Latest()),
        ("group-offsets", {}, GroupOffsets(group="g")),
        (
            "group-offsets",
            {"properties.auto.offset.reset": "latest"},
            GroupOffsets(group="g", reset=Latest()),
        ),
        ("timestamp", {"scan.startup.timestamp-millis": "7"}, AtTimestamp(at_ms=7)),
        (
            "specific-offsets",
            {"scan.startup.specific-offsets": "partition:1,offset:300;partition:0,offset:42"},
            SpecificOffsets(offsets=((0, 42), (1, 300)), group="g"),
        ),
    ],
)
def test_startup_modes_become_values(mode: str, more: dict[str, str], expected: object) -> None:
    """One value for each of the five modes."""
    source = kafka_source({"scan.startup.mode": mode, "properties.group.id": "g", **more})

    assert source.table.settings.startup == expected


@pytest.mark.parametrize(
    ("mode", "more", "expected"),
    [
        ("latest-offset", {}, Latest()),
        ("group-offsets", {}, GroupOffsets(group="g")),
        ("timestamp", {"scan.bounded.timestamp-millis": "7"}, AtTimestamp(at_ms=7)),
        (
            "specific-offsets",
            {"scan.bounded.specific-offsets": "partition:0,offset:42"},
            SpecificOffsets(offsets=((0, 42),)),
        ),
    ],
)
def test_bounded_modes_become_values(mode: str, more: dict[str, str], expected: object) -> None:
    """A bounded scan keeps the partitions that it began with."""
    source = kafka_source({"scan.bounded.mode": mode, "properties.group.id": "g", **more})

    assert source.table.settings.bounded == expected
    assert source.bounded
    assert source.discovery_interval_ms == -1


def test_topics_are_a_list_or_a_pattern() -> None:
    """Lists are separated by semicolons."""
    assert kafka_source({"topic": "a;b; a"}).table.settings.subscription == TopicList(
        topics=("a", "b")
    )
    pattern = kafka_source(
        {"topic": None, "topic-pattern": "orders-.*"}
    ).table.settings.subscription
    assert pattern == TopicPattern(pattern="orders-.*")


REFUSED: list[tuple[dict[str, str | None], str]] = [
    ({"topic-pattern": "x"}, "options 'topic' and 'topic-pattern' must not be set together"),
    ({"topic": None}, "either 'topic' or 'topic-pattern' must be set"),
    ({"topic": ";"}, "either 'topic' or 'topic-pattern' must be set"),
    ({"topic": "a b"}, "'a b' cannot be the name of a Kafka topic"),
    (
        {"topic": None, "topic-pattern": "a("},
        "'topic-pattern' = 'a(' is not a usable regular expression",
    ),
    ({"format": None}, "one of the options 'format' and 'value.format' is required"),
    ({"format": "jsn"}, "there is no format 'jsn'"),
    (
        {"properties.bootstrap.servers": None},
        "required options are missing: properties.bootstrap.servers",
    ),
    ({"properties.bootstrap.servers": " "}, "'properties.bootstrap.servers' is empty"),
    (
        {"scan.startup.mode": "earliest"},
        "'scan.startup.mode' = 'earliest' is not one of 'earliest-offset'",
    ),
    ({"scan.startup.mod": "x"}, "unsupported option 'scan.startup.mod'"),
    (
        {"scan.startup.mode": "timestamp"},
        "'scan.startup.timestamp-millis' is required in 'timestamp' startup mode but missing",
    ),
    (
        {"scan.startup.mode": "specific-offsets"},
        "'scan.startup.specific-offsets' is required in 'specific-offsets' startup mode but missing",
    ),
    (
        {"scan.bounded.mode": "timestamp"},
        "'scan.bounded.timestamp-millis' is required in 'timestamp' bounded mode but missing",
    ),
    (
        {"scan.bounded.mode": "specific-offsets"},
        "'scan.bounded.specific-offsets' is required in 'specific-offsets' bounded mode but missing",
    ),
    (
        {
            "topic": "a;b",
            "scan.startup.mode": "specific-offsets",
            "scan.startup.specific-offsets": "partition:0,offset:1",
        },
        "'scan.startup.specific-offsets' works for a single topic only, not for 'a', 'b'",
    ),
    (
        {"properties.auto.offset.reset": "newest"},
        "'properties.auto.offset.reset' = 'newest' is not one of",
    ),
    ({"scan.parallelism": "0"}, "option 'scan.parallelism' = '0' must be at least 1"),
    (
        {"scan.max-records-per-batch": "-5"},
        "option 'scan.max-records-per-batch' = '-5' must be at least 1",
    ),
    (
        {"scan.on-data-loss": "ignore"},
        "'scan.on-data-loss' = 'ignore' is not one of 'fail', 'continue'",
    ),
    (
        {"scan.watermark.alignment.group": "g"},
        "'scan.watermark.alignment.max-drift' must be set when configuring watermark alignment",
    ),
    (
        {"key.fields": "id"},
        "the option 'key.fields' can only be declared if a key format is defined",
    ),
    (
        {"key.format": "json"},
        "a key format 'key.format' requires the declaration of one or more of key fields",
    ),
    (
        {"key.format": "json", "key.fields": "idd"},
        "could not find the field 'idd' in the table schema for usage in the key format",
    ),
    (
        {"key.format": "json", "key.fields": "id", "key.fields-prefix": "k_"},
        "a key prefix is not allowed when option 'value.fields-include' is set to 'ALL'",
    ),
    (
        {
            "key.format": "json",
            "key.fields": "id",
            "key.fields-prefix": "k_",
            "value.fields-include": "EXCEPT_KEY",
        },
        "all fields in 'key.fields' must be prefixed with 'k_'",
    ),
]


@pytest.mark.parametrize(
    ("options", "message"), REFUSED, ids=[message[:60] for _, message in REFUSED]
)
def test_what_flink_refuses_is_refused(options: dict[str, str | None], message: str) -> None:
    """Each rule has its message, and names the table."""
    error = refusal(options)

    assert message in error.message
    assert (
        "orders" in error.message or "format" in error.message or "topic-pattern" in error.message
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0:42",
        "partition:0",
        "partition:0,offset:",
        "partition:0,offset:x",
        "partition:-1,offset:2",
        "partition:0,offset:1;",
        "partition:0,offset:1,x:2",
    ],
)
def test_malformed_offsets_show_the_shape(text: str) -> None:
    """The message quotes what was expected and what was given."""
    error = refusal(
        {"scan.startup.mode": "specific-offsets", "scan.startup.specific-offsets": text}
    )

    assert (
        "should follow the format 'partition:0,offset:42;partition:1,offset:300'" in error.message
    )
    assert f"but is '{text}'" in error.message


def test_a_misspelt_option_is_guessed() -> None:
    """The hint names the nearest option."""
    error = refusal({"scan.startup.mod": "x"})

    assert "did you mean 'scan.startup.mode'?" in str(error.hint)


@pytest.mark.parametrize("key", ["scan.startup.mode", "scan.bounded.mode"])
def test_group_offsets_need_a_group_when_read(key: str) -> None:
    """The definition stands, as the table may be for writing; reading it is refused (Flink's builder)."""
    table = kafka_table({key: "group-offsets"})
    KafkaConnector().check(table)

    with pytest.raises(OptionError, match=r"'properties\.group\.id' is required"):
        KafkaConnector().source(table)


def test_without_a_mode_the_group_is_asked_for_with_a_way_out() -> None:
    """Flink's default mode surprises people who never heard of groups."""
    with pytest.raises(OptionError) as caught:
        KafkaConnector().source(kafka_table({"scan.startup.mode": None}))

    assert "(the default)" in caught.value.message
    assert "'scan.startup.mode' = 'earliest-offset'" in str(caught.value.hint)


def test_a_primary_key_is_refused() -> None:
    """Records of an insert-only format cannot keep it."""
    table = kafka_table(columns={"id": "BIGINT NOT NULL"})
    keyed = replace(table, schema=replace(table.schema, primary_key=PrimaryKey(columns=("id",))))

    with pytest.raises(DefinitionError, match="can't guarantee the semantic of primary key"):
        KafkaConnector().check(keyed)


@pytest.mark.parametrize(
    ("key", "declared"),
    [
        ("topic", "STRING NOT NULL"),
        ("partition", "INT"),
        ("partition", "BIGINT"),
        ("offset", "BIGINT NOT NULL"),
        ("offset", "STRING"),
        ("offset", "INT"),
        ("offset", "DECIMAL(20, 1)"),
        ("timestamp", "TIMESTAMP(3)"),
        ("timestamp", "TIMESTAMP(0)"),
        ("timestamp", "DATE"),
        ("timestamp", "STRING"),
        ("timestamp", "TIMESTAMP_LTZ(3)"),
        ("timestamp", "TIMESTAMP_LTZ(6)"),
        ("timestamp-type", "STRING"),
        ("leader-epoch", "INT"),
        ("headers", "MAP<STRING, BYTES>"),
        ("headers", "MAP<STRING, STRING>"),
        ("header-list", "ARRAY<ROW<k STRING, v STRING>>"),
        ("header-list", "ARRAY<ROW<k STRING, v BYTES>>"),
    ],
)
def test_metadata_may_be_declared_as_what_it_converts_to(key: str, declared: str) -> None:
    """Its own type and those that Flink casts it to."""
    KafkaConnector().check(kafka_table(metadata={"m": (key, declared)}))


@pytest.mark.parametrize(
    ("key", "declared"),
    [
        ("offset", "DECIMAL(18, 0)"),
        ("offset", "TIMESTAMP(3)"),
        ("timestamp", "BIGINT"),
        ("timestamp", "TIME(0)"),
        ("topic", "INT"),
        ("headers", "STRING"),
        ("header-list", "ARRAY<ROW<k STRING>>"),
    ],
)
def test_metadata_of_another_type_is_refused_with_the_right_one(key: str, declared: str) -> None:
    """The hint declares the column as it has to be."""
    with pytest.raises(DefinitionError) as caught:
        KafkaConnector().check(kafka_table(metadata={"m": (key, declared)}))

    assert f"metadata column 'm' has type {parse_type(declared)}" in caught.value.message
    assert str(caught.value.hint).startswith("declare m ")


def test_unknown_metadata_is_guessed() -> None:
    """The list is closed."""
    with pytest.raises(DefinitionError) as caught:
        KafkaConnector().check(kafka_table(metadata={"m": ("time-stamp", "STRING")}))

    assert "which 'kafka' does not have" in caught.value.message
    assert "did you mean 'timestamp'?" in str(caught.value.hint)


def test_a_source_travels_to_tasks_and_shows_no_secret() -> None:
    """It is pickled into every task, and its repr may end up in any log."""
    source = kafka_source(
        {
            "properties.sasl.mechanism": "PLAIN",
            "properties.sasl.username": "u",
            "properties.sasl.password": "canary-4711",
        }
    )
    copy = pickle.loads(pickle.dumps(source))

    assert copy.table.settings.client["sasl.password"] == "canary-4711"
    assert copy.table.settings == source.table.settings
    assert "canary-4711" not in repr(source)


def test_checking_a_table_loads_no_client() -> None:
    """Nothing of librdkafka is in a process that only checks a file."""
    script = (
        "import sys\n"
        "from tests.connector.kafka.tables import kafka_source\n"
        "kafka_source()\n"
        "print('confluent_kafka' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert run.stdout.strip() == "False"


# --- the connector upsert-kafka: what its tables may say, and the rows that their records give ---


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
def test_what_flink_refuses_of_upserts_is_refused(
    options: dict[str, str | None], message: str
) -> None:
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
