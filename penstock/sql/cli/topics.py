"""`penstock kafka topics`: lists, creates, alters and deletes topics of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.catalog.errors import OptionError
from penstock.sql.cli.options import FormatOption, VerboseOption, YesOption
from penstock.sql.cli.pairs import read_pairs
from penstock.sql.cli.report import OutputFormat, print_json, print_lines, reporting, say
from penstock.sql.config import find_project

if TYPE_CHECKING:
    from penstock.connector.kafka.admin import KafkaAdmin

__all__ = ["app"]

app = typer.Typer(
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

NamesArgument = Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of the topics.")]

ConfigOption = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        metavar="K=V",
        envvar="PENSTOCK_TOPIC_CONFIG",
        help="A setting of the topic; may be repeated. Example: `--config cleanup.policy=compact`",
    ),
]


@app.command("ls")
def ls(
    context: typer.Context,
    bootstrap: BootstrapOption = None,
    output: FormatOption = OutputFormat.TABLE,
    verbose: VerboseOption = False,
) -> None:
    """List topics and their number of partitions. Example: `penstock kafka topics ls`"""
    with reporting(context, verbose=verbose):
        from penstock.connector.kafka.topics import partition_counts

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


@app.command("create")
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
        from penstock.connector.kafka.topics import TopicPlan, create_topic

        admin = _admin(bootstrap)
        for name in names:
            create_topic(
                admin,
                TopicPlan(name=name, partitions=partitions, replicas=replicas, config=settings),
            )
            say(f"made topic {name}")


@app.command("alter")
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
        from penstock.connector.kafka.topics import add_partitions, alter_config

        admin = _admin(bootstrap)
        if partitions is not None:
            add_partitions(admin, name, partitions)
            say(f"topic {name} has {partitions} partitions")
        if settings:
            alter_config(admin, name, settings)
            say(f"changed {', '.join(settings)} of topic {name}")


@app.command("delete")
def delete(
    context: typer.Context,
    names: NamesArgument,
    yes: YesOption = False,
    bootstrap: BootstrapOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Delete topics with all their records. A pipeline that reads one of them stops and says so.

    Example: `penstock kafka topics delete orders --yes`
    """
    with reporting(context, verbose=verbose):
        from penstock.connector.kafka.topics import delete_topic, partition_counts, unknown_topic

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
    from penstock.connector.kafka.admin import KafkaAdmin
    from penstock.connector.kafka.broker_record import running_broker
    from penstock.connector.kafka.tuning import admin_connection

    if bootstrap is None:
        broker = running_broker(find_project(Path.cwd()).data_directory / "kafka")
        if broker is None:
            raise OptionError(
                "where is the Kafka cluster?",
                hint="give --bootstrap, or run a broker for this project with `penstock kafka start`",
            )
        bootstrap = broker.bootstrap
    return KafkaAdmin(admin_connection({"bootstrap.servers": bootstrap}))
