"""Joins of inserts within a time over one bucket, without Spark: what DuckDB gives over all rows that were not late."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime

import pyarrow as pa
import pytest

from penstock.sql.incremental.keyed.append_join import AppendJoin
from penstock.sql.incremental.keyed.choose import choose_operators
from penstock.sql.incremental.stages import (
    RecomputeOperator,
    ordered_relations,
    ordered_scans,
)
from penstock.sql.plan.stage_runs import typed_relations
from tests.sql.incremental.keyed.event_time_bucket import (
    INSERT,
    EventTimeBucket,
    Row,
    at,
    check_an_empty_batch_costs_nothing,
    operator_of,
)
from tests.sql.incremental.keyed.oracle import answer, rows_in, some_fast
from tests.sql.maintain.temporal_tables import planned

TIME = pa.timestamp("us")
FIELDS = {
    "id": pa.int32(),
    "currency": pa.string(),
    "amount": pa.int32(),
    "ts": TIME,
    "rate": pa.int32(),
    "since": TIME,
}
ORDERS, QUOTES = ("id", "currency", "amount", "ts"), ("currency", "rate", "since")
RESULT = pa.schema([("id", pa.int32()), ("rate", pa.int32())])


@dataclass(frozen=True, kw_only=True)
class Within:
    """A condition; `ends` are the seconds behind an order and behind a quote after which no row matches it."""

    condition: str
    ends: tuple[int, int]


CONDITIONS = {
    "around": Within(
        condition="o.ts BETWEEN q.since - INTERVAL '4' SECOND AND q.since + INTERVAL '6' SECOND",
        ends=(4, 6),
    ),
    "behind": Within(
        condition="o.ts > q.since AND q.since + INTERVAL '7' SECOND >= o.ts AND o.amount <> q.rate",
        ends=(0, 7),
    ),
    "before": Within(
        condition="q.since BETWEEN o.ts - INTERVAL '9' SECOND AND o.ts - INTERVAL '5' SECOND",
        ends=(-5, 9),
    ),
    "at one time": Within(
        condition="o.ts >= q.since AND o.ts <= q.since AND o.amount >= q.rate", ends=(0, 0)
    ),
}
KINDS = ("INNER", "LEFT", "RIGHT", "FULL")


def sql_of(kind: str, within: Within) -> str:
    """The query, of Flink's dialect as of DuckDB's."""
    on = f"o.currency = q.currency AND {within.condition}"
    return f"SELECT o.id, q.rate FROM orders AS o {kind} JOIN quotes AS q ON {on}"


def joined(kind: str, name: str = "around") -> EventTimeBucket:
    """A join of orders with quotes; the watermarks of a batch are those of both."""
    maintained = planned(sql_of(kind, CONDITIONS[name])).maintained
    assert maintained is not None
    (stage,) = maintained.stages
    assert isinstance(stage, RecomputeOperator)
    feeds = {
        feed.name: pa.schema([(column, FIELDS[column]) for column in feed.columns])
        for feed in maintained.feeds
    }
    operator = operator_of(
        stage,
        {**feeds, stage.name: RESULT},
        inserts=frozenset(stage.name for stage in maintained.feeds),
    )
    assert isinstance(operator, AppendJoin)
    return EventTimeBucket(operator=operator, schemas=feeds)


@dataclass
class World:
    """Random orders and quotes: out of order, equal ones, with NULL in keys and times, some of them late."""

    draw: random.Random
    orders: list[Row] = field(default_factory=list)
    quotes: list[Row] = field(default_factory=list)
    late: int = 0

    def batch(self, bound: int | None, upto: tuple[int, int]) -> tuple[list[Row], list[Row]]:
        """Draw rows around the lowest watermark before the batch."""
        orders = [
            (self.draw.randrange(99), self._currency(), self.draw.randrange(6), time)
            for time in self._times(bound or 0, upto[0])
        ]
        quotes = [
            (self._currency(), self.draw.randrange(6), time)
            for time in self._times(bound or 0, upto[1])
        ]
        for given, kept in ((orders, self.orders), (quotes, self.quotes)):
            known = [
                row for row in given if row[-1] is None or bound is None or row[-1] > at(bound)
            ]
            self.late += len(given) - len(known)
            kept += known
        return orders, quotes

    def _currency(self) -> str | None:
        return self.draw.choice(["EUR", "USD", "YEN", None])

    def _times(self, bound: int, upto: int) -> Iterator[datetime | None]:
        for _ in range(self.draw.randint(0, 9)):
            time = self.draw.randrange(bound - 3, upto)
            yield None if self.draw.random() < 0.08 else at(time)

    def answer(self, kind: str, within: Within, now: int | None) -> Counter[Row]:
        """The rows that match, and those without a match that match no row behind a watermark."""
        on = f"o.currency = q.currency AND {within.condition}"
        ended = [
            f"{alias}.currency IS NULL OR {time} IS NULL"
            + ("" if now is None else f" OR {time} + INTERVAL ({seconds}) SECOND <= '{at(now)}'")
            for alias, time, seconds in zip("oq", ("o.ts", "q.since"), within.ends, strict=True)
        ]
        sql = (
            f"SELECT o.id, q.rate FROM orders AS o {kind} JOIN quotes AS q ON {on} WHERE (o.there AND q.there) "
            f"OR (q.there IS NULL AND ({ended[0]})) OR (o.there IS NULL AND ({ended[1]}))"
        )
        tables = {}
        for name, columns, rows in (
            ("orders", ORDERS, self.orders),
            ("quotes", QUOTES, self.quotes),
        ):
            schema = pa.schema([*((c, FIELDS[c]) for c in columns), ("there", pa.bool_())])
            tables[name] = rows_in(schema, [(*row, True) for row in rows])
        return answer(sql, tables)


CASES = [(kind, name) for kind in KINDS for name in CONDITIONS]


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(*case, marks=() if case == ("FULL", "around") else pytest.mark.slow)
        for case in CASES
    ],
)
def test_rows_come_once_and_those_without_a_match_when_none_can_come(kind: str, name: str) -> None:
    """After each batch; late rows are dropped, and what is stored goes when nothing asks for it any more."""
    within = CONDITIONS[name]
    bucket, world, given = joined(kind, name), World(draw=random.Random(len(name))), Counter[Row]()
    clock: list[int | None] = [None, None]
    for step in range(14):
        before = None if None in clock else min(time for time in clock if time is not None)
        now = [(time or 0) + world.draw.randint(0, 7) for time in clock]
        orders, quotes = world.batch(before, (now[0] + 6, now[1] + 6))
        upto = (None, now[1]) if step == 0 else (now[0], now[1])
        # one table has no watermark before its first row
        given += Counter(bucket.give(*upto, **feeds_of(bucket, orders, quotes)))
        low = None if None in upto else min(time for time in upto if time is not None)
        clock = list(upto)

        assert given == world.answer(kind, within, low)
    assert bucket.late == world.late > 0
    end = max(time for time in clock if time is not None) + 100
    given += Counter(bucket.give(end, end))

    assert not any(bucket.kept().values())
    assert given == world.answer(kind, within, end)
    assert any(None in row for row in given) is (kind != "INNER")


def feeds_of(bucket: EventTimeBucket, orders: list[Row], quotes: list[Row]) -> dict[str, list[Row]]:
    """Return rows as the inputs of the join have them."""
    found = {}
    for name, schema in bucket.schemas.items():
        columns, rows = (ORDERS, orders) if "ts" in schema.names else (QUOTES, quotes)
        places = [columns.index(column) for column in schema.names]
        found[name] = [(*(row[place] for place in places), INSERT) for row in rows]
    return found


def order(number: int, second: int, currency: str | None = "EUR") -> Row:
    """An order at a time."""
    return (number, currency, 1, at(second))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_in_which_nothing_comes_and_no_time_passes_costs_nothing(kind: str) -> None:
    """Whatever is stored."""
    bucket = joined(kind)
    bucket.give(3, 3, **feeds_of(bucket, [order(1, 9)], [("USD", 5, at(9))]))

    check_an_empty_batch_costs_nothing(bucket, 3, 3)


def test_a_row_comes_without_a_match_in_the_batch_that_ends_it() -> None:
    """Not before, and not again; a match in the same batch, or in an earlier one, keeps it from that."""
    bucket = joined("LEFT")
    bucket.give(1, 1, **feeds_of(bucket, [order(1, 5), order(2, 5, "USD")], [("EUR", 7, at(6))]))
    early = bucket.give(8, 8)
    due = bucket.give(9, 9)
    again = bucket.give(40, 40)
    at_once = bucket.give(50, 50, **feeds_of(bucket, [order(3, 41), order(4, 41)], []))
    both = bucket.give(70, 70, **feeds_of(bucket, [order(5, 51)], [("EUR", 8, at(52))]))

    assert early == []
    assert due == [(2, None)]
    assert again == []
    assert sorted(at_once) == [(3, None), (4, None)]
    assert both == [(5, 8)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_is_rows_that_are_only_added(kind: str) -> None:
    """So that they are found by the hash of their key, and files are merged without DuckDB."""
    layouts = joined(kind).operator.layouts

    assert [layout.inserts for layout in layouts.values()] == [True, True]


def test_a_row_that_matches_no_other_is_not_kept() -> None:
    """One with NULL in its key, or without a time, comes at once."""
    bucket = joined("FULL")
    rows = feeds_of(bucket, [order(1, 9, None), (2, "EUR", 1, None)], [(None, 3, at(9))])

    assert sorted(bucket.give(3, 3, **rows), key=repr) == [(1, None), (2, None), (None, 3)]
    assert bucket.written() == 0


@pytest.mark.parametrize("seed", some_fast(range(3), [0]))
def test_a_bounded_run_gives_the_batch_answer(seed: int) -> None:
    """All rows of tables with an end are in one batch, behind which nothing comes."""
    for kind in KINDS:
        bucket, world = joined(kind), World(draw=random.Random(seed))
        orders, quotes = world.batch(None, (30, 30))
        found = bucket.give_all(**feeds_of(bucket, orders, quotes))

        assert Counter(found) == world.answer(kind, CONDITIONS["around"], 1000)


def test_a_partner_is_kept_until_the_rows_that_it_may_have_matched_have_ended() -> None:
    """A quote of which no later order is a partner still keeps one from coming without a match."""
    bucket = joined("LEFT")
    bucket.give(1, 1, **feeds_of(bucket, [order(1, 10)], [("EUR", 7, at(5))]))
    stored = []
    for second in (12, 13, 14, 15, 16, 17):
        assert bucket.give(second, second) == []
        stored.append(sum(map(Counter.total, bucket.kept().values())))

    assert stored == [2, 2, 1, 0, 0, 0]


def test_rows_that_are_counted_in_order_are_sorted() -> None:
    """Whatever order the rows of both sides come in; those that nobody counts are not."""
    draw = random.Random(3)
    orders = [order(number, draw.randrange(5)) for number in range(40)]
    quotes: list[Row] = [("EUR", rate, at(draw.randrange(5))) for rate in range(20)]
    found = []
    for in_order in (True, True, False):
        bucket = joined("INNER")
        assert isinstance(bucket.operator, AppendJoin)
        bucket = replace(bucket, operator=replace(bucket.operator, sorted=in_order))
        turned = feeds_of(bucket, draw.sample(orders, 40), draw.sample(quotes, 20))
        found.append(bucket.give_all(**turned))

    assert found[0] == found[1] == sorted(found[0])
    assert found[2] != found[0]
    assert Counter(found[2]) == Counter(found[0])


@pytest.mark.parametrize("counted", [True, False])
def test_rows_of_a_join_are_sorted_where_over_counts_them(*, counted: bool) -> None:
    """Also behind a query in between; the rows of the tables then come in any order."""
    inner = (
        "SELECT o.id, o.amount, q.rate FROM orders AS o JOIN quotes AS q ON o.currency = q.currency"
    )
    ordered = (
        f"SELECT id, SUM(amount) OVER (ORDER BY PROCTIME()) AS s FROM ({inner}) WHERE amount > rate"
    )
    query = planned(ordered if counted else inner)
    assert query.maintained is not None
    schemas = typed_relations(query, query.maintained)
    chosen = choose_operators(query.maintained, schemas, 0, lambda name, _: schemas[name])
    (join,) = (of for of in chosen.found.values() if isinstance(of, AppendJoin))

    assert join.sorted is counted
    assert ordered_scans(query.maintained) == frozenset()
    assert bool(ordered_relations(query.maintained)) is counted
