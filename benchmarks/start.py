"""What a start costs: `python -m benchmarks.start`, from `penstock run FILE` to its first committed batch.

A small topic into a Delta table, by processes of their own, with the class data archive of `penstock prepare` and
without it in turn. Where the time goes is read from what a run leaves behind: its Java process, its first log line,
the table's and the checkpoint's files. Medians go to `results/start.md`, every run to `results/start.json`.
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
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.bids import write_bids
from benchmarks.contestants import COLUMNS
from benchmarks.cpu import runs_java, spent
from benchmarks.machine import describe_machine, machine
from penstock.connector.jvm.class_data import SWITCH
from penstock.connector.kafka.broker.broker import EmbeddedBroker

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PENSTOCK = Path(sys.executable).with_name("penstock")
ROWS = 1_000
POLL_S = 0.02
TIMEOUT_S = 300
KINDS = {"without an archive": {SWITCH: "0"}, "with the class data archive": {SWITCH: "1"}}
FILE = """
CREATE TABLE bids ({columns}) WITH (
  'connector' = 'kafka', 'topic' = 'bids', 'properties.bootstrap.servers' = '{bootstrap}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'
);
CREATE TABLE copied ({columns}) WITH ('connector' = 'delta', 'path' = 'copied');
INSERT INTO copied SELECT * FROM bids;
"""
PHASES = {
    "java": "imports, checks of the file, to the start of Java",
    "table": "Java, Spark, planning, to the table",
    "query": "checks, to the streaming query",
    "offsets": "planning of the first batch",
    "commit": "the first batch, to its commit",
    "end": "the end of the run",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """One run: seconds of its phases in the order of `PHASES`, to its first commit; CPU time to there."""

    phases_s: dict[str, float]
    first_commit_s: float
    first_commit_cpu_s: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=RESULTS)
    chosen = parser.parse_args(arguments)
    subprocess.run([PENSTOCK, "prepare"], check=True)
    found: dict[str, list[Started]] = {kind: [] for kind in KINDS}
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder,
        EmbeddedBroker(Path(folder) / "kafka") as broker,
    ):
        write_bids(broker.bootstrap, "bids", ROWS)
        text = FILE.format(columns=COLUMNS, bootstrap=broker.bootstrap)
        for number in range(chosen.rounds + 1):
            for kind, variables in KINDS.items():
                one = run(Path(folder) / "project", text, variables)
                print(f"round {number}  {kind}: {one}", file=sys.stderr, flush=True)
                if number:
                    found[kind].append(one)
    text = report(found, chosen.rounds)
    chosen.results.mkdir(parents=True, exist_ok=True)
    (chosen.results / "start.md").write_text(text, encoding="utf-8")
    runs = {kind: [asdict(one) for one in every] for kind, every in found.items()}
    document = json.dumps({"machine": machine(), "runs": runs}, indent=2) + "\n"
    (chosen.results / "start.json").write_text(document, encoding="utf-8")
    print(text)


def run(project: Path, text: str, variables: Mapping[str, str]) -> Started:
    """Run the file in a new folder, to its end."""
    shutil.rmtree(project, ignore_errors=True)
    project.mkdir()
    (project / "copy.sql").write_text(text, encoding="utf-8")
    commit = project / "copied" / "_delta_log" / f"{1:020}.json"
    said = project / "said"
    java = None
    commit_cpu_s = None
    began = time.time()
    with said.open("wb") as output:
        process = subprocess.Popen(
            [PENSTOCK, "run", "copy.sql"],
            cwd=project,
            env=os.environ | dict(variables),
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        while process.poll() is None:
            # each look at all processes costs milliseconds: none once Java is there, but for the commit
            if java is None and runs_java(process.pid):
                java = time.time()
            if commit_cpu_s is None and commit.exists():
                commit_cpu_s = spent(process.pid).total_s
            if time.time() > began + TIMEOUT_S:
                process.kill()
            time.sleep(POLL_S if java else 5 * POLL_S)
    ended = time.time()
    if process.returncode or java is None or commit_cpu_s is None:
        text = said.read_text(encoding="utf-8")
        raise SystemExit(f"error: the run ended with status {process.returncode}\n{text}")
    (checkpoint,) = (one.parent for one in project.glob(".penstock/checkpoints/**/metadata"))
    marks = {
        "java": java,
        "table": changed(commit.with_name(f"{0:020}.json")),
        "query": changed(checkpoint / "metadata"),
        "offsets": changed(checkpoint / "offsets" / "0"),
        "commit": changed(commit),
        "end": ended,
    }
    times = [began, *marks.values()]
    return Started(
        phases_s={
            name: round(after - before, 3)
            for name, before, after in zip(marks, times, times[1:], strict=False)
        },
        first_commit_s=round(marks["commit"] - began, 3),
        first_commit_cpu_s=commit_cpu_s,
    )


def changed(file: Path) -> float:
    """When a file was last written."""
    return file.stat().st_mtime_ns / 1e9


def report(found: Mapping[str, Sequence[Started]], rounds: int) -> str:
    """The result as a page."""
    titles = list(found)

    def row(title: str, values: Sequence[Sequence[float]]) -> str:
        shown = (
            f"{statistics.median(every):.2f} ({min(every):.2f} to {max(every):.2f})"
            for every in values
        )
        return f"| {title} | {' | '.join(shown)} |"

    lines = [
        "# A start of `penstock run`",
        "",
        (
            f"{ROWS:,} records of Kafka into a new Delta table; medians of {rounds} runs after one that does not "
            "count, with the fastest and the slowest, all in one run of `python -m benchmarks.start`."
        ),
        "",
        f"| | {' | '.join(titles)} |",
        f"|---|{'---:|' * len(titles)}",
        row("to the first commit, s", [[one.first_commit_s for one in found[k]] for k in titles]),
        row("CPU time to there, s", [[one.first_commit_cpu_s for one in found[k]] for k in titles]),
        *(
            row(f"{title}, s", [[one.phases_s[phase] for one in found[k]] for k in titles])
            for phase, title in PHASES.items()
        ),
        "",
        describe_machine(),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
