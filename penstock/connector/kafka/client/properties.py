"""From Flink's `properties.*` to the configuration of our client: names, log-ins, certificates, refusals.

A property is passed on, called otherwise by Java, without meaning here, or refused.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from pathlib import PurePath

from penstock.catalog.errors import OptionError, did_you_mean


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


PASSED_ON = _names(
    """
    api.version.fallback.ms api.version.request api.version.request.timeout.ms
    bootstrap.servers broker.address.family broker.address.ttl broker.version.fallback builtin.features
    check.crcs client.dns.lookup client.id client.rack connections.max.idle.ms coordinator.query.interval.ms
    debug enable.metrics.push enable.random.seed enable.sparse.connections
    enable.ssl.certificate.verification fetch.error.backoff.ms fetch.max.bytes fetch.min.bytes
    fetch.queue.backoff.ms fetch.wait.max.ms group.id group.instance.id group.protocol
    group.protocol.type group.remote.assignor heartbeat.interval.ms https.ca.location https.ca.pem
    isolation.level log.connection.close log.thread.name log_level max.in.flight.requests.per.connection
    max.partition.fetch.bytes max.poll.interval.ms message.copy.max.bytes message.max.bytes
    metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy partition.assignment.strategy
    queued.max.messages.kbytes queued.min.messages receive.message.max.bytes reconnect.backoff.jitter.ms
    reconnect.backoff.max.ms reconnect.backoff.ms retry.backoff.max.ms retry.backoff.ms
    sasl.kerberos.keytab sasl.kerberos.min.time.before.relogin sasl.kerberos.principal
    sasl.kerberos.service.name sasl.mechanism sasl.oauthbearer.assertion.algorithm
    sasl.oauthbearer.assertion.claim.aud sasl.oauthbearer.assertion.claim.exp.seconds
    sasl.oauthbearer.assertion.claim.iss sasl.oauthbearer.assertion.claim.jti.include
    sasl.oauthbearer.assertion.claim.nbf.seconds sasl.oauthbearer.assertion.claim.sub
    sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.private.key.pem
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.client.id sasl.oauthbearer.client.secret sasl.oauthbearer.extensions
    sasl.oauthbearer.grant.type sasl.oauthbearer.method sasl.oauthbearer.scope
    sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url sasl.password sasl.username
    security.protocol session.timeout.ms socket.blocking.max.ms socket.connection.setup.timeout.ms
    socket.keepalive.enable socket.max.fails socket.nagle.disable socket.receive.buffer.bytes
    socket.send.buffer.bytes socket.timeout.ms ssl.ca.certificate.stores ssl.ca.location ssl.ca.pem
    ssl.certificate.location ssl.certificate.pem ssl.cipher.suites ssl.crl.location ssl.curves.list
    ssl.endpoint.identification.algorithm ssl.key.location ssl.key.password ssl.key.pem
    ssl.keystore.location ssl.keystore.password ssl.sigalgs.list topic.blacklist
    topic.metadata.propagation.max.ms topic.metadata.refresh.fast.interval.ms
    topic.metadata.refresh.interval.ms topic.metadata.refresh.sparse
    """
)
"""Properties of librdkafka that a table may set. Not here: callbacks, and what the scan decides itself."""

RENAMED = {
    "metadata.broker.list": "bootstrap.servers",
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "request.timeout.ms": "socket.timeout.ms",
    "sasl.mechanisms": "sasl.mechanism",
    "send.buffer.bytes": "socket.send.buffer.bytes",
}
"""Java's name, or librdkafka's second one -> the one name used here, so that defaults and settings meet."""

IGNORED = _names(
    """
    auto.commit.interval.ms auto.include.jmx.reporter client.id.prefix commit.offsets.on.checkpoint
    default.api.timeout.ms enable.auto.commit enable.auto.offset.store exclude.internal.topics
    key.deserializer max.poll.records metrics.num.samples metrics.recording.level
    metrics.sample.window.ms partition.discovery.interval.ms register.consumer.metrics
    sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor
    sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
    sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
    sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
    share.acknowledgement.mode socket.connection.setup.timeout.max.ms ssl.enabled.protocols
    ssl.keymanager.algorithm ssl.protocol ssl.secure.random.implementation
    ssl.trustmanager.algorithm statistics.interval.ms value.deserializer allow.auto.create.topics
    """
)
"""Properties of the Java client or of Flink that change nothing here: Penstock decodes, polls and commits itself."""

PRODUCER_ONLY = _names(
    """
    acks batch.num.messages batch.size buffer.memory compression.codec compression.level
    compression.gzip.level compression.lz4.level compression.type compression.zstd.level
    delivery.timeout.ms enable.gapless.guarantee enable.idempotence key.serializer linger.ms
    max.block.ms max.request.size message.send.max.retries message.timeout.ms metadata.max.idle.ms
    partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms
    partitioner.ignore.keys queue.buffering.backpressure.threshold queue.buffering.max.kbytes
    queue.buffering.max.messages queue.buffering.max.ms request.required.acks retries
    sticky.partitioning.linger.ms transaction.timeout.ms transactional.id value.serializer
    """
)
"""Properties of producers: a table may be written as well as read, so its source passes over them."""

PRODUCED = _names(
    """
    acks batch.num.messages batch.size compression.level compression.type enable.gapless.guarantee
    enable.idempotence linger.ms message.max.bytes message.send.max.retries message.timeout.ms
    queue.buffering.backpressure.threshold sticky.partitioning.linger.ms transaction.timeout.ms
    """
)
"""Those that a sink passes to its producers; the others of PRODUCER_ONLY have no meaning there: the sink bounds its
queue itself, serialises itself, and has no partitioner of Java's.
"""

PRODUCER_RENAMED = {
    "compression.codec": "compression.type",
    "compression.gzip.level": "compression.level",
    "compression.lz4.level": "compression.level",
    "compression.zstd.level": "compression.level",
    "delivery.timeout.ms": "message.timeout.ms",
    "max.request.size": "message.max.bytes",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "retries": "message.send.max.retries",
}
"""Java's name, or librdkafka's second one -> the one in PRODUCED."""

PRODUCER_DECIDES = {
    "transactional.id": "the sink names its transactions itself, after 'sink.transactional-id-prefix'",
}
"""Properties that a sink decides: a table that sets them is not written."""

REFERENCES = _names(
    """
    bootstrap.servers client.id client.rack https.ca.location https.ca.pem
    sasl.jaas.config sasl.oauthbearer.assertion.private.key.passphrase
    sasl.oauthbearer.assertion.private.key.pem sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.client.id
    sasl.oauthbearer.client.secret sasl.oauthbearer.extensions sasl.oauthbearer.scope
    sasl.oauthbearer.token.endpoint.url sasl.password sasl.username ssl.ca.location ssl.ca.pem
    ssl.certificate.location ssl.certificate.pem ssl.key.location ssl.key.password ssl.key.pem
    ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.password
    ssl.truststore.certificates ssl.truststore.password
    """
)
"""Those whose values may hold references such as ${secret:name}: only the client itself reads them.

The client that a process makes reveals them (`KafkaClient.configuration`).
"""

REFUSED = {
    "interceptor.classes": "it loads a class into the client",
    "metric.reporters": "it loads a class into the client",
    "partitioner.class": "it loads a class into the client",
    "plugin.library.paths": "it loads a library into the client",
    "sasl.client.callback.handler.class": "it loads a class into the client",
    "sasl.kerberos.kinit.cmd": "it is a shell command that the client runs",
    "sasl.login.callback.handler.class": "it loads a class into the client",
    "sasl.login.class": "it loads a class into the client",
    "sasl.oauthbearer.assertion.file": "it sends the contents of a file to an address in the table",
    "sasl.oauthbearer.assertion.jwt.template.file": "it sends the contents of a file to an address in the table",
    "sasl.oauthbearer.config": "it sets up token handlers of the client library",
    "sasl.oauthbearer.jwt.retriever.class": "it loads a class into the client",
    "sasl.oauthbearer.jwt.validator.class": "it loads a class into the client",
    "sasl.oauthbearer.metadata.authentication.type": "it sends credentials of this machine",
    "enable.sasl.oauthbearer.unsecure.jwt": "it logs in with tokens that nobody signed",
    "security.providers": "it loads a class into the client",
    "ssl.engine.factory.class": "it loads a class into the client",
    "ssl.engine.id": "it loads a library into the client",
    "ssl.engine.location": "it loads a library into the client",
    "ssl.provider": "it loads a class into the client",
    "ssl.providers": "it loads a library into the client",
    "internal.termination.signal": "it changes how this process takes signals",
}
"""Properties that run or load code, or disclose files or credentials: a table definition must not decide that."""


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
    exposed = _OVERHEARD.get(settings.get("sasl.mechanism", "").upper())
    if protocol == "sasl_plaintext" and exposed is not None:
        logger.warning(
            "%s: %s (SASL_PLAINTEXT); set 'properties.security.protocol' = 'SASL_SSL'",
            owner,
            exposed,
        )
    unchecked = settings.get("ssl.endpoint.identification.algorithm", "https").lower() == "none"
    if unchecked or settings.get("enable.ssl.certificate.verification", "true").lower() == "false":
        logger.warning("%s: the broker's certificate is not checked against its name", owner)
