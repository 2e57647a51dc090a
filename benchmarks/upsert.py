"""`python -m benchmarks.upsert`: what upserts into Delta cost beside appends, by the share of keys that are updated.

One table for each case with the same rows to begin with, in ten files; every round writes a batch into each table in
turn, a warm-up and then the rounds that count. Keys that are there lie all over the table, which is the worst case:
without deletion vectors each file that holds one is written again. For `clustering.columns` the keys of a batch are
neighbours, in a table whose files each hold keys from everywhere, and in one that OPTIMIZE has laid out by them.
Medians and all runs go to `results/upsert.md` and `upsert.json`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from benchmarks.contestants import SPARK_CONF
from benchmarks.machine import describe_machine, machine
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import PhysicalColumn, PrimaryKey, Schema, Table
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.contract import Sink
from penstock.connector.delta.connector import DeltaConnector
from penstock.connector.spark.session import configured
from penstock.connector.spark.types import spark_schema
from penstock.sql.spark_process.spark_session import start_spark

RESULTS = Path(__file__).resolve().parent / "results"
SHARES = (0.0, 0.01, 0.1, 1.0)
COLUMNS = {
    "id": "BIGINT",
    "price": "BIGINT",
    "channel": "STRING",
    "url": "STRING",
    "at": "TIMESTAMP_LTZ(3)",
}
FILES = 10
STRIDE = 7_368_787
"""A prime: multiples of it visit every key of the table once, in no order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is written: `share` of a batch's keys are there already, None appends to a table without a key.

    `neighbours`: those keys follow each other, and the table's rows lie in no order, unless it is `clustered`.
    """

    share: float | None
    vectors: bool = False
    neighbours: bool = False
    clustered: bool = False

    @property
    def title(self) -> str:
        """How the report names it."""
        if self.share is None:
            return "append, no PRIMARY KEY"
        parts = [f"upsert, {self.share:.0%} updates{' of neighbours' if self.neighbours else ''}"]
        parts += ["deletion vectors"] if self.vectors else []
        parts += ["clustered"] if self.clustered else []
        return ", ".join(parts)


CASES = (
    Case(share=None),
    *(Case(share=share, vectors=vectors) for vectors in (False, True) for share in SHARES),
    *(Case(share=1.0, neighbours=True, clustered=clustered) for clustered in (False, True)),
)


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="in each table at the start")
    parser.add_argument("--batch", type=int, default=200_000, help="rows of a batch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if not 0 < arguments.batch <= arguments.rows:
        parser.error("a batch has at least one row, and at most as many as a table")
    spark = start_spark(conf={**SPARK_CONF, "spark.log.level": "OFF"})
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            seconds = measure(spark, Path(folder), arguments)
    finally:
        spark.stop()
    text = report(seconds, arguments)
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / "upsert.md").write_text(text, encoding="utf-8")
    document = {
        "rows": arguments.rows,
        "batch": arguments.batch,
        "seconds": {case.title: runs for case, runs in seconds.items()},
        "machine": machine(),
    }
    (arguments.results / "upsert.json").write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    print(text)


def measure(
    spark: SparkSession, folder: Path, arguments: argparse.Namespace
) -> Mapping[Case, list[float]]:
    """Seconds of the rounds that count."""
    rows, batch = arguments.rows, arguments.batch
    sinks = {case: filled(spark, case, folder / f"t{n}", rows) for n, case in enumerate(CASES)}
    seconds: dict[Case, list[float]] = {case: [] for case in CASES}
    for number in range(arguments.rounds + 1):
        for case, sink in sinks.items():
            frame = batch_of(spark, case, number, rows, batch)
            began = time.perf_counter()
            sink.write(frame)
            took = time.perf_counter() - began
            name = f"round {number}" if number else "warm-up"
            print(f"{name}  {case.title:50} {batch / took:12,.0f} rows/s", file=sys.stderr)
            if number:
                seconds[case].append(took)
    return seconds


def filled(spark: SparkSession, case: Case, path: Path, rows: int) -> Sink:
    """A table with the rows that every case begins with."""
    key = None if case.share is None else PrimaryKey(columns=("id",))
    options = {"connector": "delta", "path": str(path)}
    if case.vectors:
        options["delta.enableDeletionVectors"] = "true"
    if case.clustered:
        options["clustering.columns"] = "id"
    columns = tuple(
        PhysicalColumn(name=name, type=parse_type(text)) for name, text in COLUMNS.items()
    )
    table = Table(
        identifier=Identifier(catalog="c", database="d", name=path.name),
        schema=Schema(columns=columns, primary_key=key),
        options=tuple(options.items()),
    )
    sink = DeltaConnector(project=path.parent).sink(table)
    sink.prepare(spark, spark_schema(columns))
    numbers = spark.range(0, rows, 1, FILES)
    # round robin: each file holds keys from everywhere
    numbers = numbers.repartition(FILES) if case.neighbours else numbers
    bids(numbers, "id").write.format("delta").mode("append").save(str(path))
    if case.clustered:
        optimize(spark, path)
    return sink


def optimize(spark: SparkSession, path: Path) -> None:
    """Lay a table out by its clustering columns, in about as many files as it had."""
    size = sum(file.stat().st_size for file in path.glob("*.parquet"))
    limit = {"spark.databricks.delta.optimize.maxFileSize": str(size // FILES)}
    with configured(spark, limit):
        DeltaTable.forPath(spark, str(path)).optimize().executeCompaction()


def batch_of(spark: SparkSession, case: Case, number: int, rows: int, batch: int) -> DataFrame:
    """The rows of one round: first those whose keys are there, then new ones above all others."""
    known = round(batch * (case.share or 0.0))
    place = (
        f"id + {number * STRIDE}L" if case.neighbours else f"(id + {number * batch}L) * {STRIDE}L"
    )
    old = f"pmod({place}, {rows}L)"
    key = f"CASE WHEN id < {known} THEN {old} ELSE {rows + number * batch}L + id END"
    return bids(spark.range(0, batch, 1, 2), key)


def bids(numbers: DataFrame, key: str) -> DataFrame:
    """Rows of about 100 bytes."""
    return numbers.selectExpr(
        f"{key} AS id",
        "id * 17 % 100000 AS price",
        "concat('channel-', id % 1000) AS channel",
        "concat('https://www.example.org/', sha1(CAST(id AS STRING)), '/item.htm') AS url",
        "timestamp_millis(1767225600000 + id) AS at",
    )


def report(seconds: Mapping[Case, list[float]], arguments: argparse.Namespace) -> str:
    """The result as a page."""
    append = statistics.median(seconds[CASES[0]])
    what = (
        f"Batches of {arguments.batch:,} rows into tables of {arguments.rows:,} in {FILES} files, updated keys all "
        "over the table (but for neighbours, which follow each other, while each file holds keys from everywhere "
        f"unless it is clustered); median of {arguments.rounds} rounds after a warm-up, all in one run of "
        "`python -m benchmarks.upsert`."
    )
    lines = [
        "# Upserts into Delta",
        "",
        what,
        "",
        "| | rows/s | times an append | runs, s |",
        "|---|---:|---:|---|",
    ]
    for case, runs in seconds.items():
        median = statistics.median(runs)
        shown = ", ".join(f"{one:.2f}" for one in runs)
        lines.append(
            f"| {case.title} | {arguments.batch / median:,.0f} | {median / append:.1f} | {shown} |"
        )
    return "\n".join([*lines, "", describe_machine(), ""])


if __name__ == "__main__":
    main()
