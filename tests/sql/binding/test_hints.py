"""Hints behind SELECT: what they may name and say, and what is told of those that are wrong."""

from __future__ import annotations

import pytest

from penstock.sql.binding.binder import bind_query
from penstock.sql.dialect.flink.trees import parse_query
from penstock.sql.syntax.positions import Source, attach
from tests.sql.sql_objects import TABLES, new_namespace

NAMESPACE = new_namespace(TABLES)
FROM = "b.price FROM bids AS b JOIN auctions ON b.auction = auctions.id CROSS JOIN UNNEST(b.arr) AS u (x, y)"
ALL = "('retry-predicate' = 'lookup_miss', 'retry-strategy' = 'fixed_delay', 'fixed-delay' = '1 s', 'max-attempts' = '3')"


def told(hint: str) -> list[tuple[str, str | None, int]]:
    """What is wrong with a hint: message, what to do, and the column behind the words SELECT /*+ ."""
    before = "SELECT /*+ "
    text = f"{before}{hint} */ {FROM}"
    bound = bind_query(attach(parse_query(text), Source(file="f.sql", text=text)), NAMESPACE)
    assert all(error.span is not None for error in bound.errors)
    return [
        (error.message, error.hint, error.span.column - len(before))
        for error in bound.errors
        if error.span is not None
    ]


@pytest.mark.parametrize(
    "hint",
    [
        "BROADCAST(b), SHUFFLE_HASH(auctions), SHUFFLE_MERGE(b), NEST_LOOP(b)",
        "MULTI_JOIN(b, auctions)",
        "MULTI_JOIN(b, default_database.auctions)",
        "STATE_TTL('b' = '1d', 'auctions' = '12 h', 'u' = '0s'), BROADCAST(b)",
        "STATE_TTL('default_catalog.default_database.auctions' = '1 min')",
        "LOOKUP('table' = 'auctions')",
        "LOOKUP('table' = 'b', 'async' = 'FALSE', 'capacity' = '0', 'output-mode' = 'ORDERED')",
        "LOOKUP('table' = 'b', 'async' = 'true', 'capacity' = '1', 'output-mode' = 'allow-unordered', "
        "'timeout' = '180s', 'shuffle' = 'true', " + ALL[1:],
    ],
)
def test_hints_name_relations_by_alias_or_name(hint: str) -> None:
    """A table without an alias by its name, whole or in part."""
    assert told(hint) == []


@pytest.mark.parametrize(
    ("hint", "message", "help_"),
    [
        ("MULTI_JOIN(b, bids)", "the hint names 'bids', and no table", None),
        ("OPTIONS('scan.parallelism' = '2')", "the hint OPTIONS is a table's", "write it behind the name of the table that it is for, or SET a key of the session"),
        ("BROADCAST(x)", "the hint names 'x'", "there are: b, auctions, u; a hint is for its own SELECT alone"),
        ("BROADCAST(auctoins)", "the hint names 'auctoins'", "did you mean 'auctions'?"),
        ("BROADCAST", "the hint BROADCAST lists the tables", "write BROADCAST(b)"),
        ("MULTI_JOIN('b' = 'x')", "the hint MULTI_JOIN lists the tables", "write MULTI_JOIN(b)"),
        ("STATE_TTL('a' = '1d')", "the hint names 'a'", None),
        ("STATE_TTL('b' = 'soon')", "the hint STATE_TTL: 'soon' is not a duration", "write for instance '1 d'; '0 s' is without limit"),
        ("STATE_TTL", "the hint STATE_TTL has keys and values", "write STATE_TTL('t' = '1 d')"),
        ("STATE_TTL(b)", "the hint STATE_TTL has keys and values", "write STATE_TTL('t' = '1 d')"),
        ("LOOKUP(b)", "the hint LOOKUP has keys and values", "write LOOKUP('table' = 't')"),
        ("LOOKUP('table' = 'x')", "the hint names 'x'", None),
        ("LOOKUP('async' = 'true')", "required options are missing: table", None),
        ("LOOKUP('table' = 'b', 'asinc' = 'true')", "unsupported option 'asinc'", "did you mean 'async'?"),
        ("LOOKUP('table' = 'b', 'async' = 'maybe')", "'async' = 'maybe' is not true or false", None),
        ("LOOKUP('table' = 'b', 'async' = 'true', 'capacity' = '0')", "'capacity' = '0' must be at least 1", None),
        ("LOOKUP('table' = 'b', 'fixed-delay' = '1 s')",
         "'fixed-delay' needs 'retry-predicate', 'retry-strategy', 'max-attempts' too", None),
        ("LOOKUP('table' = 'b', " + ALL[1:].replace("lookup_miss", "never"), "'never' is not 'lookup_miss'", None),
        ("LOOKUP('table' = 'b', " + ALL[1:].replace("'3'", "'0'"), "'max-attempts' = '0' must be at least 1", None),
        ("BROADCST(b)", "the hint BROADCST is not supported", "did you mean 'BROADCAST'?"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_at_its_place(hint: str, message: str, help_: str | None) -> None:
    """Names as Flink resolves them, keys and values as it checks them."""
    ((found, hinted, column),) = told(hint)

    assert message in found
    assert help_ is None or hinted == help_
    assert 1 <= column <= len(hint)
    if "names" in message:
        name = message.split("'")[1]
        assert hint[column - 1 :].lstrip("'").startswith((name, "table"))
