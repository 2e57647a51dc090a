"""What is gained by decoding only what a statement uses: `python -m benchmarks.projection`.

One topic of JSON records with 30 columns, one of them a ROW of ten fields; statements that use all of it, three columns
of it, one field of the row, and nothing but the number of rows, in turn in each round. Medians of records a second over
a whole run of `penstock run --available-now` in a Spark that is there, and their ratio to the statement that uses
all. Written to `results/projection.md` and `projection.json`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from benchmarks.machine import describe_machine, machine
from examples.demo.topic import write_lines
from penstock.connector.kafka.broker.broker import EmbeddedBroker
from penstock.sql.jobs.job import Job
from penstock.sql.session.session import Session, connect

RESULTS = Path(__file__).resolve().parent / "results"
PARTITIONS = 2
NUMBERS = tuple(f"n{i}" for i in range(12))
TEXTS = tuple(f"s{i}" for i in range(11))
FRACTIONS = tuple(f"d{i}" for i in range(4))
TIMES = ("t0", "t1")
FIELDS = tuple(f"f{i}" for i in range(10))
COLUMNS = (
    *(f"{name} BIGINT" for name in NUMBERS),
    *(f"{name} STRING" for name in TEXTS),
    *(f"{name} DOUBLE" for name in FRACTIONS),
    *(f"{name} TIMESTAMP(3)" for name in TIMES),
    f"item ROW<{', '.join(f'{name} STRING' for name in FIELDS)}>",
)
CASES = {
    "all 30 columns": ", ".join(column.partition(" ")[0] for column in COLUMNS),
    "3 of 30 columns": "n3, s5, t1",
    "1 field of the row": "item.f4",
    "2 columns and 2 fields": "n3, t1, item.f0, item.f9",
}
SOURCE = """
CREATE TABLE wide ({columns}) WITH (
  'connector' = 'kafka', 'topic' = 'wide', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
  'scan.max-records-per-batch' = '{batch}'
);
"""


def wide_lines(count: int, partition: int) -> list[bytes]:
    """The records of one partition."""
    return [_line(number, partition) for number in range(count)]


def _line(number: int, partition: int) -> bytes:
    values: dict[str, object] = {name: number * 31 + i for i, name in enumerate(NUMBERS)}
    values |= {name: f"text {number % 997} of {name}" for name in TEXTS}
    values |= {name: number / (i + 3) for i, name in enumerate(FRACTIONS)}
    values |= dict.fromkeys(TIMES, f"2026-03-02 10:00:{number % 60:02}.{partition:03}")
    values["item"] = {name: f"field {name} of {number % 97}" for name in FIELDS}
    return json.dumps(values, separators=(",", ":")).encode()


def seconds(session: Session, columns: str) -> float:
    """How long an INSERT of these columns takes that reads the whole topic."""
    made = f"CREATE TABLE sink WITH ('connector' = 'blackhole') AS SELECT {columns} FROM wide"
    began = time.perf_counter()
    job = session.sql(made)
    assert isinstance(job, Job), "a table is filled by a job"
    job.await_termination(600)
    took_s = time.perf_counter() - began
    session.sql("DROP TABLE sink")
    return took_s


def measure(records: int, batches: int, rounds: int) -> dict[str, list[float]]:
    """Measure every case in turn, round by round; a first round warms up and does not count."""
    found: dict[str, list[float]] = {name: [] for name in CASES}
    lines: list[Callable[[], list[bytes]]] = [
        partial(wide_lines, records // PARTITIONS, number) for number in range(PARTITIONS)
    ]
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder,
        EmbeddedBroker(Path(folder) / "kafka") as broker,
        contextlib.chdir(folder),
    ):
        write_lines(broker.bootstrap, "wide", lines)
        with connect() as session:
            session.sql(_source(broker.bootstrap, records // batches + 1))
            for number in range(rounds + 1):
                for index, (name, columns) in enumerate(CASES.items()):
                    session.sql(f"SET 'pipeline.name' = 'run-{number}-{index}'")
                    took_s = seconds(session, columns)
                    print(f"round {number}: {name}: {took_s:.1f} s", flush=True)
                    if number:
                        found[name].append(records / took_s)
    return found


def _source(bootstrap: str, batch: int) -> str:
    return SOURCE.format(columns=", ".join(COLUMNS), bootstrap=bootstrap, batch=batch)


def table(found: dict[str, list[float]]) -> str:
    """Write medians beside the statement that uses all, as Markdown."""
    medians = {name: statistics.median(rates) for name, rates in found.items()}
    whole = next(iter(medians.values()))
    lines = ["| the statement uses | records/s | of all |", "|---|---:|---:|"]
    lines += [
        f"| {name} | {median:,.0f} | {median / whole:.2f} |" for name, median in medians.items()
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args(arguments)
    found = measure(chosen.records, chosen.batches, chosen.rounds)
    size = len(_line(chosen.records // 2, 0))
    text = (
        f"# Columns that are used\n\n{chosen.records:,} JSON records of {size} bytes with 30 columns, into "
        f"a blackhole, in {chosen.batches} batches; medians of {chosen.rounds} rounds, a run's start and end in it.\n\n"
        f"{table(found)}\n\n{describe_machine()}\n"
    )
    (chosen.results / "projection.md").write_text(text, encoding="utf-8")
    document = {"machine": machine(), "records": chosen.records, "rates": found}
    (chosen.results / "projection.json").write_text(
        json.dumps(document, indent=2) + "\n", encoding="utf-8"
    )
    print(text)


if __name__ == "__main__":
    main()
