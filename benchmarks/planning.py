"""What planning a micro-batch costs, by number of partitions: `python -m benchmarks.planning`.

One aligned Kafka table, planned as Spark's source process does it: on a real broker up to 1,000 partitions, on a
model of one (answers at once) beyond, which leaves what Penstock itself computes. Medians of several batches, in
ms; what each phase asks of the planner is timed apart. Written to `results/planning.md` and `planning.json`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.machine import describe_machine
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.model.table import Table
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.connector.contract import SplitMetadataClient, SplitSource
from penstock.connector.kafka.broker.broker import EmbeddedBroker
from penstock.connector.kafka.client.connection import KafkaSplit
from penstock.connector.scan import Scan
from penstock.connector.source.split import Discovery, SplitOffsets
from penstock.connector.source.state import SourceState, decode_state, encode_state
from penstock.connector.spark.source.planning import PlanningExecutor
from penstock.sql.convert.statement import parse_statement
from penstock.sql.expressions.rowtime import rowtime_of
from penstock.sql.script.splitter import split
from penstock.sql.statements.statement import CreateTable

RESULTS = Path(__file__).resolve().parent / "results"
REAL = (10, 100, 1000)
MODELLED = (10, 100, 1000, 10_000)
BATCHES = 9
RECORDS = 64
"""Of a partition, in each batch: enough for a search, quick to write a thousand times."""
GOAL_MS = 50
"""With 100 partitions and no new data."""

TABLE = """
CREATE TABLE events (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND) WITH (
  'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json', 'scan.watermark.max-future' = '0',
  'scan.watermark.alignment.group' = 'all', 'scan.watermark.alignment.max-drift' = '10 s'
)"""
PHASES = ("list", "extents", "peek", "search", "serialise")


@dataclass(slots=True)
class Stopwatch:
    """Milliseconds spent in each phase of one planning."""

    spent_ms: dict[str, float] = field(default_factory=dict)

    def timed(self, phase: str, call: Any, *args: Any, **more: Any) -> Any:
        """Call, and add to the phase."""
        began = time.perf_counter()
        try:
            return call(*args, **more)
        finally:
            took = (time.perf_counter() - began) * 1000
            self.spent_ms[phase] = self.spent_ms.get(phase, 0.0) + took


class TimedPlanner:
    """A planner whose answers are timed. The first round of peeks looks at ends, later ones search."""

    def __init__(self, planner: SplitMetadataClient, watch: Stopwatch) -> None:
        """Stand before `planner`."""
        self._planner = planner
        self._watch = watch

    def __getattr__(self, name: str) -> Any:
        """Everything that is not timed."""
        return getattr(self._planner, name)

    def list_splits(self) -> Discovery:
        """Timed as `list`."""
        return self._watch.timed("list", self._planner.list_splits)  # type: ignore[no-any-return]

    def start_positions(self, split_ids: Sequence[str], *, first_listing: bool) -> Any:
        """Timed as `list`."""
        return self._watch.timed(
            "list", self._planner.start_positions, split_ids, first_listing=first_listing
        )

    def extents(self, split_ids: Sequence[str]) -> Any:
        """Timed as `extents`."""
        return self._watch.timed("extents", self._planner.extents, split_ids)

    def peek(self, ranges: Mapping[str, tuple[int, int]], accept: Any = None) -> Any:
        """Timed as `peek`, and as `search` from the second time on."""
        phase = "search" if "peek" in self._watch.spent_ms else "peek"
        return self._watch.timed(phase, self._planner.peek, ranges, accept)


class TimedSource:
    """A source that opens timed planners."""

    def __init__(self, source: SplitSource, watch: Stopwatch, model: Model | None) -> None:
        """`model` stands for the broker where there is none."""
        self._source = source
        self._watch = watch
        self._model = model

    def __getattr__(self, name: str) -> Any:
        """Everything else is the source's."""
        return getattr(self._source, name)

    def open_planner(self, peeked: Any) -> TimedPlanner:
        """Open the planner, or the model of one."""
        planner = self._model or self._source.open_planner(peeked)
        return TimedPlanner(planner, self._watch)  # type: ignore[arg-type]


@dataclass(slots=True)
class Model:
    """A broker that answers at once: `partitions` partitions of `records` records, one a second of event time.

    Every third partition is an hour ahead, so that alignment has something to search.
    """

    partitions: int
    records: int = 0

    def list_splits(self) -> Discovery:
        """All partitions, of one topic."""
        ids = [f"events-{number:05}" for number in range(self.partitions)]
        return Discovery(owners=dict.fromkeys(ids, "events"), source_ids={"events": "id"})

    def start_positions(self, split_ids: Sequence[str], *, first_listing: bool) -> dict[str, int]:
        """All begin at 0."""
        del first_listing
        return dict.fromkeys(split_ids, 0)

    def stop_positions(self, split_ids: Sequence[str]) -> dict[str, int]:
        """None has a stop."""
        del split_ids
        return {}

    def extents(self, split_ids: Sequence[str]) -> dict[str, SplitOffsets]:
        """What was written so far."""
        return dict.fromkeys(split_ids, SplitOffsets(first=0, end=self.records))

    def peek(
        self, ranges: Mapping[str, tuple[int, int]], accept: Any = None
    ) -> dict[str, pa.RecordBatch]:
        """The record before each end; all are acceptable."""
        del accept
        found = {}
        for split_id, (_, end) in ranges.items():
            at = event_time(int(split_id[-5:]), end - 1)
            moment = pa.array([at.replace(tzinfo=None)], pa.timestamp("ms"))
            found[split_id] = pa.RecordBatch.from_arrays([moment], names=["ts"])
        return found

    def split(self, split_id: str, start: int, stop: int | None) -> KafkaSplit:
        """As Kafka's."""
        return KafkaSplit(split_id=split_id, start=start, stop=stop, topic="events", partition=0)

    def commit(self, positions: Mapping[str, int]) -> None:
        """Nobody looks."""

    def close(self) -> None:
        """Nothing to close."""


def event_time(partition: int, number: int) -> datetime:
    """When a record happened: every third partition is an hour ahead of the others."""
    ahead = timedelta(hours=1) if partition % 3 == 0 else timedelta()
    return datetime(2026, 1, 1, tzinfo=UTC) + ahead + timedelta(seconds=number)


def scan_of(topic: str, bootstrap: str, folder: Path) -> Scan:
    """The table as a query with windows reads it."""
    namespace = Namespace(SqlCatalog(f"sqlite:///{folder}/catalog.db"))
    (text,) = split(TABLE.format(topic=topic, bootstrap=bootstrap), "planning.sql")
    statement = parse_statement(text, namespace)
    assert isinstance(statement, CreateTable), "the text above"
    table: Table = statement.table
    return Scan(
        table=table,
        columns=("id", "ts"),
        rowtime=rowtime_of(table),
        time_zone="UTC",
        project=str(folder),
    )


def measure(scan: Scan, grow: Any, model: Model | None) -> dict[str, dict[str, float]]:
    """Plan a first batch, batches with new records everywhere, and batches without; medians by phase."""
    watch = Stopwatch()
    executor = PlanningExecutor(scan, TimedSource(scan.open_source(), watch, model))  # type: ignore[arg-type]
    state = SourceState()
    cases: dict[str, list[dict[str, float]]] = {"first": [], "new data": [], "nothing new": []}
    for number in range(2 * BATCHES + 1):
        case = "first" if number == 0 else "new data" if number <= BATCHES else "nothing new"
        if case == "new data":
            grow()
        elif number == BATCHES + 1:
            state = drained(executor, state)
        watch.spent_ms.clear()
        began = time.perf_counter()
        planned = executor.plan(state, None)
        if planned is not None:
            state = watch.timed("serialise", round_trip, planned)
        watch.spent_ms["all"] = (time.perf_counter() - began) * 1000
        cases[case].append(dict(watch.spent_ms))
    executor.close()
    return {case: medians(spent) for case, spent in cases.items()}


def drained(executor: PlanningExecutor, state: SourceState) -> SourceState:
    """Plan until nothing is left, splits held back by alignment included."""
    while (planned := executor.plan(state, None)) is not None:
        state = planned
    return state


def round_trip(state: SourceState) -> SourceState:
    """What a batch's offset goes through: written for the log, read for the next planning."""
    again = decode_state(json.loads(json.dumps(encode_state(state))))
    assert again == state, "an offset is read as it was written"
    return state


def medians(spent: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Median of each phase, ms."""
    return {
        phase: round(statistics.median(one.get(phase, 0.0) for one in spent), 2)
        for phase in (*PHASES, "all")
    }


def measure_real(partitions: int, broker: EmbeddedBroker, folder: Path) -> dict[str, Any]:
    """Measure on a topic of the broker."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    topic = f"events-{partitions}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(120)
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50})
    written = 0

    def grow() -> None:
        nonlocal written
        for partition in range(partitions):
            for number in range(written, written + RECORDS):
                at = event_time(partition, number).strftime("%Y-%m-%d %H:%M:%S")
                record = json.dumps({"id": number, "ts": at})
                producer.produce(topic, record, partition=partition)
            producer.poll(0)
        written += RECORDS
        if producer.flush(120):
            raise SystemExit("error: the broker did not take every record")

    grow()
    return measure(scan_of(topic, broker.bootstrap, folder), grow, None)


def measure_modelled(partitions: int, folder: Path) -> dict[str, Any]:
    """Measure on the model."""
    model = Model(partitions=partitions, records=RECORDS)

    def grow() -> None:
        model.records += RECORDS

    return measure(scan_of("events", "127.0.0.1:1", folder), grow, model)


def main() -> int:
    """Exit status 0 when planning without new data at 100 partitions is as quick as asked."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planning", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        with EmbeddedBroker(folder / "kafka", heap_mb=1024) as broker:
            real = {n: measure_real(n, broker, folder) for n in REAL}
        modelled = {n: measure_modelled(n, folder) for n in MODELLED}
    text = report(real, modelled)
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / "planning.md").write_text(text, encoding="utf-8")
    (arguments.results / "planning.json").write_text(
        json.dumps({"real": real, "modelled": modelled}, indent=2) + "\n", encoding="utf-8"
    )
    print(text)
    return 0 if real[100]["nothing new"]["all"] < GOAL_MS else 1


def report(real: Mapping[int, Any], modelled: Mapping[int, Any]) -> str:
    """The tables."""
    what = (
        f"One aligned table, every third partition an hour ahead; {RECORDS} new records a partition and batch. ms, "
        f"medians of {BATCHES} batches (of one for the first), all in one run of `python -m benchmarks.planning`."
    )
    lines = [
        "# Planning a micro-batch",
        "",
        what,
    ]
    for title, measured in (
        ("On a real broker on the same machine", real),
        ("On a model that answers at once: what Penstock itself computes", modelled),
    ):
        lines += ["", f"## {title}", "", f"| partitions | batch | {' | '.join(PHASES)} | all |"]
        lines += ["|---:|---|" + "---:|" * (len(PHASES) + 1)]
        for partitions, cases in measured.items():
            for case, spent in cases.items():
                values = " | ".join(f"{spent[phase]:,.1f}" for phase in (*PHASES, "all"))
                lines.append(f"| {partitions:,} | {case} | {values} |")
    return "\n".join([*lines, "", describe_machine(), ""])


if __name__ == "__main__":
    raise SystemExit(main())
