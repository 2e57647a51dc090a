"""Maintained queries keep the batch answer of their SQL, whatever comes, batch by batch."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.catalog.errors import UnsupportedError
from penstock.connector.changelog import ChangelogMode, RowKind
from penstock.sql.incremental.stages import (
    ChangelogNormalize,
    IncrementalQuery,
    InputState,
    Measure,
    StageInput,
    StreamInput,
)
from penstock.sql.incremental.state.schemas import empty_changes
from tests.sql.maintain.maintaining import (
    Change,
    Pipeline,
    Row,
    computed,
    feeds,
    maintained,
    open_run,
    parsed,
    recomputed,
    tagged,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INSERT, BEFORE, AFTER, DELETE = (int(kind) for kind in RowKind)

TTL_MS = 10_000


def best(table: str, order: str, number: int = 1) -> str:
    """Top-N of a table by `order`, without the rank."""
    ranked = f"SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY {order}) AS r FROM {table}"
    return f"SELECT * FROM ({ranked}) AS t WHERE r <= {number}"


def total(table: str, key: tuple[str, ...]) -> StageInput:
    """An input of which SUM(v) of each key is kept."""
    value = parsed("SELECT v").expressions[0]
    return StageInput(name=table, key=key, measures=(Measure(name="total", value=value),))


TOTALS = maintained(
    feeds("a"),
    recomputed("s", "SELECT k, total, __n AS n FROM a", total("a", ("k",)), key=("k",)),
    recomputed(
        "t",
        "SELECT MAX(total) AS hi, COUNT(*) AS n, SUM(CAST(n AS DOUBLE) / 3) AS f FROM s",
        StageInput(name="s", key=()),
        key=(),
    ),
    columns="hi n f",
)
TOTALS_SQL = """
    SELECT MAX(total), COUNT(*), ROUND(SUM(CAST(n AS DOUBLE) / 3), 9)
    FROM (SELECT k, SUM(v) AS total, COUNT(*) AS n FROM a GROUP BY k) HAVING COUNT(*) > 0"""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A maintained query, and its SQL over all rows of the tables `a` and `b`."""

    query: IncrementalQuery
    sql: str


CASES = {
    "Top-N of MIN, MAX and COUNT DISTINCT of a FULL JOIN": Case(
        query=maintained(
            feeds("a", "b"),
            recomputed(
                "j",
                "SELECT a.k AS k, a.v AS x, b.v AS y FROM a FULL JOIN b ON a.k = b.k",
                StageInput(name="a", key=("k",)),
                StageInput(name="b", key=("k",)),
                joins=True,
            ),
            recomputed(
                "g",
                "SELECT y, MIN(x) AS lo, MAX(k) AS hi, COUNT(DISTINCT x) AS n FROM j GROUP BY y",
                StageInput(name="j", key=("y",)),
                key=("y",),
            ),
            recomputed(
                "t",
                f"SELECT y, k FROM ({best('(SELECT n AS k, y, lo, hi FROM g)', 'lo, hi, y', 2)})",
                StageInput(name="g", key=("n",)),
            ),
            columns="y k",
        ),
        sql=f"""
            WITH j AS (SELECT a.k AS k, a.v AS x, b.v AS y FROM a FULL JOIN b ON a.k = b.k),
              g AS (SELECT y, MIN(x) AS lo, MAX(k) AS hi, COUNT(DISTINCT x) AS n FROM j GROUP BY y)
            SELECT y, k FROM ({best("(SELECT n AS k, y, lo, hi FROM g)", "lo NULLS FIRST, hi NULLS FIRST, y NULLS FIRST", 2)})""",
    ),
    # one task runs the join and the aggregation by its key, another the aggregation by a column that may be NULL
    "aggregates by a join's key, and by the other side's": Case(
        query=maintained(
            feeds("a", "b"),
            recomputed(
                "j",
                "SELECT a.v AS x, a.k AS k, b.k AS other FROM a LEFT JOIN b ON a.k = b.k",
                StageInput(name="a", key=("k",)),
                StageInput(name="b", key=("k",)),
                joins=True,
            ),
            recomputed(
                "g",
                "SELECT k, MAX(x) AS hi, COUNT(other) AS n FROM j GROUP BY k",
                StageInput(name="j", key=("k",)),
                key=("k",),
            ),
            recomputed(
                "m",
                "SELECT g.k AS k, hi, n, b.v AS v FROM g LEFT JOIN b ON g.k = b.k",
                StageInput(name="g", key=("k",)),
                StageInput(name="b", key=("k",)),
                joins=True,
            ),
            recomputed(
                "t",
                "SELECT v, MIN(hi) AS lo, SUM(n) AS n, COUNT(*) AS keys FROM m GROUP BY v",
                StageInput(name="m", key=("v",)),
                key=("v",),
            ),
            columns="v lo n keys",
        ),
        sql="""
            WITH j AS (SELECT a.v AS x, a.k AS k, b.k AS other FROM a LEFT JOIN b ON a.k = b.k),
              g AS (SELECT k, MAX(x) AS hi, COUNT(other) AS n FROM j GROUP BY k),
              m AS (SELECT g.k AS k, hi, n, b.v AS v FROM g LEFT JOIN b ON g.k = b.k)
            SELECT v, MIN(hi), SUM(n), COUNT(*) FROM m GROUP BY v""",
    ),
    "Top-N of inserts, of which the result is kept": Case(
        query=maintained(
            feeds("a", changes=ChangelogMode.INSERT_ONLY),
            recomputed(
                "s",
                f"SELECT k, v FROM ({best('a', 'v DESC', 2)})",
                StageInput(name="a", key=("k",), keeps=InputState.RESULT),
            ),
            columns="k v",
        ),
        sql=f"SELECT k, v FROM ({best('a', 'v DESC', 2)})",
    ),
}


class Changing:
    """Random changes of a table of few keys, some of them NULL; every row that goes is there."""

    def __init__(self, seed: int, mode: ChangelogMode) -> None:
        self._random = random.Random(seed)
        self._inserts = mode is ChangelogMode.INSERT_ONLY
        self.rows: Counter[Row] = Counter()

    def next(self, size: int) -> list[Change]:
        """The changes of a batch."""
        changes: list[Change] = []
        for _ in range(self._random.randint(0, size)):
            going = not self._inserts and self.rows and self._random.random() < 0.45
            if going:
                row = self._random.choice(sorted(self.rows, key=repr))
                self.rows = self.rows - Counter([row])
                changes.append((*row, self._random.choice([BEFORE, DELETE])))
            else:
                row = (self._random.choice([1, 2, 3, 4, None]), self._random.randint(0, 4))
                self.rows[row] += 1
                changes.append((*row, self._random.choice([INSERT, AFTER])))
        return changes


Open = Callable[..., Pipeline]
"""Opens a run of a query with its state in a folder."""


@pytest.fixture(params=["keyed", "anew"])
def opened(spark: SparkSession, request: pytest.FixtureRequest) -> Open:
    """Both kinds of runs keep the same promises."""

    def open_one(query: IncrementalQuery, path: Path, ttl_ms: int = 0) -> Pipeline:
        frame = tagged(spark, query, {}, 0)
        run = open_run(frame, query, str(path), ttl_ms, keyed=request.param == "keyed")
        return Pipeline(spark=spark, query=query, run=run)

    return open_one


@pytest.mark.parametrize("name", CASES)
def test_changes_make_the_batch_answer(opened: Open, tmp_path: Path, name: str) -> None:
    """After every batch, the changes so far applied are the query's SQL over all rows so far."""
    case = CASES[name]
    running = opened(case.query, tmp_path)
    tables = {f.name: Changing(n, f.changes) for n, f in enumerate(case.query.feeds)}
    for _ in range(3):
        running.give(**{name: table.next(12) for name, table in tables.items()})

        assert rounded(running.rows) == computed(case.sql, {n: t.rows for n, t in tables.items()})


def test_a_batch_that_is_run_again_gives_the_same(opened: Open, tmp_path: Path) -> None:
    """Whatever of a batch was written before the crash: state whole, half, or only of the first stages.

    In one task as in tasks by bucket, whichever ran it first.
    """
    table = Changing(7, ChangelogMode.ALL)
    running = opened(TOTALS, tmp_path)
    running.give(a=table.next(12))
    changes = table.next(12)
    given = running.give(a=changes)
    losses = ("s-a/batch=1/_files.json", "t-s/batch=1", "manifests/1.json", "t-s/0/1-1-*")
    for n, lost in enumerate(losses):
        for path in tmp_path.glob(lost):
            remove(path)
        again = opened(TOTALS, tmp_path).again(1, turned=n % 2 == 0, a=changes)

        assert sorted(again) == sorted(given)

    running.give(a=table.next(12))

    assert rounded(running.rows) == computed(TOTALS_SQL, {"a": table.rows})


def test_a_batch_without_rows_writes_no_state(spark: SparkSession, tmp_path: Path) -> None:
    """Its manifest names the files of before, and the next batch goes on."""
    table, query = Changing(3, ChangelogMode.ALL), TOTALS
    run = open_run(tagged(spark, query, {}, 0), query, str(tmp_path), 0, keyed=True)
    running = Pipeline(spark=spark, query=query, run=run)
    running.give(a=table.next(12))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    given = running.give(a=[])
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    running.give(a=table.next(12))

    assert given == []
    assert before
    assert after == before
    assert rounded(running.rows) == computed(TOTALS_SQL, {"a": table.rows})


def test_changes_that_are_read_once_are_not_kept(spark: SparkSession, tmp_path: Path) -> None:
    """They are the same, with their number, and so is the state behind them."""
    from penstock.sql.incremental.keyed.runtime.run import KeyedRun

    table, query = Changing(4, ChangelogMode.ALL), TOTALS
    runs = [
        open_run(tagged(spark, query, {}, 0), query, str(tmp_path / name), 0, keyed=True)
        for name in ("kept", "once")
    ]
    for batch_id in range(3):
        frame = tagged(spark, query, {"a": table.next(12)}, 0)
        given = []
        for run, once in zip(runs, (False, True), strict=True):
            assert isinstance(run, KeyedRun)
            before = persisted(spark)
            with run.batch(frame, batch_id, 0, once=once) as changes:
                given.append(Counter(changes.collect()))
                assert len(persisted(spark) - before) == (0 if once else 1)
            assert run.rows == given[-1].total() > 0

        assert given[0] == given[1]


def test_the_order_of_arrival_is_kept(opened: Open, tmp_path: Path) -> None:
    """A row of a later batch, and a later one of a batch, has the greater number; the result does not show it."""
    query = maintained(
        feeds("a", changes=ChangelogMode.INSERT_ONLY),
        recomputed(
            "s",
            f"SELECT k, v, seen FROM ({best('a', 'seen DESC')})",
            StageInput(name="a", key=("k",), keeps=InputState.RESULT, arrival="seen"),
            key=("k",),
        ),
        columns="k v",
    )
    running = opened(query, tmp_path)
    first = running.give(a=[(1, 5, INSERT), (1, 9, INSERT), (2, 4, INSERT), (1, 7, INSERT)])
    second = running.give(a=[(1, 3, INSERT), (1, 2, INSERT)])

    assert sorted(first) == [(1, 7, INSERT), (2, 4, INSERT)]
    assert second == [(1, 7, BEFORE), (1, 2, AFTER)]


def test_the_row_that_was_added_last_stands_for_a_key(opened: Open, tmp_path: Path) -> None:
    """When it is deleted the one before comes back, as from Flink's SinkUpsertMaterializer; batch 1 is replayed."""
    query = maintained(
        feeds("a"),
        recomputed(
            "s",
            f"SELECT k, v FROM ({best('a', 'seen DESC, v')})",
            StageInput(name="a", key=("k",), arrival="seen", by_change=True),
            key=("k",),
        ),
        columns="k v",
    )
    running = opened(query, tmp_path)
    first = running.give(a=[(1, 7, INSERT), (2, 4, INSERT)])
    second = running.give(a=[(1, 5, INSERT), (2, 4, BEFORE), (2, 4, AFTER)])
    again = opened(query, tmp_path).again(1, a=[(1, 5, INSERT), (2, 4, BEFORE), (2, 4, AFTER)])
    running.run = opened(query, tmp_path).run
    third = running.give(a=[(1, 5, DELETE), (2, 9, INSERT)])
    fourth = running.give(a=[(1, 7, DELETE), (2, 4, DELETE)])

    assert sorted(first) == [(1, 7, INSERT), (2, 4, INSERT)]
    assert second == again == [(1, 7, BEFORE), (1, 5, AFTER)]
    assert sorted(third) == [(1, 5, BEFORE), (1, 7, AFTER), (2, 4, BEFORE), (2, 9, AFTER)]
    assert fourth == [(1, 7, DELETE)]


def test_upserts_become_changes_with_the_row_before(opened: Open, tmp_path: Path) -> None:
    """The last change of a key in a batch counts; a delete of a key that is not there gives nothing."""
    feeding = (StreamInput(name="a", columns=("k", "v"), changes=ChangelogMode.UPSERT, key=("k",)),)
    query = maintained(
        feeding, ChangelogNormalize(name="n", input="a", key=("k",)), columns="k v", key=("k",)
    )
    running = opened(query, tmp_path)
    first = running.give(a=[(1, 5, AFTER), (None, 6, INSERT), (1, 7, AFTER), (2, None, DELETE)])
    second = running.give(a=[(1, 7, AFTER), (None, 8, INSERT), (2, 1, AFTER), (2, None, DELETE)])
    third = running.give(a=[(1, None, DELETE), (None, None, DELETE), (None, 9, INSERT)])

    assert sorted(first, key=repr) == [(1, 7, INSERT), (None, 6, INSERT)]
    assert second == [(None, 6, BEFORE), (None, 8, AFTER)]
    assert sorted(third, key=repr) == [(1, 7, DELETE), (None, 8, BEFORE), (None, 9, AFTER)]


def test_a_key_that_did_not_change_for_long_begins_anew(opened: Open, tmp_path: Path) -> None:
    """As Flink's table.exec.state.ttl; a retraction of what is gone changes nothing, in rows as in sums."""
    rows = recomputed(
        "g",
        "SELECT k, MAX(v) AS hi FROM a GROUP BY k",
        StageInput(name="a", key=("k",)),
        key=("k",),
    )
    sums = recomputed("s", "SELECT k, total FROM a", total("a", ("k",)), key=("k",))
    both = recomputed(
        "b",
        "SELECT g.k AS k, hi, total FROM g FULL JOIN s ON g.k = s.k",
        StageInput(name="g", key=("k",)),
        StageInput(name="s", key=("k",)),
        joins=True,
    )
    query = maintained(feeds("a"), rows, sums, both, columns="k hi total")
    running = opened(query, tmp_path, TTL_MS)
    running.give(now_s=0, a=[(1, 9, INSERT), (2, 8, INSERT), (3, 1, INSERT)])
    kept = running.give(now_s=8, a=[(2, 1, INSERT)])
    gone = running.again(
        2, now_s=17, a=[(1, 9, BEFORE), (1, 4, AFTER), (2, 1, INSERT), (3, 1, DELETE)]
    )

    assert sorted(kept) == [(2, 8, 8, DELETE), (2, 8, 9, INSERT)]
    assert sorted(gone) == [(1, 4, 4, INSERT), (2, 8, 9, DELETE), (2, 8, 10, INSERT)]


def test_distinct_values_expire_with_their_key(opened: Open, tmp_path: Path) -> None:
    """A value that came before counts until the key did not change for that long, as where its rows are kept."""
    kept = StageInput(name="a", key=("k",), keeps=InputState.EXPIRING)
    counts = recomputed(
        "g",
        "SELECT k, COUNT(DISTINCT v) AS n FROM a GROUP BY k HAVING COUNT(*) < 4",
        kept,
        key=("k",),
    )
    feeding = feeds("a", changes=ChangelogMode.INSERT_ONLY)
    running = opened(maintained(feeding, counts, columns="k n"), tmp_path, TTL_MS)
    given: list[tuple[int, list[Change]]] = [
        (0, [(1, 9, INSERT), (2, 8, INSERT), (None, 7, INSERT)]),
        (8, [(1, 9, INSERT)]),
        (16, [(1, 5, INSERT), (2, 6, INSERT)]),
        (20, [(1, 9, INSERT), (2, 8, INSERT)]),
        (40, [(1, 9, INSERT)]),
    ]
    found = [
        sorted(running.again(n, now_s=at, a=rows), key=repr) for n, (at, rows) in enumerate(given)
    ]

    assert found == [
        [(1, 1, INSERT), (2, 1, INSERT), (None, 1, INSERT)],
        [(1, 1, BEFORE), (1, 1, AFTER)],
        [(1, 1, BEFORE), (1, 2, AFTER), (2, 1, INSERT)],  # 2 begins again
        [(1, 2, DELETE), (2, 1, BEFORE), (2, 2, AFTER)],  # 1 has four rows
        [(1, 1, INSERT)],
    ]


def test_a_row_that_changes_no_aggregate_renews_its_key(opened: Open, tmp_path: Path) -> None:
    """Also where the state is what the result has; what stands behind gets the row that stays the same."""
    highest = recomputed(
        "s",
        "SELECT k, MAX(v) AS v FROM a GROUP BY k",
        StageInput(name="a", key=("k",), keeps=InputState.RESULT),
        key=("k",),
    )
    query = maintained(feeds("a", changes=ChangelogMode.INSERT_ONLY), highest, columns="k v")
    running = opened(query, tmp_path, TTL_MS)
    first = running.give(now_s=0, a=[(1, 5, INSERT)])
    same = running.give(now_s=6, a=[(1, 3, INSERT)])
    renewed = running.give(now_s=12, a=[(1, 4, INSERT)])
    expired = running.give(now_s=22, a=[(1, 2, INSERT)])

    assert first == [(1, 5, INSERT)]
    assert same == renewed == [(1, 5, BEFORE), (1, 5, AFTER)]
    assert expired == [(1, 2, INSERT)]


def test_each_side_of_a_join_has_a_time_to_live_of_its_own(opened: Open, tmp_path: Path) -> None:
    """As the hint STATE_TTL gives it, over the setting; 0 is for ever, and an aggregation behind has the setting."""
    join = recomputed(
        "j",
        "SELECT a.k AS k, a.v AS x, b.v AS y FROM a JOIN b ON a.k = b.k",
        StageInput(name="a", key=("k",), time_to_live_ms=5_000),
        StageInput(name="b", key=("k",), time_to_live_ms=0),
        joins=True,
    )
    count = recomputed(
        "g",
        "SELECT k, COUNT(*) AS n FROM j GROUP BY k",
        StageInput(name="j", key=("k",)),
        key=("k",),
    )
    rows = opened(maintained(feeds("a", "b"), join, columns="k x y"), tmp_path / "j", TTL_MS)
    counts = opened(maintained(feeds("a", "b"), join, count, columns="k n"), tmp_path / "g", TTL_MS)
    given: list[tuple[int, dict[str, list[Change]]]] = [
        (0, {"a": [(1, 10, INSERT)], "b": [(2, 20, INSERT), (None, 0, INSERT)]}),
        (8, {"b": [(1, 11, INSERT)], "a": [(2, 21, INSERT), (None, 1, INSERT)]}),
        (12, {"b": [(2, 22, INSERT)], "a": [(1, 12, INSERT)]}),
        (40, {"a": [(1, 13, INSERT)]}),
    ]
    found = [
        (sorted(rows.give(now_s=now, **batch)), sorted(counts.give(now_s=now, **batch)))
        for now, batch in given
    ]

    assert found == [
        ([], []),
        ([(2, 21, 20, INSERT)], [(2, 1, INSERT)]),  # the row of a is gone, that of b is not
        (
            [(1, 12, 11, INSERT), (2, 21, 22, INSERT)],
            [(1, 1, INSERT), (2, 1, BEFORE), (2, 2, AFTER)],
        ),
        ([(1, 13, 11, INSERT)], [(1, 1, INSERT)]),
    ]


def test_columns_that_cannot_be_compared_are_refused(spark: SparkSession) -> None:
    """By name, before anything is read."""
    query = maintained(
        feeds("a"),
        recomputed("s", "SELECT k, MAP[k, v] AS m FROM a", StageInput(name="a", key=("k",))),
        columns="k m",
    )
    with pytest.raises(UnsupportedError, match="column m is or holds a MAP"):
        empty_changes(query, tagged(spark, query, {}, 0))

    checked = empty_changes(TOTALS, tagged(spark, TOTALS, {}, 0))

    assert checked.schema.simpleString() == "struct<hi:bigint,n:bigint,f:double,__row_kind:tinyint>"


def rounded(rows: Counter[Row]) -> Counter[Row]:
    """Rows whose fractions have nine digits, as engines add them up in other orders."""
    found: Counter[Row] = Counter()
    for row, count in rows.items():
        found[tuple(round(v, 9) if isinstance(v, float) else v for v in row)] += count
    return found


def remove(path: Path) -> None:
    """Take a file or folder away."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def persisted(spark: SparkSession) -> set[int]:
    """The RDDs that Spark keeps."""
    return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())  # type: ignore[attr-defined]
