"""`penstock kafka transactions`: what exactly-once pipelines left open in a broker, and how to end or repair it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.catalog.errors import ConfigError, OptionError, UnsupportedError
from penstock.sql.cli.commands.catalog import open_catalog
from penstock.sql.cli.options import (
    CatalogOption,
    FormatOption,
    TargetOption,
    VerboseOption,
    YesOption,
)
from penstock.sql.cli.output.report import OutputFormat, print_json, print_lines, reporting, say
from penstock.sql.script.project import find_project

if TYPE_CHECKING:
    from penstock.connector.kafka.sink.open_transactions import BlockedPartition, Slot
    from penstock.connector.kafka.sink.protocol import Marker


def slots_document(found: Sequence[Slot], held: Sequence[BlockedPartition]) -> object:
    """Write them for programs. `rows` is null where the marker was set by hand."""
    return {
        "slots": [
            {
                "transactional_id": slot.transactional_id,
                "last_batch": slot.marker.next_batch - 1 if slot.marker else None,
                "rows": slot.marker.rows if slot.marker and slot.marker.digest else None,
            }
            for slot in found
        ],
        "held_back": [
            {
                "topic": h.partition.topic,
                "partition": h.partition.partition,
                "stable": h.stable,
                "end": h.end,
            }
            for h in held
        ],
    }


def slots_lines(found: Sequence[Slot], held: Sequence[BlockedPartition]) -> list[str]:
    """Write them for people, a line each."""
    lines = [f"{slot.transactional_id}  {_last(slot.marker)}" for slot in found]
    lines += [
        f"open transaction in {h.partition.topic}/{h.partition.partition}: committed records end at {h.stable}, "
        f"the partition at {h.end}"
        for h in held
    ]
    return lines or ["nothing: no such ids, and no open transaction"]


def _last(marker: Marker | None) -> str:
    if marker is None:
        return "no marker under these topics"
    batch = f"batch {marker.next_batch - 1}"
    # `repair` knows where to go on, and nothing of the batch before
    return f"{batch}, {marker.rows} rows" if marker.digest else f"{batch}, by a marker set by hand"


app = typer.Typer(
    name="transactions",
    help="Transactions of exactly-once pipelines: what is left in a Kafka cluster, and how to end it.",
    no_args_is_help=True,
)

TableOption = Annotated[
    str | None,
    typer.Option(
        "--table",
        envvar="PENSTOCK_TRANSACTIONS_TABLE",
        help="A Kafka table of the catalog: its brokers, log-in, topics and prefix. Example: `--table totals`",
    ),
]

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        envvar="PENSTOCK_BOOTSTRAP",
        help="Brokers that ask for no log-in, in place of a table. Example: `--bootstrap 127.0.0.1:9092`",
    ),
]

PrefixOption = Annotated[
    str | None,
    typer.Option(
        "--prefix",
        envvar="PENSTOCK_TRANSACTIONS_PREFIX",
        help="What the transactional ids begin with; default the table's. Example: `--prefix totals`",
    ),
]

TopicOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        envvar="PENSTOCK_TRANSACTIONS_TOPIC",
        help="A topic to look at, beside the table's; may be repeated. Example: `--topic orders`",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _SinkTopics:
    """Where to look: the client's settings, a prefix of ids, topics."""

    client: Mapping[str, str]
    prefix: str
    topics: tuple[str, ...]


@app.command("ls")
def ls(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    table: TableOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    topic: TopicOption = None,
    output: FormatOption = OutputFormat.TABLE,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    verbose: VerboseOption = False,
) -> None:
    """List transactional ids with what they committed last, and partitions that an open transaction holds back.

    Example: `penstock kafka transactions ls --table totals`
    """
    with reporting(context, verbose=verbose):
        from penstock.connector.kafka.client.connection import admin_connection
        from penstock.connector.kafka.sink.client import SinkAdmin
        from penstock.connector.kafka.sink.open_transactions import blocked_partitions, slots

        sink = _sink_topics(table, bootstrap, prefix, topic, catalog, target)
        admin = SinkAdmin(admin_connection(sink.client))
        found, held = (
            slots(admin, sink.prefix, sink.topics),
            blocked_partitions(admin, sink.topics),
        )
        if output is OutputFormat.JSON:
            print_json(slots_document(found, held))
        else:
            print_lines(slots_lines(found, held))


@app.command("abort")
def abort_(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Transactional ids, as `ls` shows them."),
    ] = None,
    table: TableOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    verbose: VerboseOption = False,
) -> None:
    """End open transactions. A pipeline that still runs loses its attempt and makes another: nothing is lost.

    Example: `penstock kafka transactions abort --table totals`
    """
    with reporting(context, verbose=verbose):
        from penstock.connector.kafka.client.connection import Connection, admin_connection
        from penstock.connector.kafka.sink.client import SinkAdmin
        from penstock.connector.kafka.sink.open_transactions import abort, slots

        sink = _sink_topics(table, bootstrap, prefix, None, catalog, target)
        connection = admin_connection(sink.client)
        named = list(ids or ())
        if not named:
            if not sink.prefix:
                raise OptionError(
                    "which transactions?", hint="name ids, or give --prefix or --table"
                )
            named = [
                slot.transactional_id for slot in slots(SinkAdmin(connection), sink.prefix, ())
            ]
        for name in named:
            abort(Connection.of(dict(connection.settings)), name)
            say(f"ended what was open of '{name}'")
        if not named:
            say(f"no transactional id begins with '{sink.prefix}'")


@app.command("repair")
def repair(  # noqa: PLR0917  typer passes options by name
    context: typer.Context,
    checkpoint: Annotated[
        str,
        typer.Option(
            "--checkpoint",
            envvar="PENSTOCK_CHECKPOINT",
            help="The checkpoint of the pipeline: a path or URL. Example: `--checkpoint "
            ".penstock/checkpoints/job/totals`",
        ),
    ],
    table: Annotated[
        str,
        typer.Option(
            "--table",
            envvar="PENSTOCK_TRANSACTIONS_TABLE",
            help="The Kafka table that it writes into. Example: `--table totals`",
        ),
    ],
    not_written: Annotated[
        bool,
        typer.Option(
            "--not-written",
            envvar="PENSTOCK_NOT_WRITTEN",
            help="The batch that was begun and not ended is not in the topic: you have looked. "
            "Example: `--not-written`",
        ),
    ] = False,
    yes: YesOption = False,
    catalog: CatalogOption = None,
    target: TargetOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Set markers again that the broker has expired (a pipeline that reports "the marker .. is lost"). Others stay.

    Example: `penstock kafka transactions repair --table totals --checkpoint .penstock/checkpoints/job/totals --yes`
    """
    with reporting(context, verbose=verbose):
        from penstock.connector.kafka.client.connection import admin_connection
        from penstock.connector.kafka.sink.client import SinkAdmin
        from penstock.connector.kafka.sink.protocol import read_marker
        from penstock.connector.kafka.sink.sink_state import next_batch, read_slots, set_marker

        sink = _sink_topics(table, None, None, None, catalog, target)
        connection = admin_connection(sink.client)
        admin = SinkAdmin(connection)
        lost = 0
        for known in read_slots(checkpoint, sink.prefix, sink.topics):
            for slot in known.slots():
                marker = read_marker(admin, slot.name, slot.partition)
                following = None if marker else next_batch(known, not_written=not_written)
                if following is not None:
                    lost += 1
                    if yes:
                        marker = set_marker(connection, admin, slot, following)
                print_lines([f"{slot.name}  {_repaired(marker, following, yes=yes)}"])
        if lost and not yes:
            raise ConfigError("no marker was set", hint="add --yes to do it")


def _repaired(marker: Marker | None, following: int | None, *, yes: bool) -> str:
    if marker is not None:
        now = "now says" if following is not None and yes else "says"
        return f"the marker {now} that batch {marker.next_batch} is next"
    if following is None:
        return "needs no marker: it has not begun"
    return f"has no marker: it would say that batch {following} is next"


def _sink_topics(
    table: str | None,
    bootstrap: str | None,
    prefix: str | None,
    topics: list[str] | None,
    catalog: str | None,
    target: str | None,
) -> _SinkTopics:
    if (table is None) == (bootstrap is None):
        raise OptionError(
            "no Kafka cluster is named", hint="add --table NAME or --bootstrap HOST:PORT"
        )
    if bootstrap is not None:
        client = {"bootstrap.servers": bootstrap}
        return _SinkTopics(client=client, prefix=prefix or "", topics=tuple(topics or ()))
    assert table is not None, "one of the two is given"
    from penstock.catalog.definitions.encryption import encrypt_references
    from penstock.catalog.definitions.resolver import Namespace
    from penstock.catalog.model.identifier import parse_identifier
    from penstock.catalog.model.table import Table
    from penstock.connector.kafka.sink.sink import KafkaSink
    from penstock.connector.kafka.table.settings import TopicList
    from penstock.connector.registry import connector_of

    project = find_project(Path.cwd(), target=target)
    store = open_catalog(catalog, project)
    found = store.get(Namespace(store).resolve(parse_identifier(table)))
    sink = None
    if isinstance(found, Table):
        found = encrypt_references(found, store.secrets)
        sink = connector_of(found, project=project.root).sink(found)
    if not isinstance(sink, KafkaSink):
        raise UnsupportedError(f"{table} is not a Kafka table")
    subscription = sink.table.settings.subscription
    declared = subscription.topics if isinstance(subscription, TopicList) else ()
    return _SinkTopics(
        client=sink.table.settings.client,
        prefix=sink.settings.prefix if prefix is None else prefix,
        topics=(*declared, *(topics or ())),
    )
