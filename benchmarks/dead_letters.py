"""What bad records cost, by their share: `python -m benchmarks.dead_letters`.

One pipeline from JSON files into a Delta table, in one Spark, the policies in turn in each round: plain (no bad
records, 'bad-records' = 'fail'), and with shares of bad records skipped or kept as dead letters. Medians of records a
second, from the first batch's start to the last one's end, and their ratio to plain. The rows and letters of every
run are counted. Written to `results/dead_letters.md` and `dead_letters.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.machine import describe_machine
from penstock.sql.session.session import Session, connect

RESULTS = Path(__file__).resolve().parent / "results"
FILES = 2
ROUNDS = 5
GOAL = 0.8
"""Of plain, with one bad record in a hundred."""

SQL = """
CREATE TABLE incoming (id BIGINT, name STRING, price DOUBLE) WITH (
  'connector' = 'filesystem', 'path' = '{folder}', 'format' = 'json', 'source.max-bytes-per-batch' = '{batch}b',
  'bad-records' = '{policy}'{more}
);
CREATE TABLE kept (id BIGINT, name STRING, price DOUBLE) WITH ('connector' = 'delta', 'path' = 'kept');
INSERT INTO kept SELECT id, name, price FROM incoming;
"""
NO_LIMIT = ", 'bad-records.max-ratio' = '1'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A policy and the share of bad records, as one in `every`; 0 is none."""

    policy: str
    every: int

    @property
    def name(self) -> str:
        """How results call it."""
        share = f"{100 / self.every:g} %" if self.every else "0 %"
        return "plain" if self.policy == "fail" else f"{self.policy}, {share}"


CASES = (
    Case(policy="fail", every=0),
    Case(policy="skip", every=0),
    Case(policy="skip", every=100),
    Case(policy="skip", every=10),
    Case(policy="dead-letter", every=0),
    Case(policy="dead-letter", every=100),
    Case(policy="dead-letter", every=10),
)


def write_files(folder: Path, records: int, every: int) -> int:
    """Write the records of a share; gives their bytes."""
    folder.mkdir()
    size = 0
    for number in range(FILES):
        lines = [_line(i, every) for i in range(records // FILES)]
        path = folder / f"{number}.json"
        path.write_text("\n".join(lines), encoding="utf-8")
        size += path.stat().st_size
    return size


def _line(number: int, every: int) -> str:
    if every and number % every == 0:
        return f'{{"id": "number {number}", "name": "a customer\'s name", "price": 12.5}}'
    return f'{{"id": {number}, "name": "a customer\'s name", "price": 12.5}}'


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in a project of its own."""
    before = Path.cwd()
    folder.mkdir(parents=True)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def run(case: Case, inputs: Path, project: Path, batch: int, records: int) -> float:
    """Run the pipeline once, to its end; gives records a second. Fails when a record is not accounted for."""
    with _inside(project), connect() as session:
        script = project / "job.sql"
        more = "" if case.policy == "fail" else NO_LIMIT
        folder = inputs / str(case.every)
        text = SQL.format(folder=folder, batch=batch, policy=case.policy, more=more)
        script.write_text(text, encoding="utf-8")
        began = time.perf_counter()
        (job,) = session.run_file(script, available_now=True)
        job.await_termination(0.1)
        took_s = time.perf_counter() - began
        _check(session, case, records)
        return records / took_s


def _check(session: Session, case: Case, records: int) -> None:
    per_file = records // FILES
    bad = FILES * -(-per_file // case.every) if case.every else 0
    rows = session.spark.read.format("delta").load(str(Path.cwd() / "kept")).count()
    assert rows == FILES * per_file - bad, f"{case.name}: {rows} rows"
    if case.policy == "dead-letter":
        letters = Path.cwd() / ".penstock/checkpoints/job/kept/dead-letters"
        count = session.spark.read.format("delta").load(str(letters)).count()
        assert count == bad, f"{case.name}: {count} dead letters"


def measure(records: int, batches: int, rounds: int) -> dict[str, list[float]]:
    """Measure every case in turn, round by round; a first round warms up and does not count."""
    found: dict[str, list[float]] = {case.name: [] for case in CASES}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as base:
        inputs = Path(base) / "inputs"
        inputs.mkdir()
        sizes = [write_files(inputs / str(e), records, e) for e in {case.every for case in CASES}]
        for number in range(rounds + 1):
            for index, case in enumerate(CASES):
                project = Path(base) / f"{number}-{index}"
                rate = run(case, inputs, project, max(sizes) // batches + 1, records)
                print(f"round {number}: {case.name}: {rate:,.0f} records/s", flush=True)
                if number:
                    found[case.name].append(rate)
    return found


def table(found: dict[str, list[float]]) -> str:
    """Write medians beside plain as Markdown."""
    plain = statistics.median(found["plain"])
    lines = ["| case | records/s | of plain |", "|---|---|---|"]
    for name, rates in found.items():
        median = statistics.median(rates)
        lines.append(f"| {name} | {median:,.0f} | {median / plain:.2f} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args(arguments)
    found = measure(chosen.records, chosen.batches, chosen.rounds)
    machine = describe_machine()
    text = (
        f"# Bad records\n\n{chosen.records:,} records in about {chosen.batches} batches, medians of "
        f"{chosen.rounds} rounds. The goal is {GOAL:g} of plain with 1 % dead letters.\n\n{table(found)}\n\n"
        f"{machine}\n"
    )
    (chosen.results / "dead_letters.md").write_text(text, encoding="utf-8")
    document = {"machine": machine, "records": chosen.records, "rates": found}
    (chosen.results / "dead_letters.json").write_text(
        json.dumps(document, indent=2) + "\n", encoding="utf-8"
    )
    print(text)


if __name__ == "__main__":
    main()
