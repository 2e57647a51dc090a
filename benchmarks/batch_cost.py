"""What a micro-batch costs beside its rows, by event times and by sink: `python -m benchmarks.batch_cost`.

One topic, read in many small batches into a blackhole: without a WATERMARK, and with one, whose tasks report event
times; then into files and into a Delta table. Medians over the batches of a run, the first of them left out: Spark
jobs, and ms as a ratio to the blackhole without a WATERMARK, as far as a loaded machine tells. Written to
`results/batch_cost.md` and `batch_cost.json`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machine import describe_machine, machine
from examples.demo.topic import write_lines
from penstock.connector.kafka.broker.broker import EmbeddedBroker
from penstock.sql.jobs.job import Job
from penstock.sql.session.session import Session, connect

RESULTS = Path(__file__).resolve().parent / "results"
PARTITIONS = 2
RECORDS_OF_A_BATCH = 20
WAIT_S = 300
SOURCE = """
CREATE TABLE {name} (id BIGINT, ts TIMESTAMP(3){watermark}) WITH (
  'connector' = 'kafka', 'topic' = 'events', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
  'scan.max-records-per-batch' = '{records}'
);
"""
WATERMARK = ", WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
SINK = "CREATE TABLE {name} (id BIGINT, ts TIMESTAMP(3)) WITH ({options})"
CASES = (
    ("blackhole, no WATERMARK", "plain", "'connector' = 'blackhole'"),
    ("blackhole, WATERMARK", "timed", "'connector' = 'blackhole'"),
    (
        "files, no WATERMARK",
        "plain",
        "'connector' = 'filesystem', 'path' = '{}', 'format' = 'json'",
    ),
    ("Delta, no WATERMARK", "plain", "'connector' = 'delta', 'path' = '{}'"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Medians of a run's batches."""

    batches: int
    jobs: float
    ms: float


def lines_of(partition: int, count: int) -> list[bytes]:
    """The records of one partition, a second of event time apart."""
    times = [f"2026-03-02 {n // 3600 % 24:02}:{n // 60 % 60:02}:{n % 60:02}" for n in range(count)]
    return [
        json.dumps({"id": n * PARTITIONS + partition, "ts": t}).encode()
        for n, t in enumerate(times)
    ]


def cost(session: Session, number: int, source: str, options: str) -> Cost:
    """Run one case to its end."""
    name = f"sink_{number}"
    session.sql(SINK.format(name=name, options=options.format(name)))
    session.sql(f"SET 'pipeline.name' = 'run-{number}'")
    before = {query.id for query in session.spark.streams.active}
    job = session.sql(f"INSERT INTO {name} SELECT id, ts FROM {source}")
    assert isinstance(job, Job), "it reads a table"
    while not (new := [q for q in session.spark.streams.active if q.id not in before]):
        assert not job.status.final, "it is over before it was seen"
    (query,) = new
    job.await_termination(WAIT_S)
    tracker = session.spark.sparkContext.statusTracker()
    # Spark runs the jobs of a query in a group that is named by its run
    jobs = len(tracker.getJobIdsForGroup(str(query.runId)))
    took = [
        one["durationMs"]["triggerExecution"] for one in query.recentProgress if one["numInputRows"]
    ]
    return Cost(batches=len(took), jobs=jobs / len(took), ms=statistics.median(took[1:]))


def measure(batches: int) -> dict[str, Cost]:
    """Run every case once behind a run that warms up."""
    found: dict[str, Cost] = {}
    records = batches * RECORDS_OF_A_BATCH // PARTITIONS
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder,
        EmbeddedBroker(Path(folder) / "kafka") as broker,
        contextlib.chdir(folder),
    ):
        made = [lambda p=p: lines_of(p, records) for p in range(PARTITIONS)]
        write_lines(broker.bootstrap, "events", made)
        with connect() as session:
            for name, watermark in (("plain", ""), ("timed", WATERMARK)):
                text = SOURCE.format(
                    name=name,
                    watermark=watermark,
                    bootstrap=broker.bootstrap,
                    records=RECORDS_OF_A_BATCH,
                )
                session.sql(text)
            cost(session, 0, "plain", CASES[0][2])
            for number, (name, source, options) in enumerate(CASES, start=1):
                found[name] = cost(session, number, source, options)
                print(f"{name}: {found[name]}", flush=True)
    return found


def table(found: dict[str, Cost]) -> str:
    """Write jobs, and ms beside those of the first case, as Markdown."""
    first = next(iter(found.values()))
    lines = ["| into | Spark jobs a batch | ms a batch, of the first |", "|---|---:|---:|"]
    lines += [
        f"| {name} | {one.jobs:.1f} | {one.ms / first.ms:.2f} |" for name, one in found.items()
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args(arguments)
    found = measure(chosen.batches)
    text = (
        f"# What a micro-batch costs beside its rows\n\n{chosen.batches} batches of {RECORDS_OF_A_BATCH} records from "
        f"{PARTITIONS} partitions; jobs on average, ms as the median without the first batch. Other programs may "
        "have had the machine meanwhile: what lies within a fifth is noise.\n\n"
        f"{table(found)}\n\n{describe_machine()}\n"
    )
    (chosen.results / "batch_cost.md").write_text(text, encoding="utf-8")
    first_ms = next(iter(found.values())).ms
    ratios = {name: {"jobs": one.jobs, "ms": one.ms / first_ms} for name, one in found.items()}
    document = {"machine": machine(), "of_the_first": ratios}
    (chosen.results / "batch_cost.json").write_text(
        json.dumps(document, indent=2) + "\n", encoding="utf-8"
    )
    print(text)


if __name__ == "__main__":
    main()
