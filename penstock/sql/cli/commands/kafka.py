"""`penstock kafka`: the embedded broker in the foreground, and `topics`.

The topics of a cluster are listed, created, altered and deleted.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.catalog.errors import OptionError
from penstock.sql.cli.commands import transactions
from penstock.sql.cli.options import FormatOption, VerboseOption, YesOption, read_pairs
from penstock.sql.cli.output.report import OutputFormat, print_json, print_lines, reporting, say
from penstock.sql.script.project import find_project

if TYPE_CHECKING:
    from penstock.connector.kafka.broker.broker import EmbeddedBroker
    from penstock.connector.kafka.client.admin import KafkaAdmin


topics_app = typer.Typer(
    name="topics",
    help="Topics of a Kafka cluster: list, create, alter and delete them.",
    no_args_is_help=True,
)

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        envvar="PENSTOCK_BOOTSTRAP",
        help="Brokers that ask for no log-in; default the one that `penstock kafka start` runs for this project. "
        "Example: `--bootstrap 127.0.0.1:9092`",
        show_default=False,
    ),
]

NamesArgument = Annotated[list[str], typer.Argument(metavar="NAME", help="Names of the topics.")]

ConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        metavar="K=V",
        envvar="PENSTOCK_TOPIC_CONFIG",
        help="A setting of the topic; may be repeated. Example: `--config cleanup.policy=compact`",
    ),
]


@topics_app.command("ls")
def ls(
    context: typer.Context,
    bootstrap: BootstrapOption = None,
    output: FormatOption = OutputFormat.TABLE,
    verbose: VerboseOption = False,
) -> None:
    """List topics and their number of partitions. Example: `penstock kafka topics ls`"""
    with reporting(context, verbose=verbose):
        from penstock.connector.kafka.client.topics import partition_counts

        counts = partition_counts(_admin(bootstrap))
        if output is OutputFormat.JSON:
            print_json({"topics": [{"name": n, "partitions": c} for n, c in counts.items()]})
            return
        width = max(map(len, counts), default=0)
        print_lines(
            [
                f"{name:{width}}  {count} partition{'s' if count != 1 else ''}"
                for name, count in counts.items()
            ]
        )
        if not counts:
            say("there is no topic")


@topics_app.command("create")
def create(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    names: NamesArgument,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            min=1,
            envvar="PENSTOCK_TOPIC_PARTITIONS",
            help="Partitions of each; default what the cluster does. Example: `--partitions 4`",
            show_default=False,
        ),
    ] = None,
    replicas: Annotated[
        int | None,
        typer.Option(
            "--replicas",
            min=1,
            envvar="PENSTOCK_TOPIC_REPLICAS",
            help="Copies of each partition; default what the cluster does. Example: `--replicas 3`",
            show_default=False,
        ),
    ] = None,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Make topics; one that exists is an error, and stays as it is.

    Example: `penstock kafka topics create orders --partitions 4`
    """
    settings = read_pairs("--config", config)
    with reporting(context, verbose=verbose):
        from penstock.connector.kafka.client.topics import TopicPlan, create_topic

        admin = _admin(bootstrap)
        for name in names:
            create_topic(
                admin,
                TopicPlan(name=name, partitions=partitions, replicas=replicas, config=settings),
            )
            say(f"created topic {name}")


@topics_app.command("alter")
def alter(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the topic.")],
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions",
            min=1,
            envvar="PENSTOCK_TOPIC_PARTITIONS",
            help="The number of partitions it is to have; more than now. Example: `--partitions 8`",
            show_default=False,
        ),
    ] = None,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Add partitions to a topic, or change its settings; settings that are not named stay.

    Running pipelines find new partitions by themselves. Records with a key may go to other partitions from then on.

    Example: `penstock kafka topics alter orders --partitions 8`
    """
    settings = read_pairs("--config", config)
    if partitions is None and not settings:
        raise typer.BadParameter("give --partitions or --config")
    with reporting(context, verbose=verbose):
        from penstock.connector.kafka.client.topics import add_partitions, alter_config

        admin = _admin(bootstrap)
        if partitions is not None:
            add_partitions(admin, name, partitions)
            say(f"topic {name} has {partitions} partitions")
        if settings:
            alter_config(admin, name, settings)
            say(f"changed {', '.join(settings)} of topic {name}")


@topics_app.command("delete")
def delete(
    context: typer.Context,
    names: NamesArgument,
    yes: YesOption = False,
    bootstrap: BootstrapOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Delete topics with all their records. A pipeline that reads one of them fails with an error.

    Example: `penstock kafka topics delete orders --yes`
    """
    with reporting(context, verbose=verbose):
        from penstock.connector.kafka.client.topics import (
            delete_topic,
            partition_counts,
            unknown_topic,
        )

        admin = _admin(bootstrap)
        there = partition_counts(admin)
        for name in names:  # a misspelt name deletes nothing
            if name not in there:
                raise unknown_topic(name)
        for name in names:
            if not yes:
                say(f"would delete topic {name} with all its records; --yes does it")
                continue
            delete_topic(admin, name)
            say(f"deleted topic {name}")


def _admin(bootstrap: str | None) -> KafkaAdmin:
    from penstock.connector.kafka.broker.record import running_broker
    from penstock.connector.kafka.client.admin import KafkaAdmin
    from penstock.connector.kafka.client.connection import admin_connection

    if bootstrap is None:
        broker = running_broker(find_project(Path.cwd()).data_directory / "kafka")
        if broker is None:
            raise OptionError(
                "no broker of this project runs, and --bootstrap names no other cluster",
                hint="start a broker with `penstock kafka start` and wait until it is running, or add "
                "--bootstrap HOST:PORT",
            )
        bootstrap = broker.bootstrap
    return KafkaAdmin(admin_connection({"bootstrap.servers": bootstrap}))


# How a broker ends that was asked to: by SIGTERM, as Java reports it and as Python does.
ASKED_TO_STOP = frozenset({0, 128 + signal.SIGTERM, -signal.SIGTERM})

app = typer.Typer(
    name="kafka",
    help="A single-node Kafka broker for trials, on 127.0.0.1; it never deletes records.",
    no_args_is_help=True,
)

app.add_typer(topics_app, name="topics")

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
    from penstock.connector.kafka.broker.broker import EmbeddedBroker

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
    from penstock.connector.kafka.broker.record import stop_broker

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
