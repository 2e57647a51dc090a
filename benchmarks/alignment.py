"""What alignment does for a join of two topics, one ahead of the other: `python -m benchmarks.alignment`.

An interval join keeps a row until the other side's watermark has passed it. Read side by side, the topic that is
ahead fills the state with everything that its lead holds; held back by `scan.watermark.alignment.*`, with what
the drift allows. Peak rows of state by lead go to `results/alignment.{md,json,png}`.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.machine import describe_machine
from penstock.connector.kafka.broker.broker import EmbeddedBroker

if TYPE_CHECKING:
    from penstock.sql.session.session import Session

RESULTS = Path(__file__).resolve().parent / "results"
LEADS_H = (1, 6, 24)
"""Hours that one topic is ahead; both then hold as many hours more, which the join has results of."""
ROWS_PER_S = 1
DRIFT_S = 1800
LIMIT = 1800
"""Records of a batch and table: as many as the drift holds, so that neither hides the other."""
FACTOR = 8
"""Peak state with alignment, in units of drift times rate, at the most: both sides, the batch under way, disorder."""

TABLE = """
CREATE TABLE {name} (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'scan.max-records-per-batch' = '{limit}'{alignment}
)"""
ALIGNMENT = ", 'scan.watermark.alignment.group' = 'join', 'scan.watermark.alignment.max-drift' = '{drift} s'"
JOIN = """
SELECT b.id, b.ts FROM {late} AS a JOIN {early} AS b ON a.id = b.id
AND b.ts BETWEEN a.ts - INTERVAL '10' SECOND AND a.ts + INTERVAL '10' SECOND
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One join to its end."""

    lead_h: int
    aligned: bool
    peak_state_rows: int
    joined: int
    batches: int
    seconds: float


def main() -> int:
    """Exit status 0 when the state is bounded by the drift with alignment, and grows with the lead without."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.alignment", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--leads", type=int, nargs="+", default=LEADS_H, help="hours")
    arguments = parser.parse_args()
    results = arguments.results.resolve()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        os.chdir(name)
        with EmbeddedBroker(Path(name) / "kafka") as broker:
            runs = measure(broker.bootstrap, arguments.leads)
        os.chdir(results.anchor)
    results.mkdir(parents=True, exist_ok=True)
    (results / "alignment.json").write_text(
        json.dumps([asdict(run) for run in runs], indent=2) + "\n", encoding="utf-8"
    )
    draw(runs, results / "alignment.png")
    text = report(runs)
    (results / "alignment.md").write_text(text, encoding="utf-8")
    print(text)
    held = all(r.peak_state_rows <= FACTOR * DRIFT_S * ROWS_PER_S for r in runs if r.aligned)
    complete = all(r.joined == r.lead_h * 3600 * ROWS_PER_S for r in runs)
    return 0 if held and complete else 1


def measure(bootstrap: str, leads: Iterable[int]) -> list[Run]:
    """Join each pair of topics, with alignment and without."""
    import penstock

    runs = []
    with penstock.connect(**{"spark.log.level": "OFF"}) as session:
        for lead_h in leads:
            topics = {f"late_{lead_h}": 0, f"early_{lead_h}": lead_h}
            for topic, start_h in topics.items():
                write(bootstrap, topic, start_h, 2 * lead_h)
            for aligned in (True, False):
                suffix = "aligned" if aligned else "free"
                tables = [
                    define(session, bootstrap, topic, suffix, aligned=aligned) for topic in topics
                ]
                run = join(session, tables, lead_h, aligned=aligned)
                print(run, flush=True)
                runs.append(run)
    return runs


def write(bootstrap: str, topic: str, start_h: int, end_h: int) -> None:
    """Write a record for each moment from one hour to another; its id says which moment it is."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "acks": "all"})
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(start_h * 3600 * ROWS_PER_S, end_h * 3600 * ROWS_PER_S):
        at = start + timedelta(seconds=number / ROWS_PER_S)
        record = json.dumps({"id": number, "ts": at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]})
        producer.produce(topic, record)
        producer.poll(0)
    if producer.flush(120):
        raise SystemExit("error: the broker did not take every record")


def define(session: Session, bootstrap: str, topic: str, suffix: str, *, aligned: bool) -> str:
    """Define a table over a topic; gives its name."""
    name = f"{topic}_{suffix}"
    session.sql(
        TABLE.format(
            name=name,
            topic=topic,
            bootstrap=bootstrap,
            limit=LIMIT,
            alignment=ALIGNMENT.format(drift=DRIFT_S) if aligned else "",
        )
    )
    return name


def join(session: Session, tables: list[str], lead_h: int, *, aligned: bool) -> Run:
    """Run the join over what is there, to its end."""
    frame = session.sql(JOIN.format(late=tables[0], early=tables[1]))
    began = time.perf_counter()
    writer: Any = frame.writeStream.format("noop")  # type: ignore[union-attr]
    writer = writer.option("checkpointLocation", f"{tables[0]}-checkpoint")
    joined = 0

    def count(batch: Any, _number: int) -> None:
        nonlocal joined
        joined += batch.count()

    query = writer.foreachBatch(count).trigger(availableNow=True).start()
    query.awaitTermination()
    progress = query.recentProgress
    return Run(
        lead_h=lead_h,
        aligned=aligned,
        peak_state_rows=max(p["stateOperators"][0]["numRowsTotal"] for p in progress),
        joined=joined,
        batches=len(progress),
        seconds=round(time.perf_counter() - began, 1),
    )


def draw(runs: list[Run], path: Path) -> None:
    """Peak state by lead, with alignment and without."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4), dpi=120)
    for aligned, label, colour in (
        (False, "read side by side", "#c0392b"),
        (True, f"aligned, max-drift {DRIFT_S // 60} min", "#1f77b4"),
    ):
        mine = [run for run in runs if run.aligned is aligned]
        axes.plot(
            [r.lead_h for r in mine],
            [r.peak_state_rows for r in mine],
            marker="o",
            label=label,
            color=colour,
        )
    axes.set_xlabel("hours that one topic is ahead of the other")
    axes.set_ylabel("peak rows of state")
    axes.set_title("Interval join of two topics: what the state holds at its fullest")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path)


def report(runs: list[Run]) -> str:
    """The table."""
    unit = DRIFT_S * ROWS_PER_S
    what = (
        f"Two topics of {ROWS_PER_S} row a second of event time, one hours ahead of the other, then as many in both; "
        f"{LIMIT:,} records a batch and table; max-drift {DRIFT_S} s, so drift times rate is {unit:,} rows. "
        "All in one run of `python -m benchmarks.alignment`."
    )
    lines = [
        "# State of an interval join",
        "",
        what,
        "",
        "| lead, h | | peak state, rows | of drift times rate | rows joined | batches | s |",
        "|---:|---|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {r.lead_h} | {'aligned' if r.aligned else 'side by side'} | {r.peak_state_rows:,} | "
        f"{r.peak_state_rows / unit:.1f} | {r.joined:,} | {r.batches} | {r.seconds} |"
        for r in runs
    ]
    return "\n".join(
        [*lines, "", "![peak state by lead](alignment.png)", "", describe_machine(), ""]
    )


if __name__ == "__main__":
    raise SystemExit(main())
