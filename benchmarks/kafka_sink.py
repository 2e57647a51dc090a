"""`python -m benchmarks.kafka_sink`: what exactly-once costs, Kafka into Kafka, beside at-least-once and none.

One broker, one topic of bids; each guarantee copies all of it in turn, a warm-up and then the rounds that count.
Medians and all runs go to `results/kafka_sink.md` and `kafka_sink.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

import penstock
from benchmarks.bids import PARTITIONS, write_bids
from benchmarks.contestants import COLUMNS, SPARK_CONF
from benchmarks.machine import describe_machine, machine
from penstock.connector.kafka.broker.broker import EmbeddedBroker
from penstock.sql.jobs.job import Job
from penstock.sql.session.session import Session

RESULTS = Path(__file__).resolve().parent / "results"
GUARANTEES = ("none", "at-least-once", "exactly-once")
BATCH = 250_000
"""Records of a micro-batch: a transaction a slot for each."""

SOURCE = """
CREATE TABLE bids ({columns}) WITH (
  'connector' = 'kafka', 'topic' = 'bids', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
  'scan.max-records-per-batch' = '{batch}', 'format' = 'json')
"""
SINK = """
CREATE TABLE {name} ({columns}) WITH (
  'connector' = 'kafka', 'topic' = '{name}', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
  'sink.delivery-guarantee' = '{guarantee}', 'sink.transactional-id-prefix' = '{name}')
"""


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    results = arguments.results.resolve()
    seconds = measure(arguments.rows, arguments.rounds)
    text = report(seconds, arguments.rows)
    results.mkdir(parents=True, exist_ok=True)
    (results / "kafka_sink.md").write_text(text, encoding="utf-8")
    document = {"rows": arguments.rows, "seconds": seconds, "machine": machine()}
    (results / "kafka_sink.json").write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    print(text)


def measure(rows: int, rounds: int) -> dict[str, list[float]]:
    """Copy the topic under each guarantee in turn; the first round does not count."""
    seconds: dict[str, list[float]] = {guarantee: [] for guarantee in GUARANTEES}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        os.chdir(folder)
        with EmbeddedBroker(Path(folder) / "kafka", heap_mb=1024) as broker:
            write_bids(broker.bootstrap, "bids", rows)
            conf = {**SPARK_CONF, "spark.log.level": "OFF"}
            with penstock.connect(None, "sqlite:///bench.db", **conf) as session:
                session.sql(SOURCE.format(columns=COLUMNS, bootstrap=broker.bootstrap, batch=BATCH))
                for number in range(rounds + 1):
                    for guarantee in GUARANTEES:
                        took = copy(session, broker.bootstrap, guarantee, number)
                        print(
                            f"round {number}  {guarantee:14} {rows / took:>11,.0f} rows/s",
                            flush=True,
                        )
                        if number:
                            seconds[guarantee].append(took)
    return seconds


def copy(session: Session, bootstrap: str, guarantee: str, number: int) -> float:
    """Copy all bids into a new topic; gives the seconds from the statement to its end."""
    name = f"copy_{guarantee.replace('-', '_')}_{number}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(60)
    session.sql(SINK.format(name=name, columns=COLUMNS, bootstrap=bootstrap, guarantee=guarantee))
    began = time.perf_counter()
    job = session.sql(f"INSERT INTO {name} SELECT * FROM bids")
    assert isinstance(job, Job), "an INSERT .. SELECT gives a job"
    job.await_termination()
    return time.perf_counter() - began


def report(seconds: dict[str, list[float]], rows: int) -> str:
    """The figures as a page."""
    rates = {guarantee: rows / statistics.median(runs) for guarantee, runs in seconds.items()}
    lines = [
        "# Writing Kafka",
        "",
        (
            f"{rows:,} JSON bids copied from topic to topic, batches of {BATCH:,}; median of "
            f"{len(seconds['none'])} rounds after a warm-up, in one run of `python -m benchmarks.kafka_sink`."
        ),
        "",
        "| guarantee | rows/s | beside at-least-once | runs, s |",
        "|---|---:|---:|---|",
        *(
            (
                f"| {guarantee} | {rates[guarantee]:,.0f} | {rates[guarantee] / rates['at-least-once']:.2f} | "
                f"{', '.join(f'{run:.2f}' for run in runs)} |"
            )
            for guarantee, runs in seconds.items()
        ),
        "",
        describe_machine(),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
