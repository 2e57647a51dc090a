"""Skewed keys: one key has all rows, and more state than DuckDB may take; it is spilled, and the answer is right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock.connector.changelog import ROW_KIND, RowKind
from penstock.sql.incremental.keyed.choose import keyed_operator
from penstock.sql.incremental.keyed.files import spooled_rows
from penstock.sql.incremental.keyed.files.manifest import BucketFiles, BucketId
from penstock.sql.incremental.keyed.files.state_files import StateFiles
from penstock.sql.incremental.keyed.operator import KeyedBatch, RunBySpark
from penstock.sql.incremental.keyed.runtime import bucket_state
from penstock.sql.incremental.keyed.runtime.bucket_state import BucketLocation, BucketState
from penstock.sql.incremental.keyed.tables import process_duckdb
from penstock.sql.incremental.stages import StageInput
from tests.sql.maintain.maintaining import recomputed

INSERT, BEFORE, AFTER, _ = (int(kind) for kind in RowKind)
ROWS = 200_000
LIMIT_MB = 64
INPUT = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("t", pa.string())])
RESULT = pa.schema([("k", pa.int64()), ("best", pa.string()), ("n", pa.int64()), ("s", pa.int64())])
STAGE = recomputed(
    "g",
    "SELECT k, MAX(t) AS best, COUNT(t) AS n, SUM(v) AS s FROM a GROUP BY k",
    StageInput(name="a", key=("k",)),
    key=("k",),
)
BUCKET = BucketId(stage="g", input="a", bucket=0)


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """DuckDB spills, and rows go to files, from a few megabytes on."""
    monkeypatch.setattr(spooled_rows, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(bucket_state, "_MANY_ROWS", 1_000)
    duckdb = process_duckdb()
    ((before,),) = duckdb.execute("SELECT current_setting('memory_limit')").fetchall()
    duckdb.execute(f"SET memory_limit = '{LIMIT_MB}MB'")
    yield
    duckdb.execute(f"SET memory_limit = '{before}'")


def inserts(batch: int, keys: pa.Array) -> pa.Table:
    """Rows of a batch, each with a text of 200 characters."""
    numbers = pa.array(range(batch * ROWS, (batch + 1) * ROWS))
    texts = pc.utf8_lpad(numbers.cast(pa.string()), 200, "0")
    kinds = pa.array([INSERT] * ROWS, pa.int8())
    return pa.table({"k": keys, "v": numbers, "t": texts, ROW_KIND: kinds})


@pytest.mark.slow
@pytest.mark.parametrize("key", [7, None])
def test_a_hot_key_with_more_state_than_memory_gives_the_answer(
    tmp_path: Path, key: int | None
) -> None:
    """All rows of each batch are of one key, NULL as any other; state and input are larger than the limit."""
    operator = keyed_operator(STAGE, {"a": INPUT, "g": RESULT}, 0)
    assert not isinstance(operator, RunBySpark)
    files, stored = StateFiles(location=str(tmp_path / "state")), BucketFiles()
    keys = pa.array([key] * ROWS, pa.int64())
    total = 0
    for batch in range(2):
        rows = inserts(batch, keys)
        total += rows.nbytes
        place = BucketLocation(
            files=files, state_id="s", bucket=BUCKET, stored=stored, caches=tmp_path / "caches"
        )
        state = BucketState(place, operator.layouts["a"], batch)
        try:
            changes = operator.run({"a": rows}, {"a": state}, KeyedBatch(batch_id=batch, now_ms=0))
        finally:
            state.close()
        assert state.written is not None
        stored = BucketFiles(files=(*stored.files, state.written))

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


def rows_of(changes: pa.Table) -> Sequence[list[object]]:
    """Changes as lists."""
    return [list(row.values()) for row in changes.to_pylist()]
