"""`python -m benchmarks.upsert`: what upserts into Delta cost beside appends, by the share of keys that are updated.

One table for each case with the same rows to begin with; every round writes a batch into each table in turn, as a query
does, a warm-up and then the rounds that count. Keys that are there lie all over the table, which is the worst case: for
MERGE without deletion vectors each file that holds one is written again. Then others write one of the tables: DELETE,
OPTIMIZE and VACUUM of Spark, with batches in between; Spark, delta-rs and DuckDB read it, and have to find what a model
says. Medians and all runs go to `results/upsert.md` and `upsert.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import DataFrame, SparkSession

from benchmarks.contestants import SPARK_CONF
from benchmarks.machine import describe_machine, machine
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import PhysicalColumn, PrimaryKey, Schema, Table
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.contract import MicroBatch, Sink
from penstock.connector.delta.connector import DeltaConnector
from penstock.connector.delta.files.deletion_vector import VectorFolder
from penstock.connector.delta.files.live_files import LiveFiles
from penstock.connector.spark.session import configured
from penstock.connector.spark.types import spark_schema
from penstock.connector.storage import open_folder
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
FILES = 20
STRIDE = 7_368_787
"""A prime: multiples of it visit every key of the table once, in no order."""
PRICES = 100_000
SUMS = "COUNT(*), SUM(id), SUM(price), SUM(id % 1000003 * price)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is written: `share` of a batch's keys are there already, None appends to a table without a key.

    `merge`: by MERGE; `vectors`: the table has deletion vectors.
    """

    share: float | None
    merge: bool = False
    vectors: bool = True

    @property
    def title(self) -> str:
        """How the report names it."""
        if self.share is None:
            return "append, no PRIMARY KEY"
        how = "by position"
        if self.merge:
            how = "MERGE, deletion vectors" if self.vectors else "MERGE"
        return f"upsert, {self.share:.0%} updates, {how}"


CASES = (
    Case(share=None),
    *(Case(share=share) for share in SHARES),
    Case(share=0.1, merge=True),
    Case(share=0.1, merge=True, vectors=False),
)
CHECKED = Case(share=0.1)


@dataclass(slots=True, kw_only=True)
class Filled:
    """The table of a case, and the batches that went into it."""

    case: Case
    path: Path
    sink: Sink
    batches: int = field(default=0)

    def write(self, spark: SparkSession, rows: int, batch: int) -> float:
        """Write the next batch, and return the seconds that it took."""
        frame = batch_of(spark, self.case, self.batches, rows, batch)
        offsets = self.path.parent / f"{self.path.name}-checkpoint" / "offsets"
        offsets.mkdir(parents=True, exist_ok=True)
        (offsets / str(self.batches)).write_text(f"{self.batches}", encoding="utf-8")
        micro_batch = MicroBatch(
            spark=spark,
            checkpoint=str(offsets.parent),
            query_id="b2c5b5a0-0000-4000-8000-000000000000",
            batch_id=self.batches,
        )
        began = time.perf_counter()
        self.sink.write_batch(frame, micro_batch)
        took = time.perf_counter() - began
        self.batches += 1
        return took


def main() -> None:
    """Measure, check, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000, help="in each table at the start")
    parser.add_argument("--batch", type=int, default=50_000, help="rows of a batch")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--merge-rounds", type=int, default=1, help="with MERGE, without a warm-up")
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    if not 0 < arguments.batch <= arguments.rows:
        parser.error("a batch has at least one row, and at most as many as a table")
    spark = start_spark(conf={**SPARK_CONF, "spark.log.level": "OFF"})
    try:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            tables = filled(spark, Path(folder), arguments.rows)
            seconds = measure(spark, tables, arguments)
            checks = check(spark, tables[CHECKED], arguments)
    finally:
        spark.stop()
    text = report(seconds, checks, arguments)
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / "upsert.md").write_text(text, encoding="utf-8")
    document = {
        "rows": arguments.rows,
        "batch": arguments.batch,
        "seconds": {case.title: runs for case, runs in seconds.items()},
        "checks": checks,
        "machine": machine(),
    }
    (arguments.results / "upsert.json").write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    print(text)


# --- figures ---


def measure(
    spark: SparkSession, tables: Mapping[Case, Filled], arguments: argparse.Namespace
) -> Mapping[Case, list[float]]:
    """Seconds of the rounds that count."""
    seconds: dict[Case, list[float]] = {case: [] for case in tables}
    for number in range(arguments.rounds + 1):
        for case, table in tables.items():
            if case.merge and number >= arguments.merge_rounds:
                continue
            took = table.write(spark, arguments.rows, arguments.batch)
            name = f"round {number}" if number else "warm-up"
            rate = arguments.batch / took
            print(f"{name}  {case.title:45} {rate:10,.0f} rows/s {took:6.2f} s", file=sys.stderr)
            if number or case.merge:
                seconds[case].append(took)
    return seconds


def filled(spark: SparkSession, folder: Path, rows: int) -> Mapping[Case, Filled]:
    """A table for each case with the rows that every case begins with."""
    base = folder / "base"
    bids(spark.range(0, rows, 1, FILES), "id", 0).write.format("parquet").save(str(base))
    files = sorted(base.glob("*.parquet"))
    tables: dict[Case, Filled] = {}
    for number, case in enumerate(CASES):
        path = folder / f"t{number}"
        sink = sink_of(spark, case, path)
        # the same files, which nobody changes
        for file in files:
            os.link(file, path / file.name)
        add(path, files)
        tables[case] = Filled(case=case, path=path, sink=sink)
    shutil.rmtree(base)
    return tables


def sink_of(spark: SparkSession, case: Case, path: Path) -> Sink:
    """The sink of a new table."""
    options = {"connector": "delta", "path": str(path)}
    if case.share is not None and not case.vectors:
        options["delta.enableDeletionVectors"] = "false"
    if case.share is not None and case.merge and case.vectors:
        options |= {"delta.enableDeletionVectors": "true", "sink.writer": "spark"}
    key = None if case.share is None else PrimaryKey(columns=("id",))
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
    return sink


def add(path: Path, files: list[Path]) -> None:
    """Commit files to a table as its first rows, with the bounds of their keys."""
    lines = [json.dumps({"commitInfo": {"timestamp": 0, "operation": "WRITE"}})]
    for file in files:
        low, high, rows = duckdb.execute(
            "SELECT MIN(id), MAX(id), COUNT(*) FROM read_parquet(?)", [str(file)]
        ).fetchall()[0]
        stats = {"numRecords": rows, "minValues": {"id": low}, "maxValues": {"id": high}}
        action = {
            "path": file.name,
            "partitionValues": {},
            "size": file.stat().st_size,
            "modificationTime": 0,
            "dataChange": True,
            "stats": json.dumps({**stats, "nullCount": {"id": 0}}),
        }
        lines.append(json.dumps({"add": action}))
    (path / "_delta_log" / f"{1:020}.json").write_text("\n".join(lines) + "\n", "utf-8")


def batch_of(spark: SparkSession, case: Case, number: int, rows: int, batch: int) -> DataFrame:
    """The rows of one round: first those whose keys are there, then new ones above all others."""
    known = round(batch * (case.share or 0.0))
    old = f"pmod((id + {number * batch}L) * {STRIDE}L, {rows}L)"
    key = f"CASE WHEN id < {known} THEN {old} ELSE {rows + number * batch}L + id END"
    return bids(spark.range(0, batch, 1, 2), key, number + 1)


def bids(numbers: DataFrame, key: str, number: int) -> DataFrame:
    """Rows of about 100 bytes, of a round; 0 are those at the start."""
    return numbers.selectExpr(
        f"{key} AS id",
        f"(id * 17 + {number}) % {PRICES} AS price",
        "concat('channel-', id % 1000) AS channel",
        "concat('https://www.example.org/', sha1(CAST(id AS STRING)), '/item.htm') AS url",
        "timestamp_millis(1767225600000 + id) AS at",
    )


# --- rows ---


def check(spark: SparkSession, table: Filled, arguments: argparse.Namespace) -> list[str]:
    """Have others write the table between batches, and compare what readers find with a model; says what agreed."""
    rows, batch = arguments.rows, arguments.batch
    prices = np.full(rows + (table.batches + 3) * batch, -1, np.int64)
    prices[:rows] = np.arange(rows) * 17 % PRICES
    for number in range(table.batches):
        model(prices, table.case, number, rows, batch)
    name = f"delta.`{table.path}`"
    steps = (
        f"DELETE FROM {name} WHERE id % 997 = 5",
        f"OPTIMIZE {name}",
        f"VACUUM {name} RETAIN 0 HOURS",
    )
    with configured(spark, {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}):
        for step in steps:
            spark.sql(step).collect()
            if step.startswith("DELETE"):
                prices[np.arange(len(prices)) % 997 == 5] = -1
            model(prices, table.case, table.batches, rows, batch)
            took = table.write(spark, rows, batch)
            print(f"behind {step.partition(' ')[0]:10} {took:6.2f} s", file=sys.stderr)
    ids = np.flatnonzero(prices >= 0)
    kept = prices[ids]
    expected = (len(ids), int(ids.sum()), int(kept.sum()), int((ids % 1_000_003 * kept).sum()))
    readers = {
        "Spark": by_spark(spark, table.path),
        "delta-rs": by_delta_rs(table.path),
        "DuckDB": by_duckdb(table.path),
    }
    for reader, found in readers.items():
        if found != expected:
            raise AssertionError(f"{reader} finds {found}, the model has {expected}")
    return [f"{reader}: {found[0]:,} rows" for reader, found in readers.items()]


def model(prices: npt.NDArray[np.int64], case: Case, number: int, rows: int, batch: int) -> None:
    """Do what a batch does: the price of each key, -1 where there is none."""
    each = np.arange(batch)
    known = round(batch * (case.share or 0.0))
    keys = np.where(
        each < known, (each + number * batch) * STRIDE % rows, rows + number * batch + each
    )
    prices[keys] = (each * 17 + number + 1) % PRICES


def by_spark(spark: SparkSession, path: Path) -> tuple[int, ...]:
    """What Spark reads."""
    return tuple(map(int, spark.sql(f"SELECT {SUMS} FROM delta.`{path}`").collect()[0]))


def by_delta_rs(path: Path) -> tuple[int, ...]:
    """What delta-rs reads, by its queries: its dataset of Arrow knows no deletion vectors."""
    found = QueryBuilder().register("t", DeltaTable(path)).execute(f"SELECT {SUMS} FROM t")
    return tuple(column[0].as_py() for column in pa.table(found.read_all()).columns)


def by_duckdb(path: Path) -> tuple[int, ...]:
    """What DuckDB reads of the files of the log, without the rows of their deletion vectors.

    Its own reader of Delta is an extension that it downloads.
    """
    live, vectors = LiveFiles(), VectorFolder(folder=path)
    live.begin(-1, ())
    if not live.follow(open_folder(str(path)), DeltaTable(path).version()):
        raise AssertionError("the log has all commits")
    deleted = [(file.path, vectors.read(file.vector)) for file in live if file.vector is not None]
    gone = pa.table(  # noqa: F841  found by DuckDB by its name
        {
            "name": np.repeat([name for name, _ in deleted], [len(at) for _, at in deleted]),
            "at": np.concatenate([at for _, at in deleted]),
        }
    )
    (found,) = (
        duckdb.connect()
        .execute(
            f"SELECT {SUMS} FROM read_parquet($files, file_row_number = true, filename = true) f "
            "ANTI JOIN gone ON gone.at = f.file_row_number AND gone.name = parse_filename(f.filename)",
            {"files": [str(path / file.path) for file in live]},
        )
        .fetchall()
    )
    return tuple(map(int, found))


def report(
    seconds: Mapping[Case, list[float]], checks: list[str], arguments: argparse.Namespace
) -> str:
    """The result as a page."""
    append = statistics.median(seconds[CASES[0]])
    what = (
        f"Batches of {arguments.batch:,} rows into tables of {arguments.rows:,} in {FILES} files, updated keys all "
        f"over the table; median of {arguments.rounds} rounds after a warm-up (of MERGE"
        f" {arguments.merge_rounds}, without it), all in one run of `python -m benchmarks.upsert`."
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
    checked = (
        f"Then DELETE, OPTIMIZE and VACUUM (retaining nothing) by Spark, with a batch behind each ({CHECKED.title}): "
        f"count and sums are those of a model for {'; '.join(checks)}."
    )
    return "\n".join([*lines, "", checked, "", describe_machine(), ""])


if __name__ == "__main__":
    main()
