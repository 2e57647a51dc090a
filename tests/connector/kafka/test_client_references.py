"""References in `properties.*`: kept until a client is made, and only where nothing else looks at the value."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.catalog import masking
from penstock.catalog.errors import OptionError, UnknownObjectError
from penstock.catalog.options.references import sealed_text
from penstock.catalog.secrets.crypto import KEY_VARIABLE, new_key
from penstock.catalog.store.secrets import SqlSecrets
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.connector.kafka.client.client import KafkaClient
from penstock.connector.kafka.client.connection import Connection, admin_connection, read_connection
from penstock.connector.kafka.client.properties import PASSED_ON, REFERENCES, REFUSED, RENAMED
from tests.connector.kafka.tables import kafka_source


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqlSecrets:
    """One secret, `password`."""
    monkeypatch.setattr(masking, "_values", set())
    monkeypatch.setenv(KEY_VARIABLE, new_key())
    made = SqlCatalog(f"sqlite:///{tmp_path}/catalog.db").secrets
    made.create("password", 'hunter2-"kafka\\')
    return made


def connection(secrets: SqlSecrets, **properties: str) -> Connection:
    """The connection of a table with these options (`_` for `.`), sealed."""
    options = {
        f"properties.{key.replace('_', '.')}": sealed_text(value, secrets.sealed)
        for key, value in properties.items()
    }
    defaults = {"topic": "t", "properties.bootstrap.servers": "localhost:9"}
    return read_connection(kafka_source(defaults | options).table.settings.client)


def test_a_client_gets_values_and_its_connection_has_none(
    secrets: SqlSecrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept, compared and pickled are the references."""
    monkeypatch.setenv("PENSTOCK_TEST_HOST", "broker.example")
    made = connection(
        secrets,
        bootstrap_servers="${env:PENSTOCK_TEST_HOST}:9092",
        sasl_mechanism="PLAIN",
        sasl_username="clerk",
        sasl_password="${secret:password}",
    )
    settings = KafkaClient(made).settings()

    assert settings["bootstrap.servers"] == "broker.example:9092"
    assert settings["sasl.password"] == 'hunter2-"kafka\\'
    assert "hunter2" not in str(made.settings)
    assert made.address == "${env:PENSTOCK_TEST_HOST}:9092"
    assert masking.without_secrets('x hunter2-"kafka\\') == "x ******"


def test_a_reference_inside_a_jaas_line_is_taken_as_it_is(secrets: SqlSecrets) -> None:
    """The value is put in after the line was read: quotes in it mean nothing."""
    line = 'a.PlainLoginModule required username="clerk" password="${secret:password}";'
    made = connection(secrets, sasl_mechanism="PLAIN", sasl_jaas_config=line)

    assert KafkaClient(made).settings()["sasl.password"] == 'hunter2-"kafka\\'


def test_a_missing_variable_is_told_by_the_process_that_connects(secrets: SqlSecrets) -> None:
    """It may be another one than that which checked the table."""
    made = connection(secrets, sasl_username="${env:PENSTOCK_NOT_THERE}")

    with pytest.raises(UnknownObjectError, match="no environment variable PENSTOCK_NOT_THERE"):
        KafkaClient(made).configuration()


@pytest.mark.parametrize("key", ["group_id", "isolation_level", "security_protocol", "acks"])
def test_what_penstock_itself_looks_at_takes_no_reference(secrets: SqlSecrets, key: str) -> None:
    """It is needed when the table is checked, in another process."""
    with pytest.raises(OptionError, match="does not take references"):
        connection(secrets, **{key: "${env:PENSTOCK_TEST}"})


def test_properties_that_take_references_go_to_the_client() -> None:
    """Or are translated, as a whole or in parts, into some that do."""
    translated = {"sasl.jaas.config"} | {
        name for name in REFERENCES if name.startswith(("ssl.keystore", "ssl.truststore"))
    }

    assert REFERENCES - translated <= PASSED_ON
    assert not REFERENCES & (REFUSED.keys() | RENAMED.keys())


def test_what_the_client_library_says_of_a_value_is_masked(secrets: SqlSecrets) -> None:
    """It repeats the settings that it does not take."""
    made = connection(secrets, ssl_ca_pem="${secret:password}", security_protocol="SSL")
    client = KafkaClient(admin_connection(dict(made.settings)))

    def factory(configuration: dict[str, object]) -> object:
        from confluent_kafka import KafkaError, KafkaException

        raise KafkaException(KafkaError(-186, f"cannot take {configuration['ssl.ca.pem']}"))

    with pytest.raises(OptionError) as caught:
        client.make(factory)
    assert "cannot take ******" in caught.value.message
