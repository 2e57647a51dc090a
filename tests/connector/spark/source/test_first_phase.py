"""Partial results of groups: put together they are the results of all rows, whatever batches these came in."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from penstock.catalog.model import types as t
from penstock.connector.arrow import arrow_schema
from penstock.connector.expression import (
    COUNTED,
    ROWS,
    Constant,
    Expression,
    FieldValue,
    FunctionCall,
    NamedExpression,
    PartialAggregate,
    PartialFunction,
    PartialResult,
    aggregate_from_json,
    aggregate_to_json,
)
from penstock.connector.spark.source import first_phase
from penstock.connector.spark.source.first_phase import FirstPhase, pane_starts

TYPES: dict[str, t.LogicalType] = {
    "at": t.TimestampType(precision=3),
    "k": t.VarCharType(length=10),
    "n": t.BigIntType(),
    "i": t.IntType(),
    "d": t.DoubleType(),
    "p": t.DecimalType(precision=10, scale=2),
}
SCHEMA = arrow_schema(TYPES.items())
PANE_MS = 10_000
EPOCH = datetime(1970, 1, 1)


def column(name: str) -> FieldValue:
    return FieldValue(path=(name,), type=TYPES[name])


def result(
    name: str, function: PartialFunction, argument: str | None, kind: t.LogicalType, condition: Expression | None = None
) -> PartialResult:  # fmt: skip
    value = None if argument is None else column(argument)
    return PartialResult(
        name=name, function=function, argument=value, condition=condition, type=kind
    )


POSITIVE = FunctionCall(
    function="less",
    arguments=(Constant(value=0, type=t.IntType()), column("i")),
    type=t.BooleanType(),
)
BIGINT = t.BigIntType()
RESULTS = (
    result("all", PartialFunction.COUNT, None, BIGINT),
    result("some", PartialFunction.COUNT, None, BIGINT, POSITIVE),
    result("there", PartialFunction.COUNT, "k", BIGINT),
    result("total", PartialFunction.SUM, "n", BIGINT),
    result("positive", PartialFunction.SUM, "i", BIGINT, POSITIVE),
    result("exact", PartialFunction.SUM, "p", t.DecimalType(precision=20, scale=2)),
    result("least", PartialFunction.MIN, "n", BIGINT),
    result("last", PartialFunction.MAX, "k", TYPES["k"]),
    result("latest", PartialFunction.MAX, "d", t.DoubleType(), POSITIVE),
)


def aggregate(
    *results: PartialResult, condition: Expression | None = None, offset_ms: int = 0
) -> PartialAggregate:
    return PartialAggregate(
        time=NamedExpression(name="at", value=column("at")),
        pane_ms=PANE_MS,
        offset_ms=offset_ms,
        keys=(NamedExpression(name="key", value=column("k")),),
        results=results,
        condition=condition,
    )


def random_rows(chance: random.Random, count: int, *, large: bool) -> list[dict[str, Any]]:
    whole, fractions = list(range(-5, 6)) * 20, [0.5, -2.0, 1e300, float("inf")] * 50
    if large:
        whole, fractions = [*whole, 2**63 - 1, -(2**63), 2**62], [*fractions, float("nan")]

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    return [
        {
            "at": maybe(EPOCH + timedelta(milliseconds=chance.randrange(-30_000, 30_000))),
            "k": maybe(chance.choice("abc")),
            "n": maybe(chance.choice(whole)),
            "i": maybe(chance.randrange(-3, 4)),
            "d": maybe(chance.choice(fractions)),
            "p": maybe(Decimal(chance.randrange(-(10**10) + 1, 10**10)).scaleb(-2)),
        }
        for _ in range(count)
    ]


def partials(plan: PartialAggregate, batches: list[list[dict[str, Any]]]) -> tuple[list[dict[str, Any]], int]:  # fmt: skip
    phase = FirstPhase(plan)
    found: list[dict[str, Any]] = []
    for rows in batches:
        for batch in phase.add(pa.RecordBatch.from_pylist(rows, schema=SCHEMA)):
            found += batch.to_pylist()
    for batch in phase.finish():
        found += batch.to_pylist()
    return found, phase.merged


def pane(at: datetime | None, offset_ms: int = 0) -> datetime | None:
    if at is None:
        return None
    size, offset = timedelta(milliseconds=PANE_MS), timedelta(milliseconds=offset_ms)
    return EPOCH + offset + (at - EPOCH - offset) // size * size


MERGE = {
    PartialFunction.COUNT: sum,
    PartialFunction.SUM: sum,
    PartialFunction.MIN: min,
    PartialFunction.MAX: lambda values: max(values, key=_spark_order),
}


def _spark_order(value: Any) -> Any:
    return (1, 0.0) if isinstance(value, float) and math.isnan(value) else (0, value)


def expected(rows: list[dict[str, Any]], plan: PartialAggregate) -> dict[Any, dict[str, Any]]:
    groups = defaultdict[Any, list[dict[str, Any]]](list)
    for row in rows:
        groups[pane(row["at"]), row["k"]].append(row)
    found = {}
    for key, members in groups.items():
        values: dict[str, Any] = {ROWS: len(members)}
        for one in plan.results:
            taken = [
                m for m in members if one.condition is None or (m["i"] is not None and m["i"] > 0)
            ]
            name = one.argument.path[0] if isinstance(one.argument, FieldValue) else None
            there = [m if name is None else m[name] for m in taken if name is None or m[name] is not None]  # fmt: skip
            if one.function is PartialFunction.COUNT:
                values[one.name] = len(there)
            else:
                values[one.name] = MERGE[one.function](there) if there else None
        found[key] = values
    return found


def merged(found: list[dict[str, Any]], plan: PartialAggregate) -> dict[Any, dict[str, Any]]:
    groups = defaultdict[Any, list[dict[str, Any]]](list)
    for row in found:
        groups[row["at"], row["key"]].append(row)
    totals = {}
    for key, members in groups.items():
        values: dict[str, Any] = {ROWS: sum(m[ROWS] for m in members)}
        for one in plan.results:
            there = [m[one.name] for m in members if m[one.name] is not None]
            values[one.name] = MERGE[one.function](there) if there else None
        totals[key] = values
    return totals


@pytest.mark.parametrize("large", [False, True])
def test_partial_results_are_those_of_all_rows(
    monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    """Over NULL, times before 1970 and without one, sums beyond 64 bits and NaN, whatever the batches."""
    chance, plan = random.Random(7), aggregate(*RESULTS)
    merges = 0
    for _ in range(60):
        monkeypatch.setattr(first_phase, "ROWS_AT_ONCE", chance.choice([1, 20, 1000]))
        batches = [random_rows(chance, chance.randrange(40), large=large) for _ in range(4)]
        found, fewer = partials(plan, batches)
        rows = [row for batch in batches for row in batch]
        merges += fewer

        assert repr(sorted(merged(found, plan).items(), key=repr)) == repr(
            sorted(expected(rows, plan).items(), key=repr)
        )
        assert len(found) + fewer == len(rows)
    assert merges > 0


BY_DUCKDB = """
SELECT {key} AS key, {all} AS "all", {some} AS "some", {there} AS there, {total}::BIGINT AS total, {positive}::BIGINT AS positive,
  {exact} AS exact, min({least}) AS least, max({last}) AS last, max({latest}) AS latest
FROM given GROUP BY 1 ORDER BY 1 NULLS FIRST
"""
OF_ROWS = {
    "key": "k", "all": "count(*)", "some": "count(*) FILTER (i > 0)", "there": "count(k)", "total": "sum(n)",
    "positive": "sum(i) FILTER (i > 0)", "exact": "sum(p)", "least": "n", "last": "k", "latest": "CASE WHEN i > 0 THEN d END",
}  # fmt: skip
OF_GROUPS = {
    "key": "key", **{name: f'coalesce(sum("{name}"), 0)::BIGINT' for name in ("all", "some", "there")},
    "total": "sum(total)", "positive": "sum(positive)", "exact": "sum(exact)", "least": "least", "last": "last",
    "latest": "latest",
}  # fmt: skip


def test_groups_without_windows_are_those_of_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put together by sums and bounds, whatever the batches; rows without a time count as any."""
    keys = (NamedExpression(name="key", value=column("k")),)
    plan, chance, merges = PartialAggregate(keys=keys, results=RESULTS), random.Random(11), 0
    for _ in range(30):
        monkeypatch.setattr(first_phase, "ROWS_AT_ONCE", chance.choice([1, 20, 1000]))
        batches = [random_rows(chance, 1 + chance.randrange(40), large=False) for _ in range(4)]
        groups, fewer = partials(plan, batches)
        merges += fewer
        answers = []
        schema = arrow_schema(plan.typed_columns())
        for texts, given in (
            (OF_ROWS, pa.Table.from_pylist([row for rows in batches for row in rows], SCHEMA)),
            (OF_GROUPS, pa.Table.from_pylist(groups, schema)),
        ):
            with duckdb.connect() as connection:
                connection.register("given", given)
                answers.append(connection.execute(BY_DUCKDB.format(**texts)).fetchall())

        assert answers[0] == answers[1]
        assert sum(row[ROWS] for row in groups) == sum(map(len, batches))
    assert merges > 0
    assert aggregate_from_json(aggregate_to_json(plan)) == plan


def test_rows_without_the_condition_are_counted_by_pane_alone() -> None:
    """Late ones of them are counted, and nothing of them is in a result."""
    plan = aggregate(*RESULTS[:1], condition=POSITIVE)
    rows = [
        {"at": EPOCH, "k": "a", "i": 1}, {"at": EPOCH, "k": "a", "i": 2}, {"at": EPOCH, "k": "b", "i": 0},
        {"at": EPOCH, "k": "c", "i": None}, {"at": EPOCH + timedelta(seconds=10), "k": "c", "i": -1},
    ]  # fmt: skip
    found, fewer = partials(plan, [rows])
    counts = {(row["at"], row["key"], row[COUNTED]): row[ROWS] for row in found}

    assert counts == {
        (EPOCH, "a", True): 2,
        (EPOCH, None, False): 2,
        (EPOCH + timedelta(seconds=10), None, False): 1,
    }
    assert fewer == 2


def test_rows_that_are_groups_of_their_own_are_not_grouped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither are the rows that come after them, which spares what grouping costs."""
    monkeypatch.setattr(first_phase, "ROWS_AT_ONCE", 10)
    alone = [{"at": EPOCH, "k": str(number)} for number in range(10)]
    alike = [{"at": EPOCH, "k": "a"}] * 10

    assert partials(aggregate(*RESULTS), [alike, alike])[1] == 18
    assert partials(aggregate(*RESULTS), [alone, alike])[1] == 0


def test_a_sum_beyond_64_bits_is_left_to_spark() -> None:
    """Each of its rows is a group, so that Spark finds what it would have found."""
    rows = [{"at": EPOCH, "k": "a", "n": 2**63 - 1}] * 2
    found, _ = partials(aggregate(*RESULTS), [rows])

    assert [row["total"] for row in found] == [2**63 - 1] * 2


@pytest.mark.parametrize("offset_ms", [0, 3_000, -3_000, 25_000])
def test_panes_start_where_windows_do(offset_ms: int) -> None:
    """Of local times and instants, before 1970 too."""
    times = [EPOCH + timedelta(milliseconds=ms) for ms in range(-31_000, 31_000, 499)]
    local = pa.array([*times, None], pa.timestamp("us"))
    instants = pa.array([*(at.replace(tzinfo=UTC) for at in times), None], pa.timestamp("us", "UTC"))  # fmt: skip

    starts = [pane(at, offset_ms) for at in times]
    assert pane_starts(local, PANE_MS, offset_ms).to_pylist() == [*starts, None]
    assert pane_starts(instants, PANE_MS, offset_ms).cast(pa.timestamp("us")).to_pylist() == [
        *starts,
        None,
    ]


def test_a_first_phase_travels_as_json() -> None:
    """With conditions and without."""
    for plan in (aggregate(*RESULTS), aggregate(*RESULTS, condition=POSITIVE, offset_ms=5)):
        assert aggregate_from_json(aggregate_to_json(plan)) == plan
