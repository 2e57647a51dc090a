"""Aggregations of inserts by accumulators over one bucket: after each batch the answer of DuckDB over all rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.incremental.keyed import accumulate
from penstock.sql.incremental.keyed.accumulate import (
    AccumulateInserts,
    keys_of,
    numbered_groups,
)
from penstock.sql.incremental.keyed.operator import KeyedBatch
from penstock.sql.incremental.stages import InputState, StageInput
from tests.sql.incremental.keyed import oracle
from tests.sql.incremental.keyed.oracle import rounds, rows_in, some_fast
from tests.sql.incremental.keyed.test_operators import (
    COLUMNS,
    Changes,
    MemoryState,
    Row,
    bytes_of,
    operator_of,
    table_of,
)
from tests.sql.maintain.maintaining import recomputed

INSERT, AFTER = int(RowKind.INSERT), int(RowKind.UPDATE_AFTER)
TESTED = "FILTER (WHERE v > 0)"

CASES = {
    "COUNT": "COUNT(*) AS a, COUNT(v) AS b, COUNT(t) AS c",
    "COUNT DISTINCT": "COUNT(DISTINCT v) AS a, COUNT(DISTINCT t) AS b, COUNT(DISTINCT d) AS c",
    "FILTER": f"COUNT(DISTINCT t) {TESTED} AS a, COUNT(DISTINCT t) AS b, COUNT(*) {TESTED} AS c, "
    f"COUNT(DISTINCT t) FILTER (WHERE d IS NULL) AS e, SUM(v) {TESTED} AS f, MIN(t) {TESTED} AS g",
    "SUM and AVG": "SUM(v) AS a, SUM(d) AS b, AVG(v) AS c, AVG(k) AS e, COUNT(DISTINCT s) AS f",
    "MIN and MAX": "MIN(v) AS a, MAX(v) AS b, MIN(t) AS c, MAX(d) AS e, MAX(s) AS f, COUNT(DISTINCT v) AS g",
    "values of aggregates": "CASE WHEN COUNT(DISTINCT v) > 2 THEN MAX(v) ELSE COUNT(*) + 1 END AS a",
    "texts": "CASE WHEN COUNT(DISTINCT v) > 1 THEN '<added0>' ELSE '<extreme0>' END AS a, "
    "COUNT(*) AS b, CASE WHEN MIN(t) > '<distinct0_0>' THEN '<added0>' END AS c",
}
SQL = {
    "SUM and AVG": "SUM(v), SUM(d), (SUM(v::HUGEINT) // COUNT(v))::BIGINT, "
    "trunc(SUM(k::DOUBLE) / COUNT(k))::INT, COUNT(DISTINCT s)"
}
KEYS = {"one column": ("k",), "several": ("t", "d"), "a time": ("s", "v")}


def accumulating(values: str, key: tuple[str, ...]) -> AccumulateInserts:
    """Give the stage its operator."""
    stage = recomputed(
        "s",
        f"SELECT {', '.join(key)}, {values} FROM a GROUP BY {', '.join(key)}",
        StageInput(name="a", key=key, keeps=InputState.ACCUMULATORS),
        key=key,
    )
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
            assert kind == (AFTER if tuple(row[:width]) in self.rows else INSERT)
            self.rows[tuple(row[:width])] = tuple(row)
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
    monkeypatch.setattr(accumulate, "_MOST_TEXT", 10)
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
    monkeypatch.setattr(accumulate, "_MOST_TEXT", 10)
    group = Group(accumulating("COUNT(DISTINCT v) AS a, MIN(t) AS b", ("t", "d")))
    changes, came = Changes(3, inserts=True), list[Row]()
    for _ in range(4):
        rows = changes.batch(14)
        came += (row[:-1] for row in rows)
        group.give(rows)
    sql = "SELECT t, d, COUNT(DISTINCT v), MIN(t) FROM a GROUP BY t, d"

    assert Counter(group.rows.values()) == oracle.answer(sql, {"a": rows_in(COLUMNS, came)})
