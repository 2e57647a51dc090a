"""Planning of temporal joins in event time: what a stage of one is made of, and what is refused where."""

from __future__ import annotations

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ChangelogMode
from penstock.sql.dialect import to_spark_query
from penstock.sql.incremental.describe import state_of
from penstock.sql.incremental.stages import Calc, TemporalJoin
from penstock.sql.plan.analysed import AnalysedQuery
from tests.sql.maintain.temporal_tables import JOIN, planned
from tests.sql.plan.explained import operator_lines


def stages(query: AnalysedQuery) -> list[TemporalJoin]:
    """Its temporal joins, in order."""
    assert query.maintained is not None
    return [stage for stage in query.maintained.stages if isinstance(stage, TemporalJoin)]


def sql(stage: TemporalJoin | Calc) -> str:
    """The SQL of a stage, without quotes."""
    return to_spark_query(stage.query).replace("`", "")


def test_changes_are_versions_and_rows_wait_for_both_watermarks() -> None:
    """Upserts come as they are; the rowtimes are read though the query names one alone."""
    found = planned(JOIN.format("JOIN rates", "o.ts"))
    (stage,) = stages(found)

    assert (stage.rows, stage.time, stage.row_key) == ("feed_1", "ts", ("currency",))
    assert (stage.versions, stage.version_time, stage.version_key) == (
        "feed_0",
        "since",
        ("currency",),
    )
    assert stage.waits_for == (0, 1)
    assert sql(stage).endswith(
        "FROM feed_1 JOIN feed_0 ON feed_1.currency = feed_0.currency AND feed_1.ts >= feed_0.__valid_from AND "
        "(feed_0.__valid_to IS NULL OR feed_1.ts < feed_0.__valid_to)"
    )
    assert [leaf.columns for leaf in found.leaves] == [
        ("currency", "rate", "since", "__row_kind"),
        ("id", "currency", "ts"),
    ]
    assert [leaf.rowtime and leaf.rowtime.column for leaf in found.leaves] == ["since", "ts"]
    assert not any(leaf.marked for leaf in found.leaves)


def test_the_result_is_inserts() -> None:
    """Every sink takes them, LEFT too."""
    assert planned(JOIN.format("LEFT JOIN rates", "ts")).changes is ChangelogMode.INSERT_ONLY


def test_other_conditions_are_asked_of_the_version_that_is_valid() -> None:
    """In ON they decide on the match, in WHERE on the joined row; neither chooses another version."""
    query = JOIN.format("LEFT JOIN rates", "o.ts")
    (stage,) = stages(planned(f"{query} AND r.rate > 3"))
    filtered = planned(f"{query.replace('LEFT ', '')} WHERE r.rate > 3 AND o.amount > 1").maintained
    assert filtered is not None

    assert sql(stage).endswith("AND (feed_0.rate > 3)")
    assert isinstance(filtered.stages[1], Calc)
    assert sql(filtered.stages[1]).endswith("FROM temporal_0 WHERE temporal_0.rate > 3")
    assert filtered.feeds[0].columns == ("currency", "rate", "since")


def test_the_whole_key_is_compared_in_any_order() -> None:
    """By expressions of the left side, too; an equality of other columns is one condition more."""
    (stage,) = stages(
        planned(
            "SELECT o.id FROM orders AS o JOIN regions FOR SYSTEM_TIME AS OF o.ts AS g "
            "ON g.zone = UPPER(o.currency) AND o.currency = g.label AND o.currency = g.region"
        )
    )

    assert stage.version_key == ("region", "zone")
    assert stage.row_key == ("currency", "__key0_1")
    assert "AND (rows_0.currency = feed_0.label)" in sql(stage)


def test_a_view_of_the_last_rows_of_a_stream_is_versioned() -> None:
    """Each row of the stream is a version from its rowtime on."""
    found = planned(
        "SELECT o.id, q.price FROM orders AS o JOIN last_quotes FOR SYSTEM_TIME AS OF o.ts AS q "
        "ON o.currency = q.currency"
    )
    (stage,) = stages(found)
    assert found.maintained is not None

    assert (stage.version_time, stage.version_key) == ("since", ("currency",))
    assert found.maintained.feeds[0].columns == ("currency", "price", "since")
    assert found.maintained.feeds[0].changes is ChangelogMode.INSERT_ONLY


def test_a_rowtime_stays_one_through_projections_unions_and_temporal_joins() -> None:
    """A row of the second join waits for what the first one waited for."""
    first, second = stages(
        planned(
            "WITH a AS (SELECT id, currency, ts AS t FROM orders UNION ALL SELECT 1, currency, since FROM quotes), "
            "b AS (SELECT a.id, a.t, r.region FROM a JOIN rates FOR SYSTEM_TIME AS OF a.t AS r "
            "ON a.currency = r.currency) "
            "SELECT b.id, g.label FROM b JOIN regions FOR SYSTEM_TIME AS OF b.t AS g "
            "ON b.region = g.region AND b.region = g.zone"
        )
    )

    assert len(first.waits_for) == 3
    assert len(second.waits_for) == 4


def test_two_temporal_joins_follow_each_other() -> None:
    """The second one may compare columns of the first table."""
    first, second = stages(
        planned(
            "SELECT o.id FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency = r.currency "
            "LEFT JOIN last_quotes FOR SYSTEM_TIME AS OF o.ts AS q ON r.region = q.currency"
        )
    )

    assert (second.rows, second.row_key, second.time) == (first.name, ("region",), "ts")
    assert set(first.waits_for) < set(second.waits_for)


def test_explain_says_what_is_kept_and_what_bounds_it() -> None:
    """Key, state, bound; the rows are inserts."""
    found = planned(JOIN.format("JOIN rates", "o.ts"))
    lines, bounded = operator_lines(found), operator_lines(found, state_ttl_ms=60_000)

    assert lines[1:4] == [
        "TemporalJoin INNER on o.currency = r.currency, as of o.ts [stage temporal_0] [I]",
        "- state: rows until the watermark has passed their ts; of rates the versions after it, and the last one before "
        "it",
        "- bound: the lowest watermark of its 2 tables; one version of each key that was ever seen stays",
    ]
    assert bounded[3].endswith("keys: table.exec.state.ttl, 60 s after the last change")


def test_the_checkpoint_knows_the_join_by_its_keys_and_times() -> None:
    """Another rowtime or another kind of join keeps another state."""
    inner = planned(JOIN.format("JOIN rates", "o.ts")).maintained
    outer = planned(JOIN.format("LEFT JOIN rates", "o.ts")).maintained
    assert inner is not None
    assert outer is not None

    assert state_of(inner) != state_of(outer)
    assert "feed_1 BY (currency) AT ts; feed_0 BY (currency) AT since" in state_of(inner)[-1]


@pytest.mark.parametrize(
    ("query", "message", "place"),
    [
        (JOIN.format("JOIN untimed", "o.ts"), "requires a row time attribute", "FOR SYSTEM"),
        (JOIN.format("JOIN resting", "o.ts"), "is no stream with a WATERMARK", "FOR SYSTEM"),
        (JOIN.format("JOIN quotes", "o.ts"), "requires a primary key", "FOR SYSTEM"),
        (JOIN.format("JOIN plain", "o.ts"), "r is not versioned", "FOR SYSTEM"),
        (JOIN.format("JOIN first_quotes", "o.ts"), "r is not versioned", "FOR SYSTEM"),
        (JOIN.format("JOIN rates", "o.id"), "o.id is not a rowtime", "o.id"),
        (JOIN.format("JOIN rates", "r.since"), "r.since is not a rowtime", "r.since"),
        (JOIN.format("FULL JOIN rates", "o.ts"), "INNER or LEFT, not FULL", "FOR SYSTEM"),
        (JOIN.format("JOIN instants", "o.ts"), "have to be of one type", "JOIN instants"),
        (
            JOIN.format("JOIN rates", "TIMESTAMP '2026-01-01 00:00:00'"),
            "takes a column of its left side",
            "TIMESTAMP",
        ),
        (
            "SELECT r.rate FROM rates FOR SYSTEM_TIME AS OF r.since AS r",
            "stands in a join",
            "FOR SYSTEM",
        ),
        (
            "SELECT o.id FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.id = r.rate",
            r"primary key \(currency\) must be included in the equivalence condition",
            "JOIN rates",
        ),
        (
            "SELECT o.id FROM orders AS o JOIN regions FOR SYSTEM_TIME AS OF o.ts AS g ON o.currency = g.region",
            "zone of .* is not compared",
            "JOIN regions",
        ),
        (
            "SELECT u.rate FROM rates AS u JOIN rates FOR SYSTEM_TIME AS OF u.since AS r ON u.currency = r.currency",
            "only inserts can wait",
            "FOR SYSTEM",
        ),
        (
            "SELECT o.id FROM orders AS o JOIN quotes AS q ON o.currency = q.currency "
            "JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency = r.currency",
            "o.ts is not a rowtime",
            "o.ts",
        ),
        (
            "SELECT c.n FROM (SELECT currency, COUNT(*) AS n, MAX(ts) AS ts FROM orders GROUP BY currency) AS c "
            "JOIN rates FOR SYSTEM_TIME AS OF c.ts AS r ON c.currency = r.currency",
            "c.ts is not a rowtime",
            "c.ts",
        ),
    ],
)
def test_what_is_no_temporal_join_is_refused_at_its_place(
    query: str, message: str, place: str
) -> None:
    """With a hint, where there is a way."""
    with pytest.raises(UnsupportedError, match=message) as caught:
        planned(query)
    span = caught.value.span
    assert span is not None

    assert span.line_text[span.column - 1 :].startswith(place)
    assert caught.value.hint or "FULL" in message
