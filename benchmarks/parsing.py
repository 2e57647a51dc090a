"""What it costs to check files of 100, 1,000 and 10,000 statements: cutting, parsing, and all that needs no JVM.

    python -m benchmarks.parsing [--statements 100 1000 10000] [--rounds 3] [--profile]

A file is tables, views and INSERTs with windows and joins, in equal parts. The cost of a statement must not grow with
the file; `penstock validate` of 1,000 statements is to take less than two seconds. Figures are CPU time, for which
other work on the machine counts less, and for the whole command wall-clock time, too; medians of the rounds. The
command finds its byte code, as one that pip has installed does. Written to `results/parsing.md`.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.machine import describe_machine
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.check.script_check import check_scripts
from penstock.sql.convert.statement import parse_tree
from penstock.sql.execution.context import SessionContext
from penstock.sql.script.files import ScriptFile
from penstock.sql.script.splitter import split_all
from penstock.sql.syntax.positions import Source

RESULTS = Path(__file__).resolve().parent / "results"
GOAL = "Its goal is 2 s for 1,000 statements."
NO_CATALOG = "sqlite:///nowhere/catalog.db"
"""As in a project that was not run yet: nothing is read, and nothing made."""

VALIDATE = "from penstock.sql.cli.commands.app import main; main()"

KINDS = (
    """CREATE TABLE orders_{n} (
  id BIGINT, customer STRING, amount DECIMAL(10, 2), ts TIMESTAMP(3), lines ARRAY<ROW<sku STRING, n INT>>,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = 'orders_{n}', 'properties.bootstrap.servers' = 'localhost:9092',
  'scan.startup.mode' = 'earliest-offset', 'format' = 'json')""",
    "CREATE TABLE totals_{n} (customer STRING, total DECIMAL(38, 2)) WITH ('connector' = 'delta', 'path' = 't{n}')",
    """CREATE VIEW big_{n} AS SELECT id, customer, amount * 2 AS twice FROM orders_{n}
  WHERE amount > 100 AND id IS NOT NULL""",
    """INSERT INTO totals_{n} SELECT customer, SUM(amount) FROM TABLE(TUMBLE(TABLE orders_{n}, DESCRIPTOR(ts),
  INTERVAL '10' MINUTE)) GROUP BY customer, window_start, window_end""",
    """INSERT INTO totals_{n} SELECT a.customer, CAST(b.twice AS DECIMAL(38, 2)) FROM orders_{n} AS a
  JOIN big_{n} AS b ON a.id = b.id WHERE CASE WHEN a.amount > 5 THEN TRUE ELSE a.customer LIKE 'x%' END""",
)
SIZES = (100, 1_000, 10_000)


def file_of(statements: int) -> str:
    """A file of that many statements."""
    each = len(KINDS)
    return ";\n".join(KINDS[n % each].format(n=n // each) for n in range(statements)) + ";\n"


def seconds(work: Callable[[], object]) -> float:
    """Seconds of CPU time that one run takes: it does not wait for anything."""
    began = time.process_time()
    work()
    return time.process_time() - began


def parse_all(text: str) -> None:
    """Cut a file and parse its statements."""
    statements, error = split_all(Source(file="benchmark.sql", text=text))
    assert error is None
    for one in statements:
        parse_tree(one)


def check_all(text: str) -> None:
    """All static checks of a file: names, types, options, and how each INSERT would run."""
    check_scripts(
        [ScriptFile(name="benchmark.sql", text=text)],
        SessionContext(namespace=Namespace(SqlCatalog(NO_CATALOG)), project=Path()),
        variables={},
        env={},
    )


def validate(text: str, rounds: int) -> list[tuple[float, float]]:
    """Seconds of CPU and of wall-clock time of each `penstock validate`, its start included; one more goes ahead."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        (Path(folder) / "benchmark.sql").write_text(text, encoding="utf-8")
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/byte-code"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
        return [_run_validate(folder, environment) for _ in range(rounds + 1)][1:]


def _run_validate(folder: str, environment: dict[str, str]) -> tuple[float, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-c", VALIDATE, "validate", "benchmark.sql"]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def measure(size: int, rounds: int) -> str:
    """Medians for files of a size, as a row of the table."""
    text = file_of(size)
    steps: tuple[Callable[[], object], ...] = (
        lambda: split_all(Source(file="benchmark.sql", text=text)),
        lambda: parse_all(text),
        lambda: check_all(text),
    )
    cut, parse, check = (statistics.median(seconds(step) for _ in range(rounds)) for step in steps)
    runs = validate(text, rounds)
    whole, wall = (statistics.median(run[index] for run in runs) for index in (0, 1))
    each_ms = [f"{found / size * 1e3:.2f}" for found in (parse, check)]
    return (
        f"| {size:,} | {cut:.2f} | {parse:.2f} | {each_ms[0]} | {check:.2f} | {each_ms[1]} "
        f"| {whole:.2f} | {wall:.2f} |"
    )


def main() -> None:
    """Measure and write the results; with --profile, where the time of the largest file goes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--statements", type=int, nargs="+", default=SIZES)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", default="", help="what else ran on the machine, for the result")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    check_all(file_of(len(KINDS)))  # imports and caches are not what is measured
    if options.profile:
        profile = cProfile.Profile()
        profile.runcall(check_all, file_of(max(options.statements)))
        pstats.Stats(profile).sort_stats("cumulative").print_stats(40)
        return
    rows = [measure(size, options.rounds) for size in options.statements]
    lines = [
        "# Static checks",
        "",
        f"CPU time, medians of {options.rounds} rounds; validate is the whole command, in a process of its own. {GOAL}",
        "",
        "| statements | cut, s | parse, s | parse, ms each | check, s | check, ms each | validate, s | wall clock, s |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
        *rows,
        "",
        f"{describe_machine()}{options.beside and f'; beside: {options.beside}'}",
    ]
    text = "\n".join(lines) + "\n"
    (options.results / "parsing.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
