"""`python -m benchmarks.maintained`: what a maintained GROUP BY costs a batch beside Spark's update mode.

Parquet files are the stream, one a batch: the first fills the state with its keys, a second is the warm-up, the
others count; keys of batches lie all over the state. The same SELECT k, SUM(v), COUNT(*) three times: in update
mode, maintained as sums, and maintained with all rows kept, as MIN or COUNT DISTINCT over changes need it. Results go
nowhere. Medians and all batches go to `results/maintained.md` and `maintained.json`; with `--plot` the time of each
batch, and the memory of all processes behind it, to `maintained.png`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp, parse_one

from benchmarks.contestants import SPARK_CONF
from benchmarks.cpu import resident_bytes
from benchmarks.machine import describe_machine, machine
from penstock.sql.checkpoint.directory import PlannedBatches
from penstock.sql.dialect.flink.dialect import Flink
from penstock.sql.incremental.describe import FOLDER
from penstock.sql.incremental.keyed.files.manifest import FOLDER as KEYED
from penstock.sql.incremental.keyed.operator import RunBySpark
from penstock.sql.incremental.keyed.runtime.run import KeyedRun, keyed_plan
from penstock.sql.incremental.operators.query import IncrementalRun
from penstock.sql.incremental.stages import (
    INPUT_INDEX,
    INPUT_TIME,
    IncrementalQuery,
    Measure,
    RecomputeOperator,
    StageInput,
    StreamInput,
    input_column,
)
from penstock.sql.plan.rules.flow import OperatorKind, UpdatingOperator
from penstock.sql.spark_process.spark_session import start_spark

RESULTS = Path(__file__).resolve().parent / "results"
STRIDE = 7_368_787
"""A prime: multiples of it visit every key once, in no order."""
WAYS = ("update mode", "anew, sums", "anew, rows", "keyed, sums", "keyed, rows")
"""Spark's own operator; stages that compute changed keys anew by jobs of Spark; keyed operators in one job."""


SHOWN = 60
"""Batches that the page lists one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """The batches of a way that count: their times, and the memory of all processes behind each."""

    ms: list[int]
    bytes: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Keys in the state, rows of a batch."""

    keys: int
    batch: int


def main() -> None:
    """Measure, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--batch", type=int, nargs="+", default=[100, 10_000, 200_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--name", default="maintained", help="of the files of results")
    parser.add_argument("--plot", action="store_true", help="draw the batches, too")
    arguments = parser.parse_args()
    sizes = [Size(keys=k, batch=b) for k in arguments.keys for b in arguments.batch]
    conf = {
        **SPARK_CONF,
        "spark.log.level": "OFF",
        "spark.sql.streaming.numRecentProgressUpdates": str(arguments.rounds + 10),
    }
    spark = start_spark(conf=conf)
    found: dict[Size, dict[str, Runs]] = {}
    try:
        for size in sizes:
            # a merge beside the batches may go on for a while, and write there
            with tempfile.TemporaryDirectory(
                prefix="penstock-bench-", ignore_cleanup_errors=True
            ) as folder:
                found[size] = measure(spark, Path(folder), size, arguments.rounds, arguments.ways)
    finally:
        spark.stop()
    text = report(found, arguments.rounds)
    arguments.results.mkdir(parents=True, exist_ok=True)
    (arguments.results / f"{arguments.name}.md").write_text(text, encoding="utf-8")
    if arguments.plot:
        draw(found, arguments.results / f"{arguments.name}.png")
    cases = [
        {"keys": s.keys, "batch": s.batch, "way": way, "ms": runs.ms, "bytes": runs.bytes}
        for s, ways in found.items()
        for way, runs in ways.items()
    ]
    document = json.dumps({"cases": cases, "machine": machine()}, indent=2)
    (arguments.results / f"{arguments.name}.json").write_text(document + "\n", "utf-8")
    print(text)


def measure(
    spark: SparkSession, folder: Path, size: Size, rounds: int, ways: Sequence[str]
) -> dict[str, Runs]:
    """The batches that count, by way."""
    write_stream(spark, folder / "rows", size, rounds)
    found = {}
    for number, way in enumerate(WAYS):
        if way not in ways:
            continue
        found[way] = run(spark, folder, number, rounds)
        median = statistics.median(found[way].ms)
        print(
            f"{size.keys:>10,} keys {size.batch:>8,} rows  {way:18} {median:8,.0f} ms",
            file=sys.stderr,
        )
    return found


def write_stream(spark: SparkSession, path: Path, size: Size, rounds: int) -> None:
    """A file for each batch."""
    rows_of(spark.range(size.keys), "id").coalesce(1).write.mode("append").parquet(str(path))
    # one job for all batches: each of its tasks writes the file of one
    rows = spark.range(0, (rounds + 1) * size.batch, 1, rounds + 1)
    rows = rows_of(rows, f"pmod(id * {STRIDE}L, {size.keys}L)")
    rows.write.mode("append").parquet(str(path))


def rows_of(numbers: DataFrame, key: str) -> DataFrame:
    """Rows of a key and a value."""
    return numbers.selectExpr(f"{key} AS k", "id * 17 % 100000 AS v")


def run(spark: SparkSession, folder: Path, number: int, rounds: int) -> Runs:
    """Run a way over the whole stream."""
    memory: list[int] = []

    def measured(write: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
        def write_and_look(frame: DataFrame, batch_id: int) -> None:
            write(frame, batch_id)
            memory.append(resident_bytes(os.getpid()))

        return write_and_look

    stream = spark.readStream.schema("k BIGINT, v BIGINT").option("maxFilesPerTrigger", 1)
    rows = stream.parquet(str(folder / "rows"))
    checkpoint = str(folder / f"checkpoint{number}")
    if number == 0:
        frame = rows.groupBy("k").agg({"v": "sum", "*": "count"})
        writer = frame.writeStream.outputMode("update").foreachBatch(measured(drop))
    else:
        query = sums() if WAYS[number].endswith("sums") else kept()
        tagged = rows.selectExpr(
            f"0 AS {INPUT_INDEX}",
            f"current_timestamp() AS {INPUT_TIME}",
            f"struct(*) AS {input_column(0)}",
        )
        writer = tagged.writeStream.foreachBatch(
            measured(through(query, checkpoint, keyed=number > 2))
        )
    started = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    started.awaitTermination()
    taken = [int(one["durationMs"]["addBatch"]) for one in started.recentProgress]
    # the first fills the state, the second is the warm-up
    return Runs(ms=taken[2 : 2 + rounds], bytes=memory[2 : 2 + rounds])


def drop(frame: DataFrame, _: int) -> None:
    """Compute a batch's result."""
    frame.write.format("noop").mode("overwrite").save()


def through(
    query: IncrementalQuery, checkpoint: str, *, keyed: bool
) -> Callable[[DataFrame, int], None]:
    """A function for foreachBatch that maintains `query`."""
    if not keyed:
        anew = IncrementalRun(query, f"{checkpoint}/{FOLDER}")

        def write(frame: DataFrame, batch_id: int) -> None:
            with anew.batch(frame, batch_id) as changes:
                drop(changes, batch_id)

        return write
    runs: list[KeyedRun] = []

    planned = PlannedBatches(1)

    def write_keyed(frame: DataFrame, batch_id: int) -> None:
        if not runs:
            plan = keyed_plan(frame.sparkSession, query, frame.schema, 0)
            assert not isinstance(plan, RunBySpark), plan
            runs.append(KeyedRun(query, plan, f"{checkpoint}/{KEYED}"))
        batch = planned.read(frame.sparkSession, checkpoint, batch_id)
        with runs[0].batch(frame, batch_id, batch.time_ms, records=batch.records) as changes:
            drop(changes, batch_id)

    return write_keyed


def sums() -> IncrementalQuery:
    """The sums of each key are kept."""
    value = parse_one("v", dialect=Flink)
    measures = (Measure(name="total", value=value),)
    return maintained(
        StageInput(name="rows", key=("k",), measures=measures),
        "SELECT k, total, __n AS n FROM rows",
    )


def kept() -> IncrementalQuery:
    """All rows are kept."""
    return maintained(
        StageInput(name="rows", key=("k",)),
        "SELECT k, SUM(v) AS total, COUNT(*) AS n FROM rows GROUP BY k",
    )


def maintained(given: StageInput, sql: str) -> IncrementalQuery:
    """One aggregation over inserts."""
    query = parse_one(sql, dialect=Flink)
    assert isinstance(query, exp.Query)
    stage = RecomputeOperator(
        name="totals",
        inputs=(given,),
        query=query,
        key=("k",),
        mechanism=UpdatingOperator(
            way=OperatorKind.AGGREGATE, key=("k",), state="what the benchmark says"
        ),
    )
    feed = StreamInput(name="rows", columns=("k", "v"))
    return IncrementalQuery(feeds=(feed,), stages=(stage,), columns=("k", "total", "n"), key=("k",))


def draw(found: Mapping[Size, Mapping[str, Runs]], path: Path) -> None:
    """The time of each batch, and the memory behind it."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, (times, memory) = plt.subplots(2, 1, figsize=(8, 6), dpi=120, sharex=True)
    for size, ways in found.items():
        for way, runs in ways.items():
            label = f"{size.keys:,} keys, {way}"
            times.plot(runs.ms, label=label, linewidth=0.8)
            memory.plot([one / 2**30 for one in runs.bytes], label=label, linewidth=0.8)
    times.set_ylabel("ms a batch")
    memory.set_ylabel("GB, all processes")
    memory.set_xlabel("batch")
    for axes in (times, memory):
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    times.legend(frameon=False, fontsize="small")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def batches_of(runs: Runs) -> str:
    """All batches, or what they have been at the beginning and the end."""
    if len(runs.ms) <= SHOWN:
        return ", ".join(str(one) for one in runs.ms)
    first, last = (statistics.median(part) for part in (runs.ms[:50], runs.ms[-50:]))
    ordered = sorted(runs.ms)
    return (
        f"first 50: {first:,.0f}, last 50: {last:,.0f}; p95 {ordered[len(ordered) * 95 // 100]:,}, most "
        f"{ordered[-1]:,}; memory {min(runs.bytes) / 2**30:.1f} to {max(runs.bytes) / 2**30:.1f} GB"
    )


def report(found: Mapping[Size, Mapping[str, Runs]], rounds: int) -> str:
    """The result as a page."""
    what = (
        f"SELECT k, SUM(v), COUNT(*) GROUP BY k: time of a batch without planning its offsets, median of {rounds} "
        "batches after a warm-up, all in one run of `python -m benchmarks.maintained`."
    )
    lines = [
        "# Maintained queries",
        "",
        what,
        "",
        "| keys in the state | rows of a batch | | ms a batch | rows/s | batches, ms |",
        "|---:|---:|---|---:|---:|---|",
    ]
    for size, ways in found.items():
        for way, runs in ways.items():
            median = statistics.median(runs.ms)
            shown = batches_of(runs)
            lines.append(
                f"| {size.keys:,} | {size.batch:,} | {way} | {median:,.0f} | "
                f"{size.batch / median * 1000:,.0f} | {shown} |"
            )
    return "\n".join([*lines, "", describe_machine(), ""])


if __name__ == "__main__":
    main()
