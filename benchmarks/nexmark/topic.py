"""The recorded events: those of the connector `nexmark` as JSON records, spread over partitions event by event."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa

from examples.demo.topic import write_lines
from penstock.catalog.model.identifier import Identifier
from penstock.catalog.model.table import PhysicalColumn, Schema, Table
from penstock.catalog.model.type_parser import parse_type
from penstock.connector.nexmark.connector import NexmarkRows
from penstock.connector.nexmark.settings import EVENT_TYPE, ROWS, read_settings

PARTITIONS = 4
CHUNK = 200_000
"""Events that are made at a time."""
SPAN_S = 100
"""Seconds of event time that a topic has: ten windows of ten seconds."""


def nexmark_rows(events: int, seed: int, rate: int | None = None) -> NexmarkRows:
    """Describe as many events, `rate` of them in a second of event time; by default they are spread over SPAN_S."""
    kinds = {
        EVENT_TYPE: "INT",
        **{
            name: "ROW<" + ", ".join(f"`{field}` {kind}" for field, kind in fields.items()) + ">"
            for name, fields in ROWS.items()
        },
    }
    options = {
        "connector": "nexmark",
        "events.num": str(events),
        "first-event.rate": str(rate or max(1, events // SPAN_S)),
        "seed": str(seed),
    }
    table = Table(
        identifier=Identifier(catalog="c", database="d", name="events"),
        schema=Schema(
            columns=tuple(PhysicalColumn(name=n, type=parse_type(k)) for n, k in kinds.items())
        ),
        options=tuple(options.items()),
    )
    return NexmarkRows(settings=read_settings(table))


def record_events(bootstrap: str, topic: str, rows: NexmarkRows, events: int) -> int:
    """Make the topic and write the events; returns how many the broker has taken."""
    makers = [partial(lines, rows, events, partition) for partition in range(PARTITIONS)]
    return write_lines(bootstrap, topic, makers)


def lines(rows: NexmarkRows, events: int, partition: int) -> Iterator[bytes]:
    """Write the records of one partition: each event whose number leaves that rest."""
    maker = rows.maker([EVENT_TYPE, *ROWS])
    for start in range(0, events, CHUNK):
        made = pa.Table.from_batches([maker.make(start, min(start + CHUNK, events))])
        yield from as_json(
            made.take(list(range((partition - start) % PARTITIONS, len(made), PARTITIONS)))
        )


def write_file(path: Path, rows: NexmarkRows, events: int) -> None:
    """Write the same records into a file, a line each, in the order of the events."""
    maker = rows.maker([EVENT_TYPE, *ROWS])
    with path.open("wb") as file:
        for start in range(0, events, CHUNK):
            made = pa.Table.from_batches([maker.make(start, min(start + CHUNK, events))])
            file.writelines(line + b"\n" for line in as_json(made))


def as_json(events: pa.Table) -> list[bytes]:
    """Write events as JSON, NULL for the kinds that they are not."""
    connection = duckdb.connect(config={"enable_external_access": False, "threads": 1})
    text = connection.from_arrow(events).project(
        "CAST(to_json({event_type: event_type, person: person, auction: auction, bid: bid}) AS VARCHAR)"
    )
    return [record.encode() for (record,) in text.fetchall()]
