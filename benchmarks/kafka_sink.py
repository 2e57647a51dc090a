"""`python -m benchmarks.kafka_sink`: Kafka into Kafka by each guarantee, written by reading tasks and by Spark.

One broker, one topic of bids; each way copies all of it in turn, a warm-up and then the rounds that count: of JSON with
all columns, and of `raw` bytes that pass unchanged. CPU time is that of all processes but the broker's.
Medians and all runs go to `results/kafka_sink.md` and `kafka_sink.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

import penstock
from benchmarks.bids import PARTITIONS, write_bids
from benchmarks.contestants import COLUMNS, SPARK_CONF
from benchmarks.cpu import CpuTime, spent
from benchmarks.machine import describe_machine, machine
from penstock.connector.kafka.broker.broker import EmbeddedBroker
from penstock.sql.jobs.job import Job
from penstock.sql.session.session import Session

RESULTS = Path(__file__).resolve().parent / "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a topic is copied. `writer`: 'auto' are the reading tasks."""

    guarantee: str
    writer: str
    source: str = "bids"

    @property
    def name(self) -> str:
        """What the page calls it."""
        who = "Spark" if self.writer == "spark" else "tasks"
        return f"{self.guarantee}, {self.source} by {who}"


WAYS = (
    *(
        Way(guarantee=guarantee, writer=writer)
        for guarantee in ("none", "at-least-once", "exactly-once")
        for writer in ("spark", "auto")
    ),
    *(
        Way(guarantee="exactly-once", writer=writer, source="raw_bids")
        for writer in ("spark", "auto")
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What a copy took; CPU time without that of the broker."""

    seconds: float
    cpu: CpuTime


BATCH = 250_000
"""Records of a micro-batch: a transaction a slot for each."""

SOURCE = """
CREATE TABLE {table} ({columns}) WITH (
  'connector' = 'kafka', 'topic' = 'bids', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
  'scan.max-records-per-batch' = '{batch}', 'format' = '{format}')
"""
SINK = """
CREATE TABLE {name} ({columns}) WITH (
  'connector' = 'kafka', 'topic' = '{name}', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = '{format}',
  'sink.delivery-guarantee' = '{guarantee}', 'sink.transactional-id-prefix' = '{name}', 'sink.writer' = '{writer}')
"""
TABLES = {"bids": (COLUMNS, "json"), "raw_bids": ("bid BYTES", "raw")}
"""Columns and format of the tables of the topic."""


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    results = arguments.results.resolve()
    copied = measure(arguments.rows, arguments.rounds)
    text = report(copied, arguments.rows)
    results.mkdir(parents=True, exist_ok=True)
    (results / "kafka_sink.md").write_text(text, encoding="utf-8")
    runs = {way.name: [asdict(run) for run in found] for way, found in copied.items()}
    document = {"rows": arguments.rows, "runs": runs, "machine": machine()}
    (results / "kafka_sink.json").write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    print(text)


def measure(rows: int, rounds: int) -> dict[Way, list[Copied]]:
    """Copy the topic each way in turn; the first round does not count."""
    copied: dict[Way, list[Copied]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        os.chdir(folder)
        with EmbeddedBroker(Path(folder) / "kafka", heap_mb=1024) as broker:
            write_bids(broker.bootstrap, "bids", rows)
            conf = {**SPARK_CONF, "spark.log.level": "OFF"}
            with penstock.connect(None, "sqlite:///bench.db", **conf) as session:
                for table, (columns, format_) in TABLES.items():
                    session.sql(
                        SOURCE.format(
                            table=table,
                            columns=columns,
                            format=format_,
                            bootstrap=broker.bootstrap,
                            batch=BATCH,
                        )
                    )
                for number in range(rounds + 1):
                    for way in WAYS:
                        took = copy(session, broker, way, number)
                        print(
                            f"round {number}  {way.name:32} {rows / took.seconds:>11,.0f} rows/s  "
                            f"{1e6 * took.cpu.total_s / rows:.2f} us",
                            flush=True,
                        )
                        if number:
                            copied[way].append(took)
    return copied


def copy(session: Session, broker: EmbeddedBroker, way: Way, number: int) -> Copied:
    """Copy all bids into a new topic, from the statement to its end."""
    name = f"copy_{WAYS.index(way)}_{number}"
    columns, format_ = TABLES[way.source]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(60)
    session.sql(
        SINK.format(
            name=name,
            columns=columns,
            format=format_,
            bootstrap=broker.bootstrap,
            guarantee=way.guarantee,
            writer=way.writer,
        )
    )
    began, before = time.perf_counter(), _spent(broker)
    job = session.sql(f"INSERT INTO {name} SELECT * FROM {way.source}")
    assert isinstance(job, Job), "an INSERT .. SELECT gives a job"
    job.await_termination()
    return Copied(seconds=time.perf_counter() - began, cpu=_spent(broker) - before)


def _spent(broker: EmbeddedBroker) -> CpuTime:
    assert broker.pid is not None, "it runs"
    return spent(os.getpid()) - spent(broker.pid)


def report(copied: Mapping[Way, Sequence[Copied]], rows: int) -> str:
    """The figures as a page."""
    rounds = len(next(iter(copied.values())))
    lines = [
        "# Writing Kafka",
        "",
        (
            f"{rows:,} JSON bids copied from topic to topic, batches of {BATCH:,}, by reading tasks ('sink.writer' = "
            f"'auto') and by Spark; `raw_bids`: their bytes, as they are. Median of {rounds} rounds after a "
            "warm-up, in one run of `python -m benchmarks.kafka_sink`. CPU time a row is that of all processes but the "
            "broker's."
        ),
        "",
        "| guarantee, table, writer | rows/s | CPU us a row | of it Java | runs, s |",
        "|---|---:|---:|---:|---|",
        *(_row(way, found, rows) for way, found in copied.items()),
        "",
        describe_machine(),
        "",
    ]
    return "\n".join(lines)


def _row(way: Way, found: Sequence[Copied], rows: int) -> str:
    seconds = [run.seconds for run in found]
    cpu_us = 1e6 * statistics.median(run.cpu.total_s for run in found) / rows
    java_us = 1e6 * statistics.median(run.cpu.java_s for run in found) / rows
    runs = ", ".join(f"{run:.2f}" for run in seconds)
    rate = rows / statistics.median(seconds)
    return f"| {way.name} | {rate:,.0f} | {cpu_us:.2f} | {java_us:.2f} | {runs} |"


if __name__ == "__main__":
    main()
