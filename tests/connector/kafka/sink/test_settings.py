"""What a WITH clause may say about writing, and which tables can be written: no broker, no JVM."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import DefinitionError, OptionError, PenstockError, UnsupportedError
from penstock.connector.changelog import ChangelogMode
from penstock.connector.kafka.connector import KafkaConnector
from penstock.connector.kafka.sink.client import producer_connection, transactional
from penstock.connector.kafka.sink.settings import Delivery, Partitioner, Staging
from tests.connector.kafka.sink.writing import KEYED, ONCE, made_sink
from tests.connector.kafka.tables import kafka_table

UPSERT = {
    "connector": "upsert-kafka",
    "format": None,
    "scan.startup.mode": None,
    "key.format": "json",
    "value.format": "json",
}
COLUMNS = {"id": "BIGINT NOT NULL", "name": "STRING"}


def refusal(options: dict[str, str | None], **more: object) -> PenstockError:
    """The error that writing is refused with."""
    with pytest.raises(PenstockError) as caught:
        made_sink(options, **more)  # type: ignore[arg-type]
    return caught.value


def test_a_plain_table_has_flinks_defaults() -> None:
    """At least once, the client's partitioner, rows that stay."""
    sink = made_sink({})

    assert sink.settings.delivery is Delivery.AT_LEAST_ONCE
    assert sink.settings.partitioner is Partitioner.DEFAULT
    assert sink.settings.staging is Staging.AUTO
    assert sink.settings.parallelism is None
    assert sink.capabilities.accepts is ChangelogMode.INSERT_ONLY


def test_an_upsert_table_takes_all_changes() -> None:
    """Its key is the PRIMARY KEY; both limits of the buffer, or none."""
    buffer = {"sink.buffer-flush.max-rows": "1000", "sink.buffer-flush.interval": "1s"}
    plain = made_sink(UPSERT, columns=COLUMNS, key=("id",), upsert=True)
    buffered = made_sink({**UPSERT, **buffer}, columns=COLUMNS, key=("id",), upsert=True)
    half = {**UPSERT, "sink.buffer-flush.max-rows": "1000"}

    assert plain.capabilities.accepts is ChangelogMode.ALL
    assert (plain.settings.buffers, buffered.settings.buffers) == (False, True)
    error = refusal(half, columns=COLUMNS, key=("id",), upsert=True)
    assert "must be set together" in error.message


@pytest.mark.parametrize("name", ["debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_a_table_of_changes_takes_all_changes_with_the_rows_before(name: str) -> None:
    """Without a key nothing but their order tells which belong together, so they are not spread."""
    sink = made_sink({"format": name})
    spread = {"format": None, "value.format": name, "sink.parallelism": "3"}

    assert sink.capabilities.accepts is ChangelogMode.ALL
    assert sink.capabilities.needs_update_before
    assert "in several places at once" in refusal(dict(spread)).message
    assert made_sink({**spread, **KEYED}).settings.parallelism == 3


def test_exactly_once_needs_a_prefix() -> None:
    """Of at most 64000 bytes."""
    once = {"sink.delivery-guarantee": "exactly-once"}
    long = {**once, "sink.transactional-id-prefix": "ä" * 32_001}

    assert "'sink.transactional-id-prefix' must be set" in refusal(dict(once)).message
    assert "64002 bytes" in refusal(dict(long)).message
    assert made_sink(ONCE).settings.prefix == "tests"


def test_the_deprecated_name_of_the_guarantee_is_understood() -> None:
    """Where the new one is not set."""
    assert made_sink({"sink.semantic": "none"}).settings.delivery is Delivery.NONE


def test_both_naming_strategies_are_one_here() -> None:
    """Neither probes for old ids, nor uses one again for another checkpoint: a slot has one id (FLINK-34554)."""
    incrementing = made_sink({**ONCE, "sink.transaction-naming-strategy": "INCREMENTING"})
    pooling = made_sink({**ONCE, "sink.transaction-naming-strategy": "POOLING"})

    assert incrementing.settings == pooling.settings


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({**KEYED, "sink.partitioner": "round-robin"}, "only works when 'key.fields' is not set"),
        ({"sink.partitioner": ""}, "is empty"),
        ({"sink.partitioner": "org.example.Mine"}, "classes of Java are not loaded"),
        ({"sink.parallelism": "0"}, "at least 1"),
        ({"properties.transactional.id": "mine"}, "names its transactions itself"),
        ({"properties.acks": "1"}, "contradicts"),
        ({"properties.enable.idempotence": "false"}, "contradicts"),
        ({"properties.transaction.timeout.ms": "soon"}, "not a number of milliseconds"),
        ({"format": "raw", "raw.charset": "windows-1252"}, None),
    ],
)
def test_options_that_cannot_be_are_refused(
    options: dict[str, str | None], said: str | None
) -> None:
    """At definition, with the option's name."""
    columns = {"text": "STRING"} if options.get("format") == "raw" else None
    error = refusal(options, columns=columns)

    assert isinstance(error, OptionError | UnsupportedError)
    assert (said or "cannot be written in the charset") in error.message


def test_round_robin_without_a_key_is_the_clients_choice() -> None:
    """As in Flink, where both pass no partitioner."""
    assert (
        made_sink({"sink.partitioner": "round-robin"}).settings.partitioner is Partitioner.DEFAULT
    )


def test_producers_get_javas_options_under_the_clients_names() -> None:
    """What means nothing to the client is left out; what delivery needs is forced."""
    sink = made_sink(
        {
            "properties.max.request.size": "2000000",
            "properties.compression.type": "zstd",
            "properties.delivery.timeout.ms": "5000",
            "properties.buffer.memory": "1",
            "properties.group.id": "readers",
        }
    )
    settings = dict(producer_connection(sink.table.settings.client, sink.settings).settings)

    assert settings["message.max.bytes"] == "2000000"
    assert settings["compression.type"] == "zstd"
    assert settings["message.timeout.ms"] == "5000"
    assert (settings["acks"], settings["enable.idempotence"]) == ("all", "true")
    assert settings["partitioner"] == "murmur2_random"
    assert not {"buffer.memory", "group.id"} & settings.keys()
    assert (
        dict(
            transactional(
                producer_connection({"bootstrap.servers": "b"}, sink.settings), "t", 7
            ).settings
        )["transaction.timeout.ms"]
        == "7"
    )


@pytest.mark.parametrize(
    ("options", "timeout_ms", "expected"),
    [
        ({}, 300_000, "30000"),
        ({}, 5_000, "5000"),
        ({"properties.request.timeout.ms": "45000"}, 300_000, "45000"),
    ],
)
def test_a_request_of_a_transaction_waits_no_longer_than_told(
    options: dict[str, str], timeout_ms: int, expected: str
) -> None:
    """The client waits as long as the transaction may last by default, so a commit hung for minutes behind a broker
    that stands still, whatever time its calls were given.
    """
    sink = made_sink(options)
    connection = producer_connection(sink.table.settings.client, sink.settings)
    settings = dict(transactional(connection, "t", timeout_ms).settings)

    assert settings["socket.timeout.ms"] == expected


def test_metadata_that_can_only_be_read_has_to_be_virtual() -> None:
    """Writable is what Flink's KafkaDynamicSink writes."""
    error = refusal({}, metadata={"o": ("offset", "BIGINT")})

    assert isinstance(error, DefinitionError)
    assert "which can be read only" in error.message


def test_headers_are_written_one_way() -> None:
    """Not as a map and as a list."""
    error = refusal(
        {},
        metadata={
            "m": ("headers", "MAP<STRING, BYTES>"),
            "l": ("header-list", "ARRAY<ROW<key STRING, value BYTES>>"),
        },
    )

    assert "two ways to write the same headers" in error.message


def test_several_topics_need_a_column_that_says_which() -> None:
    """A list or a pattern."""
    error = refusal({"topic": "a;b"})

    assert "no column says which one" in error.message
    assert made_sink({"topic": "a;b"}, metadata={"t": ("topic", "STRING")})


def test_the_connector_gives_the_sink() -> None:
    """Of a table as it is declared."""
    sink = KafkaConnector().sink(kafka_table())

    assert sink.capabilities.accepts is ChangelogMode.INSERT_ONLY
