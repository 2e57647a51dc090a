"""What becomes of bad records: the options, alone and beside others."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog.errors import InputError, OptionError
from penstock.catalog.options.option import resolve
from penstock.connector.filesystem.connector import FilesystemConnector
from penstock.connector.kafka.connector import KafkaConnector
from penstock.connector.options.bad_records import (
    BAD_RECORD_OPTIONS,
    BadRecordPolicy,
    BadRecordSettings,
    BesideCheckpoint,
    DeadLetterDelivery,
    DeltaPath,
    KafkaTopic,
    bad_record_settings,
    cluster_of,
    read_bad_record_settings,
)
from tests.connector.filesystem.tables import file_table
from tests.connector.kafka.tables import kafka_table

IN_A_TOPIC = {"bad-records": "dead-letter", "dead-letter.topic": "letters"}


def settings(**options: str) -> BadRecordSettings:
    """What options say; an underscore stands for a dot, two for a hyphen."""
    given = {key.replace("__", "-").replace("_", "."): value for key, value in options.items()}
    return read_bad_record_settings(resolve(given, BAD_RECORD_OPTIONS, owner="t"), owner="t")


@pytest.mark.parametrize(
    ("policy", "leaves_out", "keeps"),
    [("fail", False, False), ("skip", True, False), ("dead-letter", True, True)],
)
def test_a_policy_says_whether_bad_records_are_left_out_and_kept(
    policy: str, leaves_out: bool, keeps: bool
) -> None:
    """Three policies, in any case."""
    found = settings(bad__records=policy.upper())

    assert found.policy is BadRecordPolicy(policy)
    assert (found.leaves_out, found.keeps) == (leaves_out, keeps)


def test_without_options_a_bad_record_fails_the_query() -> None:
    """And the limits are those of the documents."""
    assert settings() == BadRecordSettings(
        policy=BadRecordPolicy.FAIL, outlet=BesideCheckpoint(), max_ratio=0.1, max_rows=None
    )


def test_dead_letters_go_where_the_table_says() -> None:
    """Else beside the checkpoint."""
    named = settings(bad__records="dead-letter", dead__letter_path="letters")

    assert settings(bad__records="dead-letter").outlet == BesideCheckpoint()
    assert named.outlet == DeltaPath(path="letters")


@pytest.mark.parametrize(
    ("text", "ratio"), [("0.25", 0.25), ("25%", 0.25), (" 0.5 % ", 0.005), ("1", 1), ("0", 0)]
)
def test_a_share_is_a_number_or_in_percent(text: str, ratio: float) -> None:
    """At most the whole."""
    found = read_bad_record_settings(
        resolve(
            {"bad-records": "skip", "bad-records.max-ratio": text}, BAD_RECORD_OPTIONS, owner="t"
        ),
        owner="t",
    )

    assert found.max_ratio == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bad-records": "ignore"}, "is not one of 'fail', 'skip', 'dead-letter'"),
        ({"bad-records": "skip", "bad-records.max-ratio": "2"}, "is not a share"),
        ({"bad-records": "skip", "bad-records.max-ratio": "101%"}, "is not a share"),
        ({"bad-records": "skip", "bad-records.max-rows": "-1"}, "must not be negative"),
        ({"bad-records.max-rows": "5"}, "needs 'bad-records' = 'skip' or 'dead-letter'"),
        ({"dead-letter.path": "x"}, "needs 'bad-records' = 'dead-letter', it is 'fail'"),
        ({"bad-records": "skip", "dead-letter.path": "x"}, "needs 'bad-records' = 'dead-letter'"),
        ({"bad-records": "dead-letter", "dead-letter.path": " "}, "is empty"),
    ],
)
def test_options_that_cannot_be_or_do_nothing_are_refused(
    options: dict[str, str], message: str
) -> None:
    """Somebody counts on them."""
    with pytest.raises(OptionError) as caught:
        read_bad_record_settings(resolve(options, BAD_RECORD_OPTIONS, owner="t"), owner="t")

    assert message in caught.value.message


def test_dead_letters_in_a_topic_lie_in_the_cluster_that_the_table_is_read_from() -> None:
    """Reached as the table says; what it says of its own scan has no part in it."""
    table = kafka_table(
        {
            **IN_A_TOPIC,
            "dead-letter.delivery-guarantee": "at-least-once",
            "properties.security.protocol": "SSL",
            "properties.group.id": "g",
            "properties.isolation.level": "read_uncommitted",
        }
    )
    outlet = bad_record_settings(table).outlet

    assert outlet == KafkaTopic(topic="letters", delivery=DeadLetterDelivery.AT_LEAST_ONCE)
    assert dict(cluster_of(table.option_map) or ()) == {
        "properties.bootstrap.servers": "127.0.0.1:1",
        "properties.security.protocol": "SSL",
    }


def test_letters_of_a_table_of_files_go_to_no_topic() -> None:
    """It has no cluster."""
    table = file_table("in", IN_A_TOPIC)
    with pytest.raises(OptionError, match="a topic of the table's Kafka cluster, and it has none"):
        FilesystemConnector(project=Path("/")).check(table)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dead-letter.path": "x"}, "are two places for the same dead letters"),
        ({"dead-letter.topic": "a;b"}, "cannot be the name of a Kafka topic"),
        ({"dead-letter.topic": "orders"}, "is a topic that the table reads"),
        (
            {"dead-letter.topic": "orders-dead", "topic": None, "topic-pattern": "orders.*"},
            "is a topic that the table reads",
        ),
        (
            {"dead-letter.topic": None, "dead-letter.delivery-guarantee": "at-least-once"},
            "needs 'dead-letter.topic'",
        ),
        ({"dead-letter.delivery-guarantee": "none"}, "is not one of"),
    ],
)
def test_a_topic_for_dead_letters_that_cannot_be_is_refused(
    options: dict[str, str | None], message: str
) -> None:
    """With the table's definition; one that the table reads would give each letter a letter."""
    with pytest.raises(OptionError, match=message):
        KafkaConnector().check(kafka_table({**IN_A_TOPIC, **options}))


@pytest.mark.parametrize("policy", ["fail", "skip", "dead-letter"])
def test_a_policy_contradicts_a_format_that_ignores_errors(policy: str) -> None:
    """There malformed fields become NULL, so there are no bad records to speak of."""
    table = file_table("in", {"bad-records": policy, "json.ignore-parse-errors": "true"})
    with pytest.raises(InputError, match="contradicts 'ignore-parse-errors'"):
        FilesystemConnector(project=Path("/")).check(table)


def test_the_settings_of_a_table_are_read_without_its_connector() -> None:
    """Other options do not matter."""
    table = file_table("in", {"bad-records": "skip", "bad-records.max-rows": "7"})

    assert bad_record_settings(table).max_rows == 7
    assert not bad_record_settings(file_table("in")).leaves_out
