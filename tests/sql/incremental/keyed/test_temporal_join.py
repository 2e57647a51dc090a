"""Temporal joins over one bucket, without Spark: DuckDB's ASOF JOIN, of whatever has come when a row is released."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
import pytest

from penstock.sql.incremental.keyed.choose import keyed_operator
from penstock.sql.incremental.keyed.operator import RunBySpark
from penstock.sql.incremental.stages import TemporalJoin
from tests.sql.incremental.keyed.event_time_bucket import (
    AFTER,
    BEFORE,
    DELETE,
    INSERT,
    EventTimeBucket,
    Row,
    at,
    check_an_empty_batch_costs_nothing,
    operator_of,
    stage_of,
)
from tests.sql.incremental.keyed.oracle import answer, rows_in, some_fast
from tests.sql.maintain.temporal_tables import JOIN

ORDERS = pa.schema([("id", pa.int32()), ("currency", pa.string()), ("ts", pa.timestamp("us"))])
RATES = pa.schema([("currency", pa.string()), ("rate", pa.int32()), ("since", pa.timestamp("us"))])
RESULT = pa.schema(
    [*ORDERS, ("currency__2", pa.string()), RATES.field("rate"), RATES.field("since")]
)
CURRENCIES = ("EUR", "USD", "YEN", None)


def joined(kind: str, ttl_ms: int = 0) -> EventTimeBucket:
    """A join of orders with rates; the watermarks of a batch are those of rates and orders."""
    stage = stage_of(JOIN.format(f"{kind} rates", "o.ts"), TemporalJoin)
    schemas = {"feed_0": RATES, "feed_1": ORDERS}
    operator = operator_of(stage, {**schemas, stage.name: RESULT}, ttl_ms)
    return EventTimeBucket(operator=operator, schemas=schemas)


def short(rows: Sequence[Row]) -> list[Row]:
    """Return the order and the rate of rows of the result."""
    return [(row[0], row[4]) for row in rows]


@dataclass
class World:
    """Random orders and rates: out of order, late, with ties, deletes, and tombstones without a time."""

    draw: random.Random
    waiting: list[Row] = field(default_factory=list)
    versions: list[Row] = field(default_factory=list)
    late: int = 0
    orders: int = 0

    def next_orders(self, bound: int, upto: int) -> list[Row]:
        """Draw orders, some behind the watermark before the batch."""
        rows = [
            (
                self.orders + n,
                self.draw.choice(CURRENCIES),
                at(self.draw.randrange(bound - 4, upto)),
            )
            for n in range(self.draw.randint(0, 14))
        ]
        self.orders += len(rows)
        self.waiting += [row for row in rows if row[2] > at(bound)]
        self.late += sum(row[2] <= at(bound) for row in rows)
        return [(*row, INSERT) for row in rows]

    def next_rates(self, bound: int, upto: int) -> list[Row]:
        """Draw changes of rates, and note which versions they are; -U is none."""
        return [self._rate(bound, upto) for _ in range(self.draw.randint(0, 10))]

    def _rate(self, bound: int, upto: int) -> Row:
        currency = self.draw.choice(CURRENCIES)
        kind = self.draw.choice([INSERT, AFTER, AFTER, BEFORE, DELETE, DELETE])
        time = at(self.draw.randrange(bound - 8, upto))
        if kind == DELETE and self.draw.random() < 0.5:
            known = [since for key, _, since in self.versions if key == currency]
            if known:
                self.versions.append((currency, None, max(known)))
            return (currency, None, None, DELETE)
        rate = None if kind == DELETE else self.draw.randrange(100)
        if kind != BEFORE:
            self.versions.append((currency, rate, time))
        return (currency, rate, time, kind)

    def due(self, upto: int) -> Counter[Row]:
        """Return the orders up to a time that have not been given, with their rate; NULL: there is none."""
        due = [order for order in self.waiting if order[2] <= at(upto)]
        self.waiting = [order for order in self.waiting if order[2] > at(upto)]
        if not due:
            return Counter()
        # of versions at one time the last one that came
        newest: dict[tuple[str | None, datetime], Row] = {(v[0], v[2]): v for v in self.versions}
        return answer(
            "SELECT o.id, r.rate FROM orders AS o ASOF LEFT JOIN rates AS r "
            "ON o.currency = r.currency AND o.ts >= r.since",
            {"orders": rows_in(ORDERS, due), "rates": rows_in(RATES, list(newest.values()))},
        )


@pytest.mark.parametrize("kind", some_fast(["LEFT JOIN", "JOIN"], ["LEFT JOIN"]))
@pytest.mark.parametrize("seed", some_fast(range(4), [0]))
def test_each_row_gets_the_version_of_its_time(kind: str, seed: int) -> None:
    """Of those that have come when both watermarks have passed it: what was dropped before is never missed."""
    bucket, world = joined(kind), World(draw=random.Random(seed))
    before = 0
    bucket.give(0, 0)
    for _ in range(12):
        rates, orders = before + world.draw.randint(0, 6), before + world.draw.randint(0, 9)
        now = min(rates, orders)
        given = {
            "feed_0": world.next_rates(before, rates + 8),
            "feed_1": world.next_orders(before, orders + 8),
        }
        found = bucket.give(rates, orders, **given)

        due = world.due(now)
        assert Counter(short(found)) == Counter(
            {row: n for row, n in due.items() if kind == "LEFT JOIN" or row[1] is not None}
        )
        assert [row[2] for row in found] == sorted(row[2] for row in found)
        before = now
    assert bucket.late == world.late > 0
    end = before + 100
    bucket.give(end, end)
    kept = bucket.kept()

    assert not kept["feed_1"], "no row waits"
    keys = Counter(row[0] for row in kept["feed_0"])
    assert keys == Counter(dict.fromkeys({v[0] for v in world.versions}, 1)), (
        "the last version of each"
    )


def test_a_batch_in_which_nothing_comes_and_no_time_passes_costs_nothing() -> None:
    """Whatever waits, and whatever is valid."""
    bucket = joined("JOIN")
    bucket.give(3, 3, feed_0=[("EUR", 1, at(1), AFTER)], feed_1=[(1, "EUR", at(9), INSERT)])

    check_an_empty_batch_costs_nothing(bucket, 3, 3)


def test_rows_that_wait_need_no_versions_to_be_looked_up() -> None:
    """Where the watermark stays, and where it passes neither a row nor a version, no state is written."""
    bucket = joined("JOIN")
    bucket.give(3, 3, feed_0=[("EUR", 1, at(1), AFTER)])
    versions = bucket.states["feed_0"].looked_up
    bucket.give(3, 3, feed_1=[(1, "EUR", at(9), INSERT)])
    looked_up, written = bucket.states["feed_0"].looked_up, bucket.written()
    bucket.give(5, 5)

    assert looked_up == versions
    assert bucket.written() == written


def test_a_delete_undoes_a_version() -> None:
    """From its own time on; a tombstone, which has none, from that of the version that it deletes."""
    orders = [(n, "EUR", at(n), INSERT) for n in (1, 3, 5)]
    found = {}
    for name, gone in {
        "at 4": ("EUR", None, at(4), DELETE),
        "tombstone": ("EUR", None, None, DELETE),
        "of another key": ("USD", None, at(2), DELETE),
    }.items():
        bucket = joined("LEFT JOIN")
        bucket.give(0, 0, feed_0=[("EUR", 7, at(2), INSERT)])
        found[name] = short(bucket.give(9, 9, feed_0=[gone], feed_1=orders))

    assert found == {
        "at 4": [(1, None), (3, 7), (5, None)],
        "tombstone": [(1, None), (3, None), (5, None)],
        "of another key": [(1, None), (3, 7), (5, 7)],
    }


def test_a_version_that_comes_late_brings_no_deleted_row_back() -> None:
    """The delete of a key is kept as its last version."""
    bucket = joined("LEFT JOIN")
    bucket.give(5, 5, feed_0=[("EUR", 1, at(1), INSERT), ("EUR", None, at(3), DELETE)])
    bucket.give(6, 6, feed_0=[("EUR", 2, at(2), AFTER)])

    assert short(bucket.give(9, 9, feed_1=[(1, "EUR", at(7), INSERT)])) == [(1, None)]
    assert [row[3] for row in bucket.kept()["feed_0"]] == [DELETE]


def test_a_version_goes_when_its_successor_is_passed() -> None:
    """Not before, as a row may still need it; whichever of both comes first."""
    bucket = joined("JOIN")
    bucket.give(5, 5, feed_0=[("EUR", 1, at(1), INSERT), ("EUR", 2, at(8), AFTER)])
    both = [row[1] for row in bucket.kept()["feed_0"]]
    given = bucket.give(7, 7, feed_1=[(1, "EUR", at(7), INSERT)])
    bucket.give(8, 8)
    last = [row[1] for row in bucket.kept()["feed_0"]]

    assert both == [1, 2]
    assert short(given) == [(1, 1)]
    assert last == [2]


def test_a_key_that_has_expired_is_gone_for_good() -> None:
    """A new version makes a key younger, and brings no version of before back; a row that waits does not expire."""
    bucket = joined("LEFT JOIN", ttl_ms=10_000)
    orders = [(n, "EUR", at(n), INSERT) for n in (2, 6)]
    bucket.give(0, 0, now_ms=0, feed_0=[("EUR", 1, at(1), INSERT)], feed_1=orders)
    bucket.give(0, 0, now_ms=11_000, feed_0=[("EUR", 2, at(5), AFTER)])
    given = bucket.give(9, 9, now_ms=12_000)

    assert short(given) == [(2, None), (6, 2)]


def test_what_is_taken_away_makes_no_key_younger() -> None:
    """The time to live counts from the last version that came, not from the end of one."""
    bucket = joined("LEFT JOIN", ttl_ms=10_000)
    bucket.give(0, 0, now_ms=0, feed_0=[("EUR", 1, at(1), INSERT), ("EUR", 2, at(5), AFTER)])
    bucket.give(6, 6, now_ms=9_000)
    assert len(bucket.kept()["feed_0"]) == 1
    given = bucket.give(9, 9, now_ms=11_000, feed_1=[(1, "EUR", at(8), INSERT)])

    assert short(given) == [(1, None)]


def test_keys_of_other_types_are_left_to_spark() -> None:
    """Their rows would be in other buckets."""
    stage = stage_of(JOIN.format("JOIN rates", "o.ts"), TemporalJoin)
    rates = pa.schema([("currency", pa.binary()), *list(RATES)[1:]])
    found = keyed_operator(stage, {"feed_0": rates, "feed_1": ORDERS, stage.name: RESULT}, 0)

    assert isinstance(found, RunBySpark)
    assert found.reason == "keys of different types"
