"""The tables that the examples of the compatibility tables are over."""

from __future__ import annotations

from collections.abc import Callable

KAFKA = (
    "'connector' = 'kafka', 'topic' = '{0}', 'properties.bootstrap.servers' = 'localhost:9092', "
    "'format' = 'json', 'scan.startup.mode' = 'earliest-offset'"
)
DELTA = "'connector' = 'delta', 'path' = '{0}'"
STREAMS = {
    "bids": (
        "auction BIGINT, bidder BIGINT, price DECIMAL(10, 2), channel STRING, tags ARRAY<STRING>, "
        "attributes MAP<STRING, INT>, item ROW<id BIGINT, name STRING>, ts TIMESTAMP(3), "
        "pt AS PROCTIME(), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
    ),
    "auctions": (
        "id BIGINT, seller BIGINT, category STRING, ts TIMESTAMP(3), "
        "WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
    ),
    "reserves": (
        "auction BIGINT, reserve DECIMAL(10, 2), ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND"
    ),
}
AT_REST = {
    "people": "id BIGINT, name STRING, since DATE",
    "totals": "auction BIGINT, total DECIMAL(38, 2), PRIMARY KEY (auction) NOT ENFORCED",
    "copies": "auction BIGINT, price DECIMAL(10, 2)",
}
VIEWS = (
    "CREATE VIEW expensive AS SELECT auction, price, ts FROM bids WHERE price > 100;",
    (
        "CREATE VIEW reserved AS SELECT auction, reserve, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction "
        "ORDER BY ts DESC) AS n FROM reserves) WHERE n = 1;"
    ),
)


def define_tables(
    stream: Callable[[str], str] = KAFKA.format, rest: Callable[[str], str] = DELTA.format
) -> str:
    """A script that defines them; the functions return the options of a table, by its name."""
    made = [(name, columns, stream(name)) for name, columns in STREAMS.items()]
    made += [(name, columns, rest(name)) for name, columns in AT_REST.items()]
    creates = [
        f"CREATE TABLE {name} ({columns}) WITH ({options});" for name, columns, options in made
    ]
    return "\n".join([*creates, *VIEWS])


TABLES = define_tables()
"""Streams with event time (bids, auctions, reserves), a table at rest (people), two to write into, and two views.

Any namespace can take it; nothing in it is read or written by checks.
"""
