"""Streaming queries that are watched: each batch's rows, also of queries that are kept up to date."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any, cast

import pytest
import sqlglot
from pyspark.sql import SparkSession

from penstock.catalog.errors import PenstockError
from penstock.connector.changelog import ChangelogMode
from penstock.connector.contract import OutputMode
from penstock.sql.convert.statement import parse_statement
from penstock.sql.dialect.rewrites.unfold_grouping_sets import unfold_grouping_sets
from penstock.sql.jobs.live_query import (
    LOOKS_PER_READ,
    LiveQuery,
    LiveSelect,
    Row,
    UpsertChangelog,
    live_query,
    result_key,
)
from penstock.sql.observation.batch_metrics import BatchMetrics
from penstock.sql.plan.analysis import analyse
from penstock.sql.plan.physical.incremental import SinkCounts
from penstock.sql.plan.physical.planner import Planner
from penstock.sql.plan.rules.sink_changelog import SinkTable
from penstock.sql.script.splitter import split
from penstock.sql.statements.statement import Select
from tests.sql.run.scripted import ScriptedQuery
from tests.sql.sql_objects import new_namespace, run

SCREEN = SinkTable(name="the screen", accepts=ChangelogMode.ALL, columns=())
ROWS = """CREATE TABLE made (id BIGINT, k BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'datagen',
  'number-of-rows' = '30', 'rows-per-second' = '1000', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1',
  'fields.id.end' = '30', 'fields.k.kind' = 'sequence', 'fields.k.start' = '1', 'fields.k.end' = '30')"""


def watched(spark: SparkSession, folder: Path, query: str) -> tuple[LiveQuery, list[Row]]:
    """Watch a query over what is there to its end; gives its rows."""
    namespace = new_namespace()
    run(ROWS, namespace)
    planner = Planner(namespace=namespace, project=folder, settings={})
    (text,) = split(query, "test")
    statement = parse_statement(text, namespace)
    assert isinstance(statement, Select)
    analysed = analyse(statement.query, namespace, folder, appends=True, sink=SCREEN)
    rows: list[Row] = []
    live = live_query(analysed, planner, spark)
    started = live.start(folder / "checkpoint", rows.extend, available_now=True)
    started.awaitTermination(120)
    assert started.exception() is None
    planner.close()
    return live, rows


def test_changes_of_a_maintained_query_come_with_their_kinds(
    spark: SparkSession, project: Path
) -> None:
    """An aggregation of an aggregation, which Spark does not stream."""
    query = """SELECT n, COUNT(*) AS keys FROM (SELECT k / 10 AS k, COUNT(*) AS n FROM made GROUP BY k / 10) AS c
      GROUP BY n"""
    live, rows = watched(spark, project, query)
    signs = {"+I": 1, "+U": 1, "-U": -1, "-D": -1}
    left: Counter[tuple[int, int]] = Counter()
    for op, n, keys in rows:
        left[n, keys] += signs[op]

    assert live.query.maintained is not None
    assert tuple(live.shown.columns) == ("op", "n", "keys")
    assert +left == {(9, 1): 1, (10, 2): 1, (1, 1): 1}


@pytest.mark.parametrize(
    ("query", "maintained"),
    [
        ("SELECT id, COUNT(*) OVER (ORDER BY ts ROWS UNBOUNDED PRECEDING) AS n FROM made", True),
        ("SELECT id, k AS n FROM made", False),
    ],
)
def test_rows_that_stay_have_no_kind(
    spark: SparkSession, project: Path, query: str, maintained: bool
) -> None:
    """Whoever makes them."""
    live, rows = watched(spark, project, query)

    assert (live.query.maintained is not None) is maintained
    assert tuple(live.shown.columns) == ("id", "n")
    assert sorted(rows) == [(i, i) for i in range(1, 31)]


# --- the changes of a query that is followed on the screen ---


class ScriptedLive:
    """A watched query that hands its batches on from a thread of its own, as Spark does, and then ends."""

    def __init__(
        self,
        *batches: list[Row],
        failure: Exception | None = None,
        events: Sequence[dict[str, Any]] = (),
    ) -> None:
        self.late = SinkCounts()
        self.progress = ScriptedQuery([], events=list(events))
        self.shown = SimpleNamespace(columns=["a"])
        self.query = SimpleNamespace(
            output=OutputMode.APPEND, flow=SimpleNamespace(kinds=None), query=None
        )
        self._batches = batches
        self._failure = failure
        self.folder: Path | None = None
        self.thread: Thread | None = None

    def start(self, folder: Path, take: Callable[[list[Row]], None], **_: Any) -> ScriptedLive:
        self.folder = folder
        self.thread = Thread(target=lambda: [take(batch) for batch in self._batches])
        self.thread.start()
        return self

    def read_metrics(self, event: Mapping[str, Any]) -> BatchMetrics:
        return LiveQuery.read_metrics(cast("LiveQuery", self), event)

    @property
    def lastProgress(self) -> Any:  # noqa: N802  as Spark names it
        return self.progress.lastProgress

    @property
    def _jsq(self) -> ScriptedQuery:
        return self.progress

    @property
    def isActive(self) -> bool:  # noqa: N802
        assert self.thread is not None
        return self.thread.is_alive()

    def exception(self) -> Exception | None:
        return self._failure

    def stop(self) -> None:
        """Wait for the batch, as Spark does."""
        assert self.thread is not None
        self.thread.join(10)
        assert not self.thread.is_alive(), "a batch waits for nobody"


def following(live: ScriptedLive) -> LiveSelect:
    return LiveSelect(cast("LiveQuery", live))


def test_every_row_of_an_endless_select_is_shown_though_more_wait_than_the_queue_holds() -> None:
    """The query waits for whoever looks; what comes at its very end is shown, too."""
    live, seen = ScriptedLive(*([(i,)] for i in range(20))), list[Row]()
    watched = following(live)
    while watched.show(lambda _, rows: seen.extend(rows)):
        pass

    assert seen == [("+I", i) for i in range(20)]
    assert live.folder is not None
    assert not live.folder.exists()


def test_an_endless_select_that_is_stopped_leaves_no_batch_waiting() -> None:
    """Its batch would wait for a place in the queue, and the query for its batch."""
    live = ScriptedLive(*([(i,)] for i in range(20)))
    watched = following(live)

    watched.stop()

    assert not watched.show(lambda *_: None)


def committed(number: int, *, late: int, bad: int) -> dict[str, Any]:
    """Spark's event of a batch that left out rows and records."""
    return {
        "batchId": number,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "numInputRows": 10,
        "durationMs": {"addBatch": 5},
        "observedMetrics": {"a": {"late": late}, "b": {"skipped": bad}},
    }


def test_an_endless_select_counts_what_its_batches_left_out() -> None:
    """Late rows that Spark and stages dropped, and bad records, each batch once."""
    events = [committed(0, late=1, bad=2), committed(1, late=0, bad=3)]
    live = ScriptedLive([(1,)], events=events)
    live.late.add(1, {"orders": 4})
    watched = following(live)

    for _ in range(3 * LOOKS_PER_READ):
        watched.show(lambda *_: None)
    watched.stop()
    totals = watched.totals

    assert (totals.batches, totals.rows_dropped, totals.bad_records) == (2, 5, 5)


def test_an_endless_select_that_fails_says_so_behind_its_last_rows() -> None:
    """Not as an end."""
    seen: list[Row] = []
    live = ScriptedLive([(1,)], failure=ValueError("the disk is full"))
    watched = following(live)
    assert live.thread is not None
    live.thread.join()

    with pytest.raises(PenstockError, match="the disk is full"):
        watched.show(lambda _, rows: seen.extend(rows))
    assert seen == [("+I", 1)]


@pytest.mark.parametrize(
    ("sql", "key"),
    [
        ("SELECT COUNT(*) AS n, a FROM t GROUP BY a", (1,)),
        ("SELECT b AS x, a, COUNT(*) FROM t GROUP BY a, b", (1, 0)),
        ("SELECT a + 1 AS k, COUNT(*) FROM t GROUP BY a + 1", (0,)),
        ("SELECT COUNT(*), a + 1 FROM t GROUP BY a + 1", (1,)),
        ("SELECT COUNT(*), GROUPING_ID(a, b), b, a FROM t GROUP BY CUBE (a, b)", (3, 2, 1)),
        ("SELECT COUNT(*), b, a FROM t GROUP BY CUBE (a, b)", None),
        ("SELECT COUNT(*) FROM t", ()),
        ("SELECT COUNT(*) FROM t GROUP BY a", None),
        ("SELECT 1 UNION ALL SELECT 2", None),
    ],
)
def test_rows_are_told_apart_by_the_columns_that_group_them(
    sql: str, key: tuple[int, ...] | None
) -> None:
    """Where all of them are selected."""
    query = sqlglot.parse_one(sql, read="flink")
    unfold_grouping_sets(query)

    assert result_key(query) == key


def test_a_row_replaces_the_one_of_its_key() -> None:
    """The first is an insert, later ones say what they replace, as in Flink's client."""
    changes = UpsertChangelog(key=(0,))

    assert changes.of(("a", 1)) == [("+I", "a", 1)]
    assert changes.of(("b", 1)) == [("+I", "b", 1)]
    assert changes.of(("a", 2)) == [("-U", "a", 1), ("+U", "a", 2)]


def test_rows_without_their_key_are_updates() -> None:
    """What they replace is not known."""
    assert UpsertChangelog(key=None).of((3,)) == [("+U", 3)]
