"""Top-1 of inserts over one bucket: after each batch the best row of each key, as DuckDB has it of all rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.incremental.keyed.one_row import BestRow
from penstock.sql.incremental.keyed.operator import KeyedBatch
from penstock.sql.incremental.keyed.recompute import RecomputeKeys
from penstock.sql.incremental.stages import InputState, RecomputeOperator, StageInput
from tests.sql.incremental.keyed import oracle
from tests.sql.incremental.keyed.oracle import rounds, rows_in, some_fast
from tests.sql.incremental.keyed.test_operators import (
    COLUMNS,
    Bucket,
    Changes,
    MemoryState,
    Row,
    operator_of,
    table_of,
)
from tests.sql.maintain.maintaining import recomputed

INSERT, BEFORE, AFTER = (
    int(kind) for kind in (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER)
)
NAMES = ", ".join(COLUMNS.names)

ORDERS = {
    "the last by time": "s DESC NULLS LAST, seen DESC NULLS LAST",
    "the first by time": "s NULLS FIRST, seen NULLS FIRST",
    "the greatest, the first that came": "v DESC NULLS LAST, seen NULLS FIRST",
    "several columns": "t NULLS FIRST, d DESC NULLS LAST, f DESC NULLS LAST, seen NULLS FIRST",
    "NULLs against the usual order": "v DESC NULLS FIRST, f NULLS LAST, seen DESC NULLS LAST",
    "the first that came": "seen NULLS FIRST",
    "the last that came": "seen DESC NULLS LAST, k NULLS FIRST, v NULLS FIRST",
    "by the key, too": "k DESC NULLS LAST, t DESC NULLS LAST, seen NULLS FIRST",
}
KEYS = {"one column": ("k",), "several": ("t", "d"), "numbers": ("f", "k"), "none": ()}


def top_1(
    order: str, key: tuple[str, ...], shown: str = "", bound: str = "<= 1"
) -> RecomputeOperator:
    """Write the stage as it is planned; with another `bound` the keys are computed anew."""
    partition = f"PARTITION BY {', '.join(key)} " if key else ""
    return recomputed(
        "s",
        f"SELECT {NAMES}{shown}, seen FROM (SELECT {NAMES}, seen, ROW_NUMBER() OVER ({partition}ORDER BY {order}) AS n "
        f"FROM a) AS r WHERE n {bound}",
        StageInput(name="a", key=key, keeps=InputState.RESULT, arrival="seen"),
        key=key,
    )


def best_row(order: str, key: tuple[str, ...], shown: str = "") -> BestRow:
    """Give the stage its operator."""
    operator = operator_of(top_1(order, key, shown))
    assert isinstance(operator, BestRow)
    return operator


def expected(order: str, key: tuple[str, ...], rows: list[Row]) -> Counter[Row]:
    """Return the best rows of all that came, numbered as they did."""
    partition = f"PARTITION BY {', '.join(key)} " if key else ""
    numbered = rows_in(
        COLUMNS.append(pa.field("seen", pa.int64())), [(*row, n) for n, row in enumerate(rows)]
    )
    sql = f"SELECT {NAMES} FROM a QUALIFY row_number() OVER ({partition}ORDER BY {order}) = 1"
    return oracle.answer(sql, {"a": numbered})


@pytest.mark.parametrize("key", some_fast(KEYS, ["several"]))
@pytest.mark.parametrize("order", some_fast(ORDERS, ["the last by time", "several columns"]))
def test_the_best_row_of_each_key_is_kept(order: str, key: str) -> None:
    """Ties go to the row that the number decides for, also against a row that is stored; a replay gives the same."""
    bucket = Bucket(best_row(ORDERS[order], KEYS[key]))
    changes, came = Changes(len(order), inserts=True), list[Row]()
    for _ in range(rounds(8, few=3)):
        batch = changes.batch(12)
        came += (row[:-1] for row in batch)
        bucket.give(a=batch)

        assert bucket.rows == expected(ORDERS[order], KEYS[key], came)
        assert sum(bucket.states["a"].counts().values()) == bucket.rows.total()
    assert bucket.operator.ordered == {"a"}


@pytest.mark.parametrize("order", some_fast(ORDERS, ["the greatest, the first that came"]))
def test_it_does_what_computing_the_keys_again_does(order: str) -> None:
    """The same state, so that a checkpoint goes on with either, and the same changes."""
    again = operator_of(top_1(ORDERS[order], ("k",), bound="< 2"))
    assert isinstance(again, RecomputeKeys)
    buckets = Bucket(best_row(ORDERS[order], ("k",))), Bucket(again)
    changes = Changes(7, inserts=True)
    for _ in range(5):
        batch = changes.batch(10)
        found, known = (bucket.give(a=batch) for bucket in buckets)

        assert Counter(found) == Counter(known)
    one, other = (bucket.states["a"] for bucket in buckets)
    assert one.counts() == other.counts()


def test_a_number_that_is_shown_is_1() -> None:
    """In its type, behind the columns that the reader knows."""
    bucket = Bucket(best_row("v NULLS FIRST, seen NULLS FIRST", ("k",), ", n"))
    row = (1, 5, "a", None, 0.5, None)
    bucket.give(a=[(*row, INSERT)])

    assert bucket.rows == Counter([(*row, 1)])


def test_rows_that_are_replaced_are_not_returned_where_nothing_reads_them() -> None:
    """What replaces them is an update; the state has their end."""
    whole = best_row("v DESC NULLS LAST, seen NULLS FIRST", ("k",))
    operators = whole, replace(whole, upserts=True)
    states = [{"a": MemoryState(whole.layout)} for _ in operators]
    kinds = []
    for batch, values in enumerate(((1, 1), (2, 0))):
        rows = table_of([(n, v, "", None, None, None, INSERT) for n, v in enumerate(values)])
        at = KeyedBatch(batch_id=batch, now_ms=0)
        for operator, state in zip(operators, states, strict=True):
            kinds.append(operator.run({"a": rows}, state, at).column(ROW_KIND).to_pylist())

    assert kinds == [[INSERT] * 2, [INSERT] * 2, [BEFORE, AFTER], [AFTER]]
    assert states[0]["a"].counts() == states[1]["a"].counts()


def test_a_best_row_without_a_new_one_is_not_looked_up() -> None:
    """A batch of no rows gives nothing, in the columns of any other, and writes nothing."""
    operator = best_row("v DESC NULLS LAST, seen NULLS FIRST", ("k",))
    state = MemoryState(operator.layout)
    at = KeyedBatch(batch_id=0, now_ms=0)
    none = operator.run({}, {"a": state}, at)
    empty = operator.run({"a": table_of([])}, {"a": state}, at)

    assert none.num_rows == empty.num_rows == state.looked_up == 0
    assert not state.counts()
    full = operator.run({"a": table_of(Changes(1, inserts=True).batch(9))}, {"a": state}, at)
    assert none.schema == empty.schema == full.schema
    assert state.looked_up == 1
