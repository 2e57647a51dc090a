"""ROW_NUMBER as an aggregation: the best row of each key, the n best under their numbers."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.sql.dialect import to_text
from penstock.sql.incremental.stages import RecomputeOperator
from penstock.sql.plan.rules.flow import Arrival, OperatorKind
from tests.sql.maintain import planned
from tests.sql.plan.changing import plan, spark_sql


def ranked(order: str, bound: str, columns: str = "k, rn, id") -> str:
    """Write the pattern over events."""
    over = f"ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS rn"
    return f"SELECT {columns} FROM (SELECT id, k, x, {over} FROM events) WHERE {bound}"


@pytest.mark.parametrize(
    ("order", "function", "way"),
    [("ts DESC", "MAX_BY", OperatorKind.LAST_ROW), ("ts", "MIN_BY", OperatorKind.FIRST_ROW)],
)
def test_the_first_or_last_row_of_a_key_is_kept_whole(
    order: str, function: str, way: OperatorKind
) -> None:
    """Flink's deduplication."""
    query = ranked(order, "rn = 1", "k, id")
    flow = plan(query).flow

    assert spark_sql(query) == (
        "SELECT k, id FROM (SELECT __best.id AS id, __best.k AS k, __best.x AS x, CAST(1 AS BIGINT) AS rn FROM "
        f"(SELECT __key0, {function}(__row_of_key, __order) AS __best FROM (SELECT k AS __key0, "
        "NAMED_STRUCT('id', id, 'k', k, 'x', x) AS __row_of_key, STRUCT(ts) AS __order FROM events) AS __rows "
        "GROUP BY __key0) AS __keys)"
    )
    assert flow.mechanism is not None
    assert (flow.mechanism.way, flow.key, flow.kinds) == (way, ("k",), False)


def test_the_best_rows_come_under_their_numbers() -> None:
    """Key and number are the key of the result."""
    query = ranked("x DESC", "rn <= 3")

    assert "MAX_BY(__row_of_key, __order, 3)" in spark_sql(query)
    assert "CROSS JOIN LATERAL EXPLODE(__ranked)" in spark_sql(query)
    assert plan(query).flow.key == ("k", "rn")


@pytest.mark.parametrize(
    ("bound", "count", "rest"),
    [
        ("rn < 3", 2, ""),
        ("4 >= rn", 4, ""),
        ("rn = 2", 2, " WHERE rn = 2"),
        ("rn > 1 AND rn <= 3", 3, " WHERE rn > 1"),
    ],
)
def test_the_bound_says_how_many_are_kept(bound: str, count: int, rest: str) -> None:
    """What else it says of the number is a filter by the key."""
    written = spark_sql(ranked("x", bound))

    assert f"MIN_BY(__row_of_key, __order, {count})" in written
    assert written.endswith(f"AS __u(__row_of_key)){rest}")


def test_a_filter_behind_the_bound_deletes() -> None:
    """The row of this number may have passed before."""
    assert (
        "CASE WHEN x > 5 THEN CAST(2 AS TINYINT) ELSE CAST(3 AS TINYINT) END AS __row_kind"
        in spark_sql(ranked("ts", "rn = 1 AND x > 5", "k, x"))
    )


@pytest.mark.parametrize(
    ("order", "written"),
    [
        ("k DESC, x", "STRUCT(k, ~(x))"),
        ("k DESC, y", "STRUCT(k, -(y))"),
        ("x DESC, ts", "STRUCT(x, -UNIX_MICROS(CAST(ts AS TIMESTAMP)))"),
        ("x, y", "STRUCT(x, y)"),
    ],
)
def test_numbers_and_times_are_turned_round_where_directions_mix(order: str, written: str) -> None:
    """~x is the order of -x without its overflow."""
    query = (
        f"SELECT * FROM (SELECT id, k, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS rn FROM events) "
        "WHERE rn <= 2"
    )

    assert f"{written} AS __order" in spark_sql(query)


@pytest.mark.parametrize(
    ("query", "what"),
    [
        (ranked("x", "x > 1"), "ROW_NUMBER OVER a stream"),
        (ranked("x", "rn <= 20000"), "more than the 10000"),
        (ranked("x", "rn <= 3", "k, id"), "'rn', by which the rows are told apart"),
        (ranked("x, k DESC", "rn <= 3"), "mixes ASC and DESC"),
        (ranked("x NULLS LAST", "rn <= 3"), "NULLS FIRST and NULLS LAST"),
        (ranked("x", "rn = 1").replace("id, k, x, ROW", "id, x, ROW").replace("k, rn, id", "id"), "PARTITION BY k"),
        (ranked("x", "rn = 1").replace("ROW_NUMBER", "RANK"), "RANK.* of a stream"),
        (ranked("amount", "rn = 1", "id").replace("id, k, x,", "id,").replace("k ORDER", "id ORDER").replace(
            "events", "cdc"), "over rows that are updated or deleted"),
    ],
)  # fmt: skip
def test_rankings_that_cannot_be_kept_are_refused(query: str, what: str) -> None:
    """With what would help."""
    with pytest.raises(UnsupportedError, match=what):
        plan(query)


# --- ties of ROW_NUMBER: which of rows with equal order is taken, and how a query carries the ---


FIRST = "__arrived.batch, __arrived.input, __arrived.split, __arrived.position"
TURNED = "~(__arrived.batch), ~(__arrived.input), ~(__arrived.split), ~(__arrived.position)"
WINDOWED = "TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' HOUR))"


def numbered(order: str, bound: str = "rn = 1", source: str = "events", keys: str = "k") -> str:
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
    assert ordered(numbered(order, bound)) == written


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
    assert ordered(numbered(order, source=source)) == written


def test_a_subquery_with_named_columns_gives_the_order_as_one_more() -> None:
    """A star has it with the others."""
    text = spark_sql(numbered("x", source="(SELECT id, k, x FROM events)"), Arrival.RECORD)

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

    assert "__arrived" not in spark_sql(numbered(order, source=source), Arrival.RECORD)


def test_a_checkpoint_of_an_earlier_version_has_no_order_of_arrival() -> None:
    """The form that it holds can still be planned."""
    assert ordered(numbered("x"), Arrival.OPEN) == "x"


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
    stage = stage_of(numbered(order, bound), arrival)

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
    query = numbered("x", "rn <= 2").replace("ROW_NUMBER", "RANK")
    stages = planned.plan(query, Arrival.RECORD).stages

    assert any("RANK() OVER" in stage for stage in stages)
    assert "__arriv" not in " ".join(stages)
