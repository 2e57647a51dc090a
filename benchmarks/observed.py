"""What metrics and the status page cost while they are asked: `python -m benchmarks.observed`.

One topic, read into a blackhole in turns: alone, and with the endpoint for Prometheus and the status page, both asked
every two seconds by another process, which is more often than they are asked in earnest. Time of the run, and CPU time
of its processes; the asking process is not counted. Turns differ by more than that costs, so that it is measured apart,
too: of a pipeline that has read all and waits. Written to `results/observed.md` and `observed.json`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import penstock
from benchmarks.bids import write_bids
from benchmarks.contestants import COLUMNS, SPARK_CONF
from benchmarks.cpu import spent
from benchmarks.machine import describe_machine, machine
from penstock.connector.kafka.broker.broker import EmbeddedBroker
from penstock.sql.jobs.job import Job
from penstock.sql.metrics.endpoint import serving_metrics
from penstock.sql.session.session import Session
from penstock.sql.ui.application import StatusView
from penstock.sql.ui.documents.stored import StoredPipelines
from penstock.sql.ui.server import serving_pages

RESULTS = Path(__file__).resolve().parent / "results"
TOPIC = "bids"
REST_S = 15
"""How long a pipeline that waits is looked at, alone and observed."""

BATCHES = 20
"""Batches of a run: each has an event, and the splits' states."""

GOAL = 0.02
"""The part of a run's CPU time that being observed may cost, by what it costs of a pipeline that waits."""

SOURCE = """
CREATE TABLE {name} ({columns}, WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '10' SECOND) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'scan.max-records-per-batch' = '{records}'{end})
"""
ASKING = """
import sys, time, urllib.request
while True:
    for url in sys.argv[1:]:
        with urllib.request.urlopen(url, timeout=10) as answer:
            answer.read()
    print("asked", flush=True)
    time.sleep(2)
"""
ALONE, OBSERVED = "alone", "observed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One read of the topic."""

    seconds: float
    cpu_s: float


@contextlib.contextmanager
def observing(session: Session, jobs: Sequence[Job], folder: Path) -> Iterator[int]:
    """Serve the metrics and the page of these jobs; gives the id of a process that asks for them."""
    stored = StoredPipelines(namespace=session.namespace, project=folder)
    view = StatusView(jobs=lambda: jobs, stored=stored)
    with (
        serving_metrics(lambda: jobs, host="127.0.0.1", port=0) as metrics,
        serving_pages(view, port=0) as page,
    ):
        urls = [metrics, page, f"{page}api/v1/pipelines"]
        command = [sys.executable, "-c", ASKING, *urls]
        asking = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert asking.stdout is not None, "it is a pipe"
        asking.stdout.readline()  # it has started
        try:
            yield asking.pid
            assert asking.poll() is None, "nobody asked any more"
        finally:
            asking.kill()
            asking.wait()


def turn(session: Session, number: int, folder: Path, *, observed: bool) -> Turn:
    """Read the topic once."""
    session.sql(f"SET 'pipeline.name' = 'run-{number}'")
    shutil.rmtree(folder / ".penstock" / "checkpoints", ignore_errors=True)
    jobs: list[Job] = []
    watched = observing(session, jobs, folder) if observed else contextlib.nullcontext()
    with watched as asking:
        before, began = _spent_s(asking), time.monotonic()
        job = session.sql("INSERT INTO nowhere SELECT * FROM bids")
        assert isinstance(job, Job), "it reads a table"
        jobs.append(job)
        job.await_termination()
        seconds = time.monotonic() - began
        return Turn(seconds=seconds, cpu_s=_spent_s(asking) - before)


def cost_at_rest(session: Session, folder: Path) -> float:
    """Return the CPU time a second that being observed costs a pipeline which waits for rows."""
    session.sql("SET 'pipeline.name' = 'rest'")
    job = session.sql("INSERT INTO nowhere SELECT * FROM endless")
    assert isinstance(job, Job), "it reads a table"
    while job.progress.lag_records != 0:
        assert not job.status.final, "it has no end"
        time.sleep(0.2)
    spent_s = []
    for observed in (False, True, False, True):
        watched = observing(session, [job], folder) if observed else contextlib.nullcontext()
        with watched as asking:
            before, began = _spent_s(asking), time.monotonic()
            time.sleep(REST_S)
            spent_s.append((_spent_s(asking) - before) / (time.monotonic() - began))
    job.stop()
    print(f"at rest: {spent_s}", flush=True)
    return (spent_s[1] + spent_s[3] - spent_s[0] - spent_s[2]) / 2


def _spent_s(asking: int | None) -> float:
    """Return the CPU time of this process and what it started, but for the asking process."""
    others = 0.0 if asking is None else spent(asking).total_s
    return spent(os.getpid()).total_s - others


def measure(rows: int, rounds: int) -> tuple[dict[str, list[Turn]], float]:
    """Read the topic in turns, which swap their order every round, behind two that warm up; and look at one at rest."""
    found: dict[str, list[Turn]] = {ALONE: [], OBSERVED: []}
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder,
        EmbeddedBroker(Path(folder) / "kafka") as broker,
        contextlib.chdir(folder),
    ):
        count = write_bids(broker.bootstrap, TOPIC, rows)
        with penstock.connect(**{**SPARK_CONF, "spark.log.level": "OFF"}) as session:
            for name, end in (("bids", ", 'scan.bounded.mode' = 'latest-offset'"), ("endless", "")):
                session.sql(
                    SOURCE.format(
                        name=name,
                        columns=COLUMNS,
                        topic=TOPIC,
                        bootstrap=broker.bootstrap,
                        records=count // BATCHES,
                        end=end,
                    )
                )
            session.sql(f"CREATE TABLE nowhere ({COLUMNS}) WITH ('connector' = 'blackhole')")
            for observed in (False, True):
                turn(session, 0, Path(folder), observed=observed)
            for number in range(rounds):
                names = (ALONE, OBSERVED) if number % 2 == 0 else (OBSERVED, ALONE)
                for place, name in enumerate(names):
                    run = 1 + 2 * number + place
                    took = turn(session, run, Path(folder), observed=name == OBSERVED)
                    found[name].append(took)
                    print(f"{name}: {took}", flush=True)
            return found, cost_at_rest(session, Path(folder))


def overhead(found: dict[str, list[Turn]], of: str) -> float:
    """Return by what part the median of the observed turns is above that of the others."""
    alone, observed = (
        statistics.median(getattr(each, of) for each in found[name]) for name in (ALONE, OBSERVED)
    )
    return float(observed / alone - 1)


def part_of_a_run(found: dict[str, list[Turn]], rest_s: float) -> float:
    """Return which part of a run's CPU time the cost at rest is."""
    return rest_s / statistics.median(each.cpu_s / each.seconds for each in found[ALONE])


def report(found: dict[str, list[Turn]], rest_s: float, rows: int) -> str:
    """Write the medians, and what being observed costs, as Markdown."""
    lines = ["| run | s | CPU s |", "|---|---:|---:|"]
    for name, turns in found.items():
        seconds = statistics.median(each.seconds for each in turns)
        cpu_s = statistics.median(each.cpu_s for each in turns)
        lines.append(f"| {name} | {seconds:.2f} | {cpu_s:.2f} |")
    cost = f"{overhead(found, 'cpu_s'):+.1%} CPU time, {overhead(found, 'seconds'):+.1%} time"
    return (
        f"# What metrics and the status page cost\n\n{rows:,} bids in {BATCHES} batches into a blackhole, medians of "
        f"{len(found[ALONE])} turns each. Observed: metrics, the list of pipelines and its JSON are asked every two "
        "seconds.\n\n"
        + "\n".join(lines)
        + f"\n\nBetween the turns: {cost}, which is mostly noise. A pipeline that waits: {rest_s * 1000:.1f} ms of CPU "
        f"time a second, {part_of_a_run(found, rest_s):.1%} of what a run takes (asked: at most {GOAL:.0%}).\n\n"
        f"{describe_machine()}\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write the results; 1 where being observed costs more than it may."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args(arguments)
    found, rest_s = measure(chosen.rows, chosen.rounds)
    text = report(found, rest_s, chosen.rows)
    (chosen.results / "observed.md").write_text(text, encoding="utf-8")
    document = {
        "machine": machine(),
        "rows": chosen.rows,
        "rest_cpu_s_a_second": rest_s,
        "turns": {
            name: [{"seconds": each.seconds, "cpu_s": each.cpu_s} for each in turns]
            for name, turns in found.items()
        },
    }
    (chosen.results / "observed.json").write_text(
        json.dumps(document, indent=2) + "\n", encoding="utf-8"
    )
    print(text)
    return 0 if part_of_a_run(found, rest_s) <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
