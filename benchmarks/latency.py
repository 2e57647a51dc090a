"""How old rows are when they can be read: `python -m benchmarks.latency`, beside Spark's own source.

A producer writes bids at a constant rate; one query after the other, each with the topic and the machine for itself,
reads them, as fast as one micro-batch follows the other (`--trigger-ms 0`). Cases: an append into Delta, a count in
windows of a second into Delta, Kafka to Kafka at least once, an aggregate of an aggregate. A row is as old as its
record, a row of a window as the window's end. What is read is compared with what was produced, second by second.

By default 5 minutes each after a minute of warm-up, 75 minutes in all; `--seconds 60 --rates 1000` for less. Results
go to `results/latency.md` and `latency.json`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from benchmarks.bids import PARTITIONS
from benchmarks.cpu import spent
from benchmarks.latency_queries import WINDOW_S, Spec
from benchmarks.latency_sinks import Times, delta_rows, delta_windows, topic_counts, topic_rows
from benchmarks.machine import describe_machine, machine
from benchmarks.workers import LostWorkerError, running
from penstock.connector.kafka.broker.broker import EmbeddedBroker
from penstock.connector.kafka.client.native import find_native

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
CASES = {
    "append": "append → Delta",
    "window": "windowed count → Delta",
    "kafka": "Kafka → Kafka",
    "chain": "aggregate of an aggregate → Kafka",
}
INTO_TOPICS = ("kafka", "chain")
ENGINES = {"spark": "Spark's own source", "penstock": "Penstock"}
PERCENTILES = (50, 95, 99, 100)
PHASES = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
TAIL_S = 4
"""Records go on so long behind what counts: they close its last window."""

TIMEOUT_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One query at one rate; `missing` are records that were produced and are not in the sink."""

    case: str
    engine: str
    rate: int
    rows: int
    missing: int
    latency_ms: tuple[float, ...]
    batches: int
    jobs: int
    cpu_s: float
    seconds: float
    phases_ms: dict[str, float]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--warm-up", type=int, default=60)
    parser.add_argument("--rates", default="1000,10000")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--trigger-ms", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args(arguments)
    found = []
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder,
        EmbeddedBroker(Path(folder) / "kafka", heap_mb=1024) as broker,
    ):
        for rate in chosen.rates.split(","):
            for case in chosen.cases.split(","):
                for engine in chosen.engines.split(","):
                    if case == "chain" and engine != "penstock":
                        continue  # Spark has no aggregate over changes
                    home = Path(folder) / f"{engine}_{case}_{rate}"
                    try:
                        one = measure(broker.bootstrap, home, engine, case, int(rate), chosen)
                    except LostWorkerError as error:
                        raise SystemExit(f"error: a process of {home.name}: {error}") from None
                    print(one, file=sys.stderr, flush=True)
                    found.append(one)
                    shutil.rmtree(home, ignore_errors=True)
    text = report(found, chosen)
    chosen.results.mkdir(parents=True, exist_ok=True)
    (chosen.results / "latency.md").write_text(text, encoding="utf-8")
    document = {"machine": machine(), "found": [asdict(one) for one in found]}
    (chosen.results / "latency.json").write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    print(text)


def measure(
    bootstrap: str, home: Path, engine: str, case: str, rate: int, chosen: argparse.Namespace
) -> Found:
    """Run one query beside its producer."""
    home.mkdir()
    topic = home.name
    target = f"{topic}_copy" if case in INTO_TOPICS else str(home / "table")
    make_topic(bootstrap, topic, {})
    if case in INTO_TOPICS:
        make_topic(bootstrap, target, {"message.timestamp.type": "LogAppendTime"})
    spec = Spec(
        engine=engine,
        case=case,
        bootstrap=bootstrap,
        topic=topic,
        folder=str(home),
        target=target,
        trigger_ms=chosen.trigger_ms,
    )
    producer = [sys.executable, "-m", "benchmarks.steady_bids", bootstrap, topic, str(rate)]
    query = [sys.executable, "-m", "benchmarks.latency_queries", spec.as_json()]
    with running(producer) as made, running(query) as ran:
        ran.answer()
        sleep_until(time.time() + chosen.warm_up)
        begin_s = int(time.time()) + 1
        sleep_until(begin_s)
        before, cpu = ran.ask("mark"), spent(ran.process.pid)
        sleep_until(begin_s + chosen.seconds)
        after, cpu = ran.ask("mark"), spent(ran.process.pid) - cpu
        sleep_until(time.time() + TAIL_S)
        made.end_orders()
        counts = {int(second): count for second, count in made.answer().items()}
        phases = ran.ask("finish")["phases"]
    times = times_of(case, bootstrap, target)
    latency_ms, missing = compare(times, case, counts, range(begin_s, begin_s + chosen.seconds))
    inside = [one for batch, one in phases if before["batch"] < batch <= after["batch"]]
    if not inside:
        raise SystemExit("error: no batch ended in the time that counts; make it longer")
    return Found(
        case=case,
        engine=engine,
        rate=rate,
        rows=len(latency_ms),
        missing=missing,
        latency_ms=tuple(float(one) for one in np.percentile(latency_ms, PERCENTILES)),
        batches=len(inside),
        jobs=after["jobs"] - before["jobs"],
        cpu_s=round(cpu.total_s, 2),
        seconds=chosen.seconds,
        phases_ms={
            phase: statistics.median(one.get(phase, 0) for one in inside)
            for phase in (*PHASES, "triggerExecution")
        },
    )


def times_of(case: str, bootstrap: str, target: str) -> Times:
    """Read the sink of a case."""
    if case == "kafka":
        return topic_rows(bootstrap, target)
    if case == "chain":
        return topic_counts(bootstrap, target)
    return delta_windows(Path(target)) if case == "window" else delta_rows(Path(target))


def compare(
    times: Times, case: str, counts: dict[int, int], seconds: range
) -> tuple[np.ndarray, int]:
    """Return the ages of the rows of some seconds, and how many records of these seconds are not there."""
    made_ms, read_ms, stands_for = times
    # the row of a window has the time of its end
    second = made_ms // 1000 - (WINDOW_S if case == "window" else 0)
    inside = (second >= seconds.start) & (second < seconds.stop)
    if not inside.any():
        raise SystemExit("error: nothing came out in the time that counts; make it longer")
    produced = sum(counts.get(one, 0) for one in seconds)
    ages = (read_ms - made_ms)[inside]
    if case == "chain":
        ages = np.repeat(ages, stands_for[inside])
    return ages, produced - int(stands_for[inside].sum())


def make_topic(bootstrap: str, topic: str, config: dict[str, str]) -> None:
    """Make a topic."""
    new = NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1, config=config)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([new])[topic].result(TIMEOUT_S)


def sleep_until(until_s: float) -> None:
    """Wait for a time of the clock."""
    time.sleep(max(0.0, until_s - time.time()))


def report(found: Sequence[Found], chosen: argparse.Namespace) -> str:
    """The result as a page."""
    lines = [
        "# From a record to a row that can be read",
        "",
        (
            f"JSON bids at a constant rate into {PARTITIONS} partitions, broker on the same machine; "
            f"{chosen.seconds} s each after {chosen.warm_up} s of warm-up, trigger {chosen.trigger_ms} ms, one query "
            "at a time. Ages in ms at the commit into Delta or at Kafka's LogAppendTime; of a window since its end, "
            f"with a watermark of {WINDOW_S} s, which is part of it. Jobs: Spark's, a batch. Cores: CPU time of all "
            "processes of a query by time."
        ),
        "",
        "| | rows/s | | p50 | p95 | p99 | max | batches/s | jobs | cores | missing |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for one in found:
        ages = " | ".join(f"{age:,.0f}" for age in one.latency_ms)
        lines.append(
            f"| {CASES[one.case]} | {one.rate:,} | {ENGINES[one.engine]} | {ages} | "
            f"{one.batches / one.seconds:.2f} | {one.jobs / max(one.batches, 1):.1f} | "
            f"{one.cpu_s / one.seconds:.2f} | {one.missing:,} |"
        )
    lines += [
        "",
        "Medians of Spark's phases of a batch, ms:",
        "",
        f"| | rows/s | | {' | '.join(PHASES)} | all |",
        f"|---|---:|---|{'---:|' * (len(PHASES) + 1)}",
    ]
    for one in found:
        shown = " | ".join(f"{ms:,.0f}" for ms in one.phases_ms.values())
        lines.append(f"| {CASES[one.case]} | {one.rate:,} | {ENGINES[one.engine]} | {shown} |")
    lines += ["", f"{describe_machine()}; {find_native().text}", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
