"""`penstock kafka`: the embedded broker in the foreground, and how to stop one that runs elsewhere."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.sql.cli import topics, transactions
from penstock.sql.cli.options import VerboseOption
from penstock.sql.cli.report import reporting, say
from penstock.sql.config import find_project

if TYPE_CHECKING:
    from penstock.connector.kafka.broker import EmbeddedBroker

__all__ = ["app"]

# How a broker ends that was asked to: by SIGTERM, as Java reports it and as Python does.
ASKED_TO_STOP = frozenset({0, 128 + signal.SIGTERM, -signal.SIGTERM})

app = typer.Typer(
    name="kafka",
    help="A real single-node Kafka broker for trying things out: on 127.0.0.1, keeping records for ever.",
    no_args_is_help=True,
)

app.add_typer(topics.app, name="topics")
app.add_typer(transactions.app, name="transactions")

DataDirOption = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        envvar="PENSTOCK_KAFKA_DATA_DIR",
        help="Where its records are kept; default `.penstock/kafka` of the project. Example: `--data-dir /tmp/kafka`",
        show_default=False,
    ),
]


@app.command()
def start(
    context: typer.Context,
    port: Annotated[
        int,
        typer.Option(
            envvar="PENSTOCK_KAFKA_PORT",
            min=0,
            max=65535,
            help="Port on 127.0.0.1; 0 takes a free one. Example: `--port 9093`",
        ),
    ] = 9092,
    data_dir: DataDirOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Run a broker here until Ctrl-C. Prints its bootstrap address. Example: `penstock kafka start --port 9092`"""
    from penstock.connector.kafka.broker import EmbeddedBroker

    with reporting(context, verbose=verbose):
        broker = EmbeddedBroker(_folder(data_dir), port=port)
        with _interrupted_by_signals():
            try:
                say(f"starting a Kafka broker on {broker.data_dir}")
                broker.start()
                typer.echo(broker.bootstrap)
                say("running; stop it with Ctrl-C, or `penstock kafka stop` in another terminal")
                status = broker.wait()
            except KeyboardInterrupt:
                say("stopping the broker")
                status = 0
            finally:
                broker.stop()
        _report_end(broker, status)


@app.command()
def stop(
    context: typer.Context,
    data_dir: DataDirOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Stop the broker that runs on a data folder. Example: `penstock kafka stop`"""
    from penstock.connector.kafka.broker_record import stop_broker

    with reporting(context, verbose=verbose):
        folder = _folder(data_dir)
        stopped = stop_broker(folder)
        say(
            f"stopped the broker at {stopped.bootstrap}"
            if stopped
            else f"no broker runs on {folder}"
        )


def _folder(data_dir: Path | None) -> Path:
    return data_dir.absolute() if data_dir else find_project(Path.cwd()).data_directory / "kafka"


def _report_end(broker: EmbeddedBroker, status: int) -> None:
    if status in ASKED_TO_STOP:
        say("the broker has stopped")
        return
    say(
        f"error: the broker ended by itself with status {status}",
        f"help: its log is {broker.log_file}",
    )
    sys.stdout.flush()
    raise typer.Exit(1)


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """Make SIGTERM do what Ctrl-C does."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
