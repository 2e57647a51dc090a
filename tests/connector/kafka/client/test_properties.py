"""Client properties as Flink's tables write them: what is translated, what is refused, and what is never shown."""

from __future__ import annotations

import logging

import pytest

from penstock.catalog.errors import OptionError
from penstock.connector.kafka.client import properties as security
from penstock.connector.kafka.client.properties import (
    IGNORED,
    PASSED_ON,
    PRODUCER_ONLY,
    REFUSED,
    RENAMED,
    client_configuration,
)

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = (
    "org.apache.flink.kafka.shaded.org.apache.kafka.common.security.scram.ScramLoginModule"
)


def translated(**properties: str) -> dict[str, str]:
    """The client's configuration; names are written with `_` for `.`."""
    return client_configuration(
        {key.replace("_", "."): v for key, v in properties.items()}, owner="table t"
    )


def refusal(**properties: str) -> OptionError:
    """The error that properties are refused with."""
    with pytest.raises(OptionError) as caught:
        translated(**properties)
    return caught.value


def test_a_jaas_line_of_plain_becomes_name_and_password() -> None:
    """The most common log-in of Flink tables."""
    line = f'{PLAIN_MODULE} required username="alice" password="p\\"w;= 1";'

    configuration = translated(
        security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_jaas_config=line
    )

    assert configuration == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": 'p"w;= 1',
    }


def test_a_jaas_line_of_scram_may_come_from_a_shaded_client() -> None:
    """Managed Flink services have their users write the shaded class name."""
    line = f"{SCRAM_MODULE} required\n username='alice'\n password=plain-word ;"

    configuration = translated(sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=line)

    assert configuration["sasl.username"] == "alice"
    assert configuration["sasl.password"] == "plain-word"


@pytest.mark.parametrize(
    ("line", "mechanism", "message"),
    [
        ("nonsense", "PLAIN", "is not of the form"),
        (
            'com.sun.security.auth.module.Krb5LoginModule required x="y";',
            "GSSAPI",
            "Krb5LoginModule",
        ),
        (
            'com.sun.security.auth.module.JndiLoginModule required x="y";',
            "PLAIN",
            "JndiLoginModule",
        ),
        (f'{PLAIN_MODULE} required username="a";', "PLAIN", "no username and password"),
        (
            f'{PLAIN_MODULE} required username="a" password="canary";',
            "",
            "'properties.sasl.mechanism' is not set",
        ),
        (
            f'{PLAIN_MODULE} required username="a" password="canary";',
            "SCRAM-SHA-256",
            "is 'SCRAM-SHA-256'",
        ),
    ],
)
def test_other_jaas_lines_are_refused_with_what_to_write(
    line: str, mechanism: str, message: str
) -> None:
    """Login modules are code; nothing of the line itself is shown."""
    mechanisms = {"sasl_mechanism": mechanism} if mechanism else {}

    error = refusal(sasl_jaas_config=line, **mechanisms)

    assert message in error.message
    assert "properties.sasl." in str(error.hint)
    assert "canary" not in error.message + str(error.hint)


def test_a_java_trust_store_is_refused_with_the_command_that_converts_it() -> None:
    """The client reads PEM."""
    error = refusal(ssl_truststore_location="/secrets/ca.jks", ssl_truststore_password="canary")

    assert "is a JKS store" in error.message
    assert "keytool -importkeystore -srckeystore ca.jks" in str(error.hint)
    assert "openssl pkcs12 -in store.p12 -nokeys -out ca.pem" in str(error.hint)
    assert "'properties.ssl.ca.location' = 'ca.pem'" in str(error.hint)
    assert "canary" not in error.message + str(error.hint)


def test_a_pkcs12_trust_store_takes_one_command_less() -> None:
    """It is no Java format, but librdkafka does not read it either."""
    error = refusal(ssl_truststore_location="/secrets/ca.p12")

    assert "openssl pkcs12 -in ca.p12 -nokeys -out ca.pem" in str(error.hint)
    assert "keytool" not in str(error.hint)


def test_pem_and_pkcs12_stores_pass() -> None:
    """Under the client's own names."""
    assert translated(ssl_truststore_location="/x/ca.pem") == {"ssl.ca.location": "/x/ca.pem"}
    assert translated(ssl_truststore_location="/x/ca", ssl_truststore_type="PEM") == {
        "ssl.ca.location": "/x/ca"
    }
    assert translated(ssl_truststore_certificates="PEM...") == {"ssl.ca.pem": "PEM..."}
    assert translated(ssl_keystore_location="/x/me.p12", ssl_keystore_password="w") == {
        "ssl.keystore.location": "/x/me.p12",
        "ssl.keystore.password": "w",
    }
    assert translated(ssl_keystore_location="/x/me.pem") == {
        "ssl.key.location": "/x/me.pem",
        "ssl.certificate.location": "/x/me.pem",
    }


def test_a_java_key_store_is_refused_with_the_command_that_converts_it() -> None:
    """JKS is what Java takes a store for that does not say otherwise."""
    error = refusal(ssl_keystore_location="/x/keystore")

    assert "is a JKS store" in error.message
    assert "-deststoretype PKCS12" in str(error.hint)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_runs_or_loads_code_is_refused(name: str) -> None:
    """Whatever the value is."""
    with pytest.raises(OptionError) as caught:
        client_configuration({name: "/bin/true"}, owner="table t")

    assert f"option 'properties.{name}' is refused" in caught.value.message


@pytest.mark.parametrize("value", ['x"; rm -rf / #', "$(id)", "a`id`", "a|b", "a\nb"])
def test_what_the_client_puts_into_a_kinit_command_cannot_leave_it(value: str) -> None:
    """The client substitutes the principal into a shell command of its own."""
    error = refusal(sasl_kerberos_principal=value)

    assert "a shell would interpret" in error.message


def test_unknown_properties_are_refused_with_the_nearest() -> None:
    """The client would refuse them too, but only in a task."""
    error = refusal(group_idd="x")

    assert "'properties.group.idd' is not an option of the Kafka client" in error.message
    assert "did you mean 'properties.group.id'?" in str(error.hint)


def test_javas_names_become_the_clients() -> None:
    """And a second name of the client the first one, so that our defaults meet it."""
    assert translated(
        fetch_max_wait_ms="5", request_timeout_ms="7", fetch_message_max_bytes="9"
    ) == {
        "fetch.wait.max.ms": "5",
        "socket.timeout.ms": "7",
        "max.partition.fetch.bytes": "9",
    }


def test_properties_without_meaning_here_are_left_out() -> None:
    """Deserializers, polling, automatic commits, and everything of producers."""
    left_out = client_configuration(dict.fromkeys(IGNORED | PRODUCER_ONLY, "1"), owner="table t")

    assert left_out == {}


def test_every_name_has_one_fate() -> None:
    """The lists do not overlap."""
    lists = [PASSED_ON, IGNORED, PRODUCER_ONLY, REFUSED.keys(), RENAMED.keys()]

    assert sum(map(len, lists)) == len(set().union(*lists))
    assert set(RENAMED.values()) <= PASSED_ON


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
def test_a_log_in_without_tls_is_warned_of(
    caplog: pytest.LogCaptureFixture, mechanism: str
) -> None:
    """Whatever the mechanism: a password, a token, or what it can be guessed from, and all records."""
    settings = {"security.protocol": "sasl_plaintext", "sasl.mechanism": mechanism}
    with caplog.at_level(logging.WARNING):
        security._warn(settings, "table t")
    assert "unencrypted" in caplog.text
    assert "SASL_SSL" in caplog.text

    caplog.clear()
    security._warn({**settings, "security.protocol": "sasl_ssl"}, "table t")
    assert not caplog.text


@pytest.mark.parametrize("key", ["principal", "service.name", "keytab"])
@pytest.mark.parametrize("value", ["-c /tmp/evil", "a -t /etc/x", "$(id)", "a;b", "-k"])
def test_a_kerberos_input_is_one_argument_of_the_command(key: str, value: str) -> None:
    """The client writes them into a shell's line for kinit."""
    with pytest.raises(OptionError, match="a shell would interpret, or begins with -"):
        client_configuration({f"sasl.kerberos.{key}": value}, owner="table t")


def test_unsafe_settings_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """A password in the clear, a broker that may be anyone."""
    with caplog.at_level(logging.WARNING):
        translated(security_protocol="SASL_PLAINTEXT", sasl_mechanism="PLAIN")
        configuration = client_configuration(
            {"ssl.endpoint.identification.algorithm": ""}, owner="table t"
        )

    assert "unencrypted" in caplog.text
    assert "not checked" in caplog.text
    assert configuration == {"ssl.endpoint.identification.algorithm": "none"}
