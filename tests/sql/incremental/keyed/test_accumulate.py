"""Aggregations of inserts by accumulators over one bucket: after each batch the answer of DuckDB over all rows."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.incremental.keyed import tables
from penstock.sql.incremental.keyed.accumulate import AccumulateInserts
from penstock.sql.incremental.keyed.choose import keyed_operator
from penstock.sql.incremental.keyed.operator import KeyedBatch, RunBySpark
from penstock.sql.incremental.keyed.runtime.merged_rows import (
    create_table,
    fill_table,
    fold_rows,
)
from penstock.sql.incremental.keyed.tables import (
    fetched,
    keys_of,
    numbered_groups,
    positional,
    typed,
)
from penstock.sql.incremental.stages import COUNT, InputState, RecomputeOperator, StageInput
from tests.sql.incremental.keyed import oracle
from tests.sql.incremental.keyed.oracle import rounds, rows_in, some_fast
from tests.sql.incremental.keyed.test_operators import (
    COLUMNS,
    Bucket,
    Changes,
    MemoryState,
    Row,
    bytes_of,
    operator_of,
    table_of,
)
from tests.sql.maintain.maintaining import recomputed

INSERT, BEFORE, AFTER, DELETE = (int(kind) for kind in RowKind)
TESTED = "FILTER (WHERE v > 0)"

CASES = {
    "COUNT": "COUNT(*) AS a, COUNT(v) AS b, COUNT(t) AS c",
    "COUNT DISTINCT": "COUNT(DISTINCT v) AS a, COUNT(DISTINCT t) AS b, COUNT(DISTINCT d) AS c",
    "FILTER": f"COUNT(DISTINCT t) {TESTED} AS a, COUNT(DISTINCT t) AS b, COUNT(*) {TESTED} AS c, "
    f"COUNT(DISTINCT t) FILTER (WHERE d IS NULL) AS e, SUM(v) {TESTED} AS f, MIN(t) {TESTED} AS g",
    "SUM and AVG": "SUM(v) AS a, SUM(d) AS b, AVG(v) AS c, AVG(k) AS e, COUNT(DISTINCT s) AS f",
    "SUM and AVG DISTINCT": f"SUM(DISTINCT v) AS a, AVG(DISTINCT v) AS b, AVG(DISTINCT k) AS c, SUM(DISTINCT d) AS e, "
    f"SUM(DISTINCT v) {TESTED} AS f, COUNT(DISTINCT v) AS g, SUM(DISTINCT k) AS h, MAX(DISTINCT t) AS i",
    "MIN and MAX": "MIN(v) AS a, MAX(v) AS b, MIN(t) AS c, MAX(d) AS e, MAX(s) AS f, COUNT(DISTINCT v) AS g",
    "values of aggregates": "CASE WHEN COUNT(DISTINCT v) > 2 THEN MAX(v) ELSE COUNT(*) + 1 END AS a",
    "texts": "CASE WHEN COUNT(DISTINCT v) > 1 THEN '<added0>' ELSE '<extreme0>' END AS a, "
    "COUNT(*) AS b, CASE WHEN MIN(t) > '<distinct0_0>' THEN '<added0>' END AS c",
}
SQL = {
    "SUM and AVG DISTINCT": "SUM(DISTINCT v), (SUM(DISTINCT v::HUGEINT) // COUNT(DISTINCT v))::BIGINT, "
    "trunc(SUM(DISTINCT k::DOUBLE) / COUNT(DISTINCT k))::INT, SUM(DISTINCT d), "
    f"SUM(DISTINCT v) {TESTED}, COUNT(DISTINCT v), SUM(DISTINCT k), MAX(t)",
    "SUM and AVG": "SUM(v), SUM(d), (SUM(v::HUGEINT) // COUNT(v))::BIGINT, "
    "trunc(SUM(k::DOUBLE) / COUNT(k))::INT, COUNT(DISTINCT s)",
}
KEYS = {"one column": ("k",), "several": ("t", "d"), "a time": ("s", "v")}


HAVINGS = {
    "more than so many": "COUNT(DISTINCT v) > 1",
    "fewer than so many": "COUNT(DISTINCT t) < 3 AND COUNT(*) < 6",
    "an extreme and a key": "MIN(v) < 1 AND (k IS NULL OR k > 0)",
    "a sum of DISTINCT values": "SUM(DISTINCT v) > 5 OR COUNT(*) = 1",
    "no group": "COUNT(*) < 0",
}


def stage_of(
    values: str, key: tuple[str, ...], having: str = "", keeps: InputState = InputState.EXPIRING
) -> RecomputeOperator:
    """Return a stage that gives the row before an update; `having` with the word."""
    query = f"SELECT {', '.join(key)}, {values} FROM a GROUP BY {', '.join(key)} {having}"
    return recomputed("s", query, StageInput(name="a", key=key, keeps=keeps), key=key)


def accumulating(values: str, key: tuple[str, ...], having: str = "") -> AccumulateInserts:
    """Give a stage whose result are upserts its operator."""
    stage = stage_of(values, key, having, InputState.ACCUMULATORS)
    operator = operator_of(replace(stage, upserts=True))
    assert isinstance(operator, AccumulateInserts)
    return operator


class Group:
    """An operator over one bucket, the rows of whose result are replaced by their key."""

    def __init__(self, operator: AccumulateInserts) -> None:
        self.operator = operator
        self.states = {name: MemoryState(layout) for name, layout in operator.layouts.items()}
        self.rows: dict[Row, Row] = {}
        self.batches = 0

    def give(self, rows: list[Row]) -> list[Row]:
        """Run the next batch, twice, the second time with its rows in another order."""
        batch = KeyedBatch(batch_id=self.batches, now_ms=self.batches)
        self.batches += 1
        again = {name: replace(s, written=list(s.written)) for name, s in self.states.items()}
        result = self.operator.run({"a": table_of(rows)}, self.states, batch)
        other = self.operator.run({"a": table_of(rows[::-1])}, again, batch)

        assert result.equals(other), "a replay gives the same, in the same order"
        assert [bytes_of(of) for of in again.values()] == [
            bytes_of(of) for of in self.states.values()
        ]
        width = len(self.operator.key)
        found = [tuple(row.values()) for row in result.to_pylist()]
        for *row, kind in found:
            key = tuple(row[:width])
            if kind == DELETE:
                assert self.rows.pop(key) == tuple(row), "of a row that is there"
                continue
            assert kind == (AFTER if key in self.rows else INSERT)
            self.rows[key] = tuple(row)
        return found


@pytest.mark.parametrize("key", some_fast(KEYS, ["several"]))
@pytest.mark.parametrize("case", some_fast(CASES, ["FILTER", "MIN and MAX"]))
def test_accumulators_are_those_of_all_rows(case: str, key: str) -> None:
    """Values that are stored do not count again; a replay gives the same, in whichever order rows come."""
    group = Group(accumulating(CASES[case], KEYS[key]))
    changes, came = Changes(len(case), inserts=True), list[Row]()
    for _ in range(rounds(8, few=4)):
        rows = changes.batch(14)
        came += (row[:-1] for row in rows)
        group.give(rows)
        keys = ", ".join(KEYS[key])
        sql = f"SELECT {keys}, {SQL.get(case, CASES[case])} FROM a GROUP BY {keys}"

        assert Counter(group.rows.values()) == oracle.answer(sql, {"a": rows_in(COLUMNS, came)})
    assert not group.operator.ordered


@pytest.mark.parametrize("name", some_fast(HAVINGS, ["fewer than so many"]))
def test_groups_that_having_leaves_out_are_deleted(name: str) -> None:
    """Where they were there; a group that never passed gives nothing, and one that stays the same nothing either."""
    values = "COUNT(DISTINCT v) AS a, MIN(t) AS b, COUNT(*) AS c"
    group = Group(accumulating(values, ("k",), f"HAVING {HAVINGS[name]}"))
    changes, came, kinds = Changes(len(name), inserts=True), list[Row](), Counter[int]()
    for _ in range(rounds(12, few=6)):
        rows, before = changes.batch(5), dict(group.rows)
        came += (row[:-1] for row in rows)
        found = group.give(rows)
        kinds.update(row[-1] for row in found)
        sql = f"SELECT k, {values} FROM a GROUP BY k HAVING {HAVINGS[name]}"

        assert Counter(group.rows.values()) == oracle.answer(sql, {"a": rows_in(COLUMNS, came)})
        assert all(before.get(row[:1]) != row[:-1] for row in found if row[-1] == AFTER)
    assert kinds.keys() <= {INSERT, AFTER, DELETE}
    if name == "no group":
        assert not kinds
    if name == "fewer than so many":
        assert kinds[DELETE]


@pytest.mark.parametrize("having", ["", "HAVING COUNT(DISTINCT t) < 3 AND COUNT(*) < 6"])
@pytest.mark.parametrize("case", some_fast(CASES, ["FILTER"]))
def test_changes_have_the_row_before_an_update(case: str, having: str) -> None:
    """Where the stage is asked for them: of each row that has become another one, and of no other."""
    bucket = Bucket(operator_of(stage_of(CASES[case], ("k", "s"), having)))
    changes, came = Changes(len(case) + 1, inserts=True), list[Row]()
    for _ in range(rounds(6, few=3)):
        rows = changes.batch(12)
        came += (row[:-1] for row in rows)
        found = bucket.give(a=rows)
        sql = f"SELECT k, s, {SQL.get(case, CASES[case])} FROM a GROUP BY k, s {having}"

        assert bucket.rows == oracle.answer(sql, {"a": rows_in(COLUMNS, came)})
        updates = [(one, two) for one, two in pairwise(found) if one[-1] == BEFORE]
        assert all(two[-1] == AFTER and one[:-1] != two[:-1] for one, two in updates)


# --- time to live ---

TTL_MS = 1000


def folded(state: MemoryState, now_ms: int) -> None:
    """Merge what was written as files are merged: what has expired is left out."""
    with duckdb.connect() as files:
        create_table(files, "rows", state.layout)
        stored = positional(state.layout)
        fill_table(files, "rows", (typed(rows, stored) for rows in state.written))
        fold_rows(files, state.layout, now_ms, whole=True)
        rows = fetched(files, "SELECT * FROM folded ORDER BY ALL")
    state.written = [typed(rows, state.layout.schema)]


@pytest.mark.parametrize("having", ["", "HAVING COUNT(*) < 5 AND COUNT(DISTINCT t) <> 2"])
@pytest.mark.parametrize("merges", [False, True])
@pytest.mark.parametrize("case", some_fast(CASES, ["FILTER", "MIN and MAX"]))
def test_groups_expire_as_those_whose_rows_are_kept(
    case: str, having: str, *, merges: bool
) -> None:
    """A group begins again, values too, when it did not change for that long; until then all of them count."""
    stage = stage_of(CASES[case], ("k",), having)
    kept = replace(stage, inputs=(StageInput(name="a", key=("k",)),))
    ours = operator_of(stage, TTL_MS)
    assert isinstance(ours, AccumulateInserts)
    bucket, other = Bucket(ours), Bucket(operator_of(kept, TTL_MS), replays=False)
    changes, draw, now_ms = Changes(len(case), inserts=True), random.Random(len(case)), 0
    for _ in range(rounds(25, few=12)):
        now_ms += draw.choice([100, 400, 1000])
        rows = changes.batch(3)

        assert bucket.give(now_ms, a=rows) == other.give(now_ms, a=rows)
        if merges and draw.random() < 0.4:
            for state in bucket.states.values():
                folded(state, now_ms)


def test_values_expire_with_their_group() -> None:
    """Also where none is new: until then each counts once; then nothing of the group is left in the state."""
    bucket = Bucket(operator_of(stage_of("COUNT(DISTINCT v) AS a", ("k",)), TTL_MS))
    row, other = (1, 5, None, None, None, None, INSERT), (2, 5, None, None, None, None, INSERT)
    for now_ms in range(0, 5000, 900):
        bucket.give(now_ms, a=[row])
        for state in bucket.states.values():
            folded(state, now_ms)
    assert bucket.rows == Counter([(1, 1)])
    bucket.rows.clear()
    expired = bucket.give(7000, a=[other])
    again = bucket.give(7100, a=[row])
    for state in bucket.states.values():
        folded(state, 7100)

    assert (expired, again) == ([(2, 1, INSERT)], [(1, 1, INSERT)])
    values = bucket.states["a_distinct_0"].written[0].to_pylist()
    assert sorted((of["k"], of["__value0"], of["__began"]) for of in values) == [
        (1, 5, 7100),
        (2, 5, 7000),
    ]
    assert [of[COUNT] for of in values] == [1, 1]


def test_a_clock_that_is_set_back_counts_a_group_once() -> None:
    """The group that began last goes on, though the one before has not expired by that clock."""
    bucket = Bucket(operator_of(stage_of("COUNT(DISTINCT v) AS a, COUNT(*) AS n", ("k",)), TTL_MS))
    row = (1, 5, None, None, None, None, INSERT)
    bucket.give(0, a=[row])
    bucket.rows.clear()
    bucket.give(2000, a=[row])

    assert bucket.give(900, a=[row]) == [(1, 1, 1, BEFORE), (1, 1, 2, AFTER)]


def test_a_group_that_began_twice_is_counted_once_when_it_does_not_expire_any_more() -> None:
    """The time to live was taken away, and the accumulators of its first beginning are in the state."""
    stage = stage_of("COUNT(DISTINCT v) AS a, COUNT(*) AS n", ("k",))
    bucket = Bucket(operator_of(stage, TTL_MS))
    row = (1, 5, None, None, None, None, INSERT)
    bucket.give(0, a=[row])
    bucket.rows.clear()
    bucket.give(2000, a=[row])
    bucket.operator = operator_of(stage, 0)

    assert bucket.give(2100, a=[row]) == [(1, 1, 1, BEFORE), (1, 1, 2, AFTER)]


def test_accumulators_without_the_time_they_began_do_not_expire() -> None:
    """No plan has them with a time to live."""
    stage = replace(stage_of("COUNT(*) AS n", ("k",), keeps=InputState.ACCUMULATORS), upserts=True)
    result = pa.schema([COLUMNS.field("k"), pa.field("n", pa.int64())])
    found = keyed_operator(stage, {"a": COLUMNS, "s": result}, TTL_MS)

    assert isinstance(found, RunBySpark)
    assert "time to live" in found.reason


def test_a_value_is_stored_once_for_each_filter() -> None:
    """Of a batch that has nothing new for a group nothing but its counts is written."""
    group = Group(accumulating(f"COUNT(DISTINCT t) {TESTED} AS a, COUNT(DISTINCT t) AS b", ("k",)))
    rows = [(1, v, "x", None, None, None, INSERT) for v in (0, 1)]
    for given in (rows[:1], rows[:1], rows[1:], rows):
        group.give(given)
    values = group.states["a_distinct_0"]

    assert group.rows == {(1,): (1, 1, 1)}
    assert [table.column("__seen").to_pylist() for table in values.written] == [[2], [1]]


def test_a_group_without_new_rows_is_not_looked_up() -> None:
    """A batch of no rows gives nothing, in the columns of any other, and writes nothing."""
    operator = accumulating(CASES["FILTER"], ("k",))
    states = {name: MemoryState(layout) for name, layout in operator.layouts.items()}
    at = KeyedBatch(batch_id=0, now_ms=0)
    none = operator.run({}, states, at)
    empty = operator.run({"a": table_of([])}, states, at)

    assert none.num_rows == empty.num_rows == 0
    assert not any(state.looked_up or state.written for state in states.values())
    full = operator.run({"a": table_of(Changes(1, inserts=True).batch(9))}, states, at)
    assert none.schema == empty.schema == full.schema
    assert full.column(ROW_KIND).to_pylist().count(INSERT) == full.num_rows


def test_groups_are_numbered_in_the_order_of_their_keys() -> None:
    """NULL is a key, and the last one."""
    texts = pa.chunked_array([["b", None], ["a", "b"]])
    keys, numbers = numbered_groups(pa.table({"t": texts, "n": [1, 1, None, 1]}))

    assert [key.to_pylist() for key in keys.columns] == [["a", "b", None], [None, 1, 1]]
    assert numbers.tolist() == [1, 2, 0, 1]


def test_texts_of_keys_are_in_arrays_that_reach_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets of 32 bits do not reach the keys of a bucket that has many long ones, or one for many values."""
    monkeypatch.setattr(tables, "_MOST_TEXT", 10)
    key = [pa.field("t", pa.string()), pa.field("b", pa.binary()), pa.field("n", pa.int64())]
    rows = pa.table(
        {
            "t": pa.chunked_array([["abc", None], ["abc", "d"]]),
            "b": pa.chunked_array([[b"xy", b""], [b"xy", None]]),
            "n": [1, 2, 1, 3],
        },
        schema=pa.schema(key),
    )
    groups, numbers = numbered_groups(rows)
    found = keys_of(groups, pa.array(numbers), key)

    assert found.schema == rows.schema
    assert found.to_pylist() == rows.to_pylist()
    # five bytes are the longest
    assert [column.num_chunks for column in found.columns] == [2, 2, 2]
    for column in found.columns[:2]:
        assert all(pc.sum(pc.binary_length(of)).as_py() <= 10 for of in column.chunks)


def test_keys_are_not_put_into_one_array(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket with long keys runs as any other."""
    monkeypatch.setattr(tables, "_MOST_TEXT", 10)
    group = Group(accumulating("COUNT(DISTINCT v) AS a, MIN(t) AS b", ("t", "d")))
    changes, came = Changes(3, inserts=True), list[Row]()
    for _ in range(4):
        rows = changes.batch(14)
        came += (row[:-1] for row in rows)
        group.give(rows)
    sql = "SELECT t, d, COUNT(DISTINCT v), MIN(t) FROM a GROUP BY t, d"

    assert Counter(group.rows.values()) == oracle.answer(sql, {"a": rows_in(COLUMNS, came)})
