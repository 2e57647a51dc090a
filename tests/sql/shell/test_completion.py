"""What Tab offers: names where names stand, options where options stand."""

from __future__ import annotations

import pytest

from penstock.connector.registry import connector_names
from penstock.sql.settings import SETTINGS
from penstock.sql.shell.completion import Names, complete, known_options

NAMES = Names(
    tables=lambda: ["orders", "order_items", "customers"],
    columns=lambda table: {"orders": ["order_id", "amount"]}.get(table, []),
    functions=lambda: ["upper", "uuid"],
    settings={option.key: option for option in SETTINGS},
)
KAFKA = "CREATE TABLE t (a INT) WITH ('connector' = 'kafka', "


@pytest.mark.parametrize(
    ("before", "word", "offered"),
    [
        ("SELECT * FROM ", "ord", ["order_items", "orders"]),
        ("SELECT x FROM a JOIN ", "cu", ["customers"]),
        ("DESCRIBE ", "", ["customers", "order_items", "orders"]),
        ("SELECT amount FROM orders WHERE ", "am", ["amount"]),
        ("", "sel", ["select"]),
        ("", "SHO", ["SHOW"]),
        ("SELECT ", "up", ["upper("]),
        ("SELECT ", "UU", ["UUID("]),
        ("CREATE TABLE t (a ", "BIG", ["BIGINT"]),
        ("SET ", "'pipeline.n", ["'pipeline.name'"]),
        ("CREATE TABLE t (a INT) WITH (", "'conn", ["'connector'"]),
        ("CREATE TABLE t (a INT) WITH ('connector' = ", "'kaf", ["'kafka'"]),
        (KAFKA, "'scan.startup.m", ["'scan.startup.mode'"]),
        (f"{KAFKA}'scan.startup.mode' = ", "'ear", ["'earliest-offset'"]),
        (f"{KAFKA}'scan.startup.mode' = ", "'zzz", []),
        ("SELECT 'a ", "sel", []),
    ],
)
def test_what_fits_is_offered(before: str, word: str, offered: list[str]) -> None:
    """Tables, columns of the tables mentioned, keys, values, keywords in the case of the typed word."""
    assert complete(before, word, NAMES) == offered


@pytest.mark.parametrize("connector", connector_names())
def test_every_connector_has_options_to_offer(connector: str) -> None:
    """They come from its descriptors."""
    assert "connector" in known_options(connector)
    if connector not in {"blackhole", "memory", "print"}:
        assert len(known_options(connector)) > 2
