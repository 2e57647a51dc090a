"""What a large catalog costs: `python -m benchmarks.catalog`.

10,000 tables of 50 columns in one database, on SQLite and, where it is installed, on PostgreSQL: SHOW TABLES, resolving
a name, DESCRIBE, and the start of a process up to its first name. Medians, and the middle half, in ms. Written to
`results/catalog.md` and `catalog.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.machine import describe_machine
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.errors import UnknownObjectError
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import PhysicalColumn, PrimaryKey, Schema, Table, Watermark
from penstock.catalog.model.type_parser import parse_type
from penstock.catalog.store.database import Database
from penstock.catalog.store.objects import create_object
from penstock.catalog.store.sql_catalog import SqlCatalog
from penstock.sql.convert.statement import parse_statement
from penstock.sql.ddl.apply_ddl import is_definition
from penstock.sql.execution.ddl import define, listing
from penstock.sql.script.splitter import split
from tests.postgres_server import USER, programs, running

RESULTS = Path(__file__).resolve().parent / "results"
TABLES = 10_000
COLUMNS = 50
ROUNDS = {"SHOW TABLES": 20, "a name that is not there": 5, "start of a process": 10}
USUAL_ROUNDS = 200
GOAL_MS = 5
"""For resolving a name."""

TYPES = ("BIGINT", "STRING", "DECIMAL(18, 4)", "TIMESTAMP(3)", "ROW<a INT, b ARRAY<STRING>>")

START = """
import sys, time
began = time.perf_counter()
from penstock.catalog.definitions.resolver import Namespace
from penstock.catalog.store.sql_catalog import SqlCatalog
imported = time.perf_counter()
names = Namespace(SqlCatalog(sys.argv[1]))
names.lookup(names.resolve([sys.argv[2]]))
print((imported - began) * 1000, (time.perf_counter() - imported) * 1000)
"""

Times = dict[str, list[float]]


def table(number: int) -> Table:
    """A table as an event stream has one."""
    columns = [PhysicalColumn(name="id", type=parse_type("BIGINT NOT NULL"))]
    for index in range(1, COLUMNS):
        kind = parse_type(TYPES[index % len(TYPES)])
        columns.append(
            PhysicalColumn(name=f"column_{index}", type=kind, comment=f"what {index} says")
        )
    return Table(
        identifier=Identifier(
            catalog="default_catalog", database="default_database", name=name_of(number)
        ),
        schema=Schema(
            columns=tuple(columns),
            primary_key=PrimaryKey(columns=("id",)),
            watermark=Watermark(column="column_3", expression="`column_3` - INTERVAL '5' SECOND"),
        ),
        options=(("connector", "kafka"), ("topic", f"events-{number}"), ("value.format", "json")),
        comment=f"events of kind {number}",
    )


def name_of(number: int) -> str:
    """Of one of the tables."""
    return f"events_{number:05}"


def fill(url: str) -> float:
    """Make the tables in one transaction; gives ms for each."""
    database = Database(url)
    began = time.perf_counter()

    def make(connection: Any) -> None:
        for number in range(TABLES):
            create_object(connection, table(number), if_not_exists=False, replace=False)

    database.change(make)
    database.close()
    return (time.perf_counter() - began) * 1000 / TABLES


def measure(url: str) -> Times:
    """Time everything, ms."""
    names = Namespace(SqlCatalog(url))
    chance = random.Random(1)

    def any_name() -> str:
        return name_of(chance.randrange(TABLES))

    def run(sql: str) -> None:
        (text,) = split(sql, "catalog.sql")
        statement = parse_statement(text, names)
        if is_definition(statement):
            define(statement, names)
        else:
            assert listing(statement, names, {}).rows, "it has an answer"

    def miss() -> None:
        with suppress(UnknownObjectError):
            names.lookup(names.resolve(["event_12345"]))

    cases: dict[str, Callable[[], object]] = {
        "SHOW TABLES": lambda: run("SHOW TABLES"),
        "resolve a name": lambda: names.lookup(names.resolve([any_name()])),
        "DESCRIBE": lambda: run(f"DESCRIBE {any_name()}"),
        "a name that is not there": miss,
        "ALTER TABLE ... SET": lambda: run(f"ALTER TABLE {any_name()} SET ('topic' = 'other')"),
    }
    times: Times = {}
    for case, step in cases.items():
        step()
        times[case] = [timed(step) for _ in range(ROUNDS.get(case, USUAL_ROUNDS))]
    return times | measure_start(url, any_name)


def timed(step: Callable[[], object]) -> float:
    """Ms of one call."""
    began = time.perf_counter()
    step()
    return (time.perf_counter() - began) * 1000


def measure_start(url: str, any_name: Callable[[], str]) -> Times:
    """New processes: what loading the modules takes, and opening the catalog up to the first name."""
    loading, opening = [], []
    for _ in range(ROUNDS["start of a process"]):
        command = [sys.executable, "-c", START, url, any_name()]
        told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        loading.append(float(told[0]))
        opening.append(float(told[1]))
    return {"start: load the modules": loading, "start: open, and the first name": opening}


@contextmanager
def stores() -> Iterator[dict[str, str]]:
    """Where the catalogs are, by the database's name."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        urls = {"SQLite": f"sqlite:///{folder}/catalog.db"}
        found = programs()
        if found is None:
            yield urls
            return
        with running(found) as server:
            yield urls | {"PostgreSQL": f"postgresql://{USER}@127.0.0.1:{server.port}/postgres"}


def main() -> int:
    """Exit status 0 when resolving a name is as quick as asked, on each database."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.catalog", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    measured: dict[str, dict[str, dict[str, float]]] = {}
    with stores() as urls:
        for database, url in urls.items():
            each = fill(url)
            measured[database] = {case: spread(times) for case, times in measure(url).items()}
            measured[database]["make a table, of 10,000 at once"] = spread([each] * 2)
    text = report(measured)
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / "catalog.md").write_text(text, encoding="utf-8")
    (arguments.results / "catalog.json").write_text(
        json.dumps(measured, indent=2) + "\n", encoding="utf-8"
    )
    print(text)
    slow = [name for name, cases in measured.items() if cases["resolve a name"]["most"] >= GOAL_MS]
    return 1 if slow else 0


def spread(times: list[float]) -> dict[str, float]:
    """Median, quartiles, and what 95 of 100 stay below."""
    low, median, high = statistics.quantiles(times, n=4, method="inclusive")
    most = statistics.quantiles(times, n=20, method="inclusive")[-1]
    values = {"low": low, "median": median, "high": high, "most": most}
    return {name: round(value, 2) for name, value in values.items()}


def report(measured: dict[str, dict[str, dict[str, float]]]) -> str:
    """The table."""
    what = (
        f"{TABLES:,} tables of {COLUMNS} columns in one database, by `python -m benchmarks.catalog`. ms: the median, "
        f"the middle half, and what 95 of 100 stay below. A name is to be resolved in less than {GOAL_MS} ms."
    )
    lines = ["# The catalog", "", what, ""]
    lines += ["| database | what | median | middle half | 95 of 100 |", "|---|---|---:|---:|---:|"]
    for database, cases in measured.items():
        for case, values in cases.items():
            half = f"{values['low']:,.2f} to {values['high']:,.2f}"
            lines.append(
                f"| {database} | {case} | {values['median']:,.2f} | {half} | {values['most']:,.2f} |"
            )
    load = f"load average {os.getloadavg()[0]:.1f} in the end"
    return "\n".join([*lines, "", f"{describe_machine()}, {load}", ""])


if __name__ == "__main__":
    raise SystemExit(main())
