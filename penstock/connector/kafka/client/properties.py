"""The names of Kafka client properties: passed on, called otherwise by Java, without meaning here, refused.

Facts about two clients, as data: librdkafka's CONFIGURATION.md and Kafka's ConsumerConfig. `security` applies them.
"""

from __future__ import annotations

__all__ = [
    "IGNORED",
    "PASSED_ON",
    "PRODUCED",
    "PRODUCER_DECIDES",
    "PRODUCER_ONLY",
    "PRODUCER_RENAMED",
    "REFERENCES",
    "REFUSED",
    "RENAMED",
]


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
