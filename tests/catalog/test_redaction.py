"""Which keys are secrets, and what of a value is not shown."""

from __future__ import annotations

import pytest

from penstock.catalog.redaction import is_secret, redact
from penstock.catalog.secret_mask import REDACTED


@pytest.mark.parametrize(
    "key",
    [
        "properties.sasl.password",
        "properties.sasl.jaas.config",
        "properties.ssl.key.password",
        "properties.ssl.key.pem",
        "properties.ssl.keystore.key",
        "properties.sasl.oauthbearer.client.secret",
        "value.avro-confluent.basic-auth.user-info",
        "value.avro-confluent.bearer-auth.token",
        "fs.azure.account.key",
        "fs.s3a.access.key",
        "api-key",
        "APIKEY",
        "properties.sasl.pasword",
        "properties.sasl.passwrod",
        "ap-key",
    ],
)
def test_keys_of_secrets_are_known(key: str) -> None:
    """Also when one letter is wrong: that is when nobody masks them."""
    assert is_secret(key)


@pytest.mark.parametrize(
    "key",
    [
        "connector",
        "topic",
        "format",
        "key.format",
        "key.fields",
        "path",
        "properties.group.id",
        "properties.bootstrap.servers",
        "properties.sasl.mechanism",
        "properties.sasl.username",
        "properties.ssl.truststore.location",
        "properties.ssl.key.location",
        "scan.startup.mode",
        "scan.topic-partition-discovery.interval",
        "sink.partitioner",
        "json.ignore-parse-errors",
        "delta.appendOnly",
        "delta.checkpointPolicy",
    ],
)
def test_other_keys_are_shown(key: str) -> None:
    """A definition full of stars helps nobody."""
    assert not is_secret(key)


CANARY = "hunter2"


@pytest.mark.parametrize(
    "value",
    [
        f"jdbc:postgresql://app:{CANARY}@host/db",
        f"https://host/path?password={CANARY}&x=1",
        f"https://account.blob/x?sv=1&sig={CANARY}",
        f"s3a://AKIA:{CANARY}@bucket/path",
        f'org.apache.kafka.PlainLoginModule required username="a" password="{CANARY} x";',
        f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----",
        f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}",
    ],
)
def test_secrets_inside_values_are_hidden(value: str) -> None:
    """Under any key."""
    shown = redact({"whatever": value})["whatever"]

    assert CANARY not in shown
    assert REDACTED in shown


@pytest.mark.parametrize(
    "value", ["data/key=1/x", "s3a://bucket/a:b@c", "host:9092", "file:/tmp/a@b"]
)
def test_harmless_values_stay(value: str) -> None:
    """Paths with `=` and addresses with `:` are no secrets."""
    assert redact({"path": value}) == {"path": value}
