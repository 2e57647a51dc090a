"""Skewed keys: one key has all rows, and more state than DuckDB may take; it is spilled, and the answer is right.

So is what comes of few rows of one key, and a batch of more rows than are held in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.incremental.keyed import accumulate
from penstock.sql.incremental.keyed import tables as keyed_tables
from penstock.sql.incremental.keyed.accumulate import AccumulateInserts
from penstock.sql.incremental.keyed.append_join import AppendJoin
from penstock.sql.incremental.keyed.choose import keyed_operator
from penstock.sql.incremental.keyed.files import spooled_rows
from penstock.sql.incremental.keyed.files.manifest import BucketFiles, BucketId
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.one_row import BestRow
from penstock.sql.incremental.keyed.operator import KeyedBatch, KeyedOperator, RunBySpark
from penstock.sql.incremental.keyed.recompute import RecomputeKeys
from penstock.sql.incremental.keyed.runtime import bucket_state, row_segments
from penstock.sql.incremental.keyed.runtime.bucket_cache import BucketLocation
from penstock.sql.incremental.keyed.runtime.bucket_state import BucketState
from penstock.sql.incremental.keyed.tables import process_duckdb
from penstock.sql.incremental.stages import InputState, RecomputeOperator, StageInput
from tests.sql.incremental.keyed.oracle import WRITERS
from tests.sql.maintain.maintaining import recomputed

INSERT, BEFORE, AFTER, _ = (int(kind) for kind in RowKind)
ROWS = 200_000
LIMIT_MB = 64
INPUT = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("t", pa.string())])


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """DuckDB spills, and rows go to files, from a few megabytes on."""
    monkeypatch.setattr(spooled_rows, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(bucket_state, "_MANY_STORED_ROWS", 1_000)
    monkeypatch.setattr(keyed_tables, "MANY_ROWS", 1_000)
    monkeypatch.setattr(accumulate, "MANY_ROWS", 1_000)
    monkeypatch.setattr(row_segments, "_KEYS_AT_ONCE", 1_000)
    duckdb = process_duckdb()
    ((before,),) = duckdb.execute("SELECT current_setting('memory_limit')").fetchall()
    duckdb.execute(f"SET memory_limit = '{LIMIT_MB}MB'")
    yield
    duckdb.execute(f"SET memory_limit = '{before}'")


def operator_of(stage: RecomputeOperator, result: pa.Schema, *inserts: str) -> KeyedOperator:
    """Give a stage its operator."""
    schemas = {**dict.fromkeys((one.name for one in stage.inputs), INPUT), stage.name: result}
    operator = keyed_operator(stage, schemas, 0, frozenset(inserts))
    assert not isinstance(operator, RunBySpark)
    return operator


class Task:
    """An operator over its states on files, one batch after the other."""

    def __init__(self, operator: KeyedOperator, folder: Path) -> None:
        self._operator = operator
        self._folder = folder
        self._stored = dict.fromkeys(operator.layouts, BucketFiles())
        self._batch = 0

    def run(self, changes: Mapping[str, pa.Table]) -> pa.Table:
        """Run a batch."""
        states = {name: self._state(name) for name in self._operator.layouts}
        try:
            result = self._operator.run(changes, states, KeyedBatch(batch_id=self._batch, now_ms=0))
            for name, state in states.items():
                if state.written is not None:
                    files = (*self._stored[name].files, state.written)
                    self._stored[name] = BucketFiles(files=files)
        finally:
            for state in states.values():
                state.close()
        self._batch += 1
        return result

    def _state(self, name: str) -> BucketState:
        location = BucketLocation(
            files=StateFiles(location=str(self._folder / "state")),
            state_id="s",
            bucket=BucketId(stage="g", input=name, bucket=0),
            stored=self._stored[name],
            caches=self._folder / "caches",
        )
        return BucketState(location, self._operator.layouts[name], self._batch, writers=WRITERS)


def inserts(first: int, keys: pa.Array) -> pa.Table:
    """Rows with the numbers from `first` on, each with a text of 200 characters."""
    numbers = pa.array(range(first, first + len(keys)), pa.int64())
    kinds = pa.array([INSERT] * len(keys), pa.int8())
    return pa.table({"k": keys, "v": numbers, "t": texts_of(numbers), ROW_KIND: kinds})


def texts_of(numbers: pa.Array) -> pa.Array:
    """The texts of rows."""
    return pc.utf8_lpad(numbers.cast(pa.string()), 200, "0")


def rows_of(changes: pa.Table) -> Sequence[list[object]]:
    """Changes as lists."""
    return [list(row.values()) for row in changes.to_pylist()]


def is_mapped(rows: pa.Table) -> bool:
    """Return whether rows are in a file that is mapped, and not in memory."""
    address = rows.column(0).chunk(0).buffers()[1].address
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, end = (int(number, 16) for number in line.split()[0].split("-"))
        if first <= address < end:
            return "penstock-rows" in line
    return False


@pytest.mark.slow
@pytest.mark.parametrize("key", [7, None])
def test_a_hot_key_with_more_state_than_memory_gives_the_answer(
    tmp_path: Path, key: int | None
) -> None:
    """All rows of each batch are of one key, NULL as any other; state and input are larger than the limit."""
    stage = recomputed(
        "g",
        "SELECT k, MAX(t) AS best, COUNT(t) AS n, SUM(v) AS s FROM a GROUP BY k",
        StageInput(name="a", key=("k",)),
        key=("k",),
    )
    result = [("k", pa.int64()), ("best", pa.string()), ("n", pa.int64()), ("s", pa.int64())]
    task = Task(operator_of(stage, pa.schema(result)), tmp_path)
    total = 0
    for batch in range(2):
        rows = inserts(batch * ROWS, pa.array([key] * ROWS, pa.int64()))
        total += rows.nbytes
        changes = task.run({"a": rows})

        after = answer(key, (batch + 1) * ROWS)
        assert rows_of(changes) == (
            [[*after, INSERT]]
            if batch == 0
            else [[*answer(key, batch * ROWS), BEFORE], [*after, AFTER]]
        )
    assert total > LIMIT_MB << 20


def answer(key: int | None, count: int) -> list[object]:
    """The row of the result over the first rows."""
    return [key, str(count - 1).zfill(200), count, count * (count - 1) // 2]


@pytest.mark.slow
@pytest.mark.parametrize("of_inserts", [True, False], ids=["of inserts", "over changes"])
def test_few_rows_of_a_hot_key_join_to_more_than_is_held(tmp_path: Path, of_inserts: bool) -> None:
    """A hundred rows match a thousand stored ones: neither is large, and what they join to is mapped."""
    key, few, many = StageInput(name="a", key=("k",)), 100, 1_000
    query = "SELECT a.v AS v, b.t AS t FROM a JOIN b ON a.k = b.k"
    stage = recomputed("g", query, key, StageInput(name="b", key=("k",)), joins=True)
    result = pa.schema([("v", pa.int64()), ("t", pa.string())])
    operator = operator_of(stage, result, *(("a", "b") if of_inserts else ()))
    assert isinstance(operator, AppendJoin if of_inserts else RecomputeKeys)
    task = Task(operator, tmp_path)
    task.run({"b": inserts(0, pa.array([7] * many, pa.int64()))})
    changes = task.run({"a": inserts(0, pa.array([7] * few, pa.int64()))})

    assert changes.num_rows == few * many
    assert set(changes.column(ROW_KIND).to_pylist()) == {INSERT}
    assert is_mapped(changes)
    counts = pa.table({"v": changes.column("v"), "t": pc.utf8_ltrim(changes.column("t"), "0")})
    assert counts.group_by(["v", "t"]).aggregate([]).num_rows == few * many


@pytest.mark.slow
def test_a_key_with_many_distinct_values_gives_the_answer(tmp_path: Path) -> None:
    """COUNT(DISTINCT) of texts that are more than the limit; half of the second batch was there before."""
    stage = recomputed(
        "g",
        "SELECT k, COUNT(DISTINCT t) AS n FROM a GROUP BY k",
        StageInput(name="a", key=("k",), keeps=InputState.ACCUMULATORS),
        key=("k",),
    )
    result = pa.schema([("k", pa.int64()), ("n", pa.int64())])
    operator = operator_of(replace(stage, upserts=True), result)
    assert isinstance(operator, AccumulateInserts)
    task, keys = Task(operator, tmp_path), pa.array([7] * ROWS, pa.int64())

    assert rows_of(task.run({"a": inserts(0, keys)})) == [[7, ROWS, INSERT]]
    again = task.run({"a": inserts(ROWS // 2, keys)})
    assert rows_of(again) == [[7, ROWS * 3 // 2, AFTER]]


@pytest.mark.slow
def test_a_top_n_of_a_hot_key_gives_the_answer(tmp_path: Path) -> None:
    """Which keeps all rows of its key, as each may be deleted."""
    rows = "SELECT k, v, t, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, t DESC) AS n FROM a"
    stage = recomputed(
        "g",
        f"SELECT k, v, t, n FROM ({rows}) AS r WHERE n <= 2",
        StageInput(name="a", key=("k",)),
        key=("k", "n"),
    )
    result = pa.schema([*INPUT, pa.field("n", pa.int64())])
    task = Task(operator_of(stage, result), tmp_path)
    keys = pa.array([7] * (ROWS // 2), pa.int64())
    first = task.run({"a": inserts(0, keys)})
    changes = task.run({"a": inserts(ROWS // 2, keys)})

    def best(count: int) -> list[list[object]]:
        return [[7, count - n, str(count - n).zfill(200), n] for n in (1, 2)]

    assert rows_of(first) == [[*row, INSERT] for row in best(ROWS // 2)[::-1]]
    updates = zip(best(ROWS // 2), best(ROWS), strict=True)
    assert rows_of(changes) == [
        [*row, kind] for old, new in updates for row, kind in ((old, BEFORE), (new, AFTER))
    ]


@pytest.mark.slow
def test_best_rows_of_a_large_batch_are_taken_from_its_file(tmp_path: Path) -> None:
    """Each key gets two rows a batch, and the later one is the best: it replaces that of the batch before."""
    query = (
        "SELECT k, v, t, seen, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, seen) AS n FROM a"
    )
    stage = recomputed(
        "g",
        f"SELECT k, v, t, seen FROM ({query}) AS r WHERE n <= 1",
        StageInput(name="a", key=("k",), keeps=InputState.RESULT, arrival="seen"),
        key=("k",),
    )
    operator = operator_of(stage, INPUT)
    assert isinstance(operator, BestRow)
    task, count = Task(operator, tmp_path), 40_000
    keys = pa.array([*range(count // 2), *range(count // 2)], pa.int64())
    batches = [spooled(inserts(n * count, keys)) for n in range(2)]
    first, changes = (task.run({"a": rows}) for rows in batches)

    def best(batch: int) -> list[int]:
        return list(range(batch * count + count // 2, (batch + 1) * count))

    assert first.column("v").to_pylist() == best(0)
    assert is_mapped(changes)
    after = changes.filter(pc.equal(changes.column(ROW_KIND), AFTER))
    before = changes.filter(pc.equal(changes.column(ROW_KIND), BEFORE))
    assert after.column("v").to_pylist() == best(1)
    assert before.column("v").to_pylist() == best(0)
    assert after.column("t").combine_chunks().equals(texts_of(pa.array(best(1))))
    assert changes.column(ROW_KIND)[:4].to_pylist() == [BEFORE, AFTER] * 2


def spooled(rows: pa.Table) -> pa.Table:
    """Rows as a task has those that it received."""
    return spooled_rows.spooled(rows.schema, rows.to_batches(max_chunksize=3_000))
