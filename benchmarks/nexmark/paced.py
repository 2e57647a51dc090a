"""Nexmark while its events are written: `python -m benchmarks.nexmark --paced EVENTS_PER_SECOND`, called by `__main__`.

The same recorded events are written at a constant rate into a topic of each query and engine, one after the other,
while the query runs there as a stream. Its result must be what a read of all events as a backlog has given before, or
no figure counts. Results go to `results/nexmark_paced.md` and `nexmark_paced.json` after each query.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from benchmarks.cpu import spent
from benchmarks.flink_environment import REQUIREMENT
from benchmarks.machine import describe_machine
from benchmarks.nexmark.answers import (
    Answer,
    await_answer,
    delete_topics,
    make_topic,
    read_answer,
    timed_records,
)
from benchmarks.nexmark.latency import MEASURES, Schedule, load_events, measure_latency
from benchmarks.nexmark.orders import START, STOP, Order, Place
from benchmarks.nexmark.processes import ENGINES, progress, sampled_peak, started
from benchmarks.nexmark.queries import Query, read_paced
from benchmarks.nexmark.results import Key, failed_lines, results_text, stored_results
from benchmarks.nexmark.steady_events import Events
from benchmarks.nexmark.topic import PARTITIONS, nexmark_rows, record_events, write_file
from benchmarks.workers import LostWorkerError, Worker, running
from penstock.connector.kafka.broker.broker import EmbeddedBroker
from penstock.connector.nexmark.connector import NexmarkRows

PACED_ARGUMENTS = ("paced", "seconds", "warm_up", "skew")
"""Arguments of the command line that a backlog has not."""
TOPIC = "nexmark"
PERCENTILES = (50, 95, 99, 100)
CHECKPOINT_MS = 1_000
"""Between two checkpoints of Flink, by default: as often as Penstock starts a batch."""
SAMPLE_S = 1.0
"""Between two looks at the memory: each takes time of the machine that is measured."""
ORDER_S = 300
"""For a query to start or to stop."""
REST_S = 120
"""For all to come out behind the last event, beside as much time as the events took."""
MOST_BEHIND_MS = 100
"""A producer that is later is named: what it did not write in time is in the latency."""
CLOSED_BY_BIDS = ("q11",)
"""Spark alone takes a watermark of bids alone here, as it filters before. Elsewhere a bid would be in the result."""
BROKER_TIME = {"message.timestamp.type": "LogAppendTime"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Paced:
    """A query of an engine. Without latencies where its answer is another one, or partitions were skewed.

    `late` is None where the engine does not say what it drops, `lost` is why there is nothing else. `behind_ms` is how
    late the producer was at most.
    """

    answer: Answer | None = None
    same: bool = False
    latency_ms: tuple[float, ...] = ()
    measured: int = 0
    missing: int = 0
    cpu_s: float = 0.0
    peak_bytes: int = 0
    state_bytes: int = 0
    batches: int = 0
    late: int | None = None
    behind_ms: int = 0
    lost: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What all queries and engines have in common."""

    bootstrap: str
    folder: Path
    events: int
    rows: NexmarkRows
    database: duckdb.DuckDBPyConnection
    chosen: argparse.Namespace

    @property
    def recorded(self) -> Path:
        """The file with the events."""
        return self.folder / "events.jsonl"

    def place(self, name: str, topic: str, *, bounded: bool) -> Place:
        """Return where an engine works."""
        chosen = self.chosen
        return Place(
            bootstrap=self.bootstrap,
            topic=topic,
            folder=str(self.folder / name),
            events=self.events,
            batch_rows=0 if bounded else chosen.batch_rows,
            checkpoint_ms=0 if bounded else chosen.checkpoint_ms or CHECKPOINT_MS,
            flink_heap_mb=chosen.flink_heap_mb,
            bounded=bounded,
        )


def add_paced_arguments(parser: argparse.ArgumentParser) -> None:
    """Add PACED_ARGUMENTS to the command line."""
    parser.add_argument(
        "--paced",
        type=int,
        default=0,
        metavar="EVENTS_PER_SECOND",
        help="write the events at this rate while the queries run, and measure the latency of rows",
    )
    parser.add_argument(
        "--seconds", type=int, default=60, help="of --paced: that count; default: %(default)s"
    )
    parser.add_argument(
        "--warm-up", type=int, default=20, help="of --paced: seconds before; default: %(default)s"
    )
    parser.add_argument(
        "--skew", type=int, default=0, help="of --paced: seconds that one partition is ahead"
    )


def run_paced(names: Sequence[str], chosen: argparse.Namespace) -> int:
    """Measure and report; exit status 1 when Penstock's or Flink's answers are other ones, or one of them failed."""
    events = chosen.paced * (chosen.warm_up + chosen.seconds)
    rows = nexmark_rows(events, chosen.seed, chosen.paced)
    found = earlier(chosen) if chosen.resume else {}
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as given,
        EmbeddedBroker(Path(given) / "kafka", heap_mb=1024) as broker,
    ):
        setting = Setting(
            bootstrap=broker.bootstrap,
            folder=Path(given),
            events=events,
            rows=rows,
            database=load_events(rows, events),
            chosen=chosen,
        )
        written = record_events(broker.bootstrap, TOPIC, rows, events)
        write_file(setting.recorded, rows, events)
        progress(f"{written:,} events recorded")
        for name in chosen.queries.split(","):
            if all((name, engine) in found for engine in names):
                continue
            found |= measure_query(setting, names, name)
            write_results(found, names, chosen)
    print((chosen.results / "nexmark_paced.md").read_text(encoding="utf-8"))
    others = [one for (_, engine), one in found.items() if engine != "spark"]
    return 0 if all(one.same for one in others) else 1


def measure_query(setting: Setting, names: Sequence[str], name: str) -> dict[Key, Paced]:
    """Read all events by the first engine for the answer, then run each engine beside a producer."""
    query = read_paced(name)
    found: dict[Key, Paced] = {}
    try:
        expected = backlog_answer(setting, names[0], query)
    except LostWorkerError as error:
        progress(f"{name:4} {names[0]:9} failed on the backlog: {error}")
        return {(name, engine): Paced(lost=f"no answer to compare: {error}") for engine in names}
    for engine in names:
        try:
            found[name, engine] = one = pace(setting, engine, name, query, expected)
        except LostWorkerError as error:
            found[name, engine] = one = Paced(lost=str(error))
        progress(f"{name:4} {engine:9} {one}")
    return found


def backlog_answer(setting: Setting, engine: str, query: Query) -> Answer:
    """Read all recorded events at once. Raises LostWorkerError."""
    target = f"{query.name}_expected"
    make_topic(setting.bootstrap, target)
    place = setting.place(target, TOPIC, bounded=True)
    with started(engine, place, setting.chosen.flink) as worker:
        worker.answer()
        ask(worker, Order(query=query.name, name="expected", topic=target))
    answer = read_answer(setting.bootstrap, target, query)
    delete_topics(setting.bootstrap, [target])
    shutil.rmtree(place.folder, ignore_errors=True)
    return answer


def ask(worker: Worker, order: Order) -> dict[str, Any]:
    """Give an order. Raises LostWorkerError for one that fails."""
    answer = worker.ask(order.as_line(), within_s=ORDER_S)
    if "error" in answer:
        raise LostWorkerError(answer["error"])
    return answer


def pace(setting: Setting, engine: str, name: str, query: Query, expected: Answer) -> Paced:
    """Run a query as a stream while its events are written. Raises LostWorkerError."""
    chosen, source, target = setting.chosen, f"{name}_{engine}_events", f"{name}_{engine}"
    make_topic(setting.bootstrap, source, partitions=PARTITIONS)
    make_topic(setting.bootstrap, target, config=BROKER_TIME)
    place = setting.place(f"{name}_{engine}", source, bounded=False)
    events = Events(
        bootstrap=setting.bootstrap,
        topic=source,
        partitions=PARTITIONS,
        path=str(setting.recorded),
        rate=chosen.paced,
        skew_s=chosen.skew,
        closed_by_bids=name in CLOSED_BY_BIDS,
    )
    producing = [sys.executable, "-m", "benchmarks.nexmark.steady_events", events.as_json()]
    order = Order(query=query.name, name="paced", topic=target, action=START)
    with started(engine, place, chosen.flink) as worker, running(producing) as producer:
        worker.answer()
        producer.answer()
        ask(worker, order)
        pid = worker.process.pid
        with sampled_peak(pid, SAMPLE_S) as peak:
            start_ms = int(producer.ask("start")["start_ms"])
            begin_s = start_ms / 1000 + chosen.warm_up
            sleep_until(begin_s)
            before = spent(pid)
            sleep_until(begin_s + chosen.seconds)
            cpu = spent(pid) - before
            behind_ms = int(producer.answer()["behind_ms"])
            within_s = REST_S + chosen.warm_up + chosen.seconds
            answer = await_answer(setting.bootstrap, target, query, expected, within_s)
        stopped = ask(worker, replace(order, action=STOP))
    one = Paced(
        answer=answer,
        same=answer.same(expected),
        cpu_s=round(cpu.total_s, 2),
        peak_bytes=max(peak),
        state_bytes=stopped.get("state_bytes", 0),
        batches=stopped.get("batches", 0),
        late=stopped.get("late"),
        behind_ms=behind_ms,
    )
    if one.same and not chosen.skew:
        one = with_latency(one, setting, name, target, start_ms)
    delete_topics(setting.bootstrap, [source, target])
    shutil.rmtree(place.folder, ignore_errors=True)
    return one


def with_latency(one: Paced, setting: Setting, name: str, target: str, start_ms: int) -> Paced:
    """Read the result once more, for the times of its rows."""
    chosen = setting.chosen
    schedule = Schedule(
        base_ms=setting.rows.settings.events.base_time_ms,
        start_ms=start_ms,
        begin_ms=chosen.warm_up * 1000,
        end_ms=(chosen.warm_up + chosen.seconds) * 1000,
    )
    records = timed_records(setting.bootstrap, target)
    found = measure_latency(setting.database, MEASURES[name], records, schedule)
    if not len(found.of):
        return replace(one, missing=found.missing)
    return replace(
        one,
        latency_ms=tuple(float(ms) for ms in np.percentile(found.of, PERCENTILES)),
        measured=len(found.of),
        missing=found.missing,
    )


def sleep_until(until_s: float) -> None:
    """Wait for a time of the clock."""
    time.sleep(max(0.0, until_s - time.time()))


def recorded_arguments(chosen: argparse.Namespace) -> dict[str, str]:
    """The arguments that results depend on."""
    names = (*PACED_ARGUMENTS, "seed", "batch_rows", "checkpoint_ms", "flink_heap_mb")
    return {name: str(getattr(chosen, name)) for name in names}


def earlier(chosen: argparse.Namespace) -> dict[Key, Paced]:
    """Read the results of a run that was ended early. Raises SystemExit where it was run with other arguments."""
    stored = stored_results(chosen.results / "nexmark_paced.json", recorded_arguments(chosen))
    return {
        key: Paced(**one | {"latency_ms": tuple(one["latency_ms"])}, answer=answer)
        for key, answer, one in stored
    }


def write_results(
    found: Mapping[Key, Paced], names: Sequence[str], chosen: argparse.Namespace
) -> None:
    """Write the page and all figures."""
    chosen.results.mkdir(parents=True, exist_ok=True)
    (chosen.results / "nexmark_paced.md").write_text(report(found, names, chosen), "utf-8")
    (chosen.results / "nexmark_paced.json").write_text(as_json(found, chosen), "utf-8")


def as_json(found: Mapping[Key, Paced], chosen: argparse.Namespace) -> str:
    """All figures."""
    return results_text(found, recorded_arguments(chosen))


def report(found: Mapping[Key, Paced], names: Sequence[str], chosen: argparse.Namespace) -> str:
    """The result as a page."""
    queries = [name for name in MEASURES if any(key[0] == name for key in found)]
    lines = [
        "# Nexmark while its events are written",
        "",
        setting_text(chosen),
        "",
        "| query | | answer | p50, ms | p95 | p99 | max | measured | CPU s | MiB | state, MiB | rows lost |",
        f"|---|---|---|{'---:|' * 9}",
    ]
    for name in queries:
        title = f"{name}: {read_paced(name).title}"
        for engine in (engine for engine in names if (name, engine) in found):
            cells = figures(found[name, engine])
            lines.append(f"| {title} | {ENGINES[engine]} | {' | '.join(cells)} |")
            title = ""
    lines += ["", "Latency is of:", ""]
    lines += [f"- {name}: {MEASURES[name].what}" for name in queries]
    lines += ["", *failures(found)]
    if "flink" in names:
        checkpoint_ms = chosen.checkpoint_ms or CHECKPOINT_MS
        lines += [
            f"Flink: {REQUIREMENT}, heap state in {chosen.flink_heap_mb:,} MiB, checkpoints: {checkpoint_ms} ms.",
            "",
        ]
    return "\n".join([*lines, describe_machine(), ""])


def setting_text(chosen: argparse.Namespace) -> str:
    """Say what was measured."""
    skew = (
        f" One partition is {chosen.skew} s ahead of the others, so that no latency counts."
        if chosen.skew
        else ""
    )
    return (
        f"{chosen.paced:,} events a second, whose times are as far apart as they are written, in {PARTITIONS} "
        f"partitions, seed {chosen.seed}, broker and producer on the same machine; {chosen.seconds} s each after "
        f"{chosen.warm_up} s of warm-up, one query of one engine at a time, each with its default trigger.{skew} The "
        "answer, a topic, is compared with that of a read of all events as a backlog. Latency: from the "
        "moment at which an event is due to be written to the broker's LogAppendTime of the row that has it. CPU: user "
        "and system time of all processes of an engine in the time that counts. Memory: the most that they had "
        "resident. "
        "State: the bytes of the checkpoint at the end. Rows lost: those that an engine counts as late; Flink is not "
        "asked, and has lost none where its answer is equal. "
        "[How to run it again](../../docs/nexmark.md#at-a-rate)."
    )


def figures(one: Paced) -> list[str]:
    """The cells of a query of an engine."""
    if one.answer is None:
        return ["failed", *[""] * 9]
    lost = one.late if one.late is not None else 0 if one.same else None
    answer = "equal" if one.same else f"{one.answer.rows:,} other rows"
    cells = [f"{ms:,.0f}" for ms in one.latency_ms] or [""] * len(PERCENTILES)
    rest = [
        f"{one.measured:,}" if one.latency_ms else "",
        f"{one.cpu_s:.2f}",
        f"{one.peak_bytes / (1 << 20):,.0f}",
        f"{one.state_bytes / (1 << 20):,.1f}",
    ]
    return [
        answer,
        *cells,
        *(rest if one.same else [""] * len(rest)),
        "" if lost is None else f"{lost:,}",
    ]


def failures(found: Mapping[Key, Paced]) -> list[str]:
    """Name the queries that an engine did not run, and why, and what makes figures doubtful."""
    lines = failed_lines({key: one.lost for key, one in found.items()})
    lines += [
        f"- {name}, {ENGINES[engine]}: {one.missing:,} events were never seen in the result"
        for (name, engine), one in found.items()
        if one.missing
    ]
    lines += [
        f"- {name}, {ENGINES[engine]}: the producer was {one.behind_ms:,} ms late"
        for (name, engine), one in found.items()
        if one.behind_ms > MOST_BEHIND_MS
    ]
    return ["Failed, or doubtful:", "", *lines, ""] if lines else []
