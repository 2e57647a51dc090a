"""`python -m examples.bi`: a broker, a shop's topics, `penstock serve --sql star.sql`, and a dashboard's queries on it.

The queries go over the network as a BI tool's do, with PyHive. Everything it starts ends with it, also on Ctrl-C and
failure. Tables stay in `.penstock/bi`.
"""

from __future__ import annotations

import argparse
import logging
import secrets
import shutil
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from pyhive import hive
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from examples.bi.dashboard import Answer, Dashboard, TornError
from examples.bi.generator import Shop, fill
from examples.bi.server import BiServer, ServerFailedError
from penstock.catalog.errors import PenstockError
from penstock.connector.kafka.broker.broker import EmbeddedBroker

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
USER = "dashboard"
FRESH_TIMEOUT_S = 240.0
"""From the first query to the last order in the fact tables; a minute on an idle machine, most of it Spark's start."""

CONSOLE = Console(highlight=False)
STARTED = time.monotonic()


def main() -> int:
    """Exit status: 0 all answered and complete, 1 failed, 130 interrupted."""
    arguments = parse_arguments()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    signal.signal(signal.SIGTERM, interrupt)
    try:
        return run(arguments.folder.absolute(), Shop(orders=arguments.orders))
    except KeyboardInterrupt:
        say("interrupted; everything is stopped")
        return 130
    except (PenstockError, ServerFailedError, TornError, TimeoutError) as error:
        CONSOLE.print(f"[red]error:[/red] {error}")
        return 1


def parse_arguments() -> argparse.Namespace:
    """The few things a person may change."""
    parser = argparse.ArgumentParser(prog="python -m examples.bi", description=__doc__)
    parser.add_argument("--orders", type=int, default=Shop().orders)
    default = ROOT / ".penstock" / "bi"
    parser.add_argument(
        "--folder", type=Path, default=default, help="project folder, emptied first"
    )
    return parser.parse_args()


def run(folder: Path, shop: Shop) -> int:
    """All of it; the broker and the server end with it however it ends."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    password = secrets.token_urlsafe()
    say("starting a Kafka broker")
    try:
        with EmbeddedBroker(folder / "kafka") as broker:
            records = fill(broker.bootstrap, shop)
            say(f"broker on {broker.bootstrap}, {records:,} records in three topics")
            say("penstock serve --sql examples/bi/star.sql")
            with BiServer(
                folder, HERE / "star.sql", {"bootstrap": broker.bootstrap}, (USER, password)
            ) as server:
                say(f"serving {server.url}, a pipeline fills the tables meanwhile")
                connection = hive.connect(
                    "127.0.0.1", server.port, username=USER, password=password, auth="LDAP"
                )
                with Dashboard(connection) as dashboard:
                    looks = dashboard.wait_for_orders(shop.orders, FRESH_TIMEOUT_S)
                    say(
                        f"all {shop.orders:,} orders are there, after {looks} looks; none was half there"
                    )
                    answers = dashboard.answers()
    finally:
        shutil.rmtree(folder / "kafka", ignore_errors=True)
    for answer in answers:
        show(answer)
    say(f"broker and server are stopped; the Delta tables stay in {folder}")
    return 0


def show(answer: Answer) -> None:
    """One query's rows."""
    CONSOLE.print(f"\n[bold]{escape(answer.title)}[/bold] ({answer.seconds:.1f} s)", soft_wrap=True)
    table = Table()
    for column in answer.columns:
        table.add_column(column)
    for row in answer.rows:
        table.add_row(*map(str, row))
    CONSOLE.print(table)


def say(text: str) -> None:
    """One line with the seconds since the start."""
    CONSOLE.print(f"[dim]{time.monotonic() - STARTED:6.1f} s[/dim]  {text}", soft_wrap=True)


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """Make SIGTERM do what Ctrl-C does."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
