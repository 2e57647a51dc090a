"""Which keys are secrets, and what of a value is not shown."""

from __future__ import annotations

import string
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.catalog.masking import REDACTED
from penstock.catalog.options.redaction import is_secret, literal_secrets, redact


@pytest.mark.parametrize(
    "key",
    [
        "properties.sasl.password",
        "properties.sasl.jaas.config",
        "properties.ssl.key.password",
        "properties.ssl.key.pem",
        "properties.ssl.keystore.key",
        "properties.sasl.oauthbearer.client.secret",
        "properties.sasl.oauthbearer.extensions",
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
        f"s3://AKIAEXAMPLE:12/{CANARY}/x+y@bucket/path",
        f"s3a://AKIAEXAMPLE:abc/{CANARY}@bucket",
        f"https://user:p@{CANARY}@host/path",
        f"https://auth.example/token?grant=x&client_secret={CANARY}",
        f"https://b.s3.amazonaws.com/k?X-Amz-Algorithm=a&X-Amz-Signature={CANARY}&x=1",
        f"https://b.s3.amazonaws.com/k?X-Amz-Security-Token={CANARY}",
        f"https://storage.googleapis.com/b/k?X-Goog-Signature={CANARY}",
        f"https://host/cb#access_token={CANARY}",
        f"endpoint=x,secret_key={CANARY},region=y",
        f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={CANARY}==;EndpointSuffix=x",
        f"Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey={CANARY}=",
        f'{{"type": "service_account", "client_secret": "{CANARY}"}}',
        f'{{"password": "a\\"{CANARY}"}}',
        f"user: app\npassword: {CANARY}\n",
        f"Authorization: Bearer {CANARY}",
        f"Basic {CANARY}==",
        f"eyJhbGciOiJIUzI1NiJ9.{CANARY}.sig",
        f"session-eyJhbGciOiJIUzI1NiJ9.{CANARY}.sig",
        f"https://user:123/{CANARY}@host",
        f"jdbc:mysql://host/db?user=app&pass={CANARY}",
        f"http://host:8081/a://user:{CANARY}@b",
    ],
)
def test_secrets_inside_values_are_hidden(value: str) -> None:
    """Under any key."""
    shown = redact({"whatever": value})["whatever"]

    assert CANARY not in shown
    assert REDACTED in shown


@pytest.mark.parametrize(
    "value",
    [
        "data/key=1/x",
        "s3a://bucket/a:b@c",
        "host:9092",
        "file:/tmp/a@b",
        "jdbc:postgresql://host:5432/db?user=app@server",
        "jdbc:postgresql://host:5432/db",
        "localhost:9092,other:9093",
        "yyyy-MM-dd HH:mm:ss",
        "s3://bucket/path",
        "delta.checkpoint=1",
    ],
)
def test_harmless_values_stay(value: str) -> None:
    """Paths with `=` and addresses with `:` are no secrets."""
    assert redact({"path": value}) == {"path": value}


NAMES = st.sampled_from(
    [
        "password", "db_password", "PWD", "passphrase", "client_secret", "secret_key", "aws_secret_access_key",
        "access_token", "refresh-token", "api_key", "apiKey", "X-Amz-Signature", "AccountKey", "private_key",
    ]
)  # fmt: skip
SECRET_TEXT = st.text(
    alphabet=string.ascii_letters + string.digits + "/+=!$%^*()_-.~@:", min_size=6, max_size=40
)


@given(
    NAMES,
    SECRET_TEXT,
    st.sampled_from(["?a=1&{}={}", "x=1;{}={}", "{}={}", "{}: {}", '{{"{}": "{}"}}', "{} = '{}'"]),
)
def test_a_named_value_inside_a_value_is_hidden(name: str, value: str, form: str) -> None:
    """In every form in which settings are written, whatever characters it has."""
    assert value not in redact({"any": form.format(name, value)})["any"]


@given(
    SECRET_TEXT, st.sampled_from(["https", "jdbc:postgresql", "s3", "s3a", "kafka", "mongodb+srv"])
)
def test_a_password_in_an_address_is_hidden(value: str, scheme: str) -> None:
    """With slashes, colons and at signs in it too."""
    address = f"{scheme}://user:{value}@host/path"

    assert value not in redact({"any": address})["any"]


MOST_S = 5.0
"""The longest takes a tenth; one that is read again from each of its parts would take minutes."""


@pytest.mark.parametrize(
    "part",
    [
        "://", "://a:", "://a:1/", "s3://a:", "s3a://", "eyJ-", "_eyJ-", "eyJa.", "${", "${secret:", " ", "= ",
        "?pass=", "password ", "password='", "secret_access_", "-----BEGIN A",
    ],
)  # fmt: skip
def test_a_long_value_is_read_in_one_pass(part: str) -> None:
    """100 kB of what begins a secret: nobody's option holds up a check of the file."""
    value = part * (100_000 // len(part)) + "'"
    begin_s = time.process_time()
    redact({"any": value})
    literal_secrets({"any": value})

    assert time.process_time() - begin_s < MOST_S


@pytest.mark.parametrize(
    ("options", "literal"),
    [
        ({"properties.sasl.password": "hunter2"}, True),
        ({"password": "pre${secret:a}"}, False),
        ({"password": "${secret:a}"}, False),
        ({"password": ""}, False),
        ({"url": "jdbc:postgresql://u:hunter2@host/db"}, True),
        ({"url": "jdbc:postgresql://host/db?password=hunter2"}, True),
        ({"url": "jdbc:postgresql://host:5432/db"}, False),
        ({"properties.sasl.jaas.config": 'Plain required password="hunter2";'}, True),
        ({"properties.sasl.jaas.config": 'Plain required password="${secret:p}";'}, False),
        ({"properties.ssl.ca.pem": "-----BEGIN PRIVATE KEY-----x"}, True),
        ({"properties.ssl.keystore.location": "/etc/keys"}, False),
    ],
)
def test_a_secret_that_stands_there_itself_is_told_from_a_reference(
    options: dict[str, str], literal: bool
) -> None:
    """Under a key of secrets, or inside of any value."""
    assert bool(literal_secrets(options)) is literal
