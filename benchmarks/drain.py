"""CPU time a record of reading Kafka: by confluent-kafka, by `penstock-native`, and the decoded rows of both.

    python -m benchmarks.drain [--rows 1000000] [--rounds 5]

One broker, one topic of JSON bids; all take turns in one process, a warm-up and then the rounds that count. CPU time is
that of the whole process, librdkafka's threads included: other work on the machine counts less than in wall-clock time.
The allocators have the variables of Spark's Python workers. "librdkafka alone" passes each record to the library, which
copies none. Medians go to `results/drain.md`.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from unittest.mock import patch

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from benchmarks.bids import PARTITIONS, write_bids
from benchmarks.contestants import COLUMNS
from benchmarks.machine import describe_machine
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import PhysicalColumn, Schema, Table
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.contract import ReadRequest
from penstock.connector.expression import FieldValue
from penstock.connector.file_output import FileColumn, FileOutput, stored_type
from penstock.connector.formats.json.decoder import JsonDecoder
from penstock.connector.kafka.broker.broker import EmbeddedBroker
from penstock.connector.kafka.client.connection import KafkaSplit, read_connection
from penstock.connector.kafka.client.consumer import CONSUMERS
from penstock.connector.kafka.client.native import SWITCH, find_native
from penstock.connector.kafka.connector import KafkaConnector
from penstock.connector.scan import Scan
from penstock.connector.spark.source.columns import FILE_ROWS, scan_schema
from penstock.connector.spark.source.offsets import TaskPartition
from penstock.connector.spark.source.task import read_partition
from penstock.sql.spark_process.python_processes import ALLOCATORS

RESULTS = Path(__file__).resolve().parent / "results"
TOPIC = "bids"
FETCH = 20_000
POLL_S = 0.02
GROUP = {"group.id": "benchmark"}
NOTHING = 1 << 62
"""An offset that no record reaches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """What all read."""

    bootstrap: str
    rows: int

    @property
    def settings(self) -> dict[str, str]:
        """The client's settings, as Penstock's reader has them."""
        return dict(read_connection({"bootstrap.servers": self.bootstrap, **GROUP}).settings)

    def starts(self) -> list[TopicPartition]:
        """All partitions from their beginning."""
        return [TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)]


def consume(topic: Topic) -> float:
    """Records as objects of Python."""
    consumer = Consumer(topic.settings)
    consumer.assign(topic.starts())
    count, began = 0, time.process_time()
    while count < topic.rows:
        messages = consumer.consume(FETCH, POLL_S)
        count += sum(message.error() is None for message in messages)
    spent = time.process_time() - began
    consumer.close()
    return spent


def drain(topic: Topic, *, first: int = 0) -> float:
    """CPU time of `drained`."""
    began = time.process_time()
    drained(topic, first=first)
    return time.process_time() - began


def drained(topic: Topic, *, first: int = 0) -> int:
    """Read all records as columns and return how many; those before the offset `first` are not copied."""
    import penstock_native as native

    consumer = Consumer(topic.settings)
    queue = native.RecordQueue(consumer, client_id=topic.settings["client.id"])
    places = [(place.topic, place.partition) for place in topic.starts()]
    queue.redirect(places)
    consumer.assign(topic.starts())
    ranges = [native.Range(topic=t, partition=p, begin=first, end=None) for t, p in places]
    ends: set[int] = set()
    rows = 0
    while len(ends) < PARTITIONS:
        found = queue.drain(
            ranges, records=FETCH, limit_bytes=64 << 20, timeout_s=POLL_S, lines=True
        )
        rows += sum(len(part.offsets) for part in found.parts)
        ends |= {event.partition for event in found.events}
    queue.close()
    consumer.close()
    return rows


@contextmanager
def natively(*, on: bool, json: bool) -> Iterator[None]:
    """Readers with the package, or without; JSON by the package, or by pyarrow."""
    with (
        patch.dict("os.environ", {SWITCH: "1" if on else "0"}),
        nullcontext()
        if json
        else patch.object(JsonDecoder, "natively", lambda decoder, _: decoder),
    ):
        CONSUMERS.clear()
        yield
        CONSUMERS.clear()


def table_of(topic: Topic, columns: str, options: Mapping[str, str]) -> Table:
    """A table over the topic."""
    split = [line.strip().replace("`", "").split(" ", 1) for line in split_columns(columns)]
    return Table(
        identifier=Identifier(catalog="c", database="d", name="bids"),
        schema=Schema(columns=tuple(PhysicalColumn(name=n, type=parse_type(t)) for n, t in split)),
        options=(
            ("connector", "kafka"),
            ("topic", TOPIC),
            ("properties.bootstrap.servers", topic.bootstrap),
            ("scan.startup.mode", "earliest-offset"),
            *options.items(),
        ),
    )


def splits_of(topic: Topic) -> tuple[KafkaSplit, ...]:
    """All of the topic as ranges."""
    return tuple(
        KafkaSplit(
            split_id=f"{TOPIC}-{p}",
            start=0,
            stop=topic.rows // PARTITIONS,
            topic=TOPIC,
            partition=p,
        )
        for p in range(PARTITIONS)
    )


JSON = (COLUMNS, {"format": "json"})
BYTES = ("bid BYTES", {"format": "raw"})
"""Columns and options of a table."""


def decode(
    topic: Topic, *, native: bool, json: bool = True, form: tuple[str, Mapping[str, str]] = JSON
) -> float:
    """Rows of a table, by its reader alone."""
    table = table_of(topic, *form)
    source = KafkaConnector().source(table)
    with natively(on=native, json=json):
        reader = source.open_reader(ReadRequest(columns=table.schema.names))
        reader.add_splits(splits_of(topic))
        finished: set[str] = set()
        rows, began = 0, time.process_time()
        while len(finished) < PARTITIONS:
            records = reader.fetch()
            finished |= records.finished
            rows += sum(batch.num_rows for _, batch in records.batches)
        spent = time.process_time() - began
        reader.close()
    assert rows == topic.rows, f"{rows} rows of {topic.rows}"
    return spent


def give(
    topic: Topic, *, native: bool, form: tuple[str, Mapping[str, str]] = JSON, file: bool = False
) -> float:
    """Rows of a table, as a task of Spark reads them, and writes them to its socket or into a file of Parquet."""
    table = table_of(topic, *form)
    source = KafkaConnector().source(table)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        scan = Scan(
            table=table,
            columns=table.schema.names,
            rowtime=None,
            time_zone="UTC",
            project=".",
            output=_output(table, folder) if file else None,
        )
        task = TaskPartition(splits=splits_of(topic), watermarks=None, heartbeat=False)
        schema = scan_schema(scan, counts_skipped=False)
        with natively(on=native, json=True), reading_process() as stream:
            began = time.process_time()
            rows = _send(read_partition(task, scan, source, schema), stream, file=file)
            spent = time.process_time() - began
    assert rows == topic.rows, f"{rows} rows of {topic.rows}"
    return spent


def _output(table: Table, folder: str) -> FileOutput:
    columns = []
    for column in table.schema.columns:
        assert isinstance(column, PhysicalColumn), "the table has no others"
        stored = stored_type(column.type)
        value = FieldValue(path=(column.name,), type=stored)
        columns.append(FileColumn(name=column.name, type=stored, source=value))
    return FileOutput(folder=folder, shown="a file", columns=tuple(columns))


def _send(batches: Iterator[pa.RecordBatch], stream: BinaryIO, *, file: bool) -> int:
    """Write batches as Spark's Python worker does; returns the rows in them, or in the files that they name."""
    rows, writer = 0, None
    for batch in batches:
        rows += batch.column(FILE_ROWS)[0].as_py() if file else batch.num_rows
        struct = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema))
        wrapped = pa.RecordBatch.from_arrays([struct], ["_0"])
        if writer is None:
            writer = pa.RecordBatchStreamWriter(stream, wrapped.schema)
        writer.write_batch(wrapped)
    if writer is not None:
        writer.close()
    stream.flush()
    return rows


@contextmanager
def reading_process() -> Iterator[BinaryIO]:
    """A socket to a process that reads it to its end, in the place of Spark's Java process."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(["cat"], stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
    theirs.close()
    with ours, os.fdopen(os.dup(ours.fileno()), "wb", 65536) as stream:
        yield stream
    process.wait()


def split_columns(text: str) -> list[str]:
    """Columns of a definition in which no type has a comma."""
    return [part for part in text.split(",") if part.strip()]


RUNS: dict[str, Callable[[Topic], float]] = {
    "librdkafka alone": lambda topic: drain(topic, first=NOTHING),
    "`penstock-native`: columns": drain,
    "confluent-kafka: messages": consume,
    "reader, BYTES, natively": lambda topic: decode(topic, native=True, form=BYTES),
    "reader, BYTES, in Python": lambda topic: decode(topic, native=False, form=BYTES),
    "reader, JSON rows, natively": lambda topic: decode(topic, native=True),
    "reader, JSON rows, drained natively": lambda topic: decode(topic, native=True, json=False),
    "reader, JSON rows, in Python": lambda topic: decode(topic, native=False),
    "task, BYTES to Spark, natively": lambda topic: give(topic, native=True, form=BYTES),
    "task, JSON rows to Spark, natively": lambda topic: give(topic, native=True),
    "task, JSON rows to Spark, in Python": lambda topic: give(topic, native=False),
    "task, JSON rows into Parquet, natively": lambda topic: give(topic, native=True, file=True),
    "task, JSON rows into Parquet, in Python": lambda topic: give(topic, native=False, file=True),
}


def main() -> int:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beside", default="", help="what else ran on the machine, for the result")
    options = parser.parse_args()
    if missing := {n: value for n, value in ALLOCATORS.items() if n not in os.environ}:
        command = [sys.executable, "-m", "benchmarks.drain", *sys.argv[1:]]
        os.execve(sys.executable, command, os.environ | missing)
    found = find_native()
    if found.package is None:
        print(f"error: {found.text}; `make native` builds it", file=sys.stderr)
        return 2
    spent: dict[str, list[float]] = {name: [] for name in RUNS}
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder,
        EmbeddedBroker(Path(folder) / "kafka", heap_mb=1024) as broker,
    ):
        rows = write_bids(broker.bootstrap, TOPIC, options.rows)
        topic = Topic(bootstrap=broker.bootstrap, rows=rows)
        for number in range(options.rounds + 1):
            for name, run in RUNS.items():
                each_us = run(topic) / rows * 1e6
                print(f"round {number}  {name:42} {each_us:6.3f} us", file=sys.stderr, flush=True)
                if number:
                    spent[name].append(each_us)
    text = report(spent, rows, options.rounds, found.text, options.beside)
    (RESULTS / "drain.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


def report(
    spent: dict[str, list[float]], rows: int, rounds: int, versions: str, beside: str
) -> str:
    """The result as a page."""
    what = (
        f"{rows:,} JSON bids of 184 bytes in {PARTITIONS} partitions, one consumer; CPU time of the process a record, "
        f"medians of {rounds} rounds after a warm-up, all in one run of `python -m benchmarks.drain`."
    )
    lines = [
        "# CPU time of reading a Kafka record",
        "",
        what,
        "",
        "| | µs a record | rounds |",
        "|---|---:|---|",
    ]
    lines += [
        f"| {name} | {statistics.median(found):.2f} | {', '.join(f'{one:.2f}' for one in found)} |"
        for name, found in spent.items()
    ]
    machine = describe_machine() + (f"; beside: {beside}" if beside else "")
    return "\n".join([*lines, "", f"{machine}; {versions}"]) + "\n"


if __name__ == "__main__":
    sys.exit(main())
