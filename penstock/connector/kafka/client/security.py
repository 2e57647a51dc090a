"""From Flink's `properties.*` to the configuration of our client: names, log-ins, certificates, refusals.

Flink's tables are written for the Java client; JAAS lines and PEM stores are translated, Java key stores are refused
with the command that converts them, and whatever runs or loads code is refused. Pure; opens no file.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import PurePath

from penstock.catalog.errors import OptionError, did_you_mean
from penstock.connector.kafka.client.properties import (
    IGNORED,
    PASSED_ON,
    PRODUCER_ONLY,
    REFUSED,
    RENAMED,
)

__all__ = ["client_configuration"]

logger = logging.getLogger(__name__)

# read by `options` into the startup mode, never handed to a client
RESET = "auto.offset.reset"
_TRANSLATED = frozenset(
    (
        "sasl.jaas.config",
        "ssl.truststore.location",
        "ssl.truststore.type",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
    )
)
_KNOWN = PASSED_ON | IGNORED | PRODUCER_ONLY | _TRANSLATED | RENAMED.keys() | {RESET}
_JAAS = re.compile(
    r"\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(?P<options>.*?);?\s*\Z",
    re.DOTALL,
)
_JAAS_OPTION = re.compile(
    r"""([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))"""
)
# the client puts these three into a shell command when it renews a Kerberos ticket
_SHELL_SAFE = re.compile(r"(?!-)[\w@./:-]*\Z", re.ASCII)
_KINIT_INPUTS = ("sasl.kerberos.principal", "sasl.kerberos.service.name", "sasl.kerberos.keytab")
_EXTENSIONS = {
    ".jks": "JKS",
    ".p12": "PKCS12",
    ".pfx": "PKCS12",
    ".pem": "PEM",
    ".crt": "PEM",
    ".cer": "PEM",
}


def client_configuration(properties: Mapping[str, str], *, owner: str) -> dict[str, str]:
    """Translate `properties` (without prefix) into librdkafka's. `owner` names the table. Raises OptionError."""
    _refuse(properties, owner)
    settings = {
        RENAMED.get(key, key): value
        for key, value in properties.items()
        if RENAMED.get(key, key) in PASSED_ON and not key.startswith("ssl.keystore.")
    }
    settings |= _log_in(properties, owner)
    settings |= _trusted(properties, owner)
    settings |= _identity(properties, owner)
    if settings.get("ssl.endpoint.identification.algorithm") == "":
        settings["ssl.endpoint.identification.algorithm"] = "none"  # Java's spelling of off
    _check_kerberos(settings, owner)
    _warn(settings, owner)
    return settings


def _refuse(properties: Mapping[str, str], owner: str) -> None:
    for key in sorted(properties):
        if key in REFUSED:
            raise OptionError(
                f"{owner}: option 'properties.{key}' is refused: {REFUSED[key]}",
                hint="leave it out; a table definition may not bring code or files of its choice into the client",
            )
    for key in sorted(properties.keys() - _KNOWN):
        nearest = did_you_mean(f"properties.{key}", [f"properties.{name}" for name in _KNOWN])
        raise OptionError(
            f"{owner}: 'properties.{key}' is not an option of the Kafka client",
            hint=nearest or "names are those of Kafka's consumer or of librdkafka",
        )


def _log_in(properties: Mapping[str, str], owner: str) -> dict[str, str]:
    """Translate a JAAS line of PLAIN or SCRAM."""
    line = properties.get("sasl.jaas.config")
    if line is None:
        return {}
    found = _JAAS.match(line)
    if found is None:
        raise _jaas_error(
            owner, "is not of the form '<login module> required <option>=\"<value>\" ...;'"
        )
    module = found["module"].rpartition(".")[2]
    if module not in ("PlainLoginModule", "ScramLoginModule"):
        raise _jaas_error(owner, f"names the login module {module}, which would have to be loaded")
    options = {
        name: re.sub(r"\\(.)", r"\1", double or single) or bare
        for name, double, single, bare in _JAAS_OPTION.findall(found["options"])
    }
    if not {"username", "password"} <= options.keys():
        raise _jaas_error(owner, f"gives {module} no username and password")
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms"))
    if mechanism is None or mechanism.startswith("PLAIN") != (module == "PlainLoginModule"):
        wanted = "PLAIN" if module == "PlainLoginModule" else "SCRAM-SHA-256' or 'SCRAM-SHA-512"
        raise OptionError(
            f"{owner}: 'properties.sasl.jaas.config' uses {module}, but 'properties.sasl.mechanism' is "
            + (f"'{mechanism}'" if mechanism else "not set"),
            hint=f"set 'properties.sasl.mechanism' = '{wanted}'",
        )
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _jaas_error(owner: str, reason: str) -> OptionError:
    return OptionError(
        f"{owner}: 'properties.sasl.jaas.config' {reason}",
        hint="write 'properties.sasl.mechanism', 'properties.sasl.username' and 'properties.sasl.password' "
        "(PLAIN, SCRAM-SHA-256, SCRAM-SHA-512), 'properties.sasl.oauthbearer.method' = 'oidc' with its options, or "
        "'properties.sasl.kerberos.principal' instead",
    )


def _trusted(properties: Mapping[str, str], owner: str) -> dict[str, str]:
    """Translate the trust store: PEM passes, Java's and PKCS#12 are refused (librdkafka reads neither)."""
    if "ssl.truststore.certificates" in properties:
        return {"ssl.ca.pem": properties["ssl.truststore.certificates"]}
    location = properties.get("ssl.truststore.location")
    if location is None:
        return {}
    kind = _store_kind(properties, "ssl.truststore")
    if kind == "PEM":
        return {"ssl.ca.location": location}
    name = PurePath(location).name
    command = f"openssl pkcs12 -in {name} -nokeys -out ca.pem"
    if kind == "JKS":
        command = f"{_to_pkcs12(name)} && {command.replace(name, 'store.p12')}"
    raise OptionError(
        f"{owner}: 'properties.ssl.truststore.location' is a {kind} store, which the client does not read",
        hint=f"convert it: {command}; then set 'properties.ssl.ca.location' = 'ca.pem' in its place",
    )


def _identity(properties: Mapping[str, str], owner: str) -> dict[str, str]:
    """Translate the key store: PEM and PKCS#12 pass, Java's is refused."""
    settings = {}
    if "ssl.keystore.key" in properties:
        settings["ssl.key.pem"] = properties["ssl.keystore.key"]
    if "ssl.keystore.certificate.chain" in properties:
        settings["ssl.certificate.pem"] = properties["ssl.keystore.certificate.chain"]
    location = properties.get("ssl.keystore.location")
    if location is None:
        return settings
    kind = _store_kind(properties, "ssl.keystore")
    if kind == "PEM":
        return {**settings, "ssl.key.location": location, "ssl.certificate.location": location}
    if kind == "PKCS12":
        return {
            "ssl.keystore.location": location,
            "ssl.keystore.password": properties.get("ssl.keystore.password", ""),
        }
    name = PurePath(location).name
    raise OptionError(
        f"{owner}: 'properties.ssl.keystore.location' is a {kind} store, which the client does not read",
        hint=f"convert it: {_to_pkcs12(name)}; then set 'properties.ssl.keystore.location' = 'store.p12'",
    )


def _to_pkcs12(name: str) -> str:
    return (
        f"keytool -importkeystore -srckeystore {name} -destkeystore store.p12 -deststoretype PKCS12"
    )


def _store_kind(properties: Mapping[str, str], prefix: str) -> str:
    suffix = PurePath(properties[f"{prefix}.location"]).suffix.lower()
    # JKS is what Java takes a store for that does not say otherwise
    return properties.get(f"{prefix}.type", _EXTENSIONS.get(suffix, "JKS")).upper()


def _check_kerberos(settings: Mapping[str, str], owner: str) -> None:
    for key in _KINIT_INPUTS:
        if not _SHELL_SAFE.match(settings.get(key, "")):
            raise OptionError(
                f"{owner}: option 'properties.{key}' has a character that a shell would interpret, or begins with -",
                hint="the client builds a kinit command from it: letters, digits and _ @ . / : - are allowed",
            )


_OVERHEARD = {
    "PLAIN": "the password goes to the broker unencrypted",
    "OAUTHBEARER": "the token goes to the broker unencrypted, and whoever reads it may use it",
    "SCRAM-SHA-256": "all records go unencrypted, and the password can be guessed from the log-in",
    "SCRAM-SHA-512": "all records go unencrypted, and the password can be guessed from the log-in",
}
"""What an eavesdropper gets of a connection without TLS, by mechanism."""


def _warn(settings: Mapping[str, str], owner: str) -> None:
    protocol = settings.get("security.protocol", "plaintext").lower()
    told = _OVERHEARD.get(settings.get("sasl.mechanism", "").upper())
    if protocol == "sasl_plaintext" and told is not None:
        logger.warning(
            "%s: %s (SASL_PLAINTEXT); set 'properties.security.protocol' = 'SASL_SSL'", owner, told
        )
    unchecked = settings.get("ssl.endpoint.identification.algorithm", "https").lower() == "none"
    if unchecked or settings.get("enable.ssl.certificate.verification", "true").lower() == "false":
        logger.warning("%s: the broker's certificate is not checked against its name", owner)
