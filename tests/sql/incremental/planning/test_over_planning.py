"""Planning of OVER aggregates over streams: what becomes a stage, what it keeps, and what is refused where."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect import to_spark_query
from penstock.sql.incremental.describe import state_of
from penstock.sql.incremental.over_frame import (
    AccumulatorState,
    RangeState,
    RowsState,
    UnboundedState,
)
from penstock.sql.incremental.stages import OverAggregate, RecomputeOperator, WindowAggregate
from penstock.sql.plan.analysed import AnalysedQuery
from tests.sql.maintain.temporal_tables import planned
from tests.sql.plan.explained import operator_lines

HOUR = "PARTITION BY currency ORDER BY ts RANGE BETWEEN INTERVAL '1' HOUR PRECEDING AND CURRENT ROW"


def stages(query: AnalysedQuery) -> list[OverAggregate]:
    """Its OVER aggregations, in order."""
    assert query.maintained is not None
    return [stage for stage in query.maintained.stages if isinstance(stage, OverAggregate)]


def sql(stage: OverAggregate) -> str:
    """The SQL of a stage, without quotes."""
    return to_spark_query(stage.query).replace("`", "")


def test_rows_of_the_interval_are_kept_and_inserts_are_given() -> None:
    """Only the columns that are named are read; the rowtime is followed."""
    found = planned(
        f"SELECT id, SUM(amount) OVER ({HOUR}) * 2 AS twice FROM orders WHERE amount > 1"
    )
    (stage,) = stages(found)

    assert (stage.key, stage.time, stage.waits_for) == (("currency",), "ts", (0,))
    assert stage.kept == RangeState(micros=3_600_000_000)
    assert "SUM(amount) OVER (PARTITION BY currency ORDER BY ts RANGE BETWEEN INTERVAL" in sql(
        stage
    )
    assert found.changes is ChangelogMode.INSERT_ONLY
    assert [leaf.rowtime and leaf.rowtime.column for leaf in found.leaves] == ["ts"]
    assert found.leaves[0].columns == ("id", "currency", "amount", "ts")


def test_without_a_frame_totals_are_kept_of_each_key() -> None:
    """RANGE UNBOUNDED PRECEDING: rows of one time count together; a number goes by row all the same."""
    (stage,) = stages(
        planned(
            "SELECT COUNT(*) FILTER (WHERE amount > 3) OVER w AS few, AVG(amount) OVER w AS mean, SUM(amount) OVER w "
            "AS total, ROW_NUMBER() OVER w AS n FROM orders AS o WINDOW w AS (PARTITION BY o.currency ORDER BY ts)"
        )
    )
    assert isinstance(stage.kept, AccumulatorState)

    assert [(str(one.total), one.by_row) for one in stage.kept.running] == [
        ("sum", False),
        ("sum", False),
        ("sum", False),
        ("sum", True),
    ]
    assert "__total1 DIV __total2" in sql(stage)


def test_a_function_that_no_total_gives_keeps_all_rows_and_explain_says_so() -> None:
    """Those beside it use them, too."""
    found = planned(
        "SELECT COUNT(DISTINCT id) OVER w AS d, SUM(amount) OVER w AS s, LAG(id) OVER w AS l FROM orders "
        "WINDOW w AS (PARTITION BY currency ORDER BY ts)"
    )
    (stage,) = stages(found)
    assert found.maintained is not None
    lines = operator_lines(found)

    assert isinstance(stage.kept, UnboundedState)
    assert lines[0].endswith("[stage over_0] [I]")
    assert lines[1:3] == [
        "- state: all rows, which COUNT(DISTINCT id) needs, and rows until the watermark has passed their ts",
        "- bound: the watermark of its table; nothing else: all rows stay",
    ]


def test_functions_that_keep_different_rows_are_stages_one_after_the_other() -> None:
    """LAG needs the last rows, the others those of an hour."""
    kept = [
        stage.kept
        for stage in stages(
            planned(
                f"SELECT MAX(amount) OVER w, LAG(id, 3) OVER w, LAG(id) OVER w FROM orders WINDOW w AS ({HOUR})"
            )
        )
    ]

    assert kept == [RangeState(micros=3_600_000_000), RowsState(count=3)]


def test_names_of_windows_stand_for_what_they_say() -> None:
    """One may extend another; columns may have the name of their table or not."""
    (stage,) = stages(
        planned(
            "SELECT SUM(amount) OVER (v ROWS 2 PRECEDING), MIN(amount) OVER (PARTITION BY o.currency ORDER BY o.ts ROWS "
            "BETWEEN 2 PRECEDING AND CURRENT ROW) FROM orders AS o WINDOW w AS (PARTITION BY currency), v AS (w ORDER BY ts)"
        )
    )

    assert stage.kept == RowsState(count=2)
    assert sql(stage).count("ORDER BY ts, __arrival ROWS BETWEEN 2 PRECEDING AND CURRENT ROW") == 2


@pytest.mark.parametrize("order", ["pt", "PROCTIME()", "o.pt"])
def test_by_processing_time_rows_are_given_as_they_come(order: str) -> None:
    """UNBOUNDED counts row by row, RANGE or not (ProcTimeUnboundedPrecedingFunction)."""
    (stage,) = stages(planned(f"SELECT SUM(amount) OVER (ORDER BY {order}) AS s FROM orders AS o"))
    (near,) = stages(
        planned(
            f"SELECT SUM(amount) OVER (ORDER BY {order} RANGE BETWEEN INTERVAL '1' SECOND PRECEDING AND CURRENT ROW) "
            "AS s FROM orders AS o"
        )
    )
    assert isinstance(stage.kept, AccumulatorState)

    assert (stage.time, stage.waits_for, stage.key) == (None, (), ())
    assert stage.kept.running[0].by_row
    assert "ORDER BY __batch_time RANGE" in sql(near)


@pytest.mark.parametrize(
    ("source", "waits_for"),
    [
        ("(SELECT id, amount, ts FROM orders UNION ALL SELECT 1, rate, since FROM quotes) AS o", (0, 1)),
        ("(SELECT o.*, r.rate FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency = r.currency)",
         (0, 1)),
        ("(SELECT ts, COUNT(*) OVER (ORDER BY ts) AS amount FROM orders)", (0,)),
        ("(SELECT window_time AS ts, amount FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)))",
         (0,)),
        ("(SELECT window_time AS ts, SUM(amount) AS amount FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' "
         "MINUTE)) GROUP BY window_start, window_end, window_time)", ()),
    ],
)  # fmt: skip
def test_a_rowtime_stays_one_up_to_the_over(source: str, waits_for: tuple[int, ...]) -> None:
    """Rows of closed windows come behind the watermark, and wait for nothing."""
    stage = stages(
        planned(f"SELECT SUM(amount) OVER (ORDER BY ts ROWS 3 PRECEDING) AS s FROM {source}")
    )[-1]

    assert (stage.time, stage.waits_for) == ("ts", waits_for)


def test_its_rows_are_filtered_joined_and_aggregated() -> None:
    """They are inserts like any others."""
    found = planned(
        f"SELECT n, MAX(id) AS m FROM (SELECT id, COUNT(*) OVER ({HOUR}) AS n FROM orders) WHERE n > 2 GROUP BY n"
    )
    assert found.maintained is not None

    assert isinstance(found.maintained.stages[-1], RecomputeOperator)
    assert any("WHERE" in line and "> 2" in line for line in state_of(found.maintained))


@pytest.mark.parametrize(
    "source",
    [
        "TABLE(HOP((SELECT ts, SUM(amount) OVER (ORDER BY ts) AS amount FROM orders), DESCRIPTOR(ts), INTERVAL '1' MINUTE, "
        "INTERVAL '2' MINUTE)) AS w WHERE w.amount > 1",
        "TABLE(TUMBLE((SELECT o.* FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency = r.currency), "
        "DESCRIPTOR(ts), INTERVAL '1' MINUTE))",
    ],
)  # fmt: skip
def test_windows_of_its_rows_are_aggregated_when_they_are_closed(source: str) -> None:
    """Once, as windows of a table are: the result is inserts. Those of a temporal join, too."""
    query = f"SELECT window_start, MAX(amount) AS m FROM {source} GROUP BY window_start, window_end"
    found = planned(query)
    assert found.maintained is not None
    stage = found.maintained.stages[-1]
    assert isinstance(stage, WindowAggregate)

    assert (stage.time, found.changes) == ("window_time", ChangelogMode.INSERT_ONLY)
    assert f"[stage {stage.name}] [I]" in operator_lines(found)[0]


@pytest.mark.parametrize(
    ("query", "what", "column"),
    [
        ("SELECT SUM(amount) OVER () FROM orders", "needs an ORDER BY", 8),
        ("SELECT SUM(amount) OVER (ORDER BY amount) FROM orders", "must be defined on a time attribute", 35),
        ("SELECT SUM(amount) OVER (ORDER BY ts, id) FROM orders", "ordered by a single time column", 39),
        ("SELECT ROW_NUMBER() OVER (ORDER BY amount DESC, id) AS n FROM orders", "needs a bound", 8),
        ("SELECT SUM(amount) OVER (ORDER BY ts DESC) FROM orders", "ordered in ASCENDING mode", 35),
        ("SELECT SUM(o.amount) OVER (ORDER BY o.ts) FROM orders AS o JOIN orders AS p ON o.id = p.id",
         "must be defined on a time attribute", 37),
        ("SELECT SUM(amount) OVER (ORDER BY ts ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM orders",
         "FOLLOWING is not supported", None),
        ("SELECT SUM(amount) OVER (ORDER BY ts ROWS BETWEEN CURRENT ROW AND CURRENT ROW) FROM orders",
         "begin at a PRECEDING row", None),
        ("SELECT SUM(amount) OVER (ORDER BY ts ROWS amount PRECEDING) FROM orders", "back by a whole number", 43),
        ("SELECT SUM(amount) OVER (ORDER BY ts RANGE INTERVAL '1' MONTH PRECEDING) FROM orders",
         "back by an interval of days to seconds", None),
        ("SELECT SUM(amount) OVER (ORDER BY ts), MAX(id) OVER (ORDER BY ts ROWS 3 PRECEDING) FROM orders",
         "must be computed on the same window", 40),
        ("SELECT SUM(amount) OVER w FROM orders", "no window 'w'", 25),
        ("SELECT SUM(amount) OVER w FROM orders WINDOW w AS (w ORDER BY ts)", "no window 'w'", 52),
        ("SELECT SUM(rate) OVER (ORDER BY since) FROM rates", "consuming update and delete changes", 8),
        ("SELECT LEAD(id) OVER (ORDER BY ts) FROM orders", "LEAD Function is not supported in stream mode", 8),
        ("SELECT NTILE(4) OVER (ORDER BY ts) FROM orders", "NTILE Function is not supported in stream mode", 8),
        ("SELECT RANK() OVER (ORDER BY ts) FROM orders", "OVER a stream without a bound", 8),
        ("SELECT LAG(id, amount) OVER (ORDER BY ts) FROM orders", "by a fixed number of rows", 8),
        ("SELECT AVG(DISTINCT id) OVER (ORDER BY ts) FROM orders", "of DISTINCT values COUNT and SUM are", 8),
        ("SELECT COUNT(DISTINCT id, amount) OVER (ORDER BY ts) FROM orders", "DISTINCT takes one value", 8),
        ("SELECT JSON_ARRAYAGG(id) OVER (ORDER BY ts) FROM orders", "OVER a stream is not supported", None),
        ("SELECT LAST_VALUE(id) RESPECT NULLS FILTER (WHERE id > 1) OVER (ORDER BY ts) FROM orders",
         "with a FILTER is not supported", 8),
        ("SELECT id FROM orders WHERE ROW_NUMBER() OVER (ORDER BY ts) < 3", "outside the SELECT list", 29),
        ("SELECT SUM(id) OVER (ORDER BY ts) FROM orders WHERE ROW_NUMBER() OVER (ORDER BY ts) < 3",
         "illegal in WHERE", 53),
        ("SELECT currency, SUM(SUM(amount)) OVER (ORDER BY pt) FROM orders GROUP BY currency", "beside GROUP BY", 18),
        ("SELECT COUNT(*) FROM TABLE(SESSION((SELECT ts, SUM(id) OVER (ORDER BY ts) AS s FROM orders), DESCRIPTOR(ts), "
         "INTERVAL '1' MINUTE)) GROUP BY window_start, window_end", "SESSION over the results of OVER", 28),
        ("SELECT COUNT(*) FROM TABLE(TUMBLE((SELECT ts + INTERVAL '1' DAY AS ts, SUM(id) OVER (ORDER BY ts) AS s FROM "
         "orders), DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end",
         "ts is not a rowtime of the rows that TUMBLE reads", 28),
        ("SELECT SUM(id) OVER (ORDER BY ts) AS s, CURRENT_TIMESTAMP AS now FROM orders", "another value each time", None),
    ],
)  # fmt: skip
def test_what_a_stream_cannot_have_is_refused_at_its_place(
    query: str, what: str, column: int | None
) -> None:
    """With what would help."""
    with pytest.raises(UnsupportedError, match=what) as caught:
        planned(query)

    assert caught.value.hint
    assert caught.value.span is not None
    assert column is None or caught.value.span.column == column
