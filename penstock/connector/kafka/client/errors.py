"""The errors of a Kafka scan, worded in one place: what happened, which partition and offsets, what to do."""

from __future__ import annotations

from penstock.catalog.errors import (
    BrokerUnavailableError,
    DataLossError,
    OptionError,
    TopicChangedError,
    UnknownObjectError,
    did_you_mean,
)
from penstock.connector.kafka.client.connection import TopicPartition
from penstock.connector.source.split import SplitOffsets

_START_OVER = "start over with --from-scratch, which sets the checkpoint aside, or under another SET 'pipeline.name'"


def broker_unavailable(
    address: str, asked: str, seconds: float, last_error: str | None
) -> BrokerUnavailableError:
    """An answer did not come; `last_error` is what the client complained about last."""
    reason = f"; last client error: {last_error}" if last_error else ""
    return BrokerUnavailableError(
        f"Kafka at {address} did not answer within {seconds:.0f} s ({asked}){reason}",
        hint="does the broker run, and can its advertised.listeners be reached from this machine? "
        "Check 'properties.bootstrap.servers' and 'properties.security.protocol'",
    )


def partition_unknown(
    address: str, partition: TopicPartition, seconds: float
) -> BrokerUnavailableError:
    """The topic exists, and no broker knows a partition that was listed: it is new, or its leader is far behind."""
    return BrokerUnavailableError(
        f"Kafka at {address} knows no offsets of topic '{partition.topic}', partition {partition.partition}, "
        f"for {seconds:.0f} s, although the topic is there",
        hint="is the partition's leader up, and has it heard of the partition? kafka-topics.sh --describe tells",
    )


def access_denied(address: str, reason: str) -> OptionError:
    """The broker refuses the log-in or a right: nothing that passes, the table has to change."""
    return OptionError(
        f"Kafka at {address} refuses access: {reason}",
        hint="check 'properties.sasl.*', 'properties.ssl.*' and what the user may read and write (ACLs)",
    )


def deleted_records(
    partition: TopicPartition, position: int, extent: SplitOffsets
) -> DataLossError:
    """Records were deleted (retention, DeleteRecords) before they were read."""
    return DataLossError(
        f"topic '{partition.topic}', partition {partition.partition}: the next record to read has offset {position}, "
        f"but the log starts at offset {extent.first}: {extent.first - position} offsets were deleted unread",
        hint="read on without them with 'scan.on-data-loss' = 'continue'; "
        "to keep records longer raise retention.ms of the topic",
    )


def truncated_log(partition: TopicPartition, position: int, extent: SplitOffsets) -> DataLossError:
    """The log ends before what was read or planned: an unclean leader election, or another topic of that name."""
    return DataLossError(
        f"topic '{partition.topic}', partition {partition.partition}: offset {position} was there when it was planned, "
        f"but the log now ends at offset {extent.end}, or has other records from there on: it was truncated, or the "
        "topic was made again",
        hint=f"{_START_OVER}; or read on with 'scan.on-data-loss' = 'continue'",
    )


def stalled_read(
    partition: TopicPartition,
    position: int,
    stop: int,
    extent: SplitOffsets,
    last_error: str | None,
) -> BrokerUnavailableError:
    """A range got no further though the log should hold it: an open transaction, or a broker that does not send."""
    where = f"topic '{partition.topic}', partition {partition.partition}: reading waits at offset {position}"
    if extent.end < stop:
        return BrokerUnavailableError(
            f"{where} for offset {stop}, but the last stable offset is {extent.end}: a transaction is open there, "
            "or the broker went back",
            hint="find it with kafka-transactions.sh find-hanging, or wait until the broker aborts it "
            "(transaction.timeout.ms of the producer)",
        )
    reason = f"; last client error: {last_error}" if last_error else ""
    return BrokerUnavailableError(
        f"{where} although the log reaches to {extent.end}{reason}",
        hint="is the partition's leader up, and can its advertised.listeners be reached from this machine?",
    )


def topic_changed(topic: str, known: str | None, found: str | None) -> TopicChangedError:
    """A topic was deleted (`found` is None), or deleted and made again. `known` is None in tasks: not told."""
    if found is None:
        return TopicChangedError(
            f"topic '{topic}' was deleted while it was read"
            + (f"; its id was {known}" if known else ""),
            hint=f"make it again and {_START_OVER}",
        )
    return TopicChangedError(
        f"topic '{topic}' was deleted and made again: its id was {known} and is now {found}, "
        "so the offsets read so far say nothing about its records",
        hint=f"{_START_OVER}; rows of the old topic stay in the sink",
    )


def missing_topics(
    missing: list[str], existing: tuple[str, ...], address: str
) -> UnknownObjectError:
    """Topics that a table names and the broker does not have."""
    names = ", ".join(f"'{topic}'" for topic in missing)
    hints = [hint for hint in (did_you_mean(topic, existing) for topic in missing) if hint]
    return UnknownObjectError(
        f"Kafka at {address} has no topic {names}",
        hint="; ".join(hints)
        or f"create it: penstock kafka topics create {' '.join(missing)} --bootstrap {address}; one that exists is "
        "hidden from users who may not describe it",
    )
