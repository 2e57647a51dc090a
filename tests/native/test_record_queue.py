"""Records drained in columns are those that the consumer gives one by one, with all that belongs to them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

native = pytest.importorskip("penstock_native", reason="built by `make native`, where cargo is")

if TYPE_CHECKING:
    from tests.kafka_server import KafkaServer

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 90.0
EVERYTHING = {"keys": True, "headers": True, "timestamps": True, "leader_epochs": True}
LIMIT_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Record:
    """All that a consumer tells of a record."""

    partition: int
    offset: int | None
    key: Any
    value: Any
    timestamp: tuple[int, int]
    leader_epoch: int | None
    headers: list[tuple[str, bytes | None]]


@dataclass
class Drains:
    """What drains gave of each partition, and events beside it."""

    records: list[Record] = field(default_factory=list)
    positions: dict[int, int] = field(default_factory=dict)
    events: list[Any] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)


def consumer_of(kafka: KafkaServer, **more: Any) -> Consumer:
    """A consumer that reads committed records and tells ends of partitions."""
    given = {
        "client_id": "penstock",
        "group_id": "native",
        "enable_auto_commit": False,
        "auto_offset_reset": "error",
        "enable_partition_eof": True,
        "fetch_wait_max_ms": 10,
        **more,
    }
    return Consumer(kafka.client_settings(**given))


@contextmanager
def assigned(
    kafka: KafkaServer, topic: str, starts: dict[int, int]
) -> Iterator[tuple[Consumer, Any]]:
    """A consumer whose partitions give their records to a queue."""
    consumer = consumer_of(kafka)
    queue = native.RecordQueue(consumer, client_id="penstock")
    queue.redirect([(topic, partition) for partition in starts])
    consumer.assign([TopicPartition(topic, p, offset) for p, offset in starts.items()])
    try:
        yield consumer, queue
    finally:
        queue.close()
        consumer.close()


def drain_until(
    kafka: KafkaServer,
    topic: str,
    bounds: dict[int, tuple[int, int]],
    *,
    records: int = 20_000,
    limit_bytes: int = LIMIT_BYTES,
) -> Drains:
    """Drain ranges until each one's position is at its end."""
    found = Drains(positions={p: begin for p, (begin, _) in bounds.items()})
    deadline = time.monotonic() + DEADLINE_S
    with assigned(kafka, topic, dict(found.positions)) as (consumer, queue):
        while any(found.positions[p] < end for p, (_, end) in bounds.items()):
            assert time.monotonic() < deadline, f"drained up to {found.positions} of {bounds}"
            places = [p for p, (_, end) in bounds.items() if found.positions[p] < end]
            ranges = [
                native.Range(topic=topic, partition=p, begin=found.positions[p], end=bounds[p][1])
                for p in places
            ]
            drained = queue.drain(
                ranges, records=records, limit_bytes=limit_bytes, timeout_s=0.02, **EVERYTHING
            )
            found.events += drained.events
            found.sizes.append(sum(len(part.values) for part in drained.parts))
            for partition, part in zip(places, drained.parts, strict=True):
                found.records += records_of(partition, part)
                if part.last_offset is not None:
                    found.positions[partition] = part.last_offset + 1
            for place in consumer.position([TopicPartition(topic, p) for p in places]):
                # gaps at the end hold no record
                found.positions[place.partition] = max(
                    found.positions[place.partition], place.offset
                )
    return found


def records_of(partition: int, part: Any) -> list[Record]:
    """A part as records."""
    names, values = part.headers.names.to_pylist(), part.headers.values.to_pylist()
    ends = part.headers.ends.to_pylist()
    pairs = [(name.decode(), value) for name, value in zip(names, values, strict=True)]
    epochs = [None if epoch < 0 else epoch for epoch in part.leader_epochs.to_pylist()]
    for array in (part.values, part.keys, part.offsets, part.headers.values, part.timestamps):
        array.validate(full=True)
    return [
        Record(partition, offset, key, value, timestamp, epoch, pairs[begin:end])
        for offset, key, value, timestamp, epoch, begin, end in zip(
            part.offsets.to_pylist(),
            part.keys.to_pylist(),
            part.values.to_pylist(),
            zip(part.timestamp_types.to_pylist(), part.timestamps.to_pylist(), strict=True),
            epochs,
            ends[:-1],
            ends[1:],
            strict=True,
        )
    ]


def record_of(partition: int, message: Any) -> Record:
    """A message as a record."""
    return Record(
        partition,
        message.offset(),
        message.key(),
        message.value(),
        message.timestamp(),
        message.leader_epoch(),
        list(message.headers() or ()),
    )


def consumed(kafka: KafkaServer, topic: str, bounds: dict[int, tuple[int, int]]) -> list[Record]:
    """The same records one by one, by confluent-kafka alone."""
    found = []
    for partition, (begin, end) in bounds.items():
        if begin == end:
            continue
        consumer = consumer_of(kafka)
        consumer.assign([TopicPartition(topic, partition, begin)])
        deadline = time.monotonic() + DEADLINE_S
        while consumer.position([TopicPartition(topic, partition)])[0].offset < end:
            assert time.monotonic() < deadline, f"partition {partition} does not end"
            found += [
                record_of(partition, message)
                for message in consumer.consume(1000, 0.02)
                if message.error() is None and message.offset() < end
            ]
        consumer.close()
    return found


some_bytes = st.none() | st.binary(max_size=20)
headers = st.lists(st.tuples(st.sampled_from(("a", "b", "ß")), some_bytes), max_size=4)
batches = st.lists(
    st.tuples(
        st.sampled_from((None, True, False)),
        st.lists(
            st.tuples(st.integers(0, 2), some_bytes, some_bytes, headers), min_size=1, max_size=8
        ),
    ),
    min_size=1,
    max_size=4,
)


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=batches, limit=st.integers(1, 30))
def test_columns_are_what_a_consumer_reads(
    kafka: KafkaServer, batches: list[Any], limit: int
) -> None:
    """NULLs, empty values, headers of one name, tombstones, aborted transactions; cut into drains anywhere."""
    topic = "property-of-drains"
    if topic not in kafka.admin.list_topics(timeout=10).topics:
        kafka.create_topic(topic, partitions=3)
        for partition in range(3):
            kafka.produce(topic, [b"first"], partition=partition)
    begins = {p: kafka.watermarks(topic, p)[1] for p in range(3)}
    write(kafka, topic, batches)
    bounds = {p: (begins[p], kafka.watermarks(topic, p)[1]) for p in range(3)}

    drains = drain_until(kafka, topic, bounds, records=limit)

    expected = consumed(kafka, topic, bounds)
    assert sorted(drains.records, key=lambda r: (r.partition, r.offset)) == expected
    assert max(drains.sizes, default=0) <= limit


def write(kafka: KafkaServer, topic: str, batches: Sequence[Any]) -> None:
    """Write batches: without a transaction (None), or in one that is committed or aborted."""
    number = write.calls = getattr(write, "calls", 0) + 1  # type: ignore[attr-defined]
    plain = Producer(kafka.client_settings(linger_ms=0))
    within = Producer(kafka.client_settings(linger_ms=0, transactional_id=f"drains-{number}"))
    if any(commits is not None for commits, _ in batches):
        within.init_transactions(DEADLINE_S)
    for commits, records in batches:
        producer = plain if commits is None else within
        if commits is not None:
            producer.begin_transaction()
        for partition, key, value, pairs in records:
            producer.produce(topic, value, key, partition=partition, headers=pairs)
        assert producer.flush(DEADLINE_S) == 0
        if commits is True:
            producer.commit_transaction(DEADLINE_S)
        elif commits is False:
            producer.abort_transaction(DEADLINE_S)


def test_bytes_limit_a_drain_and_a_megabyte_is_one_value(kafka: KafkaServer) -> None:
    """The next drain goes on where the limit was."""
    topic = kafka.create_topic(**{"max.message.bytes": str(2 << 20)})
    values = [bytes([65 + n]) * (1 << 20) for n in range(5)] + [b"", b"end"]
    kafka.produce(topic, values, message_max_bytes=2 << 20)

    drains = drain_until(kafka, topic, {0: (0, 7)}, limit_bytes=3 << 19)

    assert [record.value for record in drains.records] == values
    assert max(size for size in drains.sizes if size) <= 4
    assert next(size for size in drains.sizes if size) <= 2


def test_lines_end_with_a_newline_and_tombstones_have_none(kafka: KafkaServer) -> None:
    """The parser of JSON takes the buffer as it is."""
    topic = kafka.create_topic()
    kafka.produce(topic, [b"{}", None, b"", b"[\n]"])
    with assigned(kafka, topic, {0: 0}) as (_, queue):
        drained = drain_once(queue, topic, lines=True)

    assert drained.values.to_pylist() == [b"{}\n", None, b"\n", b"[\n]\n"]
    assert drained.keys is drained.headers is drained.timestamps is None


def drain_once(queue: Any, topic: str, **wanted: bool) -> Any:
    """The first records that come."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        (part,) = queue.drain(
            [native.Range(topic=topic, partition=0, begin=0, end=None)],
            records=1000,
            limit_bytes=LIMIT_BYTES,
            timeout_s=0.1,
            **wanted,
        ).parts
        if len(part.values):
            return part
    raise AssertionError("no record came")


def test_ends_and_unavailable_offsets_are_events(kafka: KafkaServer) -> None:
    """With their partition and offset, behind the records before them."""
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, [b"one"])
    with assigned(kafka, topic, {0: 0, 1: 77}) as (_, queue):
        ranges = [native.Range(topic=topic, partition=p, begin=0, end=None) for p in (0, 1)]
        events, deadline = [], time.monotonic() + DEADLINE_S
        while len(events) < 2:
            assert time.monotonic() < deadline, f"only {events}"
            events += queue.drain(ranges, records=9, limit_bytes=9, timeout_s=0.1).events

    found = {event.partition: event for event in events}
    assert found[0].code == KafkaError._PARTITION_EOF
    assert (found[0].range, found[0].offset) == (0, 1)
    assert found[1].code in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
    assert "out of range" in found[1].text


def test_arrays_outlive_the_queue_and_the_consumer(kafka: KafkaServer) -> None:
    """Their memory is theirs."""
    topic = kafka.create_topic()
    kafka.produce(topic, [b"x" * 1000] * 1000)
    with assigned(kafka, topic, {0: 0}) as (_, queue):
        values = drain_once(queue, topic).values
    kept = values.slice(len(values) - 1)
    del values

    assert kept.to_pylist() == [b"x" * 1000]


def test_others_run_while_a_drain_waits(kafka: KafkaServer) -> None:
    """The GIL is released."""
    topic = kafka.create_topic()
    turns, over = [0], threading.Event()

    def count() -> None:
        while not over.wait(0.01):
            turns[0] += 1

    thread = threading.Thread(target=count)
    with assigned(kafka, topic, {0: 0}) as (_, queue):
        ranges = [native.Range(topic=topic, partition=0, begin=0, end=None)]
        while not queue.drain(ranges, records=1, limit_bytes=1, timeout_s=0.1).events:
            pass  # the end of the partition
        thread.start()
        queue.drain(ranges, records=1, limit_bytes=1, timeout_s=1.0)
        over.set()
        thread.join()

    assert turns[0] > 2, "a thread that needs the GIL has one turn at most"


@pytest.mark.slow
def test_memory_does_not_grow_with_drains(kafka: KafkaServer) -> None:
    """Sixty reads of five megabytes each, with keys and headers."""
    topic = kafka.create_topic()
    values, keys = [b"x" * 900] * 5000, [b"k" * 50] * 5000
    kafka.produce(topic, values, keys=keys, headers={"h": b"y" * 100})
    resident_kb = []
    for _ in range(60):
        found = drain_until(kafka, topic, {0: (0, 5000)})
        assert len(found.records) == 5000
        resident_kb.append(int(Path("/proc/self/statm").read_text().split()[1]) * 4)

    # The allocators' arenas (one a thread of librdkafka) fill within the first thirty
    # reads. Five megabytes that stay of each of the next twenty would be 100 MB.
    assert min(resident_kb[50:60]) - min(resident_kb[30:40]) < 30_000


DRAIN_FOR_EVER = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have taken away
import penstock_native as native
from confluent_kafka import Consumer, TopicPartition

bootstrap, topic = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": bootstrap, "client.id": "c", "group.id": "g"})
queue = native.RecordQueue(consumer, client_id="c")
queue.redirect([(topic, 0)])
consumer.assign([TopicPartition(topic, 0, 0)])
ranges = [native.Range(topic=topic, partition=0, begin=0, end=None)]
count, limits = 0, {"records": 100, "limit_bytes": 1 << 20, "timeout_s": 0.1}
while count < 1000:
    count += len(queue.drain(ranges, **limits).parts[0].values)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_process_that_drains_ends_when_it_is_told_to(
    kafka: KafkaServer, number: signal.Signals
) -> None:
    """At once, also in the middle of a wait; the records are there for the next one."""
    topic = kafka.create_topic()
    kafka.produce(topic, [b"x"] * 1000)
    script = (
        f"{DRAIN_FOR_EVER}\nprint('drained', flush=True)\nwhile True: queue.drain(ranges, **limits)"
    )
    command = [sys.executable, "-c", script, kafka.bootstrap, topic]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "drained\n"
    process.send_signal(number)
    process.wait(DEADLINE_S)
    process.stdout.close()

    assert process.returncode in {-number, 128 + number}
    assert len(drain_until(kafka, topic, {0: (0, 1000)}).records) == 1000


def test_a_child_of_a_process_that_drains_ends(kafka: KafkaServer) -> None:
    """It may read arrays of its parent, and frees its own copy of them."""
    topic = kafka.create_topic()
    kafka.produce(topic, [b"x"] * 1000)
    script = DRAIN_FOR_EVER + (
        "array = queue.drain(ranges, **limits).parts[0].values\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    count = len(array)\n"
        "    del array\n"
        "    os._exit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(array))\n"
        "queue.close()\n"
        "consumer.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, kafka.bootstrap, topic],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )

    assert done.stdout.split()[0] == "7"


@pytest.mark.parametrize("client_id", ["a\\b[c]", "x" * 116, "x" * 117, "x" * 127, "ä" * 99])
def test_a_client_id_may_be_long(client_id: str) -> None:
    """The name of a client, by which its handle is known, ends somewhere."""
    consumer = Consumer(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "group.id": "g",
            "client.id": client_id,
            "log_level": 0,
        }
    )
    native.RecordQueue(consumer, client_id=client_id).close()
    with pytest.raises(native.UnusableError, match="elsewhere"):
        native.RecordQueue(consumer, client_id=f"y{client_id[1:]}")
    consumer.close()


def test_what_is_no_consumer_is_refused() -> None:
    """Memory is read and compared before it is followed."""
    for other in (object(), "a text that is no consumer", 1 << 200, [1, 2, 3]):
        with pytest.raises(native.UnusableError, match=r"elsewhere|cannot be read"):
            native.RecordQueue(other, client_id="penstock")


def test_another_major_version_of_the_client_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its public structs may differ."""
    from penstock_native import client

    client.open_client.cache_clear()
    monkeypatch.setattr(client, "MAJOR", 3)
    try:
        with pytest.raises(native.UnusableError, match="not of version 3"):
            native.check_client()
    finally:
        client.open_client.cache_clear()


def test_a_library_of_another_interface_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old build beside a new package."""
    from penstock_native import client, library

    client.open_client.cache_clear()
    monkeypatch.setattr(library, "LIBRARY_API", 77)
    try:
        with pytest.raises(native.UnusableError, match=f"{native.API}, and the package 77"):
            native.check_client()
    finally:
        client.open_client.cache_clear()


def test_the_version_is_that_of_confluent_kafkas_client() -> None:
    """No other librdkafka is loaded for it."""
    import confluent_kafka

    loaded = {
        line.split()[-1]
        for line in Path("/proc/self/maps").read_text().splitlines()
        if "rdkafka" in line
    }

    assert native.check_client() == confluent_kafka.libversion()[0]
    assert len(loaded) == 1, os.linesep.join(loaded)
