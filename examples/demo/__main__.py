"""`make demo`: a broker, a million skewed orders, `examples/quickstart.sql` on them, and Spark alone beside it.

Everything it starts ends with it, also on Ctrl-C and failure. Results stay in `.penstock/demo`.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.table import Table

from examples.demo.orders import Shape, write_orders
from examples.demo.pipeline import Outcome, PipelineFailedError, run_pipeline
from examples.demo.spark_alone import kept_by_window
from penstock.catalog.errors import PenstockError
from penstock.connector.kafka.broker.broker import EmbeddedBroker

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
    """The demo itself; the broker ends with it however it ends."""
    folder = arguments.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shape = Shape(orders=arguments.orders)
    say("starting a Kafka broker")
    try:
        with EmbeddedBroker(folder / "kafka") as broker:
            say(f"broker on {broker.bootstrap}; writing {shape.orders:,} orders")
            sent = write_orders(broker.bootstrap, TOPIC, shape)
            say(
                f"topic '{TOPIC}': {sent:,} orders in {shape.partitions} partitions, hours of event time apart"
            )
            say(f"penstock run {SCRIPT.relative_to(ROOT)}")
            variables = {
                "bootstrap": broker.bootstrap,
                "topic": TOPIC,
                "batch": str(arguments.batch),
            }
            outcome = run_pipeline(SCRIPT, folder, variables, QUICK_START)
            show_windows(outcome)
            say("the same topic through Spark's own Kafka source and watermark")
            spark = kept_by_window(
                broker.bootstrap, TOPIC, arguments.batch, folder / "spark", QUICK_START, show_batch
            )
    finally:
        shutil.rmtree(folder / "kafka", ignore_errors=True)
    show_comparison(sent, outcome, spark)
    picture = arguments.plot or folder / "skew.png"
    draw_picture(outcome, spark, shape, picture)
    say(f"tables in {shown(folder)}, picture in {shown(picture)}; broker and Spark are stopped")
    return 0 if outcome.kept == outcome.stored == sent and outcome.dropped == 0 else 1


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


def draw_picture(outcome: Outcome, spark: Mapping[datetime, int], shape: Shape, path: Path) -> None:
    """Draw with matplotlib, which takes a second to load: only now."""
    from examples.demo.picture import draw

    draw(outcome.by_window(), spark, shape.spans(), path)


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
