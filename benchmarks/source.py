"""`make bench`: how fast Kafka is read, by Penstock, by Spark's own source with `from_json`, and raw.

One broker, one topic; everyone reads all of it in turn, a warm-up and then the rounds that count, so that a slow
minute of the machine hits all alike. Medians go to `results/source.md`, every run to `results/source.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.bids import PARTITIONS, write_bids
from benchmarks.contestants import CONTESTANTS
from benchmarks.machine import describe_machine, machine
from penstock.connector.kafka.broker.broker import EmbeddedBroker

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
TOPIC = "bids"
GOAL = 1.3
"""Penstock over Spark's own source, on both sinks."""

TITLES = {
    ("raw", "noop"): "librdkafka, nothing decoded",
    ("spark", "noop"): "Spark's Kafka source + from_json",
    ("penstock", "noop"): "Penstock",
    ("spark", "delta"): "Spark's Kafka source + from_json → Delta",
    ("penstock", "delta"): "Penstock → Delta",
    ("before", "noop"): "Penstock as it was",
    ("before", "delta"): "Penstock as it was → Delta",
}


@dataclass(slots=True)
class Runner:
    """A contestant's process."""

    name: str
    folder: Path
    process: subprocess.Popen[str]

    def ask(self, order: str) -> dict[str, Any]:
        """Send an order and wait for its answer."""
        assert self.process.stdin is not None, "started with a pipe"
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next line the process says."""
        assert self.process.stdout is not None, "started with a pipe"
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"error: {self.name} ended with status {self.process.wait()}")
        result: dict[str, Any] = json.loads(line)
        return result


@dataclass(slots=True)
class Measured:
    """Seconds of the rounds that count, by contestant and sink."""

    rows: int
    seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def rate(self, key: tuple[str, str]) -> float:
        """Median rows a second."""
        return self.rows / statistics.median(self.seconds[key])

    def ratio(self, sink: str, other: str = "spark") -> float:
        """Penstock over Spark's own, or over itself as it was."""
        return self.rate(("penstock", sink)) / self.rate((other, sink))


def main() -> int:
    """Exit status 0 when Penstock reaches its goal on both sinks, else 1."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument(
        "--beside", type=Path, help="a checkout of an earlier Penstock, measured in the same run"
    )
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        measured = measure(folder, arguments.rows, arguments.rounds, arguments.beside)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = report(measured, arguments.rounds)
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / "source.md").write_text(text, encoding="utf-8")
    (arguments.results / "source.json").write_text(as_json(measured), encoding="utf-8")
    print(text)
    return 0 if min(measured.ratio("noop"), measured.ratio("delta")) >= GOAL else 1


def measure(folder: Path, rows: int, rounds: int, beside: Path | None) -> Measured:
    """Start everyone, let them read in turn, stop everyone."""
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedBroker(folder / "kafka", heap_mb=1024))
        written = write_bids(broker.bootstrap, TOPIC, rows)
        progress(f"{written:,} bids written; starting the contestants")
        runners = [
            stack.enter_context(started(name, broker.bootstrap, folder)) for name in CONTESTANTS
        ]
        if beside is not None:
            before = started("before", broker.bootstrap, folder / "before", beside.resolve())
            runners.append(stack.enter_context(before))
        measured = Measured(rows=written)
        for number in range(rounds + 1):
            for runner in runners:
                for sink in CONTESTANTS[contestant(runner.name)].sinks:
                    take_turn(runner, sink, number, measured)
                    shutil.rmtree(runner.folder / f"{sink}_{number}", ignore_errors=True)
    return measured


def take_turn(runner: Runner, sink: str, number: int, measured: Measured) -> None:
    """One read of the whole topic; round 0 is the warm-up and does not count."""
    result = runner.ask(f"{sink} {number}")
    if result["rows"] != measured.rows:
        raise SystemExit(f"error: {runner.name} read {result['rows']} rows of {measured.rows}")
    rate = measured.rows / result["seconds"]
    progress(
        f"{'warm-up' if number == 0 else f'round {number}'}  {runner.name:9} {sink:6} {rate:12,.0f} rows/s"
    )
    if number > 0:
        measured.seconds.setdefault((runner.name, sink), []).append(result["seconds"])


def contestant(name: str) -> str:
    """Who runs under a name: the Penstock of before is one too."""
    return "penstock" if name == "before" else name


@contextmanager
def started(name: str, bootstrap: str, folder: Path, checkout: Path = ROOT) -> Iterator[Runner]:
    """A contestant ready for orders, of this checkout or another; it ends when its standard input does."""
    who = contestant(name)
    command = [sys.executable, "-m", "benchmarks.contestants", who, bootstrap, TOPIC, str(folder)]
    process = subprocess.Popen(
        command,
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout)},  # Spark's Python processes too
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    runner = Runner(name, folder / who, process)
    try:
        runner.answer()
        yield runner
    finally:
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def report(measured: Measured, rounds: int) -> str:
    """The result as a page."""
    what = (
        f"{measured.rows:,} JSON bids in {PARTITIONS} partitions, broker on the same machine; "
        f"median of {rounds} rounds after a warm-up, all in one run of `make bench`."
    )
    verdict = (
        f"Penstock over Spark's own source: **{measured.ratio('noop'):.2f}** into nothing, "
        f"**{measured.ratio('delta'):.2f}** into Delta."
    )
    if ("before", "noop") in measured.seconds:
        verdict += (
            f" Over Penstock as it was: {measured.ratio('noop', 'before'):.2f} and "
            f"{measured.ratio('delta', 'before'):.2f}."
        )
    lines = [
        "# Reading Kafka",
        "",
        what,
        "",
        "| | rows/s | runs, s |",
        "|---|---:|---|",
    ]
    for key, title in TITLES.items():
        if key not in measured.seconds:
            continue
        runs = ", ".join(f"{seconds:.2f}" for seconds in measured.seconds[key])
        lines.append(f"| {title} | {measured.rate(key):,.0f} | {runs} |")
    lines += [
        "",
        verdict,
        "",
        describe_machine(),
        "",
    ]
    return "\n".join(lines)


def as_json(measured: Measured) -> str:
    """Every run, for comparisons over time."""
    runs = [
        {
            "contestant": name,
            "sink": sink,
            "seconds": seconds,
            "rows_per_s": measured.rate((name, sink)),
        }
        for (name, sink), seconds in measured.seconds.items()
    ]
    ratios = {sink: measured.ratio(sink) for sink in ("noop", "delta")}
    return (
        json.dumps(
            {"machine": machine(), "rows": measured.rows, "runs": runs, "ratios": ratios}, indent=2
        )
        + "\n"
    )


def progress(text: str) -> None:
    """One line while it runs."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
