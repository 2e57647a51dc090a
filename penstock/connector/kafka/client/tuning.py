"""What each of our clients is tuned for, on top of what the table says; numbers are from the source's benchmark."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.connector.kafka.client.connection import Connection

__all__ = ["admin_connection", "peek_connection", "read_connection"]

# what the scan decides itself; no table may change it
_ALWAYS = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    # the client's default jumps elsewhere without a word when an offset is gone
    "auto.offset.reset": "error",
    "enable.partition.eof": "true",
    "allow.auto.create.topics": "false",
}
_COMMON = {
    "client.id": "penstock",
    "socket.keepalive.enable": "true",
    # a broker that comes back is to be noticed within a second, not ten
    "reconnect.backoff.max.ms": "1000",
}
# librdkafka wants a group id of every consumer, though one that only assigns never joins
_GROUP = {"group.id": "penstock"}
_READ = {
    # the client fetches while a batch is decoded; it must not run dry in that time. More than this is read no
    # faster, and what lies fetched behind the end of a range is thrown away
    "queued.min.messages": "200000",
    "queued.max.messages.kbytes": "32768",
    "fetch.max.bytes": str(16 << 20),
    "max.partition.fetch.bytes": str(4 << 20),
    # a fetch that waits for data at the end of a range would hold up the next range by its whole wait
    "fetch.wait.max.ms": "10",
    # the default of a second is longer than a full queue lasts
    "fetch.queue.backoff.ms": "10",
    "fetch.error.backoff.ms": "50",
}
_PEEK = {
    "queued.min.messages": "1",
    # a record batch larger than this is answered for one partition a request (KIP-74)
    "max.partition.fetch.bytes": str(1 << 20),
    "fetch.max.bytes": str(8 << 20),
    "fetch.wait.max.ms": "10",
    "fetch.queue.backoff.ms": "1",
    "fetch.error.backoff.ms": "5",
}


def admin_connection(client: Mapping[str, str]) -> Connection:
    """For questions about topics, offsets and groups."""
    consumers_only = {"group.id", *_READ, "check.crcs", "isolation.level"}
    return Connection.of(
        {**_COMMON, **{k: v for k, v in client.items() if k not in consumers_only}}
    )


def read_connection(client: Mapping[str, str]) -> Connection:
    """For reading ranges as fast as they can be decoded; the table may change sizes and waits."""
    return Connection.of({**_COMMON, **_GROUP, **_READ, **client, **_ALWAYS})


def peek_connection(client: Mapping[str, str]) -> Connection:
    """For single records of many partitions, quickly."""
    return Connection.of({**_COMMON, **_GROUP, **client, **_PEEK, **_ALWAYS})
