"""Ties of ROW_NUMBER: which of rows with equal order is taken, and how a query carries the order in which rows came."""

from __future__ import annotations

import pytest

from penstock.sql.dialect import to_text
from penstock.sql.incremental.stages import RecomputeOperator
from penstock.sql.plan.rules.flow import Arrival
from tests.sql.maintain import planned
from tests.sql.plan.changing import plan, spark_sql

FIRST = "__arrived.batch, __arrived.input, __arrived.split, __arrived.position"
TURNED = "~(__arrived.batch), ~(__arrived.input), ~(__arrived.split), ~(__arrived.position)"
WINDOWED = "TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' HOUR))"


def ranked(order: str, bound: str = "rn = 1", source: str = "events", keys: str = "k") -> str:
    """Write a query that numbers rows."""
    over = f"ROW_NUMBER() OVER (PARTITION BY {keys} ORDER BY {order}) AS rn"
    return f"SELECT rn, {keys}, id FROM (SELECT id, {keys}, {over} FROM {source}) WHERE {bound}"


def ordered(query: str, arrival: Arrival = Arrival.RECORD) -> str:
    """Give the order by which Spark compares rows."""
    text = to_text(plan(query, arrival).query).replace("`", "")
    return text[: text.index(") AS __order")].rpartition("STRUCT(")[2]


@pytest.mark.parametrize(
    ("order", "bound", "written"),
    [
        ("x", "rn = 1", f"x, {FIRST}"),
        ("x", "rn <= 3", f"x, {FIRST}"),
        ("x DESC", "rn = 1", f"x, {TURNED}"),
        ("x DESC", "rn <= 3", f"x, {TURNED}"),
        ("ts", "rn = 1", f"ts, {FIRST}"),
        # Flink keeps the last row by time only where nothing else is asked for
        ("ts DESC", "rn = 1", f"ts, {FIRST}"),
        ("ts DESC", "rn < 2", f"ts, {FIRST}"),
        ("ts DESC", "rn <= 2", f"ts, {TURNED}"),
        ("ts DESC, x DESC", "rn = 1", f"ts, x, {TURNED}"),
    ],
)
def test_the_first_row_that_came_wins_but_for_the_last_by_rowtime(
    order: str, bound: str, written: str
) -> None:
    """In MAX_BY, which takes the greatest, what came first is the greater."""
    assert ordered(ranked(order, bound)) == written


@pytest.mark.parametrize(
    ("source", "order", "written"),
    [
        (WINDOWED, "x", f"x, {FIRST}"),
        (WINDOWED, "ts DESC", f"ts, {FIRST}"),
        ("(SELECT * FROM events WHERE x > 1)", "ts DESC", f"ts, {FIRST}"),
        ("(SELECT id, k, x AS ts FROM events)", "ts DESC", f"ts, {TURNED}"),
        ("(SELECT id, k, id AS x FROM events UNION ALL SELECT id, k, x FROM later)", "x", f"x, {FIRST}"),
    ],
)  # fmt: skip
def test_the_order_of_arrival_goes_through_what_keeps_rows(
    source: str, order: str, written: str
) -> None:
    """Filters, projections, windows, UNION ALL; a renamed column is no rowtime."""
    assert ordered(ranked(order, source=source)) == written


def test_a_subquery_with_named_columns_gives_the_order_as_one_more() -> None:
    """A star has it with the others."""
    text = spark_sql(ranked("x", source="(SELECT id, k, x FROM events)"), Arrival.RECORD)

    assert "(SELECT id, k, x, __arrived FROM events)" in text


@pytest.mark.parametrize(
    "source",
    [
        "(SELECT id, k, x FROM events UNION ALL SELECT id, k, x FROM events)",
        "events AS e (id, k, x, y, ts, arr)",
        "notes AS events (id, k)",
        "events CROSS JOIN UNNEST(arr) AS u (x)",
    ],
)
def test_rows_without_an_order_of_arrival_are_compared_as_before(source: str) -> None:
    """Rows of tables that Spark reads by itself, of one record twice."""
    order = "id" if "notes" in source else "k"

    assert "__arrived" not in spark_sql(ranked(order, source=source), Arrival.RECORD)


def test_a_checkpoint_of_an_earlier_version_has_no_order_of_arrival() -> None:
    """The form that it holds can still be planned."""
    assert ordered(ranked("x"), Arrival.OPEN) == "x"


# --- maintained queries ---


def stage_of(query: str, arrival: Arrival) -> RecomputeOperator:
    """Plan a maintained query and give its Top-N."""
    stages = planned.plan(query, arrival).plan.maintained.stages
    return next(
        s for s in stages if isinstance(s, RecomputeOperator) and "ROW_NUMBER" in to_text(s.query)
    )


@pytest.mark.parametrize(
    ("order", "bound", "arrival", "written"),
    [
        ("x", "rn <= 2", Arrival.RECORD, "ORDER BY x, __arrived)"),
        ("x DESC", "rn = 1", Arrival.RECORD, "ORDER BY x DESC, __arrived)"),
        ("ts DESC", "rn = 1", Arrival.RECORD, "ORDER BY ts DESC, __arrived DESC)"),
        ("ts DESC", "rn <= 2", Arrival.RECORD, "ORDER BY ts DESC, __arrived)"),
        ("x", "rn <= 2", Arrival.BATCH, "ORDER BY x, __arrival, id, k)"),
        ("ts DESC", "rn = 1", Arrival.BATCH, "ORDER BY ts DESC, __arrival DESC, id, k)"),
        ("x", "rn <= 2", Arrival.OPEN, "ORDER BY x, id, k)"),
    ],
)
def test_maintained_ranks_break_ties_alike(
    order: str, bound: str, arrival: Arrival, written: str
) -> None:
    """Where only the batch of a row is known, its columns break what that leaves."""
    stage = stage_of(ranked(order, bound), arrival)

    assert written in to_text(stage.query).replace("`", "")
    assert stage.inputs[0].by_batch is (arrival is Arrival.BATCH)


def test_windows_of_one_record_are_told_apart() -> None:
    """HOP puts a record into several, which came at one time."""
    hop = "TABLE(HOP(TABLE events, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '2' HOUR))"
    query = f"SELECT k FROM (SELECT k, window_start, ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) AS rn FROM {hop}) WHERE rn <= 2"

    assert "ORDER BY x, __arrived, window_start)" in to_text(
        stage_of(query, Arrival.RECORD).query
    ).replace("`", "")


def test_rows_that_are_updated_are_told_apart_by_their_columns() -> None:
    """Each came more than once."""
    query = "SELECT id FROM (SELECT id, region, ROW_NUMBER() OVER (PARTITION BY region ORDER BY amount) AS rn FROM cdc) WHERE rn <= 2"
    stage = stage_of(query, Arrival.RECORD)

    assert "ORDER BY amount, id, region)" in to_text(stage.query).replace("`", "")
    assert stage.inputs[0].arrival is None


def test_ranks_that_share_a_number_ask_for_no_order_of_arrival() -> None:
    """RANK gives rows of equal order one number."""
    query = ranked("x", "rn <= 2").replace("ROW_NUMBER", "RANK")
    stages = planned.plan(query, Arrival.RECORD).stages

    assert any("RANK() OVER" in stage for stage in stages)
    assert "__arriv" not in " ".join(stages)
