"""`make demo`: a broker, a million skewed orders, `examples/quickstart.sql` on them, and Spark alone beside it.

Everything it starts ends with it, also on Ctrl-C and failure. Results stay in `.penstock/demo`.
"""

from __future__ import annotations

import argparse
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.table import Table

from examples.demo.orders import Shape, write_orders
from examples.demo.pipeline import Outcome, PipelineFailedError, run_pipeline
from examples.demo.spark_alone import kept_by_window, start_shared_spark
from penstock.catalog.errors import PenstockError
from penstock.connector.kafka.broker.broker import EmbeddedBroker
from penstock.sql.spark_process.jvm import end_jvm

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "quickstart.sql"
TOPIC = "orders"
FIRST_WINDOWS = 5

QUICK_START = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
"""A run of a minute ends before Java's second compiler has paid back; it takes a third of the time otherwise."""

CONSOLE = Console(highlight=False)
STARTED = time.monotonic()


def main() -> int:
    """Exit status: 0 done and nothing lost, 1 failed or rows lost, 130 interrupted."""
    arguments = parse_arguments()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("penstock.connector.jvm.jars").setLevel(logging.INFO)
    logging.getLogger("py4j").setLevel(logging.ERROR)
    signal.signal(signal.SIGTERM, interrupt)
    try:
        return run(arguments)
    except KeyboardInterrupt:
        say("interrupted; everything is stopped")
        return 130
    except PipelineFailedError as error:
        say(f"[red]{error}[/red]")
        return 1
    except PenstockError as error:
        CONSOLE.print(f"[red]error:[/red] {error.message}")
        if error.hint:
            CONSOLE.print(f"help: {error.hint}")
        return 1


def parse_arguments() -> argparse.Namespace:
    """The few things a person may change."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--orders", type=int, default=1_000_000)
    parser.add_argument(
        "--batch", type=int, default=125_000, help="records a micro-batch, for both"
    )
    default = ROOT / ".penstock" / "demo"
    parser.add_argument(
        "--folder", type=Path, default=default, help="project folder, emptied first"
    )
    parser.add_argument(
        "--plot", type=Path, help="where to draw the result, default skew.png in the folder"
    )
    return parser.parse_args()


def run(arguments: argparse.Namespace) -> int:
    """The demo itself; the broker and Spark end with it however it ends."""
    folder = arguments.folder.absolute()
    picture = (arguments.plot or folder / "skew.png").absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.chdir(folder)  # the project of `penstock run`
    shape = Shape(orders=arguments.orders)
    say("starting a Kafka broker and, beside it, Spark")
    try:
        with ThreadPoolExecutor(1) as beside, broker_with_orders(folder / "kafka", shape) as topic:
            spark = start_shared_spark(folder / ".penstock" / "logs", QUICK_START)
            say("Spark runs, for both sides of the comparison")
            sent = topic.orders.result()
            say(f"penstock run {SCRIPT.relative_to(ROOT)}")
            variables = {
                "bootstrap": topic.broker.bootstrap,
                "topic": TOPIC,
                "batch": str(arguments.batch),
            }
            outcome = run_pipeline(SCRIPT, folder, variables)
            show_windows(outcome)
            say("the same topic through Spark's own Kafka source and watermark")
            drawing = beside.submit(import_module, "examples.demo.picture")
            kept = kept_by_window(
                spark,
                topic.broker.bootstrap,
                TOPIC,
                arguments.batch,
                folder / "spark",
                show_batch,
            )
    finally:
        end_jvm()
        shutil.rmtree(folder / "kafka", ignore_errors=True)
    show_comparison(sent, outcome, kept)
    drawing.result().draw(outcome.by_window(), kept, shape.spans(), picture)
    say(f"tables in {shown(folder)}, picture in {shown(picture)}; broker and Spark are stopped")
    return 0 if outcome.kept == outcome.stored == sent and outcome.dropped == 0 else 1


@dataclass(frozen=True, slots=True)
class Topic:
    """A broker that is starting, and the orders that are written once it runs."""

    broker: EmbeddedBroker
    orders: Future[int]


@contextmanager
def broker_with_orders(folder: Path, shape: Shape) -> Iterator[Topic]:
    """Start a broker and write the orders while Spark starts; both have an end when the block has."""
    broker = EmbeddedBroker(folder)

    def write() -> int:
        broker.start()
        say(f"broker on {broker.bootstrap}; writing {shape.orders:,} orders")
        sent = write_orders(broker.bootstrap, TOPIC, shape)
        say(
            f"topic '{TOPIC}': {sent:,} orders in {shape.partitions} partitions, hours of event time apart"
        )
        return sent

    with ThreadPoolExecutor(1) as writer:
        orders = writer.submit(write)
        try:
            yield Topic(broker, orders)
        finally:
            wait([orders])
            broker.stop()


def show_windows(outcome: Outcome) -> None:
    """The first rows of the aggregate."""
    table = Table(title="the first windows in the Delta table 'revenue'", title_justify="left")
    for name in outcome.revenue.column_names:
        table.add_column(name, justify="right" if name in {"orders", "revenue"} else "left")
    rows = outcome.revenue.sort_by([("window_start", "ascending"), ("product", "ascending")])
    for row in rows.slice(0, FIRST_WINDOWS).to_pylist():
        table.add_row(
            *(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values())
        )
    CONSOLE.print(table)


def show_batch(batch: int, kept: int) -> None:
    """One line a batch of the comparison."""
    say(f"  batch {batch}: {kept:,} rows kept so far")


def show_comparison(sent: int, outcome: Outcome, spark: Mapping[datetime, int]) -> None:
    """Rows read, kept and dropped, side by side."""
    table = Table(title="rows of the topic in ten-minute windows", title_justify="left")
    for name in ("", "rows read", "rows kept", "rows dropped as late"):
        table.add_column(name, justify="right" if name else "left")
    kept = sum(spark.values())
    table.add_row("Penstock", f"{outcome.read:,}", f"{outcome.kept:,}", f"{outcome.dropped:,}")
    table.add_row("Spark's own watermark", f"{sent:,}", f"{kept:,}", f"{sent - kept:,}")
    CONSOLE.print(table)
    CONSOLE.print(f"and {outcome.stored:,} orders appended to the Delta table 'all_orders'")


def say(text: str) -> None:
    """One line with the seconds since the start."""
    CONSOLE.print(f"[dim]{time.monotonic() - STARTED:6.1f} s[/dim]  {text}", soft_wrap=True)


def shown(path: Path) -> str:
    """A path as a person in the checkout would write it."""
    path = path.absolute()
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """Make SIGTERM do what Ctrl-C does."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
